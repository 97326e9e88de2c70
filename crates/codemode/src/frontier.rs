//! What is stored beside the snapshot of a suspended program, so that any process can go on with it.

use pincer_sandbox::{Answer, Fault, Json, Output, RequestId};
use pincer_store::Millis;
use serde::{Deserialize, Serialize};

use crate::flights::StoredCall;
use crate::positions::Positions;
use crate::result::{PendingState, PendingToolCall, WaitReason};
use crate::telemetry::Telemetry;
use crate::timers::StoredTimer;

/// The form. A later one that cannot be read by this version has another number.
const VERSION: u32 = 1;

/// Where a program stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Frontier {
    version: u32,
    /// When it was stored.
    pub at: Millis,
    /// What it calls.
    pub calls: Vec<StoredCall>,
    pub timers: Vec<StoredTimer>,
    pub yields: Vec<StoredYield>,
    /// What it will be told first.
    pub answers: Vec<StoredAnswer>,
    /// The number that its next call has in the journal. Calls with higher ones were made after this.
    pub next_seq: u32,
    /// What it printed that nobody has been told.
    pub output: Vec<Output>,
    /// From the engine's text to the author's.
    pub positions: Positions,
    pub telemetry: Telemetry,
    /// The id of the `exec` it is part of.
    pub parent: String,
}

/// An answer that the program has not seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredAnswer {
    id: RequestId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
}

impl From<&Answer> for StoredAnswer {
    fn from(answer: &Answer) -> Self {
        let (value, fault) = match answer.outcome.clone() {
            Ok(value) => (Some(value), None),
            Err(fault) => (None, Some(fault)),
        };
        Self { id: answer.id, value, fault }
    }
}

impl From<StoredAnswer> for Answer {
    fn from(stored: StoredAnswer) -> Self {
        let outcome = match stored.fault {
            Some(fault) => Err(fault),
            None => Ok(stored.value.unwrap_or_else(Json::null)),
        };
        Self { id: stored.id, outcome }
    }
}

/// A pending `yield_control`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredYield {
    pub id: RequestId,
    pub reason: Option<String>,
    pub since: Millis,
}

/// Why what is stored beside a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrontierError {
    #[error("what is stored beside the snapshot cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("what is stored beside the snapshot has form {0}, which this version of Pincer does not know")]
    Version(u32),
}

impl Frontier {
    #[expect(clippy::too_many_arguments, reason = "all that there is to know, once")]
    pub fn new(
        at: Millis,
        calls: Vec<StoredCall>,
        timers: Vec<StoredTimer>,
        yields: Vec<StoredYield>,
        answers: Vec<StoredAnswer>,
        next_seq: u32,
        output: Vec<Output>,
        positions: Positions,
        telemetry: Telemetry,
        parent: String,
    ) -> Self {
        Self { version: VERSION, at, calls, timers, yields, answers, next_seq, output, positions, telemetry, parent }
    }

    pub fn parse(detail: &str) -> Result<Self, FrontierError> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
        }
        match serde_json::from_str::<Form>(detail)?.version {
            VERSION => Ok(serde_json::from_str(detail)?),
            other => Err(FrontierError::Version(other)),
        }
    }

    /// Returns the numbers of the calls whose outcomes it waits for.
    pub fn awaited(&self) -> Vec<u32> {
        self.calls.iter().map(|call| call.seq).collect()
    }

    /// Why it waits.
    pub fn reason(&self) -> WaitReason {
        let others = self.calls.is_empty() && self.timers.is_empty() && self.answers.is_empty();
        if others && !self.yields.is_empty() { WaitReason::Yield } else { WaitReason::PendingTools }
    }

    /// What it waits for, as far as can be told from what is stored.
    pub fn pending(&self) -> Vec<PendingToolCall> {
        let state = |call: &StoredCall| match call.approval {
            Some(_) => PendingState::Approval,
            None => PendingState::Running,
        };
        let calls = self.calls.iter().map(|call| call.shown(state(call)));
        calls.chain(others(&self.timers, &self.yields)).collect()
    }
}

/// Timers and yields as the model sees them.
pub(crate) fn others(timers: &[StoredTimer], yields: &[StoredYield]) -> Vec<PendingToolCall> {
    let shown = |method: &str, id: RequestId, since| PendingToolCall {
        id: format!("bridge:{method}:{id}"),
        method: method.into(),
        tool_id: None,
        state: PendingState::Running,
        since,
        approval_id: None,
    };
    let timers = timers.iter().map(|timer| shown("sleep", timer.id, timer.since));
    timers.chain(yields.iter().map(|pending| shown("yield", pending.id, pending.since))).collect()
}
