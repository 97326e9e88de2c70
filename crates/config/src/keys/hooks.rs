//! `hooks`: commands that have a say, or are told of something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Commands that have a say, or are told of something. docs/hooks.md has a row for each hook: its time, its event, and
/// its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Asked before a tool is called: may change its input, block it, or demand that a person is asked.
    pub before_tool_call: Vec<ToolHook>,
    /// Told of calls that were made.
    pub after_tool_call: Vec<ToolHook>,
    /// Asked before a result is stored: may change it.
    pub tool_result_persist: Vec<ToolHook>,
    /// Told of messages that were accepted.
    pub message_received: Vec<CommandHook>,
    /// Told before a session begins anew.
    pub before_reset: Vec<CommandHook>,
    /// Told that a session has ended.
    pub session_end: Vec<CommandHook>,
    /// Told that a session has begun.
    pub session_start: Vec<CommandHook>,
    /// Asked before a run begins: may answer its message without a model.
    pub before_agent_reply: Vec<CommandHook>,
    /// Asked before the model of a run is chosen: may choose another.
    pub before_model_resolve: Vec<CommandHook>,
    /// Asked as `before_model_resolve` and `before_prompt_build` together.
    pub before_agent_start: Vec<CommandHook>,
    /// Asked before a prompt is built: may add to it.
    pub before_prompt_build: Vec<CommandHook>,
    /// Asked before a run asks its model for the first time: may block it.
    pub before_agent_run: Vec<CommandHook>,
    /// Told of requests to models.
    pub llm_input: Vec<CommandHook>,
    /// Told of replies of models.
    pub llm_output: Vec<CommandHook>,
    /// Asked before a message is written to a transcript: may change it.
    pub before_message_write: Vec<CommandHook>,
    /// Told before a conversation is summarized.
    pub before_compaction: Vec<CommandHook>,
    /// Told that a conversation was summarized.
    pub after_compaction: Vec<CommandHook>,
    /// Asked before a run ends: may have its model go on.
    pub before_agent_finalize: Vec<CommandHook>,
    /// Asked before a text is sent: may change or cancel it.
    pub message_sending: Vec<CommandHook>,
    /// Told that a text was sent, or could not be.
    pub message_sent: Vec<CommandHook>,
    /// Told that a run has ended.
    pub agent_end: Vec<CommandHook>,
    /// Asked before a plugin or skill is installed: may block it.
    pub before_install: Vec<CommandHook>,
    /// Asked for the bootstrap files of a run: may change them.
    #[serde(rename = "agent:bootstrap")]
    pub agent_bootstrap: Vec<CommandHook>,
    /// Told of commands in messages that were obeyed.
    #[serde(rename = "command:*")]
    pub command_any: Vec<CommandHook>,
    /// Told of `/new`.
    #[serde(rename = "command:new")]
    pub command_new: Vec<CommandHook>,
    /// Told of `/reset`.
    #[serde(rename = "command:reset")]
    pub command_reset: Vec<CommandHook>,
    /// Told of `/stop`.
    #[serde(rename = "command:stop")]
    pub command_stop: Vec<CommandHook>,
}

impl Hooks {
    /// Returns the hooks about tools, by their names.
    pub fn about_tools(&self) -> [(&'static str, &[ToolHook]); 3] {
        [
            ("before_tool_call", &self.before_tool_call),
            ("after_tool_call", &self.after_tool_call),
            ("tool_result_persist", &self.tool_result_persist),
        ]
    }

    /// Returns all other hooks, by their names.
    pub fn others(&self) -> Vec<(&'static str, &[CommandHook])> {
        vec![
            ("message_received", &self.message_received),
            ("before_reset", &self.before_reset),
            ("session_end", &self.session_end),
            ("session_start", &self.session_start),
            ("before_agent_reply", &self.before_agent_reply),
            ("before_model_resolve", &self.before_model_resolve),
            ("before_agent_start", &self.before_agent_start),
            ("before_prompt_build", &self.before_prompt_build),
            ("before_agent_run", &self.before_agent_run),
            ("llm_input", &self.llm_input),
            ("llm_output", &self.llm_output),
            ("before_message_write", &self.before_message_write),
            ("before_compaction", &self.before_compaction),
            ("after_compaction", &self.after_compaction),
            ("before_agent_finalize", &self.before_agent_finalize),
            ("message_sending", &self.message_sending),
            ("message_sent", &self.message_sent),
            ("agent_end", &self.agent_end),
            ("before_install", &self.before_install),
            ("agent:bootstrap", &self.agent_bootstrap),
            ("command:*", &self.command_any),
            ("command:new", &self.command_new),
            ("command:reset", &self.command_reset),
            ("command:stop", &self.command_stop),
        ]
    }

    /// Returns the commands of all hooks.
    pub fn commands(&self) -> impl Iterator<Item = &CommandLine> {
        let about_tools = self.about_tools().into_iter().flat_map(|(_, hooks)| hooks).map(|hook| &hook.command);
        let others = self.others().into_iter().flat_map(|(_, hooks)| hooks).map(|hook| &hook.command);
        about_tools.chain(others)
    }
}

/// A command that is a hook: it reads one JSON object from its standard input and may write one to its standard output. An empty output is
/// "no opinion".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandHook {
    /// The command: a list of program and arguments, or one string for the shell.
    pub command: CommandLine,
    /// The longest that the hook may take. If absent, as docs/hooks.md says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 600_000))]
    pub timeout_ms: Option<u64>,
    /// Higher is asked earlier.
    #[serde(default)]
    pub priority: i32,
}

/// A command that is a hook about tools.
///
/// Before a call it may answer `{"params": {…}}`, `{"block": true, "blockReason": "…"}` or `{"requireApproval": {"title": "…"}}`, or nothing
/// at all. One that fails, is late or answers something else blocks the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolHook {
    /// The tools it is asked about, as in `tools.allow`. All of them if absent.
    #[serde(default)]
    pub matcher: OneOrMany,
    /// The command: a list of program and arguments, or one string for the shell.
    pub command: CommandLine,
    /// The longest that the hook may take. If absent, as docs/hooks.md says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 600_000))]
    pub timeout_ms: Option<u64>,
    /// Higher is asked earlier.
    #[serde(default)]
    pub priority: i32,
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
