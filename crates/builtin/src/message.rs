//! `message`: sends a text to a place on a channel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{Flags, nearest};
use pincer_store::{
    Delivery, DeliveryId, DeliverySource, DeliveryState, Enqueued, MOST_PENDING, Millis, NewDelivery, Route, StoreError,
};
use pincer_tools::{Context, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::SessionStore;
use crate::define::{CHANGES, Core, Running};

/// The most bytes of one text.
const MOST_TEXT: usize = 256 << 10;
/// The time that a call waits for its text to be sent, before it says that it is queued.
const PATIENCE: Duration = Duration::from_secs(3);
/// The interval at which it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The rights of `message` on a channel.
#[derive(Clone, Debug, Default)]
pub struct ChannelRule {
    /// The places that it may send to besides the one that its run is for. `*` is every place.
    pub allow_to: Vec<String>,
    /// The time for which sending a text is tried.
    pub lifetime_ms: Millis,
}

pub(crate) struct Message {
    pub store: Arc<dyn SessionStore>,
    pub channels: BTreeMap<String, ChannelRule>,
}

/// The action of a call.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// Send a text.
    #[default]
    Send,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MessageInput {
    /// The action.
    #[serde(default)]
    #[allow(dead_code, reason = "there is one action; the input names it because others may come")]
    action: Action,
    /// The channel. The one that this conversation is on if absent.
    #[serde(default)]
    channel: Option<String>,
    /// The person or group, as the channel names it. The one that this conversation is with if absent.
    #[serde(default)]
    to: Option<String>,
    /// The thread in there.
    #[serde(default)]
    thread: Option<String>,
    /// The text.
    #[schemars(length(min = 1))]
    text: String,
}

/// The outcome of a call.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageOutput {
    /// `sent`, or `queued`: it will be sent as soon as the channel takes it.
    status: &'static str,
    /// The channel.
    channel: String,
    /// The person or group.
    to: String,
    /// The id of the delivery.
    delivery: String,
}

/// The part of a stored message that says where its answer goes.
#[derive(Default, Deserialize)]
struct Sender {
    #[serde(default)]
    route: Option<Route>,
}

fn failed(error: StoreError) -> ToolError {
    ToolError::before(format!("the text cannot be stored: {error}"))
}

impl Message {
    /// Returns the place that the run's message came from.
    async fn own_route(&self, context: &Context) -> Result<Option<Route>, ToolError> {
        let outside =
            || ToolError::before("there is no conversation to send from: only a run of an agent can send messages");
        let run = context.agent_run.as_ref().ok_or_else(outside)?;
        let run = self.store.agent_run(run).await.map_err(failed)?;
        Ok(serde_json::from_str::<Sender>(&run.request).unwrap_or_default().route)
    }

    /// Returns the place that a text is sent to, if it may be.
    fn route(&self, input: &MessageInput, own: Option<Route>) -> Result<Route, ToolError> {
        let channel = input.channel.clone().or_else(|| own.as_ref().map(|own| own.channel.clone()));
        let Some(channel) = channel else {
            let known: Vec<&str> = self.channels.keys().map(String::as_str).collect();
            return Err(ToolError::before(format!(
                "this conversation is on no channel: name `channel` and `to`. There are {}",
                known.join(", ")
            )));
        };
        let own = own.filter(|own| own.channel == channel);
        let to = match (&input.to, &own) {
            (Some(to), _) => to.clone(),
            (None, Some(own)) => own.to.clone(),
            (None, None) => {
                return Err(ToolError::before(format!("name the person or group on {channel} with `to`")));
            }
        };
        if let Some(own) = own.filter(|own| own.to == to && (input.thread.is_none() || input.thread == own.thread)) {
            return Ok(own);
        }
        let Some(rule) = self.channels.get(&channel) else {
            let known = self.channels.keys().map(|name| (name.clone(), name.clone()));
            let near = nearest(&channel, known, 1).pop().map(|near| format!(": did you mean {near}?"));
            return Err(ToolError::before(format!("there is no channel {channel}{}", near.unwrap_or_default())));
        };
        if !rule.allow_to.iter().any(|allowed| allowed == "*" || *allowed == to) {
            return Err(ToolError::before(format!(
                "the operator does not allow sending to {to} on {channel}: `channels.{channel}.allowTo` in the config names the places"
            )));
        }
        Ok(Route { channel, account: None, to, thread: input.thread.clone() })
    }

