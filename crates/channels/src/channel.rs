//! Channels, and the messages and texts that pass through them.

use std::time::Duration;

use pincer_config::keys;
use pincer_plugins::ChannelCapabilities;
use pincer_store::{DeliveryId, Millis, Route};
use pincer_tools::BoxFuture;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{ChannelsError, Inbox};

/// A place where messages come from and answers go to.
pub trait Channel: Send + Sync {
    /// Returns its name in the config.
    fn name(&self) -> &str;

    /// Returns what it can do.
    fn capabilities(&self) -> Capabilities;

    /// Returns whether messages of a sender are taken. A channel whose senders have proved already who they are may know better.
    fn admits(&self, settings: &keys::Channel, sender: &str) -> bool {
        settings.admits(sender)
    }

    /// Brings what it receives to `inbox` until `stop`, through all troubles of its connection. Fails if it can never work.
    fn run(&self, inbox: Inbox, stop: CancellationToken) -> BoxFuture<'_, Result<(), ChannelsError>>;

    /// Sends a text. Returns the channel's name for it, if it has one.
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Option<String>, SendError>>;

    /// Tells a place that an answer is being written, or no longer.
    fn typing(&self, route: Route, notice: TypingNotice) -> BoxFuture<'_, ()>;
}

/// The abilities of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The interval at which the channel is told that an answer is being written, if it wants to know.
    pub typing_every: Option<Duration>,
    /// The most bytes of one text. A longer one is sent in parts.
    pub max_text: usize,
    /// The longest that sending one text may take.
    pub send_timeout: Duration,
}

impl From<&ChannelCapabilities> for Capabilities {
    fn from(declared: &ChannelCapabilities) -> Self {
        // The notice is repeated before it ends.
        let every = Duration::from_millis(declared.typing_ms) * 4 / 5;
        Self {
            typing_every: declared.typing.then_some(every),
            max_text: declared.max_text as usize,
            send_timeout: Duration::from_millis(declared.send_timeout_ms),
        }
    }
}

/// A message that a channel has received.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Received {
    /// The channel's name for the message: the same message has the same one, however often it is told.
    pub message_id: String,
    /// The id of its sender. Rights rest on it: the channel vouches that no other sender has it.
    pub sender: String,
    /// The name of its sender, for people.
    pub sender_name: Option<String>,
    /// The id of the group, unless it is a direct message.
    pub group: Option<String>,
    /// The thread.
    pub thread: Option<String>,
    /// The account that received it, if the channel has several.
    pub account: Option<String>,
    /// Where its answer goes. The group, or the sender, if absent.
    pub to: Option<String>,
    /// The text.
    pub text: String,
    /// The files that go with it.
    pub attachments: Vec<Attachment>,
    /// When it was sent.
    pub at: Option<Millis>,
}

/// Something that goes with a message.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attachment {
    /// Its name.
    pub name: Option<String>,
    /// Such as `image/png`.
    pub mime_type: String,
    /// The bytes, in Base64. Only pictures are taken.
    pub data: Option<String>,
    /// Where it is.
    pub url: Option<String>,
}

impl Received {
    /// Returns the place that its answer goes to.
    pub fn route(&self, channel: &str) -> Route {
        let to = self.to.as_ref().or(self.group.as_ref()).unwrap_or(&self.sender);
        let (account, thread) = (self.account.clone(), self.thread.clone());
        Route { channel: channel.to_owned(), account, to: to.clone(), thread }
    }
}

/// A text that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The delivery. With `offset` it names the text: a text that is sent again has the same two.
    pub delivery: DeliveryId,
    /// Where the text begins within the delivery.
    pub offset: u64,
    /// Where it goes.
    pub route: Route,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// The text.
    pub text: String,
}

impl Outgoing {
    /// Returns the word for this text that stays the same, however often it is sent.
    pub fn id(&self) -> String {
        format!("{}/{}", self.delivery, self.offset)
    }
}

/// Whether an answer is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypingNotice {
    /// Writing has begun.
    Begin,
    /// Writing has ended.
    End,
}

/// An error while a text is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Another attempt may succeed. The text may have been sent all the same.
    #[error("{reason}")]
    Passing {
        /// The reason.
        reason: String,
        /// The pause that the channel asks for, if it does.
        retry_after: Option<Duration>,
    },
    /// No attempt will succeed.
    #[error("{reason}")]
    Permanent {
        /// The reason.
        reason: String,
    },
}

impl SendError {
    /// Returns the error for what may succeed later.
    pub fn passing(reason: impl Into<String>) -> Self {
        Self::Passing { reason: reason.into(), retry_after: None }
    }
}
