//! The one table of all hooks: the time, the event, the answer and the failure of each.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The way in which the answers of several hooks at one place are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asked one after the other; the answers are merged.
    Modify,
    /// Asked one after the other, until one takes the matter over.
    Claim,
    /// Asked one after the other, until one blocks.
    Gate,
    /// Told all at once. Answers are not read.
    Observe,
}

/// The effect of a hook that fails, is late, or gives an answer that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The matter is blocked.
    Block,
    /// The hook is skipped, with a warning.
    Skip,
}

/// The reach of a hook, for which a plugin needs the permission of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing that needs a permission.
    Plain,
    /// Reading conversations: `allowConversationAccess`.
    Conversation,
    /// Adding to the prompt: `allowPromptInjection`.
    Prompt,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The way in which answers are put together.
    pub kind: Kind,
    /// The effect of a failure.
    pub on_failure: OnFailure,
    /// The longest that it may take, unless the config says otherwise.
    pub timeout: Duration,
    /// The reach, for which a plugin needs a permission.
    pub reach: Reach,
    /// When it runs.
    pub when: &'static str,
    /// The members of its event, beside those that all events of runs have.
    pub gets: &'static str,
    /// The members of its answer, and how they are merged.
    pub answers: &'static str,
    /// The keys that its answer may have. An answer with another one cannot be read.
    pub answer_keys: &'static [&'static str],
}

impl Spec {
    const fn answers(self, answer_keys: &'static [&'static str]) -> Self {
        Self { answer_keys, ..self }
    }
}

