//! `hooks`: commands that have a say in what tools do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Commands that have a say in what tools do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Asked before a tool is called: may change its input, block it, or demand that a person is asked.
    pub before_tool_call: Vec<CommandHook>,
}

/// A command that is asked: it reads one JSON object from its standard input and may write one to its standard output.
///
/// It may answer `{"params": {…}}`, `{"block": true, "blockReason": "…"}` or `{"requireApproval": {"title": "…"}}`, or nothing at
/// all. A hook that fails, is late or answers something else blocks the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandHook {
    /// The tools it is asked about, as in `tools.allow`. All of them if absent.
    #[serde(default)]
    pub matcher: OneOrMany,
    /// The command: a list of program and arguments, or one string for the shell.
    pub command: CommandLine,
    /// How long it may take.
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = 10, max = 600_000))]
    pub timeout_ms: u64,
    /// Higher is asked earlier.
    #[serde(default)]
    pub priority: i32,
}

fn timeout_ms() -> u64 {
    5000
}

/// One name, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    /// The names.
    pub fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandLine {
    /// For the shell.
    Shell(String),
    /// Program and arguments.
    Words(Vec<String>),
}

impl CommandLine {
    /// Program and arguments.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Shell(text) => vec!["sh".into(), "-c".into(), text.clone()],
            Self::Words(words) => words.clone(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Shell(text) => text.trim().is_empty(),
            Self::Words(words) => words.first().is_none_or(String::is_empty),
        }
    }
}
