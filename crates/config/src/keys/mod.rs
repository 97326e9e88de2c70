//! What may stand in the file. The comments here are what the schema and the reference page say.

mod approvals;
mod blocks;
mod channels;
mod code_mode;
mod compaction;
mod cron;
mod diagnostics;
mod exec;
mod hooks;
mod logging;
mod mcp;
mod models;
mod plugins;
mod sandbox;
mod secrets;
mod security;
mod session;
mod skills;
mod tool_search;
mod tools;
mod web;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use approvals::{Approvals, Decision, Rule};
pub use blocks::{BlockBreak, BlockChunk, BlockCoalesce, BlockStreaming, BreakPreference, ReasoningLevel};
pub use channels::{Channel, DmScope};
pub use code_mode::{CodeMode, CodeModeFields, Durability, Language, Mode, Runtime};
pub use compaction::{Compaction, MemoryFlush};
pub use cron::{Cron, CronMissed};
pub use diagnostics::Diagnostics;
pub use exec::{Exec, ExecMode};
pub use hooks::{CommandHook, CommandLine, Hooks, OneOrMany, ToolHook};
pub use logging::Logging;
pub use mcp::{Mcp, McpAuth, McpElicitation, McpSampling, McpServe, McpServer, McpToolFilter, McpTransport};
pub use models::{
    ApiKey, Auth, AuthProfile, ModelApi, ModelChain, ModelChoice, ModelCost, ModelDebug, ModelEntry, ModelEvents,
    ModelInput, ModelPayload, ModelProvider, ModelReasoning, Models, ThinkingLevel,
};
pub use plugins::{PluginEntry, PluginHooks, Plugins};
pub use sandbox::{AgentSandbox, SandboxMode};
pub use secrets::SecretSource;
pub use security::{InstallDefault, InstallPolicy, InstallRule, InstallType, Security};
pub use session::{
    MessageQueue, Messages, QueueDrop, QueueMode, ResetMode, SessionKeys, SessionMaintenance, SessionReset, WriteLock,
};
pub use skills::{SkillEntry, Skills};
pub use tool_search::{ToolSearch, ToolSearchFields, ToolSearchMode};
pub use tools::{AgentTools, Profile, RuleLists, Sandbox, SandboxLists, Tools};
pub use web::Web;

/// The config of Pincer. Every key may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Where editors find the schema; means nothing to Pincer.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The directory that file tools and commands work in; a relative path is seen from the config. If absent, the current directory,
    /// but not one with your home in it, unless the config lies there: then `$XDG_DATA_HOME/pincer/workspace`.
    pub workspace: Option<String>,
    /// Which tools there are, and how they behave.
    pub tools: Tools,
    /// Settings of single agents, by their id. `defaults` is not an agent: its settings hold for all that do not say otherwise.
    pub agents: BTreeMap<String, Agent>,
    /// Providers of language models.
    pub models: Models,
    /// Several keys for one provider of models.
    pub auth: Auth,
    /// Sessions: when they begin anew, how long they are kept, how long a writer waits for another.
    pub session: SessionKeys,
    /// Messages on their way to an agent.
    pub messages: Messages,
    /// Jobs of the schedule: how they are run. The jobs themselves are in the store; see `pincer cron`.
    pub cron: Cron,
    /// Channels, by their names: lower-case letters, digits and single dashes. `cli`, the command line, is always there and needs no
    /// settings.
    pub channels: BTreeMap<String, Channel>,
    /// Commands that have a say, or are told of something.
    pub hooks: Hooks,
    /// Which calls a person is asked about.
    pub approvals: Approvals,
    /// What may be written to logs, events and trajectories.
    pub logging: Logging,
    /// Reports about sessions that take long, make no progress, or belong to a process that is gone.
    pub diagnostics: Diagnostics,
    /// Plugins: folders with a `pincer.plugin.json5`.
    pub plugins: Plugins,
    /// Rules for installations.
    pub security: Security,
    /// Skills: folders with a `SKILL.md`.
    pub skills: Skills,
    /// MCP: servers whose tools are in the catalog, and who may connect to `pincer mcp serve --http`.
    pub mcp: Mcp,
    /// Where secrets are kept that strings name as `${secret:NAME}`. Those of `pincer secrets set` need no entry here.
    pub secrets: BTreeMap<String, SecretSource>,
}

