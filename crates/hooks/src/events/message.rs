//! Messages: those that come in, and those that go out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RunContext;
use super::session::observed;
use crate::table::warn;
use crate::{HookName, Point, Table};

/// A message was accepted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageReceived {
    /// The run and the session that it belongs to.
    #[serde(flatten)]
    pub context: RunContext,
    /// The sender.
    pub from: String,
    /// The text.
    pub content: String,
    /// The sender's own id of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// When it was accepted, in milliseconds since 1970.
    pub timestamp: i64,
}

/// A text is about to be sent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageSending {
    /// The run and the session that it comes from.
    #[serde(flatten)]
    pub context: RunContext,
    /// The recipient.
    pub to: String,
    /// The text.
    pub content: String,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to_id: Option<String>,
    /// The thread that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Other facts that the channel knows.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The answer of a hook to a text that is about to be sent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct SendingAnswer {
    /// The text in place of the other.
    pub content: Option<String>,
    /// `true` ends the matter. `false` says nothing.
    pub cancel: Option<bool>,
    /// The reason why it is not sent.
    pub cancel_reason: Option<String>,
    /// Members that are added to the metadata.
    pub metadata: Option<Map<String, Value>>,
}

/// The answer of the hooks to a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Sending {
    /// The text is sent like this.
    Send {
        /// The text.
        content: String,
        /// Other facts that the channel is told.
        metadata: Map<String, Value>,
    },
    /// The text is not sent.
    Cancel(Option<String>),
}

/// A text was sent, or could not be.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageSent {
    /// The run and the session that it came from.
    #[serde(flatten)]
    pub context: RunContext,
    /// The recipient.
    pub to: String,
    /// The text.
    pub content: String,
    /// Whether it was sent.
    pub success: bool,
    /// The channel's own id of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The reason why it could not be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

observed! { MessageReceived, MessageSent, }

impl Point for MessageSending {
    const NAME: HookName = HookName::MessageSending;
    type Answer = SendingAnswer;
}

impl Table {
    /// Asks whether a text may be sent, and how.
    pub async fn message_sending(&self, mut event: MessageSending) -> Sending {
        for hook in self.of::<MessageSending>() {
            let answer = match hook.ask(&event).await {
                Ok(answer) => answer,
                Err(error) => {
                    warn(hook, &error);
                    continue;
                }
            };
            if answer.cancel == Some(true) {
                return Sending::Cancel(answer.cancel_reason);
            }
            event.content = answer.content.unwrap_or(event.content);
            event.metadata.extend(answer.metadata.unwrap_or_default());
        }
        Sending::Send { content: event.content, metadata: event.metadata }
    }
}
