//! Notices about channels while they run.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Something that happens to a channel. [`Display`](fmt::Display) is the sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Notice {
    /// The channel is started. It may still have to connect.
    Started {
        /// The channel.
        channel: String,
    },
    /// The channel is connected.
    Up {
        /// The channel.
        channel: String,
    },
    /// The channel is not connected, and tries again.
    Down {
        /// The channel.
        channel: String,
        /// The reason.
        why: String,
    },
    /// The channel has ended, while others go on.
    Ended {
        /// The channel.
        channel: String,
        /// Why.
        why: String,
    },
    /// A text was not delivered, and never will be.
    NotDelivered {
        /// The channel.
        channel: String,
        /// The delivery.
        delivery: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { channel } => write!(f, "{channel}: started"),
            Self::Up { channel } => write!(f, "{channel}: connected"),
            Self::Down { channel, why } => write!(f, "{channel}: down, tried again: {why}"),
            Self::Ended { channel, why } => write!(f, "{channel}: ended: {why}"),
            Self::NotDelivered { channel, delivery, why } => {
                write!(f, "{channel}: {delivery} was not delivered: {why}")
            }
        }
    }
}

/// Is told of channels. Cheap to clone. Must not block.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Notice) + Send + Sync>);

impl Observer {
    /// Returns an observer that calls this.
    pub fn new(tell: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, notice: Notice) {
        (self.0)(notice);
    }
}

impl Default for Observer {
    fn default() -> Self {
        Self::new(|notice| tracing::info!("{notice}"))
    }
}
