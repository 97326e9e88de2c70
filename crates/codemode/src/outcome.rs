//! The end of a program, and the failures that its caller is told.

use std::time::Duration;

use pincer_sandbox::{Error, FILE_NAME, Failure, FailureKind, Json, LeftOut, Limit, Note, Output, RestoreError, Site};
use pincer_source::{Position, excerpt, uncompilable};
use pincer_store::{RunState, StoreError};

use crate::hints::hint;
use crate::positions::Positions;
use crate::result::{CodeModeResult, Completed, ErrorCode, Failed};
use crate::scope::RunScope;
use crate::telemetry::{CapFailures, Telemetry};

/// The time after which a program that found no memory can be tried again, in milliseconds.
const RETRY_MS: u64 = 1000;

/// The end of a program.
#[derive(Debug)]
pub(crate) enum ProgramEnd {
    /// It returned a value.
    Value {
        value: Json,
        notes: Vec<Note>,
    },
    Failed(RunError),
}

impl From<RunError> for ProgramEnd {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

impl ProgramEnd {
    /// Returns the state of a run that ended so.
    pub(crate) fn state(&self) -> RunState {
        match self {
            Self::Value { .. } => RunState::Completed,
            Self::Failed(error) => error.state(),
        }
    }

    /// Returns the result that the caller is told.
    pub(crate) fn result(self, output: Vec<Output>, telemetry: Telemetry) -> CodeModeResult {
        match self {
            Self::Value { value, notes } => {
                let notes = notes.into_iter().map(noted).collect();
                CodeModeResult::Completed(Completed { value, output, notes, telemetry })
            }
            Self::Failed(error) => error.result(output, telemetry),
        }
    }
}

/// The reason why a program did not begin, go on or return a value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("{error}")]
    Failed {
        code: Option<ErrorCode>,
        error: String,
        caps: CapFailures,
        /// The time after which it can be tried again, in milliseconds.
        retry: Option<u64>,
    },
    /// The store did not take something. The program has not ended if it can go on from its last checkpoint.
    #[error("{error}")]
    Unstored { error: String },
}

impl RunError {
    pub(crate) fn failed(code: ErrorCode, error: impl Into<String>) -> Self {
        Self::Failed { code: Some(code), error: error.into(), caps: CapFailures::default(), retry: None }
    }

    /// Returns the state of a run that failed so.
    pub(crate) fn state(&self) -> RunState {
        match self {
            Self::Failed { code: Some(ErrorCode::Aborted), .. } => RunState::Aborted,
            Self::Failed { .. } | Self::Unstored { .. } => RunState::Failed,
        }
    }

    /// Returns the result that the caller is told.
    pub(crate) fn result(self, output: Vec<Output>, mut telemetry: Telemetry) -> CodeModeResult {
        let (code, error, retry_after_ms) = match self {
            Self::Failed { code, error, caps, retry } => {
                telemetry.cap_failures = caps;
                (code, error, retry)
            }
            Self::Unstored { error } => (Some(ErrorCode::RuntimeUnavailable), error, None),
        };
        CodeModeResult::Failed(Failed { error, code, run_id: None, retry_after_ms, output, telemetry })
    }

    /// Reports that the run or its session was cancelled.
    pub(crate) fn aborted() -> Self {
        Self::failed(ErrorCode::Aborted, "code mode execution aborted: the run or its session was cancelled")
    }

