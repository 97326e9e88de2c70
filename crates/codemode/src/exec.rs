//! `exec` without tools: one cell from source to result.

use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use pincer_sandbox::{
    Answer, Cell, Engine, Error, Failure, FailureKind, Fault, Json, Limit, Limits, Output, Program, Request, TurnEnd,
};

use crate::result::{CodeModeResult, Completed, ErrorCode, Failed, Telemetry};
use crate::timers::Timers;

/// What a timeout is clamped to.
pub const TIMEOUT_MS: RangeInclusive<u64> = 100..=60_000;
/// What it is if nobody says.
pub const TIMEOUT_MS_DEFAULT: u64 = 10_000;

const CELL_STACK_BYTES: usize = 4 << 20;

/// One `exec`: a program and what it may use.
#[derive(Clone, Debug)]
pub struct Exec {
    source: String,
    timeout: Duration,
    limits: Limits,
}

impl Exec {
    /// A program under the default limits.
    pub fn new(source: impl Into<String>) -> Self {
        let timeout = Duration::from_millis(TIMEOUT_MS_DEFAULT);
        Self { source: source.into(), timeout, limits: Limits::default() }
    }

    /// How long the whole of it may take. Clamped to [`TIMEOUT_MS`].
    pub fn timeout_ms(mut self, timeout: u64) -> Self {
        self.timeout = Duration::from_millis(timeout.clamp(*TIMEOUT_MS.start(), *TIMEOUT_MS.end()));
        self
    }

    /// Other limits than the default ones.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs the program to its end, on a thread that has the stack a cell needs whatever the caller's has.
    pub fn run(&self, engine: &Engine) -> CodeModeResult {
        thread::scope(|scope| {
            let cell = thread::Builder::new().name("pincer-cell".into()).stack_size(CELL_STACK_BYTES);
            match cell.spawn_scoped(scope, || self.run_here(engine)).map(thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => CodeModeResult::unavailable("the thread of the cell panicked".into()),
                Err(error) => CodeModeResult::unavailable(format!("no thread can be started for the cell: {error}")),
            }
        })
    }

    fn run_here(&self, engine: &Engine) -> CodeModeResult {
        let telemetry = Telemetry { visible_tools: vec!["exec", "wait"], exec_count: 1, ..Telemetry::default() };
        let mut run =
            Run { deadline: Instant::now() + self.timeout, timeout: self.timeout, output: Vec::new(), telemetry };
        if self.source.trim().is_empty() {
            return run.failed(ErrorCode::InvalidInput, "there is no code: pass a JavaScript program".into());
        }
        match engine.start(Program::new(&self.source), self.limits) {
            Ok(cell) => run.drive(cell, &self.source),
            Err(error) => run.refused(&error),
        }
    }
}

/// An `exec` on its way.
struct Run {
    deadline: Instant,
    timeout: Duration,
    output: Vec<Output>,
    telemetry: Telemetry,
}

impl Run {
    fn drive(&mut self, mut cell: Cell, source: &str) -> CodeModeResult {
        let mut timers = Timers::default();
        loop {
            let started = Instant::now();
            let turn = match cell.run_turn(self.deadline.saturating_duration_since(started)) {
                Ok(turn) => turn,
                Err(error) => return self.refused(&error),
            };
            self.telemetry.ms.guest += milliseconds(started.elapsed());
            self.output.extend(turn.output);
            match turn.end {
                TurnEnd::Waiting => {}
                TurnEnd::Value(value) => return self.completed(value.unwrap_or_else(Json::null)),
                TurnEnd::Failed(failure) => return self.program_failed(&failure, source),
                TurnEnd::Limit(limit) => return self.limited(limit),
                TurnEnd::Interrupted => return self.failed(ErrorCode::Aborted, "the run was cancelled".into()),
                TurnEnd::Crashed(what) => return self.failed(ErrorCode::InternalError, what),
            }
            turn.cancelled.into_iter().for_each(|id| timers.clear(id));
            let mut answers = Vec::new();
            for request in turn.requests {
                match request.method.as_str() {
                    "sleep" => timers.set(request.id, &request.args, request.at),
                    _ => answers.push(answer(&request)),
                }
            }
            let waited = Instant::now();
            // A program that yields all the time must not keep its own timers from firing.
            let due = if answers.is_empty() { timers.wait(self.deadline) } else { Some(timers.take_due()) };
            let Some(due) = due else {
                return self.still_waiting(timers.next_in());
            };
            answers.extend(due.into_iter().map(|id| Answer::value(id, Json::null())));
            self.telemetry.ms.nested += milliseconds(waited.elapsed());
            for answer in answers {
                if let Err(error) = cell.deliver(answer) {
                    return self.refused(&error);
                }
            }
        }
    }

    fn completed(&mut self, value: Json) -> CodeModeResult {
        let (output, telemetry) = self.take();
        CodeModeResult::Completed(Completed { value, output, telemetry })
    }

