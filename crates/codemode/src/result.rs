//! The wire shape of what `exec` and `wait` return.

use pincer_sandbox::{Json, Output};
use pincer_store::{ApprovalId, Millis, RunId};
use serde::{Deserialize, Serialize};

use crate::Telemetry;

/// What a cell came to, as the model and every other caller sees it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum CodeModeResult {
    /// The program returned.
    Completed(Completed),
    /// It is suspended.
    Waiting(Waiting),
    /// It failed.
    Failed(Failed),
}

impl CodeModeResult {
    /// A failure before there was a program to speak of.
    pub fn refused(code: ErrorCode, error: impl Into<String>) -> Self {
        let (error, code, output, telemetry) = (error.into(), Some(code), Vec::new(), Telemetry::default());
        Self::Failed(Failed { error, code, run_id: None, retry_after_ms: None, output, telemetry })
    }

    /// Reads one back from its JSON text, with the keys of its values in their order.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Status {
            Completed,
            Waiting,
            Failed,
        }
        #[derive(Deserialize)]
        struct Tag {
            status: Status,
        }
        Ok(match serde_json::from_str::<Tag>(text)?.status {
            Status::Completed => Self::Completed(serde_json::from_str(text)?),
            Status::Waiting => Self::Waiting(serde_json::from_str(text)?),
            Status::Failed => Self::Failed(serde_json::from_str(text)?),
        })
    }

    /// What the program printed since the result before.
    pub fn output(&self) -> &[Output] {
        match self {
            Self::Completed(Completed { output, .. })
            | Self::Waiting(Waiting { output, .. })
            | Self::Failed(Failed { output, .. }) => output,
        }
    }

    /// What it took.
    pub fn telemetry(&self) -> &Telemetry {
        match self {
            Self::Completed(Completed { telemetry, .. })
            | Self::Waiting(Waiting { telemetry, .. })
            | Self::Failed(Failed { telemetry, .. }) => telemetry,
        }
    }
}

/// The program returned.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Completed {
    /// What it returned; `null` for `undefined`.
    pub value: Json,
    /// What it printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<Output>,
    /// The parts that were left out, in words: timers that were still set, or the value of the last expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What it took.
    pub telemetry: Telemetry,
}

/// The program is suspended, and `wait` continues it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What `wait` must be given.
    pub run_id: RunId,
    /// Why it is suspended.
    pub reason: WaitReason,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_tool_calls: Vec<PendingToolCall>,
    /// What it printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<Output>,
    /// What it took.
    pub telemetry: Telemetry,
}

/// Why a program is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// It waits for tools, timers or people.
    PendingTools,
    /// It wanted to be, and waits for nothing else.
    Yield,
}

/// Something that a suspended program waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingToolCall {
    /// Names it within the run.
    pub id: String,
    /// `call`, `namespace`, `sleep` or `yield`; `exec` for a program that has not begun.
    pub method: String,
    /// The tool, if it is a call of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// How it stands.
    pub state: PendingState,
    /// Since when, in milliseconds since 1970.
    pub since: Millis,
    /// The question that a person must answer first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
}

/// How something stands that a program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PendingState {
    /// It goes on.
    Running,
    /// A person is asked.
    Approval,
    /// The caller of the agent's run is to make it.
    Client,
    /// It begins when others have ended.
    Queued,
}

impl PendingState {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Approval => "approval",
            Self::Client => "client",
            Self::Queued => "queued",
        }
    }
}

/// The program failed, or was stopped, or never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// For the one who must act: what happened, where, and what to do.
    pub error: String,
    /// Absent when it is the program's own exception.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// The id for `wait`, which goes on when the store works again. Set if the failure is the store's.
    #[serde(default, rename = "runId", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// In how many milliseconds it can be tried again. Set if others had what it needed.
    #[serde(default, rename = "retryAfterMs", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What it printed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<Output>,
    /// What it took.
    pub telemetry: Telemetry,
}

/// Which kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The engine, or the store that its runs need, is not there.
    RuntimeUnavailable,
    /// The config does not validate.
    InvalidConfig,
    /// The input is not a program, or names no run.
    InvalidInput,
    /// The language is unknown or turned off.
    UnsupportedLanguage,
    /// TypeScript that does not parse or transform.
    TypescriptTransformFailed,
    /// The program wants modules.
    ModuleAccessDenied,
    /// The program computed past its deadline.
    Timeout,
    /// It needed more memory than it may.
    MemoryLimitExceeded,
    /// Its output and value are larger than they may be.
    OutputLimitExceeded,
    /// It is too large to be suspended, or too many are.
    SnapshotLimitExceeded,
    /// It waited for too long.
    SnapshotExpired,
    /// What is stored of it cannot be continued.
    SnapshotRestoreFailed,
    /// It made more calls at a time than it may.
    TooManyPendingToolCalls,
    /// It ended on a failed call that it did not catch.
    NestedToolFailed,
    /// A hook, or the person whom a hook wanted asked, did not let it begin.
    Blocked,
    /// It waits for a promise that nothing will ever settle.
    Stalled,
    /// It was cancelled.
    Aborted,
    /// A bug of ours.
    InternalError,
}