    /// Reports a failure of the program itself. `source` is its text, if that is still known.
    pub(crate) fn of_failure(failure: &Failure, positions: &Positions, source: Option<&str>, scope: &RunScope) -> Self {
        let code = match failure.kind {
            FailureKind::Syntax => Some(ErrorCode::InvalidInput),
            FailureKind::Stalled => Some(ErrorCode::Stalled),
            FailureKind::Thrown | FailureKind::Rejection => {
                failure.request.as_ref().map(|_| ErrorCode::NestedToolFailed)
            }
        };
        let mut error = failure.to_string();
        if let Some(hint) = hint(failure, positions, source, scope) {
            error.push_str(&format!(" ({hint})"));
        }
        if failure.kind == FailureKind::Rejection {
            error.push_str(" (a rejected promise that nothing handled)");
        }
        if failure.kind == FailureKind::Syntax {
            let unplaced = || source.and_then(uncompilable);
            if let Some(place) = failure.site.map(|site| positions.original(site)).or_else(unplaced) {
                error.push_str(&format!(" (line {}, column {})", place.line, place.column));
                error.push_str(&source.map(|source| excerpt(source, place)).unwrap_or_default());
            }
        } else if !failure.stack.is_empty() {
            error.push('\n');
            error.push_str(&original_stack(&failure.stack, positions));
        }
        Self::Failed { code, error, caps: CapFailures::default(), retry: None }
    }

    /// Reports that other programs had the memory until the deadline, which is no fault of the program.
    pub(crate) fn no_memory(budget: usize) -> Self {
        let error = format!(
            "other programs had all of the memory budget of {budget} bytes (tools.codeMode.memoryBudgetBytes) until the \
             deadline: try again later, or keep less at a time"
        );
        let (code, caps) = (Some(ErrorCode::RuntimeUnavailable), CapFailures::default());
        Self::Failed { code, error, caps, retry: Some(RETRY_MS) }
    }

    /// Reports a limit that the program has reached.
    pub(crate) fn of_limit(limit: Limit, timeout: Duration) -> Self {
        let mut caps = CapFailures::default();
        let (code, hint) = match limit {
            Limit::Time => {
                caps.timeout = 1;
                let hint = format!(" of {} ms: look for an endless loop, or do less at a time", timeout.as_millis());
                (Some(ErrorCode::Timeout), hint)
            }
            Limit::Memory { .. } => {
                caps.memory = 1;
                (Some(ErrorCode::MemoryLimitExceeded), ": keep less at a time".into())
            }
            Limit::MemoryBudget { budget } => return Self::no_memory(budget),
            Limit::Output { .. } | Limit::Value { .. } | Limit::Arguments { .. } => {
                caps.output = 1;
                (Some(ErrorCode::OutputLimitExceeded), ": return or print a summary instead".into())
            }
            Limit::Depth { .. } => (Some(ErrorCode::OutputLimitExceeded), ": return a flatter value".into()),
            Limit::OutputItems { .. } => {
                caps.output = 1;
                (Some(ErrorCode::OutputLimitExceeded), ": print several lines as one text".into())
            }
            Limit::Nodes { .. } => {
                caps.output = 1;
                (Some(ErrorCode::OutputLimitExceeded), ": pass, print or return less at a time".into())
            }
            Limit::Requests { .. } => {
                let hint = ": await some before starting more; none of the last batch was begun";
                (Some(ErrorCode::TooManyPendingToolCalls), hint.into())
            }
            // Mostly the program gets a RangeError, which is its own; in the depths of the engine there is no room for one.
            Limit::Stack => {
                caps.memory = 1;
                let hint =
                    " for its stack: look for a function or a toJSON that calls itself, or a value that is too deep";
                (Some(ErrorCode::MemoryLimitExceeded), hint.into())
            }
        };
        Self::Failed { code, error: format!("{limit}{hint}"), caps, retry: None }
    }

    /// Reports a deadline that came while the program waited, for the most part, for the turns of other programs.
    pub(crate) fn of_overload(timeout: Duration, computed: Duration) -> Self {
        let error = format!(
            "the program computed for {} ms only before its deadline of {} ms: the rest of the time went to other programs; \
             try again later",
            computed.as_millis(),
            timeout.as_millis()
        );
        let caps = CapFailures { timeout: 1, ..CapFailures::default() };
        Self::Failed { code: Some(ErrorCode::Timeout), error, caps, retry: Some(timeout.as_millis() as u64) }
    }

    /// Reports that the program will not get a place before its deadline, at the pace of the last programs.
    pub(crate) fn of_queue(wait: Duration, timeout: Duration) -> Self {
        let seconds = wait.as_secs().max(1);
        let error = format!(
            "the server is busy: this program would get a place in about {seconds} s, after its deadline of {} ms; \
             try again then",
            timeout.as_millis()
        );
        let (code, retry) = (Some(ErrorCode::RuntimeUnavailable), Some(wait.as_millis() as u64));
        Self::Failed { code, error, caps: CapFailures::default(), retry }
    }

