//! The wire shape of what `exec` and `wait` return.

use pincer_sandbox::{Json, Output};
use serde::Serialize;

/// What a cell came to, as the model and every other caller sees it.
#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum CodeModeResult {
    /// The program returned.
    Completed(Completed),
    /// It did not.
    Failed(Failed),
}

impl CodeModeResult {
    /// For when there is no cell at all, and why.
    pub fn unavailable(error: String) -> Self {
        let (code, output, telemetry) = (Some(ErrorCode::RuntimeUnavailable), Vec::new(), Telemetry::default());
        Self::Failed(Failed { error, code, output, telemetry })
    }
}

/// The program returned.
#[derive(Debug, Serialize)]
pub struct Completed {
    /// What it returned; `null` for `undefined`.
    pub value: Json,
    /// What it printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<Output>,
    /// What it took.
    pub telemetry: Telemetry,
}

/// The program failed, or was stopped, or never ran.
#[derive(Debug, Serialize)]
pub struct Failed {
    /// For the one who must act: what happened, where, and what to do.
    pub error: String,
    /// Absent when it is the program's own exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// What it printed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<Output>,
    /// What it took.
    pub telemetry: Telemetry,
}

/// Which kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The engine cannot be loaded.
    RuntimeUnavailable,
    /// A limit is set to something that cannot be.
    InvalidConfig,
    /// The input is not a program.
    InvalidInput,
    /// The program ran past its deadline.
    Timeout,
    /// It needed more memory than it may.
    MemoryLimitExceeded,
    /// Its output and value are larger than they may be.
    OutputLimitExceeded,
    /// It made more calls at a time than it may.
    TooManyPendingToolCalls,
    /// It was cancelled.
    Aborted,
    /// A bug of ours.
    InternalError,
}

/// What a cell took. Never what it was given: no inputs, no secrets.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// The tools the model sees.
    pub visible_tools: Vec<&'static str>,
    /// Tools in the hidden catalog.
    pub catalog_size: usize,
    /// The same, by source.
    pub sources: Sources,
    /// Calls of `exec` in this run.
    pub exec_count: u32,
    /// Calls of `wait` in this run.
    pub wait_count: u32,
    /// Nested searches.
    pub search_count: u32,
    /// Nested describes.
    pub describe_count: u32,
    /// Nested calls.
    pub call_count: u32,
    /// Ids of the tools that were called.
    pub nested_tool_ids: Vec<String>,
    /// Size of the stored snapshot.
    pub snapshot_bytes: usize,
    /// Limits that were hit.
    pub cap_failures: CapFailures,
    /// Where the time went.
    pub ms: Milliseconds,
}

/// Catalog entries by source.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sources {
    /// Built in.
    pub openclaw: usize,
    /// From plugins.
    pub plugin: usize,
    /// From MCP servers.
    pub mcp: usize,
    /// From the client of this run.
    pub client: usize,
}

/// How often which limit was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CapFailures {
    /// Deadlines.
    pub timeout: u32,
    /// Memory caps.
    pub memory: u32,
    /// Output caps.
    pub output: u32,
    /// Snapshot caps.
    pub snapshot: u32,
}

/// Milliseconds spent, to the microsecond.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Milliseconds {
    /// Running the program.
    pub guest: f64,
    /// Waiting for what it asked for.
    pub nested: f64,
    /// Stored.
    pub parked: f64,
}