const fn row(kind: Kind, on_failure: OnFailure, seconds: u64, reach: Reach, texts: [&'static str; 3]) -> Spec {
    let [when, gets, answers] = texts;
    Spec { kind, on_failure, timeout: Duration::from_secs(seconds), reach, when, gets, answers, answer_keys: &[] }
}

macro_rules! names {
    ($($(#[$doc:meta])* $variant:ident $text:literal $spec:expr;)+) => {
        /// The name of a hook.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum HookName {
            $($(#[$doc])* $variant,)+
        }

        impl HookName {
            /// All hooks, in the order in which a run meets them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// Returns the row of the table.
            pub const fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$variant => {
                        const SPEC: Spec = $spec;
                        &SPEC
                    })+
                }
            }
        }
    };
}

use Kind::{Claim, Gate, Modify, Observe};
use OnFailure::{Block, Skip};
use Reach::{Conversation, Plain, Prompt};

names! {
    /// A message came in.
    MessageReceived "message_received" row(Observe, Skip, 15, Conversation, [
        "A message was accepted and stored. Messages of the schedule are left out.",
        "`from`, `content`, `messageId`, `timestamp`",
        "",
    ]);
    /// A command in a message was obeyed.
    Command "command:*" row(Observe, Skip, 15, Plain, [
        "A command in a message was obeyed. `command:new`, `command:reset` and `command:stop` are the same for one command.",
        "`action` (the command without its slash)",
        "",
    ]);
    /// A session is about to begin anew.
    BeforeReset "before_reset" row(Observe, Skip, 15, Conversation, [
        "A session begins anew: by `/new` or `/reset`, after its idle time, at its daily hour, or for a job of the schedule. The reset waits for it.",
        "`reason`, `messages`",
        "",
    ]);
    /// A session has ended.
    SessionEnd "session_end" row(Observe, Skip, 15, Plain, [
        "A session was ended by a reset, or deleted by a person.",
        "`messageCount`, `durationMs`, `reason` (`new`, `reset`, `idle`, `daily`, `cron`, `deleted`), `nextSessionId`",
        "",
    ]);
    /// A session has begun.
    SessionStart "session_start" row(Observe, Skip, 15, Plain, [
        "The first run of a session begins.",
        "`resumedFrom` (the session before it under the same key)",
        "",
    ]);
    /// A message is about to be answered.
    BeforeAgentReply "before_agent_reply" row(Claim, Skip, 15, Conversation, [
        "A run begins, after the commands in its message and before a model is chosen.",
        "`cleanedBody` (the message without its commands; all messages that became this run)",
        "`handled: true` answers the message without a model: with `reply`, or silently without one. `reason` is logged. The first hook that handles it wins",
    ]).answers(&["handled", "reply", "reason"]);
    /// The model of a run is about to be chosen.
    BeforeModelResolve "before_model_resolve" row(Modify, Skip, 15, Conversation, [
        "Before the model of a run is chosen. No transcript is loaded for it.",
        "`prompt`, `attachments` (`kind` and `mimeType` of each)",
        "`providerOverride`, `modelOverride` (a model of that provider, or `provider/model`). For each, the answer with the highest priority wins. A provider without a model is left out, with a warning",
    ]).answers(&["providerOverride", "modelOverride"]);
    /// A run begins: both of the others, for plugins of earlier versions.
    BeforeAgentStart "before_agent_start" row(Modify, Skip, 15, Conversation, [
        "The place of `before_model_resolve` and `before_prompt_build` together, for plugins of earlier versions. It is asked once for each run.",
        "`prompt`, `messages`",
        "the members of both. Where `before_model_resolve` or `before_prompt_build` gave an answer, that one counts",
    ]).answers(&["providerOverride", "modelOverride", "systemPrompt", "prependContext", "appendContext", "prependSystemContext", "appendSystemContext", "toolsAllow"]);
    /// The bootstrap files of a run are about to become part of its prompt.
    AgentBootstrap "agent:bootstrap" row(Modify, Skip, 15, Prompt, [
        "Before the bootstrap files become part of the prompt.",
        "`files` (`name`, `content`)",
        "`files`: the files in place of those. Each hook gets what the one before it made of them",
    ]).answers(&["files"]);
    /// The prompt of a run is about to be built.
    BeforePromptBuild "before_prompt_build" row(Modify, Skip, 15, Prompt, [
        "Before the prompt of a run is put together. Asked once for each run; a run that goes on after a wait keeps the answer.",
        "`prompt`, `messages`",
        "`systemPrompt` replaces the instructions (the first wins); `prependSystemContext` and `appendSystemContext` go around them; \
         `prependContext` and `appendContext` go into the user's turn; `toolsAllow` narrows the tools (`[]` is no tools). Texts are joined, lists intersected",
    ]).answers(&["systemPrompt", "prependContext", "appendContext", "prependSystemContext", "appendSystemContext", "toolsAllow"]);
    /// A run is about to ask its model for the first time.
    BeforeAgentRun "before_agent_run" row(Gate, Block, 15, Conversation, [
        "When the prompt is ready, before the first request of a run; and before `/compact` sends the conversation to a model: then `prompt` is the command and `systemPrompt` are the instructions for the summary. A compaction or a turn for notes within a run is not asked about again.",
        "`prompt`, `messages`, `systemPrompt`",
        "`outcome`: `pass`, or `block` with `message` for the user: later runs are not sent the blocked words either. `reason` is neither logged nor shown. With such a hook, a message that would steer begins a run of its own",
    ]).answers(&["outcome", "reason", "message"]);
    /// A request is about to be sent to a model.
    LlmInput "llm_input" row(Observe, Skip, 15, Conversation, [
        "A request is sent to a model, one for a summary too.",
        "`provider`, `model`, `systemPrompt`, `prompt`, `historyMessages`, `imagesCount`",
        "",
    ]);
    /// A model has replied.
    LlmOutput "llm_output" row(Observe, Skip, 15, Conversation, [
        "A model has replied.",
        "`provider`, `model`, `assistantTexts`, `lastAssistant`, `usage`",
        "",
    ]);
    /// A tool is about to be called.
    BeforeToolCall "before_tool_call" row(Gate, Block, 15, Plain, [
        "Before a tool is called, by a model or by a program, and before a program is run (`toolKind: \"code_mode_exec\"`).",
        "`toolName`, `toolId`, `params`, `toolCallId`, `toolKind`, `toolInputKind`",
        "`params` replaces the input (each hook sees what the one before made of it) until an approval is asked for; `block: true` with \
         `blockReason` ends the matter; `block: false` says nothing; `requireApproval` (`title`, `description`, `severity`, `allowedDecisions`, `scope`) asks a person",
    ]).answers(&["params", "block", "blockReason", "requireApproval"]);
    /// A tool was called.
    AfterToolCall "after_tool_call" row(Observe, Skip, 15, Plain, [
        "After a call of a tool.",
        "`toolName`, `toolId`, `toolCallId`, `result` or `error`, `effect`, `durationMs`",
        "",
    ]);
    /// The result of a tool is about to be stored.
    ToolResultPersist "tool_result_persist" row(Modify, Skip, 15, Plain, [
        "Before the result of a tool is stored, in the journal of a program too. The program and the model get what is stored. The result of a whole program is one of `exec`: a text for each thing that it printed, and one for its value or error.",
        "`toolName`, `toolCallId`, `message` (a `toolResult`), `isSynthetic` (Pincer wrote it: the call has no result of its own)",
        "`message`: its content is stored in place of the other. A failed call stays one unless the answer has `isError: false`. Each hook gets what the one before it made of it",
    ]).answers(&["message"]);
    /// A message of a conversation is about to be stored.
    BeforeMessageWrite "before_message_write" row(Modify, Skip, 15, Conversation, [
        "Before a message is written to the transcript, and before a summary and the words behind `/compact` are. The model is sent what was written.",
        "`message` (with `role` and `content`; the role of a summary is `compactionSummary`)",
        "`message`: its content is stored in place of the other; role, ids and calls stay. `block: true` stores a note in place of the content. Each hook gets what the one before it made of it",
    ]).answers(&["block", "message"]);
    /// The history of a session is about to be summarized.
    BeforeCompaction "before_compaction" row(Observe, Skip, 30, Plain, [
        "Before the older part of a conversation is summarized.",
        "`messageCount`, `compactingCount`, `tokenCount`",
        "",
    ]);
    /// The history of a session was summarized.
    AfterCompaction "after_compaction" row(Observe, Skip, 30, Plain, [
        "After the older part of a conversation was summarized.",
        "`messageCount`, `compactedCount`, `tokenCount`",
        "",
    ]);
    /// A run is about to end with its answer.
    BeforeAgentFinalize "before_agent_finalize" row(Modify, Skip, 15, Conversation, [
        "When the model has nothing more to do, before the run ends.",
        "`provider`, `model`, `lastAssistantMessage`, `stopHookActive` (this run was revised before), `messages`",
        "`action`: `continue` (no opinion), `finalize` (no further hook is asked), or `revise` with `retry` (`instruction`, which is `reason` if absent; `idempotencyKey`, `maxAttempts`): the model goes on with the \
         instruction, at most three times in a run, and the reply that was revised is no part of the answer",
    ]).answers(&["action", "reason", "retry"]);
    /// A message is about to be sent.
    MessageSending "message_sending" row(Gate, Skip, 15, Conversation, [
        "Before a text is sent to a channel. Not asked for text that a command of Pincer prints.",
        "`to`, `content`, `replyToId`, `threadId`, `metadata`",
        "`content` replaces the text (each hook sees what the one before made of it); `metadata` is added to that of the event for the hooks after it; `cancel: true` with `cancelReason` ends the matter; `cancel: false` says nothing",
    ]).answers(&["content", "cancel", "cancelReason", "metadata"]);
    /// A message was sent.
    MessageSent "message_sent" row(Observe, Skip, 15, Conversation, [
        "After a text was sent to a channel, or could not be.",
        "`to`, `content`, `success`, `messageId`, `error`",
        "",
    ]);
    /// A run has ended.
    AgentEnd "agent_end" row(Observe, Skip, 30, Conversation, [
        "A run has ended, and its end is stored.",
        "`messages`, `success`, `error`, `durationMs`",
        "",
    ]);
    /// Something is about to be installed.
    BeforeInstall "before_install" row(Gate, Block, 15, Plain, [
        "Before a plugin or a skill is installed or updated, after the operator's `security.installPolicy`.",
        "`targetType`, `targetName`, `sourcePath`, `sourcePathKind`, `origin`, `request`, `digest`, `builtinScan`",
        "`findings` are added to those shown; `block: true` with `blockReason` ends the matter; `block: false` says nothing",
    ]).answers(&["findings", "block", "blockReason"]);
}

impl HookName {
    /// Returns the hook with this name. Names of single commands (`command:new`) are not names of hooks.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == text)
    }
}

