//! How a client starts Pincer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pincer_config::{Keys, edit};
use serde_json::{Map, Value, json};

use crate::{Client, ClientError, Passing, toml};

/// What Pincer is called among a client's servers.
pub const OUR_NAME: &str = "pincer";

/// Where clients keep the variables of a server, with their values.
const WRITTEN: &str = "env";
/// Where Codex keeps the names of those that it passes on from its own environment.
const BY_NAME: &str = "env_vars";

/// The command line `pincer mcp serve`.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program, best with an absolute path: clients that are started from a desktop know few others.
    pub program: PathBuf,
    /// What `--config` names, absolute.
    pub config: Option<PathBuf>,
    /// Variables that the client is to give it, and how. Those that a client cannot give in this way are left out.
    pub variables: BTreeMap<String, Passing>,
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
        let written = |(name, passing): (&String, &Passing)| match passing {
            Passing::Written(text) => Some((name.clone(), Value::from(text.as_str()))),
            Passing::ByName => None,
        };
        let written: Map<String, Value> = self.variables.iter().filter_map(written).collect();
        let by_name = self.variables.iter().filter(|(_, passing)| **passing == Passing::ByName);
        let by_name: Vec<Value> = by_name.map(|(name, _)| name.as_str().into()).collect();
        if !written.is_empty() {
            entry.insert(WRITTEN.into(), written.into());
        }
        if !by_name.is_empty() {
            entry.insert(BY_NAME.into(), by_name.into());
        }
        Ok(entry)
    }
}

/// Adds the variables that a client gives us already to an entry that is to take the place of the old one: an import that finds
/// nothing new must not take them away.
pub(crate) fn keep_variables(entry: &mut Map<String, Value>, old: &Value) {
    if let Some(old) = old.get(WRITTEN).and_then(Value::as_object) {
        let new = entry.entry(WRITTEN).or_insert_with(|| Map::new().into());
        for (name, text) in old {
            if let Some(new) = new.as_object_mut() {
                new.entry(name).or_insert_with(|| text.clone());
            }
        }
    }
    if let Some(old) = old.get(BY_NAME).and_then(Value::as_array) {
        let new = entry.entry(BY_NAME).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(new) = new.as_array_mut() {
            let missing: Vec<Value> = old.iter().filter(|name| !new.contains(name)).cloned().collect();
            new.extend(missing);
        }
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
