//! `mcp`: servers whose tools programs can call, and Pincer as a server itself.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Unresolved;
use crate::variables::Missing;

/// MCP: servers whose tools are in the catalog, and who may connect to `pincer mcp serve --http`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Mcp {
    /// The servers, by name. A name has letters, digits, `-`, `_` and `.`, begins with a letter, and has no `__` in it.
    pub servers: BTreeMap<String, McpServer>,
    /// Pincer as a server.
    pub serve: McpServe,
}

/// One server: a `command` that speaks MCP on its standard input and output, or the `url` of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpServer {
    /// How it is reached, if `command` or `url` do not say enough.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub transport: Option<McpTransport>,
    /// The program to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of its environment. Of Pincer's own environment it gets what looks harmless.
    pub env: BTreeMap<String, String>,
    /// Where it is started. A relative path is seen from the config. If absent, a directory of its own, so that no file of the
    /// workspace decides what it loads; relative paths among its arguments are seen from the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Directories that it is told to work in, as roots of the protocol; relative ones are seen from the config. Without this
    /// it is told of none, and goes by its own arguments. Some servers forget those as soon as they are told of a root.
    pub roots: Vec<String>,
    /// Where it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, String>,
    /// How Pincer proves who it is. Without this, headers alone, and what `pincer mcp login` has stored.
    pub auth: McpAuth,
    /// Whether it is used.
    pub enabled: bool,
    /// Which of its tools there are.
    pub tools: McpToolFilter,
    /// Which of its tools change nothing, by your own knowledge. Names as the server spells them; `*` is any text. A call of
    /// such a tool needs no checkpoint of its program, and is repeated if a crash interrupts it. What the server says of itself
    /// does not count here.
    pub read_only: Vec<String>,
    /// How long it may take to start, or to be connected to, and to list its tools. Calls and programs do not wait longer for it
    /// than they may take themselves.
    #[schemars(range(min = 100, max = 600_000))]
    pub connect_timeout_ms: u64,
    /// How long a call may take, with the start of the server if that has to be waited for. Reported progress does not lengthen it.
    #[schemars(range(min = 100, max = 86_400_000))]
    pub timeout_ms: u64,
    /// What happens when it asks for a model's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<McpSampling>,
    /// What happens when it asks the user something.
    pub elicitation: McpElicitation,
    /// Strings of this server that are as they were written: they name secrets, or something that is not set.
    #[serde(skip)]
    pub unresolved: Vec<Unresolved>,
    /// Secrets that did not stand in the config.
    #[serde(skip)]
    pub given: Vec<String>,
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            transport: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            roots: Vec::new(),
            url: None,
            headers: BTreeMap::new(),
            auth: McpAuth::default(),
            enabled: true,
            tools: McpToolFilter::default(),
            read_only: Vec::new(),
            connect_timeout_ms: 30_000,
            timeout_ms: 60_000,
            sampling: None,
            elicitation: McpElicitation::Ask,
            unresolved: Vec::new(),
            given: Vec::new(),
        }
    }
}

impl McpServer {
    /// Returns why it cannot be used although the config is right, in a sentence that begins behind its name.
    pub fn unusable(&self) -> Option<String> {
        let missing: BTreeSet<&Missing> = self.unresolved.iter().flat_map(|string| &string.missing).collect();
        let needed: Vec<String> = missing.into_iter().map(Missing::needed).collect();
        (!needed.is_empty()).then(|| format!("needs {}", needed.join(", and ")))
    }

    /// As it stands in a config: without what would be so anyway.
    pub fn written(&self) -> Value {
        let mut written = serde_json::to_value(self).unwrap_or_default();
        strip(&mut written, &serde_json::to_value(Self::default()).unwrap_or_default());
        written
    }
}

/// Takes out what is the default, and objects of which nothing is left.
fn strip(value: &mut Value, default: &Value) {
    let (Some(members), Some(defaults)) = (value.as_object_mut(), default.as_object()) else { return };
    members.retain(|key, member| match defaults.get(key) {
        Some(default) => {
            strip(member, default);
            member != default && member.as_object().is_none_or(|left| !left.is_empty())
        }
        None => true,
    });
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpTransport {
    /// A program, on its standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// Streamable HTTP, by its longer name.
    #[serde(rename = "streamable-http")]
    StreamableHttp,
    /// The HTTP of old servers: one stream of events, and posts beside it.
    Sse,
}

/// How Pincer proves to a server who it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpAuth {
    /// A bearer token, best as `${NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The id of a client that is registered with the server's authorization server; otherwise Pincer registers itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret of that client, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// What to ask for, if not what the server says.
    pub scopes: Vec<String>,
    /// The port of this machine to which `pincer mcp login` lets the browser return. A free one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
}

/// Which of a server's tools there are. Names as the server spells them; `*` is any text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpToolFilter {
    /// Only these, if there are any here.
    pub allow: Vec<String>,
    /// Not these.
    pub deny: Vec<String>,
}

/// What happens when a server asks for a model's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpSampling {
    /// It is refused.
    Refuse,
    /// It is passed to the client that is connected to Pincer, if that can do it. The default of `--surface direct`.
    Pass,
}

/// What happens when a server asks the user something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpElicitation {
    /// It is declined.
    Refuse,
    /// Whoever is there is asked, with the server's name; if nobody is, it is declined.
    Ask,
}

/// Pincer as a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpServe {
    /// Who may connect over HTTP: a name for each user, and their bearer token. Needed beyond this machine; a suspended program
    /// is continued only by the user who began it.
    pub tokens: BTreeMap<String, String>,
    /// Names by which this server is reached, besides those of this machine: requests for other hosts are refused.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may use it, as origins (`https://app.example.com`): requests from others are refused.
    pub allowed_origins: Vec<String>,
}
