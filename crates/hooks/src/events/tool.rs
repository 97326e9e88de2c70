//! Events about the stored conversation: results of tools, and messages.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunContext;
use crate::table::warn;
use crate::{ContentForm, HookName, Point, Table, in_place_of};

/// The result of a tool is about to be stored.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultPersist {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The tool's name.
    pub tool_name: String,
    /// The call's id.
    pub tool_call_id: String,
    /// The result, as a message of the role `toolResult`.
    pub message: Value,
    /// Whether Pincer wrote it, in place of a result that the call does not have.
    pub is_synthetic: bool,
}

/// The answer of a hook to a result.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct ToolResultAnswer {
    /// The result in place of the other.
    pub message: Option<Value>,
}

/// A message is about to be written to a transcript.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeMessageWrite {
    /// The run and the session.
    #[serde(flatten)]
    pub context: RunContext,
    /// The message.
    pub message: Value,
}

/// The answer of a hook to a message that is about to be written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct MessageWriteAnswer {
    /// `true` keeps the content out of the transcript.
    pub block: Option<bool>,
    /// The message in place of the other.
    pub message: Option<Value>,
}

/// The form in which a message is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// This message.
    Message(Value),
    /// A note in place of its content.
    Blocked,
}

impl Point for ToolResultPersist {
    const NAME: HookName = HookName::ToolResultPersist;
    type Answer = ToolResultAnswer;
}

impl Point for BeforeMessageWrite {
    const NAME: HookName = HookName::BeforeMessageWrite;
    type Answer = MessageWriteAnswer;
}

impl Table {
    /// Returns a message as it is to be written.
    pub async fn before_message_write(&self, mut event: BeforeMessageWrite) -> Written {
        for hook in self.of::<BeforeMessageWrite>() {
            match hook.ask(&event).await {
                Ok(answer) if answer.block == Some(true) => return Written::Blocked,
                Ok(MessageWriteAnswer { message: None, .. }) => {}
                Ok(MessageWriteAnswer { message: Some(answer), .. }) => {
                    match in_place_of(&event.message, &answer, ContentForm::Parts) {
                        Ok(message) => event.message = message,
                        Err(error) => warn(hook, &error),
                    }
                }
                Err(error) => warn(hook, &error),
            }
        }
        Written::Message(event.message)
    }
}