    fn failed(&mut self, code: ErrorCode, error: String) -> CodeModeResult {
        let (output, telemetry) = self.take();
        CodeModeResult::Failed(Failed { error, code: Some(code), output, telemetry })
    }

    fn take(&mut self) -> (Vec<Output>, Telemetry) {
        (std::mem::take(&mut self.output), std::mem::take(&mut self.telemetry))
    }

    fn program_failed(&mut self, failure: &Failure, source: &str) -> CodeModeResult {
        let code = match failure.kind {
            FailureKind::Syntax => Some(ErrorCode::InvalidInput),
            FailureKind::Thrown | FailureKind::Rejection | FailureKind::Stalled => None,
        };
        let mut error = failure.to_string();
        if failure.kind == FailureKind::Rejection {
            error.push_str(" (a rejected promise that nothing handled)");
        }
        if failure.kind == FailureKind::Syntax {
            error.push_str(&excerpt(failure, source));
        } else if !failure.stack.is_empty() {
            error.push('\n');
            error.push_str(&failure.stack);
        }
        let (output, telemetry) = self.take();
        CodeModeResult::Failed(Failed { error, code, output, telemetry })
    }

    fn limited(&mut self, limit: Limit) -> CodeModeResult {
        let caps = &mut self.telemetry.cap_failures;
        let (code, hint) = match limit {
            Limit::Time => {
                caps.timeout = 1;
                let hint =
                    format!(" of {} ms: look for an endless loop, or do less at a time", self.timeout.as_millis());
                (ErrorCode::Timeout, hint)
            }
            Limit::Memory { .. } => {
                caps.memory = 1;
                (ErrorCode::MemoryLimitExceeded, ": keep less at a time".into())
            }
            Limit::Output { .. } | Limit::Value { .. } => {
                caps.output = 1;
                (ErrorCode::OutputLimitExceeded, ": return or print a summary instead".into())
            }
            Limit::Depth { .. } => (ErrorCode::OutputLimitExceeded, ": return a flatter value".into()),
            Limit::Requests { .. } => (ErrorCode::TooManyPendingToolCalls, ": await some before starting more".into()),
            // No code of its own: the program recursed, as with the RangeError it mostly gets for that.
            Limit::Stack => {
                let (output, telemetry) = self.take();
                return CodeModeResult::Failed(Failed { error: limit.to_string(), code: None, output, telemetry });
            }
        };
        self.failed(code, format!("{limit}{hint}"))
    }

    fn still_waiting(&mut self, left: Option<Duration>) -> CodeModeResult {
        self.telemetry.cap_failures.timeout = 1;
        let left = left.map_or_else(String::new, |left| format!(", which is due in {} ms", left.as_millis()));
        let timeout = self.timeout.as_millis();
        self.failed(
            ErrorCode::Timeout,
            format!(
                "the deadline of {timeout} ms comes before the timer that the program waits for{left}: \
                 allow more time, or wait less"
            ),
        )
    }

    /// The sandbox did not do what it was asked for.
    fn refused(&mut self, error: &Error) -> CodeModeResult {
        let code = match error {
            Error::Load(_) | Error::Setup(_) | Error::Busy { .. } => ErrorCode::RuntimeUnavailable,
            Error::MemoryLimit { .. } => ErrorCode::InvalidConfig,
            Error::SourceTooLong { .. } => ErrorCode::InvalidInput,
            _ => ErrorCode::InternalError,
        };
        self.failed(code, error.to_string())
    }
}

fn answer(request: &Request) -> Answer {
    match request.method.as_str() {
        "yield" => {
            let reason = request.args.to::<Vec<String>>().unwrap_or_default().pop();
            let mut value = serde_json::json!({ "status": "yielded" });
            if let Some(reason) = reason {
                value["reason"] = reason.into();
            }
            Answer { id: request.id, outcome: Json::of(&value).map_err(|error| Fault::new("Error", error.to_string())) }
        }
        other => Answer::fault(request.id, Fault::new("Error", format!("there is no host function {other:?} here"))),
    }
}

/// `\n  3 | let x = ;\n    |         ^`, for an error that has a place.
fn excerpt(failure: &Failure, source: &str) -> String {
    let Some(site) = failure.site else { return String::new() };
    let place = format!(" (line {}, column {})", site.line, site.column);
    let Some(line) = source.lines().nth(site.line.saturating_sub(1) as usize).filter(|line| line.len() <= 200) else {
        return place;
    };
    let number = site.line.to_string();
    let indent = " ".repeat(number.len());
    // Columns count UTF-16 units; the caret must stand under a character.
    let mut units = 0;
    let before: String = line
        .chars()
        .take_while(|c| {
            units += c.len_utf16() as u32;
            units < site.column
        })
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    format!("{place}\n  {number} | {line}\n  {indent} | {before}^")
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_micros() as f64) / 1000.0
}