    /// Reports an error of the sandbox.
    pub(crate) fn of_error(error: &Error) -> Self {
        let mut caps = CapFailures::default();
        let code = match error {
            Error::Load(_) | Error::Setup(_) | Error::Busy { .. } | Error::NoMemory { .. } => {
                ErrorCode::RuntimeUnavailable
            }
            Error::MemoryLimit { .. } => ErrorCode::InvalidConfig,
            Error::SourceTooLong { .. } => ErrorCode::InvalidInput,
            Error::SnapshotTooLarge(_) => {
                caps.snapshot = 1;
                ErrorCode::SnapshotLimitExceeded
            }
            Error::Restore(RestoreError::OverLimit { .. }) => {
                caps.snapshot = 1;
                ErrorCode::SnapshotLimitExceeded
            }
            Error::Restore(_) => ErrorCode::SnapshotRestoreFailed,
            Error::UnknownRequest(_) | Error::Ended | Error::NotWaiting => return Self::bug(error),
        };
        Self::Failed { code: Some(code), error: told(error), caps, retry: None }
    }

    /// Reports an error of the store.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        let (mut caps, mut retry) = (CapFailures::default(), None);
        let code = match error {
            StoreError::NoRoom { retry_after, .. } => {
                caps.snapshot = 1;
                retry = u64::try_from(*retry_after).ok();
                ErrorCode::SnapshotLimitExceeded
            }
            // The run was aborted, has expired or was taken over.
            StoreError::Fenced { .. } => ErrorCode::Aborted,
            _ => return Self::Unstored { error: told(error) },
        };
        Self::Failed { code: Some(code), error: told(error), caps, retry }
    }

    /// Reports a bug of Pincer. The message and the log have the same id.
    pub(crate) fn bug(what: impl std::fmt::Display) -> Self {
        let id = uuid::Uuid::now_v7();
        tracing::error!("internal error {id}: {what}");
        Self::failed(ErrorCode::InternalError, format!("this is a bug of Pincer, in its log under {id}: {what}"))
    }
}

/// Returns a note as the caller of a program that did not fail reads it.
fn noted(note: Note) -> String {
    let left_out = |why: &str| format!("the value of the last expression was left out: {why}");
    match note {
        Note::TimersDropped(1) => "a timer was still set when the program returned; it was dropped".into(),
        Note::TimersDropped(timers) => {
            format!("{timers} timers were still set when the program returned; they were dropped")
        }
        Note::ValueLeftOut(LeftOut::TooLarge) => left_out("it is too large. Return what is needed of it."),
        Note::ValueLeftOut(LeftOut::Unreadable) => left_out("a getter or a toJSON of it threw."),
        Note::ValueLeftOut(LeftOut::Unsettled) => left_out("it is a promise that nothing will ever settle."),
    }
}

/// Returns an error and its causes on one line.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

/// Returns a guest stack with the positions of the author's text: `    at f (cell.js:3:14)`.
fn original_stack(stack: &str, positions: &Positions) -> String {
    if positions.is_identity() {
        return stack.to_owned();
    }
    stack
        .lines()
        .map(|line| original_frame(line, positions).unwrap_or_else(|| line.to_owned()))
        .collect::<Vec<_>>()
        .join("\n")
}

fn original_frame(frame: &str, positions: &Positions) -> Option<String> {
    let (before, place) = frame.rsplit_once(FILE_NAME)?;
    let close = if place.ends_with(')') { ")" } else { "" };
    let mut numbers = place.trim_end_matches(')').strip_prefix(':')?.split(':').map(str::parse);
    let (Some(Ok(line)), Some(Ok(column)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
        return None;
    };
    let Position { line, column } = positions.original(Site { line, column });
    Some(format!("{before}{FILE_NAME}:{line}:{column}{close}"))
}
