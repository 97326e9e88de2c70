//! `tools.codeMode`: whether a model sees only `exec` and `wait`, and how much its programs may use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Code mode: the model sees `exec` and `wait` instead of all tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CodeMode {
    /// `true` turns it on, with the usual limits.
    Switch(bool),
    /// On only with `enabled: true`.
    Fields(Box<CodeModeFields>),
}

impl Default for CodeMode {
    fn default() -> Self {
        Self::Switch(false)
    }
}

impl CodeMode {
    /// The fields; a mere switch sets `enabled` only.
    pub fn fields(&self) -> CodeModeFields {
        match self {
            Self::Switch(enabled) => CodeModeFields { enabled: Some(*enabled), ..CodeModeFields::default() },
            Self::Fields(fields) => fields.as_ref().clone(),
        }
    }
}

/// Code mode in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CodeModeFields {
    /// Nothing but `true` turns it on; the other fields alone do not.
    #[schemars(extend("default" = false))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The engine.
    #[schemars(extend("default" = "quickjs-wasi"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// What the model sees: only `exec` and `wait`.
    #[schemars(extend("default" = "only"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What programs may be written in.
    #[schemars(extend("default" = ["javascript", "typescript"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub languages: Option<Vec<Language>>,
    /// How long one `exec` or `wait` may take.
    #[schemars(range(min = 100, max = 60_000), extend("default" = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How much memory a program may use.
    #[schemars(range(min = 1_048_576, max = 1_073_741_824), extend("default" = 67_108_864))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// How much memory all programs of this process may have together; not for one agent. By default half of what the machine
    /// or its container has, and at least as much as one program may use. A program that needs more than is free waits for it
    /// until its deadline.
    #[schemars(range(min = 16_777_216, max = 1_099_511_627_776_u64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_budget_bytes: Option<u64>,
    /// How much text, JSON and value may come back.
    #[schemars(range(min = 1024, max = 10_485_760), extend("default" = 65_536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// How large a suspended program may be as it is stored.
    #[schemars(range(min = 1024, max = 268_435_456), extend("default" = 10_485_760))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_snapshot_bytes: Option<u64>,
    /// How much the journal keeps of the calls of one program. When they have more, the oldest that have settled, and whose
    /// outcomes the program has, are forgotten.
    #[schemars(range(min = 65_536, max = 1_073_741_824), extend("default" = 16_777_216))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_journal_bytes: Option<u64>,
    /// How many tools a program may have at work at once.
    #[schemars(range(min = 1, max = 128), extend("default" = 16))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending_tool_calls: Option<u64>,
    /// How long a suspended program can be continued.
    #[schemars(range(min = 1, max = 86_400), extend("default" = 900))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_ttl_seconds: Option<u64>,
    /// How many programs may be suspended at a time. A program that may change something is counted from its first such call on:
    /// one that could not be suspended later is refused there.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 65_536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_suspended_runs: Option<u64>,
    /// How many programs of one user may be suspended at a time.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_suspended_runs_per_user: Option<u64>,
    /// How many programs of one session may be suspended at a time.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_suspended_runs_per_session: Option<u64>,
    /// When a running program is stored, so that it can be continued after a crash.
    #[schemars(extend("default" = "calls"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// How many tools a search finds if it does not say. At most `maxSearchLimit`.
    #[schemars(range(min = 1, max = 50), extend("default" = 8))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_default_limit: Option<u64>,
    /// How many tools a search can find.
    #[schemars(range(min = 1, max = 50), extend("default" = 50))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_search_limit: Option<u64>,
}

impl CodeModeFields {
    /// These, and what they leave open as in `others`.
    pub fn over(self, others: Self) -> Self {
        Self {
            enabled: self.enabled.or(others.enabled),
            runtime: self.runtime.or(others.runtime),
            mode: self.mode.or(others.mode),
            languages: self.languages.or(others.languages),
            timeout_ms: self.timeout_ms.or(others.timeout_ms),
            memory_limit_bytes: self.memory_limit_bytes.or(others.memory_limit_bytes),
            memory_budget_bytes: self.memory_budget_bytes.or(others.memory_budget_bytes),
            max_output_bytes: self.max_output_bytes.or(others.max_output_bytes),
            max_snapshot_bytes: self.max_snapshot_bytes.or(others.max_snapshot_bytes),
            max_journal_bytes: self.max_journal_bytes.or(others.max_journal_bytes),
            max_pending_tool_calls: self.max_pending_tool_calls.or(others.max_pending_tool_calls),
            snapshot_ttl_seconds: self.snapshot_ttl_seconds.or(others.snapshot_ttl_seconds),
            max_suspended_runs: self.max_suspended_runs.or(others.max_suspended_runs),
            max_suspended_runs_per_user: self.max_suspended_runs_per_user.or(others.max_suspended_runs_per_user),
            max_suspended_runs_per_session: self
                .max_suspended_runs_per_session
                .or(others.max_suspended_runs_per_session),
            durability: self.durability.or(others.durability),
            search_default_limit: self.search_default_limit.or(others.search_default_limit),
            max_search_limit: self.max_search_limit.or(others.max_search_limit),
        }
    }
}

/// When a running program is stored, so that it can be continued after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Before each call that may change something. The death of the process loses nothing. After a power cut, a program that
    /// was running ends as `aborted` with what is known of its calls.
    Calls,
    /// Like `calls`, and synced to the disk each time: a power cut loses nothing either. Such a call takes some tenths of a
    /// millisecond longer.
    EveryCall,
    /// Only when it is suspended. A crash of a running program ends it as `aborted` with what is known of its calls.
    Parked,
}

/// The engine that runs programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// QuickJS in WebAssembly.
    QuickjsWasi,
}

/// What the model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Only `exec` and `wait`.
    Only,
}

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// JavaScript.
    Javascript,
    /// TypeScript.
    Typescript,
}
