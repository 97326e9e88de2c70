//! What the door tells of what it does, for telemetry and trajectories. Redacted.

use pincer_store::{AgentRunId, ApprovalId, CallId, RunId, SessionKey};
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
    /// The run of an agent that it is part of. Ids of calls come from models: those of two runs may be equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_run: Option<AgentRunId>,
    /// The line of the program that asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Its number among the events of its run, from 1, in this process. One that is missing was missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
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
    /// Takes one event. Must not block: the call that it is of waits meanwhile.
    fn event(&self, event: &Event);

    /// Returns whether it looks at inputs, outputs and updates: making them safe to show takes time.
    fn wants_values(&self) -> bool {
        true
    }
}

impl<F: Fn(&Event) + Send + Sync> EventSink for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}
