//! What a server has: asked for page by page, read leniently, and kept for when it is not there.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pincer_catalog::Operation;
use pincer_json::{Json, JsonError};
use pincer_process::give_memory_back;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::clock::unix_millis;
use crate::connection::{Connection, Failure};
use crate::greeting::Greeting;
use crate::limits::{MOST_LISTING_BYTES, MOST_NAME_CHARS, MOST_PAGES, MOST_TOOL_BYTES, MOST_TOOLS};
use crate::params::mirrored;
use crate::private::private_directory;
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
    /// Its tools. No name is there twice.
    pub tools: Vec<ListedTool>,
    /// What was wrong with the list, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A tool as its server describes it, as text: it is kept for as long as Pincer runs, and seldom looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTool {
    /// Its name.
    pub name: String,
    text: Json,
}

impl ListedTool {
    fn new(text: Json) -> Result<Self, JsonError> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        Ok(Self { name: text.to::<Named>()?.name, text })
    }

    /// The whole description.
    pub fn value(&self) -> Value {
        self.text.tree().unwrap_or_default()
    }
}

impl Serialize for ListedTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ListedTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Listing {
    /// Asks a server.
    pub(crate) async fn of(connection: &Connection, settings: &ServerSettings) -> Result<Self, Failure> {
        let info = connection.info().clone();
        let mut tools = Tools::default();
        if info.capabilities.tools.is_some() {
            pages(connection, settings, |page| tools.take(page), &mut tools_request).await?;
        }
        // Over HTTP, what stands between would be told something else than the server.
        if settings.transport() != "stdio" && Greeting::of(&info) == Greeting::Discover {
            tools.drop_misleading();
        }
        let at = unix_millis();
        let remarks = tools.remarks();
        if tools.bytes > LARGE_LISTING_BYTES {
            give_memory_back();
        }
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
            private_directory(directory)?;
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

/// After a larger listing has been read, the room that its pages took is given back to the system: it is needed for the entries.
const LARGE_LISTING_BYTES: usize = 1 << 20;

/// A longer description of a tool is not looked at. It may be spelt with more spaces than it is kept with.
const MOST_SENT_BYTES: usize = 2 * MOST_TOOL_BYTES;

/// Tools on their way in.
#[derive(Default)]
struct Tools {
    found: Vec<ListedTool>,
    names: HashSet<String>,
    bytes: usize,
    pages: usize,
    no_pages: usize,
    twice: usize,
    bad: usize,
    misleading: usize,
    posing: usize,
    large: usize,
    beyond: usize,
}

fn tools_request(cursor: Option<String>) -> ClientRequest {
    let params = PaginatedRequestParams::default().with_cursor(cursor);
    ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params))
}

impl Tools {
    /// Whether there is room for more.
    fn take(&mut self, page: &Page<'_>) -> ControlFlow<()> {
        self.pages += 1;
        let tools = page.tools.and_then(|tools| serde_json::from_str::<Vec<&RawValue>>(tools.get()).ok());
        let Some(tools) = tools else {
            self.no_pages += 1;
            return ControlFlow::Continue(());
        };
        for tool in tools {
            // One after the other: the tree of a whole page would take ten times its size.
            if tool.get().len() > MOST_SENT_BYTES {
                self.large += 1;
                continue;
            }
            let Some(tool) = usable(tool.get()) else {
                self.bad += 1;
                continue;
            };
            let (name, bytes) = (tool.name.clone(), tool.text.as_str().len());
            if self.names.contains(&name) {
                self.twice += 1;
            } else if Operation::named(&name).is_some() {
                self.posing += 1;
            } else if bytes > MOST_TOOL_BYTES {
                self.large += 1;
            } else if self.is_full(bytes) {
                self.beyond += 1;
            } else {
                self.bytes += bytes;
                self.names.insert(name);
                self.found.push(tool);
            }
        }
        if self.beyond > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Leaves out tools whose `x-mcp-header` cannot be followed.
    fn drop_misleading(&mut self) {
        let all = self.found.len();
        self.found.retain(|tool| tool.value().get("inputSchema").is_none_or(|schema| mirrored(schema).is_ok()));
        self.misleading = all - self.found.len();
    }

    fn is_full(&self, bytes: usize) -> bool {
        self.found.len() >= MOST_TOOLS || self.bytes + bytes > MOST_LISTING_BYTES
    }

    fn remarks(&self) -> Vec<String> {
        let counted = [
            (self.no_pages, "pages of the list of tools have no `tools`"),
            (self.bad, "tools have no name that can be used, and are left out"),
            (self.twice, "tools have a name that another one has, and are left out"),
            (self.posing, "tools have the name of something that is no tool, and are left out"),
            (self.misleading, "tools have an `x-mcp-header` that cannot be followed, and are left out"),
            (self.large, "tools are too large, and are left out"),
            (self.beyond, "tools or more are too many, and are left out"),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let mut remarks: Vec<String> = counted.map(|(count, what)| format!("{count} {what}")).collect();
        if self.pages >= MOST_PAGES {
            remarks.push(format!("the list of tools has more than {MOST_PAGES} pages, and the others are left out"));
        }
        remarks
    }
}

/// A tool with a schema that is at least an object.
fn usable(tool: &str) -> Option<ListedTool> {
    let mut tool: Value = serde_json::from_str(tool).ok()?;
    let name = tool.get("name")?.as_str()?;
    let fits = !name.is_empty() && name.chars().count() <= MOST_NAME_CHARS && !name.chars().any(char::is_control);
    if !fits {
        return None;
    }
    if !tool.get("inputSchema").is_some_and(Value::is_object) {
        tool["inputSchema"] = json!({ "type": "object" });
    }
    if tool.get("outputSchema").is_some_and(|schema| !schema.is_object()) {
        tool.as_object_mut().map(|tool: &mut Map<String, Value>| tool.remove("outputSchema"));
    }
    ListedTool::new(Json::of(&tool).ok()?).ok()
}

/// A page of a list. Its tools stay text.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(default, borrow)]
    tools: Option<&'a RawValue>,
    #[serde(default, borrow)]
    next_cursor: Option<&'a RawValue>,
}

impl Page<'_> {
    fn next_cursor(&self) -> Option<String> {
        let next: String = serde_json::from_str(self.next_cursor?.get()).ok()?;
        (!next.is_empty()).then_some(next)
    }
}

/// Asks for page after page, as long as there is room and time. A server that says the same cursor again would go on for ever.
async fn pages(
    connection: &Connection,
    settings: &ServerSettings,
    mut take: impl FnMut(&Page<'_>) -> ControlFlow<()>,
    request: &mut impl FnMut(Option<String>) -> ClientRequest,
) -> Result<(), Failure> {
    let (mut cursor, mut seen) = (None, HashSet::new());
    let until = Instant::now() + settings.connect_timeout;
    for _ in 0..MOST_PAGES {
        let page = request(cursor.take());
        let left = until.saturating_duration_since(Instant::now());
        let page =
            connection.request(page, left, None, &CancellationToken::new()).await.map_err(|failure| match failure {
                Failure::Late(_) => Failure::Late(settings.connect_timeout),
                failure => failure,
            })?;
        let page: Page<'_> = serde_json::from_str(page.as_str()).unwrap_or_default();
        if take(&page).is_break() {
            return Ok(());
        }
        match page.next_cursor() {
            Some(next) if seen.insert(next.clone()) => cursor = Some(next),
            _ => return Ok(()),
        }
    }
    Ok(())
}
