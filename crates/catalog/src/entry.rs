//! A tool as the catalog knows it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Built in; the owner is `core`.
    Openclaw,
    /// A plugin; the owner is its id.
    Plugin,
    /// An MCP server; the owner is its name.
    Mcp,
    /// The client of this run; the owner is its name for itself.
    Client,
}

impl Source {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Openclaw, Self::Plugin, Self::Mcp, Self::Client];

    /// As it stands in ids.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openclaw => "openclaw",
            Self::Plugin => "plugin",
            Self::Mcp => "mcp",
            Self::Client => "client",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `<source>:<owner>:<name>`. The same tool has the same id in every run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId {
    source: Source,
    owner: String,
    name: String,
}

/// Why a text is not a tool id, or parts do not make one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// It does not have three parts.
    #[error("`{0}` is not a tool id: it must look like source:owner:name, for instance openclaw:core:read")]
    Parts(String),
    /// The first part is not a source.
    #[error("`{found}` is not a source of tools in `{id}`: it must be openclaw, plugin, mcp or client")]
    Source {
        /// The whole id.
        id: String,
        /// Its first part.
        found: String,
    },
    /// The owner is empty or has a colon, or the name is empty.
    #[error("a tool needs a name, and an owner without a colon: owner `{owner}`, name `{name}`")]
    Empty {
        /// The owner.
        owner: String,
        /// The name.
        name: String,
    },
    /// It is one of the tools through which a model reaches all others.
    #[error("`{0}` is a control tool and cannot be an entry of the catalog it opens")]
    Control(String),
}

/// What Tool Search shows a model. Code mode's own `exec` and `wait` have the owner [`CODE_MODE_OWNER`].
const TOOL_SEARCH_NAMES: [&str; 4] = ["tool_search_code", "tool_search", "tool_describe", "tool_call"];
const CODE_MODE_OWNER: &str = "codemode";

impl ToolId {
    /// Makes an id of its parts. Control tools have none.
    pub fn new(source: Source, owner: impl Into<String>, name: impl Into<String>) -> Result<Self, IdError> {
        let (owner, name) = (owner.into(), name.into());
        if owner.is_empty() || name.is_empty() || owner.contains(':') {
            return Err(IdError::Empty { owner, name });
        }
        // A server of somebody else may well have a tool of such a name: it is only reached under the server's own.
        let ours = source != Source::Mcp;
        let code_mode = source == Source::Openclaw && owner == CODE_MODE_OWNER;
        if code_mode || ours && TOOL_SEARCH_NAMES.contains(&name.as_str()) {
            return Err(IdError::Control(format!("{source}:{owner}:{name}")));
        }
        Ok(Self { source, owner, name })
    }

    /// The id of a control tool of code mode: what hooks are told of it. It is in no catalog.
    pub fn control(name: &str) -> Self {
        Self { source: Source::Openclaw, owner: CODE_MODE_OWNER.into(), name: name.into() }
    }

    /// Where it comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whose it is.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// What its owner calls it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source, self.owner, self.name)
    }
}

impl FromStr for ToolId {
    type Err = IdError;

    /// A name may have colons of its own; an owner has none.
    fn from_str(id: &str) -> Result<Self, IdError> {
        let mut parts = id.splitn(3, ':');
        let (Some(source), Some(owner), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(IdError::Parts(id.into()));
        };
        let known = Source::ALL.into_iter().find(|known| known.as_str() == source);
        let source = known.ok_or_else(|| IdError::Source { id: id.into(), found: source.into() })?;
        Self::new(source, owner, name)
    }
}

impl Serialize for ToolId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ToolId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What the catalog may assume of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Flags {
    /// It changes nothing. Settled by us: by the tool's own definition, a plugin's manifest or the operator, never by the word
    /// of a server. A call of it needs no checkpoint.
    pub read_only: bool,
    /// Its server says that it changes nothing. Decides no more than whether an interrupted call may be repeated.
    pub claims_read_only: bool,
    /// Doing it twice is the same as doing it once.
    pub idempotent: bool,
    /// One call at a time.
    pub sequential: bool,
    /// It is shown to the model itself and never enters a catalog.
    pub direct_only: bool,
    /// Its description and schema are not an attacker's words, and may stand in a prompt.
    pub trusted: bool,
}

/// One tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its id.
    pub id: ToolId,
    /// A title for people.
    pub label: Option<String>,
    /// What it does and when to use it. Untrusted text unless the flags say otherwise.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Value,
    /// JSON Schema of its result, if it declares one.
    pub output_schema: Option<Value>,
    /// What may be assumed of it.
    pub flags: Flags,
    /// What programs of other environments use for the same: `fetch`, `fs`, or `sh` for a command line. A program that tries one of
    /// these is told of this tool.
    pub instead_of: &'static [&'static str],
}

impl Entry {
    /// An entry with nothing but a description: any object as input, no flags.
    pub fn new(id: ToolId, description: impl Into<String>) -> Self {
        let input_schema = serde_json::json!({ "type": "object" });
        let (description, flags) = (description.into(), Flags::default());
        Self { id, label: None, description, input_schema, output_schema: None, flags, instead_of: &[] }
    }
}
