//! The hooks about texts: they may change or cancel one before it is sent, and are told what came of it.

use std::sync::Arc;

use pincer_agent::Request;
use pincer_hooks::Table;
use pincer_hooks::events::{MessageSending, MessageSent, RunContext, Sending};
use pincer_store::{AgentRuns, Delivery, DeliveryChange};
use serde_json::{Map, Value, json};

use crate::inbox::Shared;

/// The hooks of one text.
pub(crate) struct TextHooks {
    table: Arc<Table>,
    context: RunContext,
}

impl TextHooks {
    /// Returns the hooks of a text, if there are any.
    pub(crate) async fn of(shared: &Shared, delivery: &Delivery) -> Option<Self> {
        let runtime = shared.agent.runtime();
        let table = runtime.door().hooks();
        if !table.has::<MessageSending>() && !table.has::<MessageSent>() {
            return None;
        }
        let mut context = RunContext { channel_id: Some(delivery.route.channel.clone()), ..RunContext::default() };
        if let Some(run) = &delivery.run
            && let Ok(run) = runtime.store().agent_run(run).await
        {
            let request: Request = serde_json::from_str(&run.request).unwrap_or_default();
            context.session_key = run.session_key.to_string();
            context.session_id = Some(run.session.to_string());
            context.run_id = Some(run.id.to_string());
            (context.agent_id, context.sender_id) = (request.agent, request.sender);
        }
        Some(Self { table, context })
    }

    /// Asks whether a text may be sent, and how.
    pub(crate) async fn sending(&self, delivery: &Delivery) -> Sending {
        let known =
            json!({ "deliveryId": delivery.id, "source": delivery.source, "accountId": delivery.route.account });
        let metadata = known.as_object().cloned().unwrap_or_default();
        let event = MessageSending {
            context: self.context.clone(),
            to: delivery.route.to.clone(),
            content: delivery.text.clone(),
            reply_to_id: delivery.reply_to.clone(),
            thread_id: delivery.route.thread.clone(),
            metadata: metadata.into_iter().filter(|(_, value)| *value != Value::Null).collect::<Map<_, _>>(),
        };
        self.table.message_sending(event).await
    }

    /// Tells what came of a text, if that is settled.
    pub(crate) async fn tell(&self, delivery: &Delivery, text: &str, end: &DeliveryChange) {
        let (success, message_id, error) = match end {
            DeliveryChange::Sent { message_id, .. } => (true, message_id.clone(), None),
            DeliveryChange::Failed { error, .. } | DeliveryChange::Cancelled { error, .. } => {
                (false, None, Some(error.clone()))
            }
            _ => return,
        };
        let event = MessageSent {
            context: self.context.clone(),
            to: delivery.route.to.clone(),
            content: text.to_owned(),
            success,
            message_id,
            error,
        };
        self.table.tell(&event).await;
    }
}