impl fmt::Display for HookName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Serialize for HookName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for HookName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::named(&text).ok_or_else(|| serde::de::Error::custom(format!("there is no hook `{text}`")))
    }
}

/// Returns the table as Markdown, for the reference page.
pub fn reference() -> String {
    let mut text =
        String::from("| hook | when | its event has | its answer may have | on failure |\n|---|---|---|---|---|\n");
    for name in HookName::ALL {
        let spec = name.spec();
        let kind = match spec.kind {
            Modify => "changes",
            Claim => "claims",
            Gate => "gate",
            Observe => "observes",
        };
        let failure = match (spec.kind, spec.on_failure) {
            (_, Block) => "blocks",
            (Observe, Skip) => "logged",
            (_, Skip) => "skipped with a warning",
        };
        let needs = match spec.reach {
            Plain => "",
            Conversation => "; plugins need `allowConversationAccess`",
            Prompt => "; plugins need `allowPromptInjection`",
        };
        let answers = if spec.answers.is_empty() { "–" } else { spec.answers };
        let row = format!(
            "| `{name}` ({kind}{needs}) | {} | {} | {answers} | {failure}, after {} s |\n",
            spec.when,
            spec.gets,
            spec.timeout.as_secs()
        );
        text.push_str(&row);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_hook_and_gates_of_calls_and_installs_are_shut_when_they_fail() {
        for name in HookName::ALL {
            assert_eq!(HookName::named(name.as_str()), Some(*name));
            let spec = name.spec();
            assert_eq!(spec.kind == Observe, spec.answers.is_empty(), "{name}");
            assert_eq!(spec.kind == Observe, spec.answer_keys.is_empty(), "{name}");
            let is_told =
                |key: &&&str| spec.answers.contains(&format!("`{key}")) || *name == HookName::BeforeAgentStart;
            assert_eq!(
                spec.answer_keys.iter().find(|key| !is_told(key)),
                None,
                "the page does not tell of a key of {name}"
            );
        }
        let shut: Vec<&str> =
            HookName::ALL.iter().filter(|name| name.spec().on_failure == Block).map(|name| name.as_str()).collect();
        assert_eq!(shut, ["before_agent_run", "before_tool_call", "before_install"]);
    }
}
