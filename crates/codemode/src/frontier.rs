//! What is stored beside the snapshot of a suspended program, so that any process can go on with it.

use pincer_sandbox::{Answer, Fault, Json, Output, RequestId};
use pincer_store::{CallId, Millis};
use serde::{Deserialize, Serialize};

use crate::pending_calls::StoredCall;
use crate::positions::Positions;
use crate::recorder::StoredRecorder;
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
    pub parent: CallId,
    /// Where its recording stands, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<StoredRecorder>,
}

/// An answer that the program has not seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredAnswer {
    pub id: RequestId,
    /// The journal has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_journaled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
}

impl StoredAnswer {
    pub(crate) fn new(answer: &Answer, is_journaled: bool) -> Self {
        let (value, fault) = match answer.outcome.clone() {
            Ok(value) => (Some(value), None),
            Err(fault) => (None, Some(fault)),
        };
        Self { id: answer.id, is_journaled, value, fault }
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
    pub(crate) fn new(
        at: Millis,
        calls: Vec<StoredCall>,
        timers: Vec<StoredTimer>,
        yields: Vec<StoredYield>,
        answers: Vec<StoredAnswer>,
        next_seq: u32,
        output: Vec<Output>,
        positions: Positions,
        telemetry: Telemetry,
        parent: CallId,
        recording: Option<StoredRecorder>,
    ) -> Self {
        Self {
            version: VERSION,
            at,
            calls,
            timers,
            yields,
            answers,
            next_seq,
            output,
            positions,
            telemetry,
            parent,
            recording,
        }
    }

    pub(crate) fn parse(detail: &str) -> Result<Self, FrontierError> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
        }
        match serde_json::from_str::<Self>(detail) {
            Ok(frontier) if frontier.version == VERSION => Ok(frontier),
            Ok(frontier) => Err(FrontierError::Version(frontier.version)),
            // Another form may have other members.
            Err(error) => match serde_json::from_str::<Form>(detail) {
                Ok(form) if form.version != VERSION => Err(FrontierError::Version(form.version)),
                _ => Err(error.into()),
            },
        }
    }

    /// Returns the numbers of the calls whose outcomes it waits for.
    pub(crate) fn awaited(&self) -> Vec<u32> {
        self.calls.iter().map(|call| call.seq).collect()
    }

    /// Why it waits.
    pub(crate) fn reason(&self) -> WaitReason {
        let others = self.calls.is_empty() && self.timers.is_empty() && self.answers.is_empty();
        if others && !self.yields.is_empty() { WaitReason::Yield } else { WaitReason::PendingTools }
    }

    /// What it waits for, as far as can be told from what is stored.
    pub(crate) fn pending(&self) -> Vec<PendingToolCall> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// As it was stored when an input was a tree: inline JSON, its keys sorted.
    const STORED_BEFORE: &str = r#"{"version":1,"at":1760000000000,"calls":[{"id":3,"seq":2,"tool":"openclaw:core:echo",
        "input":{"a":[1,{"b":null}],"text":"x"},"method":"call","line":4,"since":1760000000000,"approval":null,"sequential":false,
        "flags":{}}],"timers":[],"yields":[],"answers":[{"id":1,"value":{"ok":true}}],"next_seq":3,
        "output":[{"type":"text","text":"hi"}],"positions":POSITIONS,"telemetry":TELEMETRY,"parent":"exec_1"}"#;

    #[test]
    fn a_frontier_of_an_earlier_build_is_read_and_written_in_the_same_form() {
        let positions = serde_json::to_string(&Positions::default()).unwrap();
        let telemetry = serde_json::to_string(&Telemetry::default()).unwrap();
        let stored = STORED_BEFORE.replace("POSITIONS", &positions).replace("TELEMETRY", &telemetry);
        let frontier = Frontier::parse(&stored).unwrap();
        let input = r#"{"a":[1,{"b":null}],"text":"x"}"#;
        assert_eq!(frontier.calls[0].input.as_str(), input);
        let written = serde_json::to_string(&frontier).unwrap();
        assert!(written.contains(&format!(r#""input":{input},"#)), "an earlier build could read it: {written}");
    }

    #[test]
    fn an_input_of_a_hostile_shape_is_not_read_from_the_store() {
        let zeros = format!("[{}0]", "0,".repeat(pincer_sandbox::MAX_NODES));
        let stored = STORED_BEFORE.replace(r#"{"a":[1,{"b":null}],"text":"x"}"#, &zeros);
        let stored = stored.replace("POSITIONS", "{}").replace("TELEMETRY", "{}");
        let error = Frontier::parse(&stored).unwrap_err().to_string();
        assert!(error.contains("made of more than 1000000 values and keys"), "{error}");
    }
}
