//! What came of a call.

use std::time::Duration;

use pincer_json::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Effect;

/// What came of a call: a value or an error, what it may have changed, and how long it took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The tool's value, or why there is none.
    pub result: Result<Json, CallError>,
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

impl Outcome {
    /// The tool's value as a tree.
    pub fn value(self) -> Result<Value, CallError> {
        let unreadable = |error: pincer_json::JsonError| CallError::new(ErrorCode::InvalidOutput, error.to_string());
        self.result?.to().map_err(unreadable)
    }
}

/// The outcome of a call, as the journal has it. Not an untagged enum: serde would read the value into a tree to find out which it
/// is.
#[derive(Deserialize)]
struct Recorded {
    #[serde(default, deserialize_with = "present")]
    ok: Option<Json>,
    #[serde(default)]
    error: Option<CallError>,
    #[serde(default)]
    effect: Option<Effect>,
}

/// A value that is `null` is one.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// The form in which the journal keeps what came of a call.
pub(crate) fn record(result: Result<&Json, &CallError>, effect: Effect) -> String {
    match result {
        // Written as it is: a large value is not copied only to be written.
        Ok(value) => format!("{{\"ok\":{value}}}"),
        Err(error) => serde_json::json!({ "error": error, "effect": effect }).to_string(),
    }
}

/// Reads what came of a call out of the journal.
pub fn recorded(outcome: &str) -> Result<(Result<Json, CallError>, Effect), serde_json::Error> {
    match serde_json::from_str(outcome)? {
        Recorded { ok: Some(ok), .. } => Ok((Ok(ok), Effect::Done)),
        Recorded { error: Some(error), effect: Some(effect), .. } => Ok((Err(error), effect)),
        _ => Err(serde::de::Error::custom("neither a value nor an error with its effect")),
    }
}

impl CallError {
    /// With nothing else to say of it.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }
}
