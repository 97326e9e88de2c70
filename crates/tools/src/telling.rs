//! What is told of one call while it is made.

use std::sync::Arc;

use pincer_catalog::Entry;
use pincer_store::CallId;
use serde_json::Value;

use crate::{BoxFuture, Context, Door, Event, EventKind, Hub, Redactor, Request, RunOwner, UpdateSink};

/// Tells what happens to one call.
pub(crate) struct Teller<'a> {
    pub door: &'a Door,
    pub call: CallId,
    pub entry: Arc<Entry>,
    pub context: Context,
    /// The line of the program that asks for it.
    pub line: Option<u32>,
}

impl Teller<'_> {
    pub(crate) fn tell(&self, what: EventKind) {
        self.door.parts.events.publish(self.event(what), self.context.run.as_ref());
    }

    pub(crate) fn event(&self, what: EventKind) -> Event {
        Event {
            call: self.call.clone(),
            parent: self.context.parent_call.clone(),
            tool: self.entry.id.to_string(),
            session: self.context.session.clone(),
            sender: self.context.sender.clone(),
            run: self.context.run.as_ref().map(|run| run.id().clone()),
            agent_run: self.context.agent_run.clone(),
            line: self.line,
            seq: None,
            what,
        }
    }
}

/// Passes a tool's reports on, and tells them as events too.
pub(crate) struct TellingSink {
    pub events: Hub,
    pub run: Option<RunOwner>,
    pub redactor: Redactor,
    pub event: Event,
    pub updates: Arc<dyn UpdateSink>,
}

impl UpdateSink for TellingSink {
    fn update(&self, update: Value) {
        let shown = self.redactor.redact(&update);
        let event = Event { what: EventKind::Update { update: shown }, ..self.event.clone() };
        self.events.publish(event, self.run.as_ref());
        self.updates.update(update);
    }

    fn ask(&self, request: Request) -> BoxFuture<'_, Option<Value>> {
        self.updates.ask(request)
    }
}
