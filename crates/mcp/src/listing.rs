//! What a server has: asked for page by page, read leniently, and kept for when it is not there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Failure};
use crate::greeting::Greeting;
use crate::limits::{MOST_NAME_CHARS, MOST_PAGES, MOST_TOOLS};
use crate::params::mirrored;
use crate::settings::ServerSettings;

/// What a server has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// Of which server: see [`ServerSettings::digest`].
    digest: String,
    /// When it was asked for, in milliseconds of Unix time.
    pub at: u64,
    /// What the server says of itself.
    pub info: ServerPeerInfo,
    /// Its tools as it describes them. Each has a name, and no name is there twice.
    pub tools: Vec<Value>,
    /// What was wrong with the list, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Listing {
    /// Asks a server.
    pub(crate) async fn of(connection: &Connection, settings: &ServerSettings) -> Result<Self, Failure> {
        let info = connection.info().clone();
        let (mut tools, mut remarks) = (Tools::default(), Vec::new());
        if info.capabilities.tools.is_some() {
            pages(connection, settings, |page| tools.take(page, &mut remarks), &mut tools_request).await?;
        }
        // Over HTTP, what stands between would be told something else than the server.
        if settings.transport() != "stdio" && Greeting::of(&info) == Greeting::Discover {
            tools.drop_misleading();
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let remarks = tools.remarks(remarks);
        Ok(Self { digest: settings.digest(), at, info, tools: tools.found, remarks })
    }

    /// What is stored of this very server, if something is.
    pub(crate) fn stored(state: &Path, settings: &ServerSettings) -> Option<Self> {
        let text = std::fs::read(file(state, &settings.name)).ok()?;
        let listing: Self = serde_json::from_slice(&text).ok()?;
        (listing.digest == settings.digest()).then_some(listing)
    }

    /// Keeps it for later processes. That it cannot be kept harms nobody now.
    pub(crate) fn store(&self, state: &Path, server: &str) {
        let file = file(state, server);
        let stored = || -> std::io::Result<()> {
            let directory = file.parent().unwrap_or(state);
            std::fs::create_dir_all(directory)?;
            let mut new = tempfile::NamedTempFile::new_in(directory)?;
            serde_json::to_writer(&mut new, self)?;
            new.persist(&file)?;
            Ok(())
        };
        if let Err(error) = stored() {
            tracing::warn!("the tools of the MCP server {server} could not be kept in {}: {error}", file.display());
        }
    }

    /// Whether it says the same, whenever it was asked for.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.info == other.info && self.tools == other.tools && self.digest == other.digest
    }
}

fn file(state: &Path, server: &str) -> PathBuf {
    state.join("mcp").join(format!("{server}.json"))
}

/// Tools on their way in.
#[derive(Default)]
struct Tools {
    found: Vec<Value>,
    names: HashSet<String>,
    twice: usize,
    bad: usize,
    misleading: usize,
    beyond: usize,
}

fn tools_request(cursor: Option<String>) -> ClientRequest {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params))
}

impl Tools {
    fn take(&mut self, page: &Value, remarks: &mut Vec<String>) {
        let Some(tools) = page.get("tools").and_then(Value::as_array) else {
            remarks.push("a page of the list of tools has no `tools`".into());
            return;
        };
        for tool in tools {
            match usable(tool) {
                None => self.bad += 1,
                Some((name, _)) if self.names.contains(&name) => self.twice += 1,
                Some(_) if self.found.len() >= MOST_TOOLS => self.beyond += 1,
                Some((name, tool)) => {
                    self.names.insert(name);
                    self.found.push(tool);
                }
            }
        }
    }

    /// Leaves out tools whose `x-mcp-header` cannot be followed.
    fn drop_misleading(&mut self) {
        let all = self.found.len();
        self.found.retain(|tool| tool.get("inputSchema").is_none_or(|schema| mirrored(schema).is_ok()));
        self.misleading = all - self.found.len();
    }

    fn remarks(&self, mut remarks: Vec<String>) -> Vec<String> {
        let counted = [
            (self.bad, "have no name that can be used, and are left out"),
            (self.twice, "have a name that another one has, and are left out"),
            (self.misleading, "have an `x-mcp-header` that cannot be followed, and are left out"),
            (self.beyond, "are too many, and are left out"),
        ];
        remarks.extend(
            counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} tools {what}")),
        );
        remarks
    }
}

/// A tool's name, and the tool with a schema that is at least an object.
fn usable(tool: &Value) -> Option<(String, Value)> {
    let name = tool.get("name")?.as_str()?;
    let fits = !name.is_empty() && name.chars().count() <= MOST_NAME_CHARS && !name.chars().any(char::is_control);
    if !fits {
        return None;
    }
    let mut tool = tool.clone();
    if !tool.get("inputSchema").is_some_and(Value::is_object) {
        tool["inputSchema"] = json!({ "type": "object" });
    }
    if tool.get("outputSchema").is_some_and(|schema| !schema.is_object()) {
        tool.as_object_mut().map(|tool: &mut Map<String, Value>| tool.remove("outputSchema"));
    }
    Some((name.to_owned(), tool))
}

/// Asks for page after page. A server that says the same cursor again would go on for ever.
pub(crate) async fn pages(
    connection: &Connection,
    settings: &ServerSettings,
    mut take: impl FnMut(&Value),
    request: &mut impl FnMut(Option<String>) -> ClientRequest,
) -> Result<(), Failure> {
    let (mut cursor, mut seen) = (None, HashSet::new());
    for _ in 0..MOST_PAGES {
        let page = request(cursor.take());
        let page = connection.request(page, settings.connect_timeout(), None, &CancellationToken::new()).await?;
        take(&page);
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) if !next.is_empty() && seen.insert(next.to_owned()) => cursor = Some(next.to_owned()),
            _ => return Ok(()),
        }
    }
    Ok(())
}
