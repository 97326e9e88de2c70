//! `tools`: which tools a run may have.

use std::collections::BTreeMap;

use pincer_catalog::Rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CodeMode, Exec, ToolSearch, Web};

/// Which tools there are, and how they behave.
///
/// A list names tools by name (`read`), id (`openclaw:core:read`), glob (`web_*`, `github__*`), group (`group:fs`), plugin id, or
/// `bundle-mcp` for all tools of MCP servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tools {
    /// A named set to start from. Without one, all tools.
    pub profile: Option<Profile>,
    /// Only these tools. Empty or absent: all that the profile has.
    pub allow: Vec<String>,
    /// These tools beyond the profile. Cannot stand beside `allow`.
    pub also_allow: Vec<String>,
    /// Never these tools, whatever else says so.
    pub deny: Vec<String>,
    /// Further limits for a provider (`openai`) or one of its models (`openai/gpt-5`). Both apply.
    pub by_provider: BTreeMap<String, RuleLists>,
    /// Further limits for a sender of messages. Over HTTP, that is the name of a token in `mcp.serve.tokens`. On a
    /// channel it is `<channel>:<sender>`, and `<channel>:*` holds for all senders of a channel besides.
    pub by_sender: BTreeMap<String, RuleLists>,
    /// Further limits for sandboxed sessions.
    pub sandbox: Sandbox,
    /// Code mode: `true`, or an object with `enabled: true`.
    pub code_mode: CodeMode,
    /// Tool Search: `true`, or an object. Off where code mode is on.
    pub tool_search: ToolSearch,
    /// Commands.
    pub exec: Exec,
    /// Fetches from the web.
    pub web: Web,
}

/// What one agent may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentTools {
    /// Replaces `tools.profile` for this agent.
    pub profile: Option<Profile>,
    /// Only these tools.
    pub allow: Vec<String>,
    /// These tools beyond the profile. Replaces `tools.alsoAllow` for this agent.
    pub also_allow: Vec<String>,
    /// Never these tools.
    pub deny: Vec<String>,
    /// Further limits for a provider or one of its models.
    pub by_provider: BTreeMap<String, RuleLists>,
    /// Code mode for this agent: what is said here counts, the rest is as in `tools.codeMode`.
    pub code_mode: Option<CodeMode>,
    /// Tool Search for this agent: its fields count, and the others are as in `tools.toolSearch`.
    pub tool_search: Option<ToolSearch>,
}

/// Further limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RuleLists {
    /// Only what this named set has.
    pub profile: Option<Profile>,
    /// Only these tools.
    pub allow: Vec<String>,
    /// These tools beyond the profile.
    pub also_allow: Vec<String>,
    /// Never these tools.
    pub deny: Vec<String>,
}

/// Sandboxed sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Sandbox {
    /// What they may use. MCP tools only with `alsoAllow: ["bundle-mcp"]`.
    pub tools: SandboxLists,
}

/// What sandboxed sessions may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SandboxLists {
    /// Only these tools.
    pub allow: Vec<String>,
    /// These tools beyond the usual; `bundle-mcp` for those of MCP servers, which a sandboxed session has not.
    pub also_allow: Vec<String>,
    /// Never these tools.
    pub deny: Vec<String>,
}

/// A named set of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Only the status of the session.
    Minimal,
    /// Files, commands, the web, sessions and memory; all MCP tools.
    Coding,
    /// Messages and sessions; all MCP tools.
    Messaging,
    /// Everything.
    Full,
}

impl From<Profile> for pincer_catalog::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Minimal => Self::Minimal,
            Profile::Coding => Self::Coding,
            Profile::Messaging => Self::Messaging,
            Profile::Full => Self::Full,
        }
    }
}

impl RuleLists {
    pub(crate) fn rules(&self) -> Rules {
        let Self { profile, allow, also_allow, deny } = self.clone();
        Rules { profile: profile.map(Into::into), allow, also_allow, deny }
    }
}

impl SandboxLists {
    pub(crate) fn rules(&self) -> Rules {
        let Self { allow, also_allow, deny } = self.clone();
        Rules { profile: None, allow, also_allow, deny }
    }
}

impl Tools {
    /// `allow` and `deny`; the profile is a layer of its own.
    pub(crate) fn lists(&self) -> Rules {
        Rules { allow: self.allow.clone(), deny: self.deny.clone(), ..Rules::default() }
    }
}

impl AgentTools {
    /// `allow` and `deny`; the profile is a layer of its own.
    pub(crate) fn lists(&self) -> Rules {
        Rules { allow: self.allow.clone(), deny: self.deny.clone(), ..Rules::default() }
    }
}
