//! Deliveries: texts on their way to channels.
//!
//! A delivery is stored in the commit that makes its text due: with the end of a run, or with the call of a tool. It is sent by one process
//! at a time, which proves its claim with a [`Fence`], and in the order in which the deliveries of its route were made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::states::words;
use crate::{AgentRunId, DeliveryId, Fence, Millis, OwnerId, Reply};

/// The most deliveries that wait for one route. A further one is refused, or fails when it is stored with the end of a run.
pub const MOST_PENDING: u32 = 1000;

/// A place that texts are sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The channel's name in the config.
    pub channel: String,
    /// The account of the channel, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The person or group, as the channel names it.
    pub to: String,
    /// The thread in there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// The text waits, or is being sent.
    Pending,
    /// The channel has taken it.
    Sent,
    /// The text never arrives.
    Failed,
    /// The text is not to be sent any more.
    Cancelled,
}

words!(DeliveryState { Pending = "pending", Sent = "sent", Failed = "failed", Cancelled = "cancelled" });

/// Where a delivery comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliverySource {
    /// The answer of a run.
    Answer,
    /// A call of the `message` tool.
    Tool,
    /// A command of the operator.
    Operator,
    /// A word of Pincer itself: why a message was not taken.
    Notice,
}

words!(DeliverySource { Answer = "answer", Tool = "tool", Operator = "operator", Notice = "notice" });

/// A delivery to be stored.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// The user.
    pub user: String,
    /// The run that it belongs to.
    pub run: Option<AgentRunId>,
    /// Where it comes from.
    pub source: DeliverySource,
    /// The sender's word for it, unique for its user: under the same one nothing is stored twice.
    pub key: String,
    /// The place that it is sent to.
    pub route: Route,
    /// The message that it answers, as the channel names it.
    pub reply_to: Option<String>,
    /// The text.
    pub text: Arc<str>,
    /// When it is no longer worth sending.
    pub expires_at: Option<Millis>,
    /// The time.
    pub now: Millis,
}

/// A delivery as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// The user.
    pub user: String,
    /// The run that it belongs to.
    pub run: Option<AgentRunId>,
    /// Where it comes from.
    pub source: DeliverySource,
    /// The sender's word for it.
    pub key: String,
    /// The place that it is sent to.
    pub route: Route,
    /// The message that it answers, as the channel names it.
    pub reply_to: Option<String>,
    /// The text.
    pub text: String,
    /// The text before hooks changed it, if they did.
    pub original: Option<String>,
    /// Its state.
    pub state: DeliveryState,
    /// The number of times that a process has begun to send it.
    pub attempts: u32,
    /// When it is sent, or tried again.
    pub next_at: Millis,
    /// The bytes of the text that the channel has taken.
    pub sent_bytes: u64,
    /// Whether hooks have had their say.
    pub is_checked: bool,
    /// The reason why it was not sent, at the last attempt or for good.
    pub error: Option<String>,
    /// The channel's name for the part that was sent last.
    pub message_id: Option<String>,
    /// When it was stored.
    pub created_at: Millis,
    /// When it is no longer worth sending.
    pub expires_at: Option<Millis>,
    /// When it was sent, failed or was cancelled.
    pub ended_at: Option<Millis>,
    /// The process that sends it, or did until it died.
    pub owner: Option<OwnerId>,
    /// The latest proof.
    pub fence: Fence,
}

impl Delivery {
    /// Returns the reason of one that was not sent in its time.
    pub fn late(&self) -> String {
        let last = self.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("it could not be sent in its time{last}")
    }
}

/// The outcome of storing a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The delivery is stored.
    New(Delivery),
    /// The same text was stored for the same place before.
    Same(Delivery),
    /// Another text, or another place, was stored under its key.
    Different(DeliveryId),
    /// [`MOST_PENDING`] deliveries wait for its route.
    Full,
}

/// A change of a delivery by the process that sends it.
#[derive(Clone, Debug)]
pub enum DeliveryChange {
    /// Hooks have had their say: this is the text from now on, if they changed it.
    Checked {
        /// The text.
        text: Option<Arc<str>>,
    },
    /// The channel has taken a part of it.
    Part {
        /// The bytes of the text that the channel has taken.
        sent_bytes: u64,
        /// The channel's name for the part.
        message_id: Option<String>,
    },
    /// The channel has taken all of it.
    Sent {
        /// The channel's name for the last part.
        message_id: Option<String>,
        /// The time.
        at: Millis,
    },
    /// Another attempt comes later.
    Later {
        /// When.
        next_at: Millis,
        /// The reason why it was not sent now.
        error: String,
    },
    /// The text never arrives.
    Failed {
        /// The reason.
        error: String,
        /// The time.
        at: Millis,
    },
    /// The text is not to be sent.
    Cancelled {
        /// The reason.
        error: String,
        /// The time.
        at: Millis,
    },
}

/// The deliveries that are listed, the latest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryPage {
    /// Only those of this channel.
    pub channel: Option<String>,
    /// Only those that stand so.
    pub state: Option<DeliveryState>,
    /// The most that are listed.
    pub limit: u32,
}

/// Deliveries.
pub trait Deliveries {
    /// Stores a delivery, unless its key is known or its route is full.
    fn enqueue(&self, delivery: NewDelivery) -> Reply<Enqueued>;
    /// Returns the delivery with this id.
    fn delivery(&self, id: &DeliveryId) -> Reply<Delivery>;
    /// Returns the first pending delivery of each route of a channel, the one that is due first coming first. The others of a route wait
    /// for it.
    fn first_deliveries(&self, channel: &str) -> Reply<Vec<Delivery>>;
    /// Takes a pending delivery, to send it. `seen` is the proof that the claimant saw. Fails with
    /// [`StoreError::Missing`](crate::StoreError::Missing) if the proof has changed, or the delivery has ended.
    fn claim_delivery(&self, id: &DeliveryId, seen: Fence, owner: &OwnerId) -> Reply<Delivery>;
    /// Changes a delivery that this process sends. Fails like [`claim_delivery`](Self::claim_delivery). All changes but
    /// [`DeliveryChange::Checked`] and [`DeliveryChange::Part`] give it up.
    fn change_delivery(&self, id: &DeliveryId, fence: Fence, change: DeliveryChange) -> Reply<()>;
    /// Cancels a delivery. Returns `false` if it had ended. A process that sends it just now may have sent it.
    fn cancel_delivery(&self, id: &DeliveryId, reason: &str, now: Millis) -> Reply<bool>;
    /// Makes all pending deliveries of a channel due that no process has in its hands. Returns how many were not.
    fn hurry_deliveries(&self, channel: &str, now: Millis) -> Reply<usize>;
    /// Ends deliveries of all channels that were not sent in their time, as failed. One that a process has in its hands gets an hour
    /// more. Returns them; there may be more.
    fn expire_deliveries(&self, now: Millis) -> Reply<Vec<Delivery>>;
    /// Returns one page of deliveries.
    fn deliveries(&self, page: DeliveryPage) -> Reply<Vec<Delivery>>;
    /// Returns the deliveries of a run, in the order in which they were stored.
    fn deliveries_of_run(&self, run: &AgentRunId) -> Reply<Vec<Delivery>>;
    /// Forgets deliveries that ended before this time, but for those of runs that have not ended. Returns how many; there may be more.
    fn forget_deliveries(&self, ended_before: Millis) -> Reply<usize>;
}
