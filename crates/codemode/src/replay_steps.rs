//! The steps of a replayed program, for people and programs that look at them.

use std::collections::BTreeMap;
use std::fmt;

use pincer_sandbox::{Fault, Json, Output, Request, TurnEnd};
use pincer_tools::one_line;
use serde::Serialize;

use crate::recording::RecordedPark;
use crate::result::PendingState;

/// The steps that are kept of a replay. A program with more has done nothing else for minutes.
const MOST_STEPS: usize = 100_000;
/// The bytes of output that are kept.
const MOST_OUTPUT: usize = 64 << 20;

/// Something that a program did, or that happened to it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// When, in milliseconds since the program began.
    pub at_ms: u64,
    /// The line of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Its kind.
    #[serde(flatten)]
    pub what: What,
}

/// The kind of a step.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "step", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// The program asked for something.
    Asked {
        /// The request.
        #[serde(flatten)]
        asked: Asked,
        /// The answer, if there was one.
        #[serde(skip_serializing_if = "Option::is_none")]
        settled: Option<Settled>,
    },
    /// It printed something.
    Printed {
        /// The output.
        output: Vec<Output>,
    },
    /// It was suspended.
    Suspended {
        /// The calls that it waited for.
        waits_for: Vec<String>,
        /// For how long, if it went on.
        #[serde(skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
    },
    /// It ended, or the recording did.
    Ended {
        /// How.
        how: String,
    },
}

/// Something that a program asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// The request's kind, as the bridge calls it: `call`, `search`, `sleep`.
    pub method: String,
    /// The tool, if it is a call of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The input of a call, or the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    #[serde(skip)]
    pub(crate) line: Option<u32>,
    /// The input is the journal's, which may differ from what the program passed.
    #[serde(skip)]
    pub(crate) from_journal: bool,
}

/// An answer to a program.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// When, in milliseconds since the program began.
    pub at_ms: u64,
    /// Its place among all that the program was told, from 1.
    pub place: usize,
    /// Requests that were open besides.
    #[serde(skip)]
    pub beside: usize,
    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

/// The place where a program took another way than the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The number that the step would have.
    pub step: usize,
    /// The line of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The recorded value, shortened.
    pub expected: String,
    /// The value that the program gave now, shortened.
    pub found: String,
}

/// Steps as they come.
#[derive(Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    /// The steps whose requests are open.
    open: BTreeMap<u32, usize>,
    settled: usize,
    output_bytes: usize,
}

impl Steps {
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.steps.len() >= MOST_STEPS || self.output_bytes >= MOST_OUTPUT
    }

    pub(crate) fn last_at(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.at_ms)
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.steps.last(), Some(Step { what: What::Ended { .. }, .. }))
    }

    pub(crate) fn push(&mut self, at_ms: u64, line: Option<u32>, what: What) {
        self.steps.push(Step { number: self.steps.len() + 1, at_ms, line, what });
    }

    pub(crate) fn asked(&mut self, at_ms: u64, line: Option<u32>, request: u32, asked: Asked) {
        self.open.insert(request, self.steps.len());
        self.push(at_ms, line, What::Asked { asked, settled: None });
    }

    pub(crate) fn settled(&mut self, request: u32, at_ms: u64, outcome: &Result<Json, Fault>) {
        let Some(step) = self.open.remove(&request) else { return };
        self.settled += 1;
        let (value, error) = match outcome {
            Ok(value) => (Some(value.clone()), None),
            Err(fault) => (None, Some(fault.clone())),
        };
        if let Some(Step { what: What::Asked { settled, .. }, .. }) = self.steps.get_mut(step) {
            *settled = Some(Settled { at_ms, place: self.settled, beside: self.open.len(), value, error });
        }
    }

    pub(crate) fn printed(&mut self, at_ms: u64, output: &[Output]) {
        if output.is_empty() {
            return;
        }
        let bytes = |item: &Output| match item {
            Output::Text { text } => text.len(),
            Output::Json { value } => value.as_str().len(),
        };
        self.output_bytes += output.iter().map(bytes).sum::<usize>();
        self.push(at_ms, None, What::Printed { output: output.to_vec() });
    }

    pub(crate) fn resumed(&mut self, at: u64) {
        if let Some(Step { at_ms, what: What::Suspended { ms, .. }, .. }) = self.steps.last_mut() {
            *ms = Some(at.saturating_sub(*at_ms));
        }
    }
}