/// Settings of one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Agent {
    /// What this agent may use. Only narrows what `tools` leaves, but for `profile` and `alsoAllow`, which replace those there.
    pub tools: AgentTools,
    /// The model that it asks, as `provider/model`, with fallbacks if you like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
    /// How much the model is to think before it answers. `off` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_default: Option<ThinkingLevel>,
    /// The longest that one of its runs may take. 48 hours if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u64>,
    /// Whether its runs tell of the tools that they use. `off` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose_default: Option<VerboseLevel>,
    /// The treatment of the model's thoughts. `stream` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_default: Option<ReasoningLevel>,
    /// Whether its replies are told in blocks while they come in. `off` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_streaming_default: Option<BlockStreaming>,
    /// When blocks are told. `text_end` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_streaming_break: Option<BlockBreak>,
    /// The length of blocks, and the places where they end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_streaming_chunk: Option<BlockChunk>,
    /// Small blocks that follow each other closely are told together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_streaming_coalesce: Option<BlockCoalesce>,
    /// The directory that this agent's file tools and commands work in, and in which its `AGENTS.md` and `skills` are; a relative path is
    /// seen from the config. It is made if only its last part is missing. If absent, `workspace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Sessions that work in directories of their own.
    #[serde(skip_serializing_if = "AgentSandbox::is_empty")]
    pub sandbox: AgentSandbox,
    /// The skills that this agent has, by their names. If absent, all; an empty list is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// The most characters of one bootstrap file (`AGENTS.md`, `MEMORY.md` and the like) in the instructions. 20,000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1_000_000))]
    pub bootstrap_max_chars: Option<u64>,
    /// The most characters of all bootstrap files together. 60,000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 4_000_000))]
    pub bootstrap_total_max_chars: Option<u64>,
    /// How many runs go on at a time, of all agents together. Only under `defaults`. If absent, four for each processor, and at least 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent: Option<u32>,
    /// Compaction of conversations that fill the window of their model. Each key counts alone: that of the agent, or that of `defaults`.
    pub compaction: Compaction,
}

/// Whether runs tell of the tools that they use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerboseLevel {
    /// They do not.
    #[default]
    Off,
    /// In a line for each.
    On,
    /// With their results.
    Full,
}

impl Config {
    /// The key under `agents` that is no agent's.
    pub const DEFAULTS: &'static str = "defaults";

    /// Returns the settings of an agent, if it has some.
    pub fn agent(&self, id: &str) -> Option<&Agent> {
        self.agents.get(id).filter(|_| id != Self::DEFAULTS)
    }

    /// Returns how long it is tried to send a text to a channel, in milliseconds.
    pub fn delivery_lifetime_ms(&self, channel: &str) -> i64 {
        let of = |channel: &Channel| channel.expire_after_seconds;
        let seconds = self.channels.get(channel).map_or_else(|| of(&Channel::default()), of);
        i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX)
    }

    /// Returns one setting of an agent: its own, or that of `agents.defaults`.
    pub fn agent_setting<T>(&self, id: Option<&str>, get: impl Fn(&Agent) -> Option<T>) -> Option<T> {
        let own = id.and_then(|id| self.agent(id)).and_then(&get);
        own.or_else(|| self.agents.get(Self::DEFAULTS).and_then(&get))
    }
}

/// The JSON Schema of the config, for editors and for checking.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("title".into(), "Pincer".into());
    }
    // The published form lists keys by their names, not by where the types have them.
    schema.sort_all_objects();
    schema
}
