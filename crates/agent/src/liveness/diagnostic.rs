//! Reports about the liveness of sessions.

use pincer_store::{AgentRunId, Millis, SessionKey};
use serde::Serialize;

/// A report about a session that takes long, stands still, or belongs to no process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// The kind of the report.
    #[serde(rename = "type")]
    pub kind: DiagnosticKind,
    /// The time, in milliseconds since 1970.
    pub ts: Millis,
    /// The user.
    pub user: String,
    /// The session.
    pub session_key: SessionKey,
    /// The run that has the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<AgentRunId>,
    /// The generation of the work. A recovery changes nothing of a later one.
    pub generation: u64,
    /// The reason.
    pub reason: Reason,
    /// The time for which the work has gone on.
    pub age_ms: Millis,
    /// The time for which nothing has happened.
    pub quiet_ms: Millis,
    /// The messages that wait.
    pub queued: u32,
    /// The recovery that is asked for, or has come to an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Recovery>,
    /// The outcome of the recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RecoveryStatus>,
}

/// The kind of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum DiagnosticKind {
    /// Work takes long, and may go on.
    #[serde(rename = "session.long_running")]
    LongRunning,
    /// Work makes no progress.
    #[serde(rename = "session.stalled")]
    Stalled,
    /// The session looks as if it were worked on, and no process does.
    #[serde(rename = "session.stuck")]
    Stuck,
    /// A recovery begins.
    #[serde(rename = "session.recovery.requested")]
    RecoveryRequested,
    /// A recovery has ended.
    #[serde(rename = "session.recovery.completed")]
    RecoveryCompleted,
}

/// The reason of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Something happened a short while ago.
    ActiveWork,
    /// The same, and messages wait.
    QueuedBehindActiveWork,
    /// The model is silent.
    ActiveModelCallWithoutProgress,
    /// A tool is silent.
    BlockedToolCall,
    /// Neither a model nor a tool is waited for, and nothing happens.
    ActiveWorkWithoutProgress,
    /// The model is asked again and again, and says nothing.
    RepeatedModelRequestsWithoutProgress,
    /// The run has ended, and messages wait behind it.
    QueuedBehindTerminalActiveWork,
    /// Messages wait, and no process works on them.
    QueuedWorkWithoutActiveRun,
    /// A run has begun, and no process works on it.
    StaleSessionState,
    /// The provider has asked for a pause.
    ProviderRetryWait,
    /// The run waits for its turn, its tools or its place.
    RuntimeOwnedWait,
}

/// The remedy for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// The run is stopped, and the next in the queue begins.
    Abort,
    /// This process takes the session over.
    Release,
}

/// The outcome of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryStatus {
    /// The run has ended.
    Aborted,
    /// This process works on the session.
    Released,
    /// The session has gone on meanwhile, so nothing was done.
    Changed,
    /// The run was told to stop, and has not ended.
    NotDrained,
}