    /// Returns what came of a delivery, as far as that is known soon.
    async fn settled(&self, stored: Delivery, running: &Running) -> Result<MessageOutput, ToolError> {
        let (mut delivery, began) = (stored, tokio::time::Instant::now());
        while delivery.state == DeliveryState::Pending && began.elapsed() < PATIENCE {
            tokio::select! {
                () = running.abort.cancelled() => break,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            delivery = self.store.delivery(&delivery.id).await.map_err(failed)?;
        }
        let status = match delivery.state {
            DeliveryState::Sent => "sent",
            DeliveryState::Pending => "queued",
            DeliveryState::Failed | DeliveryState::Cancelled => {
                let why = delivery.error.unwrap_or_default();
                return Err(ToolError::unknown(format!("the text was not delivered to {}: {why}", delivery.route.to)));
            }
        };
        let Route { channel, to, .. } = delivery.route;
        Ok(MessageOutput { status, channel, to, delivery: delivery.id.to_string() })
    }
}

/// Returns the word for a call: made again after a crash, it is the same delivery. A call of a program may be made again under another call
/// of the model, so it is known by its program and its number.
fn key(context: &Context) -> String {
    let call = context.parent_call.as_ref().map_or("", |call| call.as_str());
    match (&context.run, &context.agent_run) {
        (Some(program), _) => format!("{}/{}", program.id(), call.rsplit('/').next().unwrap_or_default()),
        (None, Some(run)) => format!("{run}/{call}"),
        (None, None) => Uuid::now_v7().to_string(),
    }
}

impl Core for Message {
    const NAME: &'static str = "message";
    const LABEL: &'static str = "Send a message";
    const DESCRIPTION: &'static str = "Send a text to a person or group on a channel. Without `channel` and `to` it goes to the conversation \
                                       that you are in. Your final answer is sent there anyway: use this for texts before it, or for others.";
    type Input = MessageInput;
    type Output = MessageOutput;

    fn flags() -> Flags {
        Flags { idempotent: true, ..CHANGES }
    }

    async fn run(&self, input: MessageInput, running: Running) -> Result<MessageOutput, ToolError> {
        if input.text.trim().is_empty() || input.text.len() > MOST_TEXT {
            return Err(ToolError::before(format!(
                "the text must have something in it, and at most {MOST_TEXT} bytes"
            )));
        }
        let context = &running.context;
        let own = self.own_route(context).await?;
        let route = self.route(&input, own)?;
        let now = self.store.now();
        let usual = ChannelRule { lifetime_ms: 24 * 3_600_000, ..ChannelRule::default() };
        let lifetime = self.channels.get(&route.channel).unwrap_or(&usual).lifetime_ms;
        let delivery = NewDelivery {
            id: DeliveryId::from(format!("dl_{}", Uuid::now_v7())),
            user: context.user.clone(),
            run: context.agent_run.clone(),
            source: DeliverySource::Tool,
            key: key(context),
            route,
            reply_to: None,
            text: input.text.into(),
            expires_at: now.checked_add(lifetime),
            now,
        };
        match self.store.enqueue(delivery).await.map_err(failed)? {
            Enqueued::New(stored) | Enqueued::Same(stored) => self.settled(stored, &running).await,
            Enqueued::Different(id) => Err(ToolError::before(format!("this call has sent another text before ({id})"))),
            Enqueued::Full => Err(ToolError::before(format!(
                "{MOST_PENDING} texts wait for this place already: the channel is down, or too slow"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use pincer_store::{AgentRunId, Fence, Safety};
    use pincer_tools::RunOwner;

    use super::*;

    fn context(call: &str) -> Context {
        Context { agent_run: Some(AgentRunId::from("ar_1")), parent_call: Some(call.into()), ..Context::default() }
    }

    #[test]
    fn a_call_that_is_made_again_has_the_same_key() {
        assert_eq!(key(&context("c1")), "ar_1/c1");
        let program = RunOwner::new("cm_1".into(), "p".into(), Fence(1), Safety::Process);
        // Begun under one call of the model, and continued under another.
        let keys = ["exec/7", "wait/7"].map(|call| key(&Context { run: Some(program.clone()), ..context(call) }));
        assert_eq!(keys, ["cm_1/7", "cm_1/7"]);
    }
}
