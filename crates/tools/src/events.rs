//! What the door tells of what it does, for telemetry and trajectories. Redacted.

use pincer_store::{ApprovalId, CallId, RunId, SessionKey};
use serde::Serialize;
use serde_json::Value;

use crate::{CallError, Effect};

/// Something that happened to a call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The call.
    pub call: CallId,
    /// The call within which it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// The tool's id.
    pub tool: String,
    /// The session.
    pub session: SessionKey,
    /// Who sent what led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What happened.
    pub what: EventKind,
}

/// What happened to a call.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventKind {
    /// It was asked for.
    Start {
        /// Its input.
        input: Value,
    },
    /// The tool reported something.
    Update {
        /// What.
        update: Value,
    },
    /// A person is asked.
    ApprovalRequested {
        /// The question's id.
        approval: ApprovalId,
    },
    /// The question is settled.
    ApprovalResolved {
        /// The question's id.
        approval: ApprovalId,
        /// How.
        state: &'static str,
    },
    /// It is over.
    End {
        /// The tool's value.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<CallError>,
        /// What it may have changed.
        effect: Effect,
        /// How long it took.
        duration_ms: u64,
    },
}

/// Takes events.
pub trait EventSink: Send + Sync {
    /// One event. Must not block.
    fn event(&self, event: Event);

    /// Whether inputs, outputs and updates are looked at: making them safe to show takes time.
    fn wants_values(&self) -> bool {
        true
    }
}

/// Ignores all events.
impl EventSink for () {
    fn event(&self, _event: Event) {}

    fn wants_values(&self) -> bool {
        false
    }
}

impl<F: Fn(Event) + Send + Sync> EventSink for F {
    fn event(&self, event: Event) {
        self(event);
    }
}
