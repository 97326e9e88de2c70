//! How a client starts Pincer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pincer_config::{Keys, edit};
use serde_json::{Map, Value, json};

use crate::{Client, ClientError, toml};

/// What Pincer is called among a client's servers.
pub const OUR_NAME: &str = "pincer";

/// The command line `pincer mcp serve`.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program, best with an absolute path: clients that are started from a desktop know few others.
    pub program: PathBuf,
    /// What `--config` names, absolute.
    pub config: Option<PathBuf>,
    /// Variables that the client is to give it.
    pub env: BTreeMap<String, String>,
}

impl Launch {
    /// What the client's config says of us.
    pub(crate) fn entry(&self, client: Option<Client>) -> Result<Map<String, Value>, ClientError> {
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or(ClientError::Path { path: path.to_owned() });
        let mut args = vec!["mcp".to_owned(), "serve".to_owned()];
        if let Some(config) = &self.config {
            args.extend(["--config".to_owned(), text(config)?]);
        }
        let mut entry = Map::new();
        // Where a client has several kinds of servers, it wants to be told.
        if matches!(client, Some(Client::VsCode | Client::ClaudeCode)) {
            entry.insert("type".into(), "stdio".into());
        }
        entry.insert("command".into(), text(&self.program)?.into());
        entry.insert("args".into(), args.into());
        if !self.env.is_empty() {
            entry.insert("env".into(), json!(self.env));
        }
        Ok(entry)
    }
}

/// What to paste into a client's config.
pub fn block(client: Client, launch: &Launch) -> Result<String, ClientError> {
    let entry = launch.entry(Some(client))?;
    if client == Client::Codex {
        return Ok(toml::block(client.key(), OUR_NAME, &entry));
    }
    let whole = json!({ client.key(): { OUR_NAME: entry } });
    Ok(format!("{}\n", edit::block(&[], &whole, Keys::Quoted)))
}
