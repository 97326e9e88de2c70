//! The MCP servers of one run, as its programs see them: `MCP`, its `$api()`, and the declarations under `API`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use pincer_catalog::names::camel_names;
use pincer_catalog::{Catalog, Entry, Operation, Policy, Source, ToolId, declare, nearest, shortened};
use pincer_sandbox::{File, Global, Json};
use pincer_tools::ServerState;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Members of a server that are not its tools.
const TAKEN: [&str; 4] = ["$api", "$serverName", "resources", "prompts"];
/// What requests of `MCP` are called.
pub(crate) const CALL: &str = "mcp";
pub(crate) const API: &str = "mcp_api";
pub(crate) const UNKNOWN: &str = "mcp_unknown";
/// Names of tools that an error offers.
const NEAR: usize = 3;

/// What all declarations rest on.
const HEADER: &str = "\
/** What a tool of an MCP server gives, as the server sent it; unwrap(result) gives its data, or throws if it is an error.
 * Images and other binary data are references { mimeType, bytes, ref }: return them, and whoever asked gets the data. */
type McpToolResult<T = unknown> = {
  content?: unknown[];
  structuredContent?: T;
  isError?: boolean;
  [key: string]: unknown;
};
type McpApiHeader = { kind: \"mcp_api\"; scope: string; header: string; [key: string]: unknown };
";

/// What every program has, whatever its servers.
const GUEST_FILE: &str = "guest.d.ts";
const INDEX_FILE: &str = "mcp/index.d.ts";
const GUEST: &str = include_str!("guest.d.ts");

/// The servers of a run, by the names that programs have for them.
pub(crate) struct McpServers {
    servers: Vec<McpServer>,
}

/// One server.
struct McpServer {
    /// As programs write it.
    identifier: String,
    /// As the config has it.
    name: String,
    state: ServerState,
    /// Its tools, by the names that programs have for them.
    tools: BTreeMap<String, Arc<Entry>>,
    /// What else can be done with it: where it stands, and what it is.
    operations: Vec<([&'static str; 2], Arc<Entry>)>,
    /// Made when a program looks at it.
    declared: OnceLock<Arc<str>>,
}

/// The reason why a program does not get what it asks a server for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpError {
    #[error("there is no MCP server {0} any more")]
    NoServer(String),
    #[error("the MCP server {server} has no tool {tool}: {hint}")]
    NoTool { server: String, tool: String, hint: String },
    #[error("{called} takes one object: {called}({{ … }})")]
    NotOneObject { called: String },
    #[error("{called} cannot take this input: it is too large")]
    TooLarge { called: String },
    #[error("{called} needs {missing}. Expected input: {expected}")]
    Missing { called: String, missing: String, expected: String },
}

impl McpError {
    fn no_server(name: &str) -> Self {
        Self::NoServer(shortened(name, 100))
    }
}

impl McpServers {
    /// Takes the servers with tools in `view`, and those whose tools are not known and that the policy does not rule out.
    pub(crate) fn new(mut states: BTreeMap<String, ServerState>, view: &Catalog, policy: &Policy) -> Self {
        let mut by_owner: BTreeMap<&str, Vec<&Arc<Entry>>> = BTreeMap::new();
        for entry in view.iter().filter(|entry| entry.id.source() == Source::Mcp) {
            by_owner.entry(entry.id.owner()).or_default().push(entry);
            if !states.contains_key(entry.id.owner()) {
                states.insert(entry.id.owner().to_owned(), ServerState::Available);
            }
        }
        let names: Vec<&str> = states.keys().map(String::as_str).collect();
        let identifiers = camel_names(&names, &["$api"]);
        let servers = states.iter().zip(identifiers).filter_map(|((name, state), identifier)| {
            let entries = by_owner.remove(name.as_str()).unwrap_or_default();
            let absent = entries.is_empty() && (*state == ServerState::Available || !may_have(policy, name));
            (!absent).then(|| McpServer::new(identifier, name, state, entries))
        });
        Self { servers: servers.collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The servers as a model is told of them: what programs call each, how many tools it has, and whether it is down.
    pub(crate) fn summary(&self) -> impl Iterator<Item = (&str, usize, &ServerState)> {
        self.servers.iter().map(|server| (server.identifier.as_str(), server.tools.len(), &server.state))
    }

    /// Returns the servers whose tools cannot be found now, as the config calls them, each with the reason.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&str, &str)> {
        self.servers.iter().filter_map(|server| match &server.state {
            ServerState::Down(why) => Some((server.name.as_str(), why.as_str())),
            ServerState::Starting if server.tools.is_empty() => Some((server.name.as_str(), "it is starting")),
            ServerState::Available | ServerState::Starting => None,
        })
    }

    /// The global `MCP`.
    pub(crate) fn scope(&self) -> Global {
        let servers = self.servers.iter().map(|server| (server.identifier.clone(), server.scope()));
        let api = ("$api".to_owned(), Global::Bound(API.into(), Json::null()));
        Global::Object(std::iter::once(api).chain(servers).collect())
    }

    /// The files of `API`.
    pub(crate) fn files(&self) -> Vec<File> {
        let file = |path: String, description: String| {
            let bytes = self.file(&path).map_or(0, |text| text.len());
            File { path, description, bytes }
        };
        let mut files = vec![file(GUEST_FILE.into(), "What every program has".into())];
        if !self.servers.is_empty() {
            files.push(file(INDEX_FILE.into(), "All MCP servers".into()));
        }
        files.extend(self.servers.iter().map(|server| file(server.path(), server.about())));
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }

    /// One of them. Only what is read is made.
    pub(crate) fn file(&self, path: &str) -> Option<Arc<str>> {
        match path {
            GUEST_FILE => Some(GUEST.into()),
            INDEX_FILE if !self.servers.is_empty() => Some(self.index().into()),
            _ => self.servers.iter().find(|server| server.path() == path).map(McpServer::declared),
        }
    }

    fn index(&self) -> String {
        let lines: String = self
            .servers
            .iter()
            .map(|server| {
                format!("// MCP.{}: {}; API.read(\"{}\")\n", server.identifier, server.about(), server.path())
            })
            .collect();
        let members: String =
            self.servers.iter().map(|server| format!("  const {}: unknown;\n", server.identifier)).collect();
        format!(
            "{HEADER}\n{lines}declare namespace MCP {{\n  /** All servers. */\n  function $api(): Promise<McpApiHeader>;\n{members}}}\n"
        )
    }

    /// Returns what `$api()` gives: of all servers, of one, or of one of its tools.
    pub(crate) fn api(&self, server: Option<&str>, tool: Option<&str>, with_schema: bool) -> Result<Value, McpError> {
        let Some(name) = server else {
            let servers: Vec<Value> = self.servers.iter().map(McpServer::shown).collect();
            let note = "Read API.read(\"mcp/SERVER.d.ts\"), or call MCP.SERVER.$api(), for the tools of one.";
            return Ok(
                json!({ "kind": "mcp_api", "scope": "root", "header": self.index(), "servers": servers, "note": note }),
            );
        };
        let server = self.servers.iter().find(|server| server.name == name);
        server.ok_or_else(|| McpError::no_server(name))?.api(tool, with_schema)
    }

    /// Returns why there is no such tool of a server whose tools are not known.
    pub(crate) fn unknown(&self, server: &str, tool: &str) -> String {
        match self.servers.iter().find(|known| known.name == server) {
            Some(server) => match &server.state {
                ServerState::Down(why) => format!("the MCP server {} is down: it {why}", server.name),
                ServerState::Starting => {
                    format!("the MCP server {} is still starting: try again", server.name)
                }
                ServerState::Available => server.no_tool(tool).to_string(),
            },
            None => McpError::no_server(server).to_string(),
        }
    }

    /// Returns what a program probably meant that called `MCP.…` and found no function there.
    pub(crate) fn meant(&self, path: &str) -> Option<String> {
        let mut parts = path.split('.');
        let (identifier, tool) = (parts.next()?, parts.next());
        match self.servers.iter().find(|server| server.identifier == identifier) {
            Some(server) => Some(server.no_tool(tool.unwrap_or("")).to_string()),
            None => {
                let known: Vec<&str> = self.servers.iter().map(|server| server.identifier.as_str()).collect();
                Some(format!("there is no MCP server {identifier}; there are: {}", known.join(", ")))
            }
        }
    }

    /// Returns the input for a tool, out of what a program passed: one object or nothing, with the defaults of the schema filled in.
    pub(crate) fn input(&self, entry: &Entry, arguments: Vec<Json>) -> Result<Json, McpError> {
        let called = || self.called(entry);
        let mut arguments = arguments.into_iter();
        let input = match (arguments.next(), arguments.next()) {
            (None, None) => Json::empty_object(),
            (Some(input), None) if input.is_null() => Json::empty_object(),
            (Some(input), None) => input,
            _ => Json::null(),
        };
        // Only its own members are looked at: what is in them stays text.
        let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(input.as_str()) else {
            return Err(McpError::NotOneObject { called: called() });
        };
        let schema = &entry.input_schema;
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let defaults: BTreeMap<&str, &Value> = properties
            .filter(|(key, _)| !members.contains_key(*key))
            .filter_map(|(key, property)| Some((key.as_str(), property.get("default")?)))
            .collect();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<String> = required
            .filter(|key| !members.contains_key(*key) && !defaults.contains_key(key))
            .map(|key| format!("`{}`", shortened(key, 100)))
            .collect();
        match &missing[..] {
            [] if defaults.is_empty() => Ok(input),
            [] => input.with(defaults).ok_or_else(|| McpError::TooLarge { called: called() }),
            missing => {
                let (missing, expected) = (missing.join(" and "), declare::hint(schema));
                Err(McpError::Missing { called: called(), missing, expected })
            }
        }
    }

    /// Returns how programs call a tool.
    fn called(&self, entry: &Entry) -> String {
        let server = self.servers.iter().find(|server| server.name == entry.id.owner());
        let found = server.and_then(|server| {
            let tool = server.tools.iter().find(|(_, tool)| tool.id == entry.id).map(|(name, _)| name.clone());
            let operation =
                || server.operations.iter().find(|(_, it)| it.id == entry.id).map(|(path, _)| path.join("."));
            Some(format!("MCP.{}.{}", server.identifier, tool.or_else(operation)?))
        });
        found.unwrap_or_else(|| entry.id.to_string())
    }
}

/// Returns where programs find an operation of a server.
fn place(operation: Operation) -> [&'static str; 2] {
    match operation {
        Operation::ListResources => ["resources", "list"],
        Operation::ListTemplates => ["resources", "templates"],
        Operation::ReadResource => ["resources", "read"],
        Operation::ListPrompts => ["prompts", "list"],
        Operation::GetPrompt => ["prompts", "get"],
        Operation::Complete => ["prompts", "complete"],
    }
}

/// Whether a policy could leave a tool of this server.
fn may_have(policy: &Policy, server: &str) -> bool {
    ToolId::new(Source::Mcp, server, "*").is_ok_and(|id| policy.admits(&Entry::new(id, "")))
}

impl McpServer {
    fn new(identifier: String, name: &str, state: &ServerState, entries: Vec<&Arc<Entry>>) -> Self {
        let operation = |entry: &Entry| Operation::named(entry.id.name()).map(place);
        let (operations, tools): (Vec<&Arc<Entry>>, Vec<_>) =
            entries.into_iter().partition(|entry| operation(entry).is_some());
        let names: Vec<&str> = tools.iter().map(|entry| entry.id.name()).collect();
        let tools = camel_names(&names, &TAKEN).into_iter().zip(tools.into_iter().cloned()).collect();
        let operations =
            operations.into_iter().filter_map(|entry| Some((operation(entry)?, Arc::clone(entry)))).collect();
        Self { identifier, name: name.to_owned(), state: state.clone(), tools, operations, declared: OnceLock::new() }
    }

    fn scope(&self) -> Global {
        let text = |text: &str| Json::of(&text).unwrap_or_else(|_| Json::null());
        let call = |entry: &Entry| Global::Bound(CALL.into(), text(&entry.id.to_string()));
        let mut members = vec![
            ("$api".to_owned(), Global::Bound(API.into(), text(&self.name))),
            ("$serverName".to_owned(), Global::Data(text(&self.name))),
        ];
        for group in ["resources", "prompts"] {
            let shared = self.operations.iter().filter(|(path, _)| path[0] == group);
            let shared: Vec<_> = shared.map(|(path, entry)| (path[1].to_owned(), call(entry))).collect();
            if !shared.is_empty() {
                members.push((group.to_owned(), Global::Object(shared)));
            }
        }
        members.extend(self.tools.iter().map(|(name, entry)| (name.clone(), call(entry))));
        match self.tools.is_empty() && self.operations.is_empty() {
            true => Global::Open(members, UNKNOWN.into(), text(&self.name)),
            false => Global::Object(members),
        }
    }

    fn about(&self) -> String {
        let count = self.tools.len();
        let tools = format!("{count} tool{}", if count == 1 { "" } else { "s" });
        match &self.state {
            ServerState::Available => tools,
            ServerState::Starting => "is starting".into(),
            ServerState::Down(why) if self.tools.is_empty() => format!("DOWN: it {}", one_line(why)),
            ServerState::Down(why) => format!("{tools}, but DOWN: it {}", one_line(why)),
        }
    }

    fn shown(&self) -> Value {
        let mut shown =
            json!({ "identifier": self.identifier, "serverName": self.name, "toolCount": self.tools.len() });
        match &self.state {
            ServerState::Available => {}
            ServerState::Starting => shown["state"] = "starting".into(),
            ServerState::Down(why) => {
                (shown["state"], shown["reason"]) = ("down".into(), why.as_str().into());
            }
        }
        shown
    }

    fn path(&self) -> String {
        // A server can be called like the list of all servers.
        let kind = if self.identifier == "index" { ".server" } else { "" };
        format!("mcp/{}{kind}.d.ts", self.identifier)
    }

    fn declared(&self) -> Arc<str> {
        Arc::clone(self.declared.get_or_init(|| format!("{HEADER}\n{}", self.namespace(|_| true)).into()))
    }

    /// The namespace of the server, with those of its tools that `keep` keeps.
    fn namespace(&self, keep: impl Fn(&str) -> bool) -> String {
        let state = match self.state {
            ServerState::Available => String::new(),
            _ => format!("// {}\n", self.about()),
        };
        let mut more = String::from(
            "  /** This header; with the name of a tool, that of the tool. */\n  \
             function $api(toolName?: string, options?: { schema?: boolean }): Promise<McpApiHeader>;\n",
        );
        for group in ["resources", "prompts"] {
            let of = self.operations.iter().filter(|(path, _)| path[0] == group);
            let functions: Vec<_> = of.map(|(path, entry)| (path[1], entry.as_ref())).collect();
            if !functions.is_empty() {
                let shared = declare::namespace(group, functions, |_| "unknown".into(), "");
                // Within a namespace that is declared, everything is.
                let shared = shared.strip_prefix("declare ").unwrap_or(&shared).to_owned();
                more.extend(shared.lines().map(|line| format!("  {line}\n")));
            }
        }
        let tools =
            self.tools.iter().filter(|(name, _)| keep(name)).map(|(name, entry)| (name.as_str(), entry.as_ref()));
        let result =
            |output: Option<&str>| output.map_or("McpToolResult".into(), |output| format!("McpToolResult<{output}>"));
        state + &declare::namespace(&format!("MCP.{}", self.identifier), tools, result, &more)
    }

    fn api(&self, tool: Option<&str>, with_schema: bool) -> Result<Value, McpError> {
        let wanted = match tool {
            None => None,
            Some(asked) => {
                let found = self.tools.iter().find(|(name, entry)| *name == asked || entry.id.name() == asked);
                Some(found.ok_or_else(|| self.no_tool(asked))?.0.clone())
            }
        };
        let keep = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        let operations = self.operations.iter().filter(|_| wanted.is_none()).map(|(path, entry)| {
            let method = path.join(".");
            json!({
                "method": method, "path": format!("MCP.{}.{method}", self.identifier), "mcpTool": entry.id.name(),
                "operation": method, "description": entry.description,
            })
        });
        let tools = self.tools.iter().filter(|(name, _)| keep(name)).map(|(name, entry)| {
            json!({
                "method": name, "path": format!("MCP.{}.{name}", self.identifier), "mcpTool": entry.id.name(),
                "operation": "tool", "description": entry.description,
            })
        });
        let mut shown = json!({
            "kind": "mcp_api",
            "scope": if wanted.is_some() { "tool" } else { "server" },
            "server": self.shown(),
            "header": self.namespace(keep),
            "tools": tools.chain(operations).collect::<Vec<_>>(),
            "note": "Call a tool with one object; unwrap(result) gives its data, or throws.",
        });
        if with_schema {
            let schemas = self.tools.iter().filter(|(name, _)| keep(name));
            let schemas: Map<String, Value> =
                schemas.map(|(name, entry)| (name.clone(), entry.input_schema.clone())).collect();
            shown["schemas"] = schemas.into();
        }
        Ok(shown)
    }

    fn no_tool(&self, asked: &str) -> McpError {
        let names = self
            .tools
            .iter()
            .flat_map(|(name, entry)| [(name.clone(), name.clone()), (entry.id.name().to_owned(), name.clone())]);
        let near = nearest(asked, names, NEAR);
        let hint = match &near[..] {
            [] => format!("API.read(\"{}\") tells which there are", self.path()),
            near => format!("did you mean {}?", near.join(", ")),
        };
        McpError::NoTool { server: self.name.clone(), tool: shortened(asked, 100), hint }
    }
}

fn one_line(text: &str) -> String {
    shortened(&text.replace(['\n', '\r', '\u{2028}', '\u{2029}'], " "), 300)
}
