//! Sessions: their beginning and end, commands, and compaction.

use serde::Serialize;
use serde_json::Value;

use super::RunContext;

macro_rules! observed {
    ($($event:ident,)+) => {$(
        impl $crate::Point for $event {
            const NAME: $crate::HookName = $crate::HookName::$event;
            type Answer = $crate::Nothing;
        }
    )+};
}
pub(super) use observed;

/// A command in a message was obeyed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// The session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The command, without its slash.
    pub action: String,
}

/// A session is about to begin anew.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeReset {
    /// The session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The reason.
    pub reason: String,
    /// The messages of the session, as a model is sent them.
    pub messages: Vec<Value>,
}

/// A session has ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnd {
    /// The session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The entries that it had.
    pub message_count: u32,
    /// The time since it began.
    pub duration_ms: i64,
    /// The reason of its end.
    pub reason: String,
    /// The session that follows it under its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_session_id: Option<String>,
}

/// The first run of a session begins.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStart {
    /// The session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The session before it under the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<String>,
}

/// The older part of a conversation is about to be summarized.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeCompaction {
    /// The session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The messages of the conversation.
    pub message_count: usize,
    /// The messages that are summarized.
    pub compacting_count: usize,
    /// The tokens of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_count: Option<u64>,
}

/// The older part of a conversation was summarized.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AfterCompaction {
    /// The session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The messages of the conversation as it is now.
    pub message_count: usize,
    /// The messages that were summarized.
    pub compacted_count: usize,
    /// The tokens of the conversation as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_count: Option<u64>,
}

observed! { Command, BeforeReset, SessionEnd, SessionStart, BeforeCompaction, AfterCompaction, }