impl From<Steps> for Vec<Step> {
    fn from(steps: Steps) -> Self {
        steps.steps
    }
}

impl What {
    pub(crate) fn suspended(park: &RecordedPark) -> Self {
        let wait = |wait: &crate::recording::RecordedWait| {
            let tool = wait.tool.as_deref().map(|tool| one_line(tool, 100));
            match (wait.method.as_str(), wait.state, tool) {
                (_, PendingState::Approval, Some(tool)) => format!("an approval of {tool}"),
                (_, PendingState::Client, Some(tool)) => format!("the caller, who makes the call of {tool}"),
                ("sleep", ..) => "a timer".into(),
                ("yield", ..) => "its caller, by its own wish".into(),
                (_, PendingState::Queued, Some(tool)) => format!("{tool}, which has not begun"),
                (_, _, Some(tool)) => tool,
                (method, _, None) => one_line(method, 40),
            }
        };
        Self::Suspended { waits_for: park.waits.iter().map(wait).collect(), ms: None }
    }
}

/// Returns a request as a step shows it. `tool` is the one that it became a call of.
pub(crate) fn asked(request: &Request, tool: Option<String>, line: Option<u32>) -> Asked {
    let items = request.args.items().unwrap_or_default();
    let method = request.method.clone();
    let first = || items.first().and_then(|first| first.to::<String>().ok());
    // The first argument of a call says which: the rest is its input.
    let (tool, input) = match method.as_str() {
        "call" | crate::guest::CALL => (tool.or_else(first), items.get(1).cloned()),
        crate::mcp::CALL => (tool.or_else(first), items.get(1).cloned()),
        "namespace" => (tool, items.get(1).cloned()),
        _ => (tool, Some(request.args.clone())),
    };
    Asked { method, tool, input, line, from_journal: false }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.tool.as_deref().unwrap_or(&self.method);
        write!(f, "{}", one_line(name, 100))?;
        match &self.input {
            Some(input) => write!(f, " {}", one_line(input.as_str(), 300))?,
            None if self.from_journal => write!(f, " (its input is not kept)")?,
            None => {}
        }
        match self.line {
            Some(line) => write!(f, " in line {line}"),
            None => Ok(()),
        }
    }
}

/// Returns the end of a turn in words.
pub(crate) fn shown_end(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Waiting => "that it waits".into(),
        TurnEnd::Value(Some(value)) => format!("the value {}", one_line(value.as_str(), 400)),
        TurnEnd::Value(None) => "the value undefined".into(),
        TurnEnd::Failed(failure) => format!("the failure {}", one_line(&failure.to_string(), 400)),
        TurnEnd::Limit(limit) => one_line(&limit.to_string(), 200),
        TurnEnd::Interrupted => "that it looks at the clock without end".into(),
        TurnEnd::Crashed(what) => format!("that the engine broke down: {}", one_line(what, 200)),
    }
}

/// Returns something that was loaded in words.
pub(crate) fn shown_load(is_file: bool, name: &str) -> String {
    let name = one_line(name, 100);
    if is_file { format!("the file {name}") } else { format!("the global {name}") }
}

/// Returns the last thing that was printed in words.
pub(crate) fn shown_output(output: &[Output]) -> String {
    match output.last() {
        Some(Output::Text { text }) => format!("the text {}", one_line(text, 200)),
        Some(Output::Json { value }) => format!("the value {}", one_line(value.as_str(), 200)),
        None => "no output".into(),
    }
}
