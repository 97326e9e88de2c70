//! What came of a call.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Effect;

/// What came of a call: a value or an error, what it may have changed, and how long it took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The tool's value, or why there is none.
    pub result: Result<Value, CallError>,
    /// What it may have changed.
    pub effect: Effect,
    /// From asking to answering, waiting for a person included.
    pub duration: Duration,
}

/// Why a call has no value. Plain data: this is what a guest gets to see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// What happened, to what, and what to do.
    pub message: String,
    /// What else the tool says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// Which kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// There is no such tool for this caller. Whether there is one for others is not told.
    UnknownTool,
    /// The tool is another one than the program knows under this id.
    ToolChanged,
    /// The input does not fit the tool's schema.
    InvalidInput,
    /// A hook said no, or could not be asked.
    Blocked,
    /// A rule or a person said no.
    Denied,
    /// Nobody answered the question in time.
    ApprovalExpired,
    /// The tool took too long.
    Timeout,
    /// The call was aborted.
    Aborted,
    /// The tool failed.
    ToolFailed,
    /// The tool's value does not fit what it declares.
    InvalidOutput,
    /// It would have to wait for itself.
    Reentrant,
    /// It could not be journalled, and so was not made; or was made and could not be noted.
    Store,
}

/// What came of a call, as the journal has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Recorded {
    Value { ok: Value },
    Failed { error: CallError, effect: Effect },
}

/// The form in which the journal keeps what came of a call.
pub(crate) fn record(result: Result<&Value, &CallError>, effect: Effect) -> String {
    match result {
        // Written as it is: a large value is not copied only to be written.
        Ok(value) => format!("{{\"ok\":{value}}}"),
        Err(error) => serde_json::json!({ "error": error, "effect": effect }).to_string(),
    }
}

/// Reads what came of a call out of the journal.
pub fn recorded(outcome: &str) -> Result<(Result<Value, CallError>, Effect), serde_json::Error> {
    Ok(match serde_json::from_str(outcome)? {
        Recorded::Value { ok } => (Ok(ok), Effect::Done),
        Recorded::Failed { error, effect } => (Err(error), effect),
    })
}

impl CallError {
    /// With nothing else to say of it.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }
}
