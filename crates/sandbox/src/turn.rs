//! What goes in and out of a cell: answers in; output, requests and an end out.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{Json, Readings};

/// One run of a cell, from where it stood until only the host can move it on.
#[derive(Debug)]
pub struct Turn {
    /// What the guest printed in this turn, in order.
    pub output: Vec<Output>,
    /// What it newly asks for, in order. Also set when the turn ended the cell: then nobody waits for the answers.
    pub requests: Vec<Request>,
    /// Earlier requests it no longer wants answered (cleared timers).
    pub cancelled: Vec<RequestId>,
    /// How the turn ended.
    pub end: TurnEnd,
    /// The remains of a program that returned, if any.
    pub notes: Vec<Note>,
    /// Its readings besides its answers, if they are kept: see [`Cell::record_readings`](crate::Cell::record_readings).
    pub readings: Option<Readings>,
}

/// Something that was left out when a program ended, although it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It returned while so many timers were set. Nothing waits for those.
    TimersDropped(usize),
    /// The value of its last expression is not there.
    ValueLeftOut(LeftOut),
}

/// Why the value of the last expression is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It is larger, deeper or made of more parts than a value may be.
    TooLarge,
    /// A getter or a `toJSON` of it threw.
    Unreadable,
    /// It is a promise that nothing will settle.
    Unsettled,
}

/// How a turn ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// Requests are unanswered. The cell can be parked now, or run again once answers are delivered.
    Waiting,
    /// The program returned; `None` is JavaScript's `undefined`.
    Value(Option<Json>),
    /// The program failed, by its own doing.
    Failed(Failure),
    /// The program was stopped for using more than it may.
    Limit(Limit),
    /// [`Interrupter::interrupt`](crate::Interrupter::interrupt) was called.
    Interrupted,
    /// The engine itself broke. The process and other cells are unharmed; the text is for the log.
    Crashed(String),
}

impl TurnEnd {
    /// Whether the cell is over.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Waiting)
    }
}

/// An item of the guest's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Output {
    /// From `text` or `console`.
    Text {
        /// What was printed.
        text: String,
    },
    /// From `json`.
    Json {
        /// What was passed.
        value: Json,
    },
}

/// By hand: what is derived for a tagged enum would read the value into a tree, and change the order of its keys.
impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            r#type: String,
            text: Option<String>,
            value: Option<Json>,
        }
        let wire = Wire::deserialize(deserializer)?;
        match (wire.r#type.as_str(), wire.text, wire.value) {
            ("text", Some(text), None) => Ok(Self::Text { text }),
            ("json", None, Some(value)) => Ok(Self::Json { value }),
            _ => Err(serde::de::Error::custom("an item of output is text or JSON")),
        }
    }
}

/// Names a request within its cell. The host assigns it; it is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u32);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The method of a request in the place of one whose arguments are too large, too deep or too many. Its argument says why.
pub const REFUSED: &str = "refused";

/// Something the guest awaits. Method and arguments are the words of a hostile program.
#[derive(Clone, Debug)]
pub struct Request {
    /// To answer it with.
    pub id: RequestId,
    /// What is asked for. `sleep` (`[milliseconds]`) and `yield` (`[]` or `[reason]`) come from the built-in globals.
    pub method: String,
    /// A JSON array.
    pub args: Json,
    /// A bit for each of the first arguments that is `null` there and was `undefined`.
    pub absent: u32,
    /// Where in the program.
    pub site: Option<Site>,
    /// When it was made: a timer runs from here, not from the end of the turn.
    pub at: Instant,
}

impl Request {
    /// Returns whether the argument at this place was `undefined`.
    pub fn is_absent(&self, place: usize) -> bool {
        u32::try_from(place).is_ok_and(|place| self.absent.checked_shr(place).unwrap_or(0) & 1 == 1)
    }
}

/// A place in the program's source, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The line.
    pub line: u32,
    /// The column, in UTF-16 units as JavaScript counts them. In a call of several arguments the engine may name a place within
    /// them.
    pub column: u32,
}

/// The host's answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which request.
    pub id: RequestId,
    /// What its promise settles with.
    pub outcome: Result<Json, Fault>,
}

impl Answer {
    /// Resolves the request's promise.
    pub fn value(id: RequestId, value: Json) -> Self {
        Self { id, outcome: Ok(value) }
    }

    /// Rejects the request's promise.
    pub fn fault(id: RequestId, fault: Fault) -> Self {
        Self { id, outcome: Err(fault) }
    }
}

/// An error to throw in the guest, as plain data: it becomes an `Error` with these properties.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// `error.name`.
    pub name: String,
    /// `error.message`.
    pub message: String,
    /// Further properties, such as `code`.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl Fault {
    /// A fault without further properties.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), fields: serde_json::Map::new() }
    }

    /// Adds a property.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.fields.insert(key.into(), value.into());
        self
    }
}

/// An error the program did not catch. All of it is the guest's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In which way it failed.
    pub kind: FailureKind,
    /// `error.name`.
    pub name: String,
    /// `error.message`, or the thrown value as text.
    pub message: String,
    /// The frames of the program, without those of the prelude.
    pub stack: String,
    /// Where in the program, if the stack says so.
    pub site: Option<Site>,
    /// The request whose fault was not caught, if it was one, and the fault as the guest last saw it.
    pub request: Option<(RequestId, Json)>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

/// In which way a program failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// It does not parse.
    Syntax,
    /// It threw.
    Thrown,
    /// A promise was rejected and nobody handled it.
    Rejection,
    /// It waits for a promise that nothing will settle.
    Stalled,
}

/// Which limit stopped the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// It computed past the deadline of the turn.
    #[error("the program computed past its deadline")]
    Time,
    /// It needed more memory than `memory_bytes`.
    #[error("the program needed more than {limit} bytes of memory")]
    Memory {
        /// The cap.
        limit: usize,
    },
    /// It waited until its deadline for memory that other cells have.
    #[error("other programs had all of the memory budget of {budget} bytes until the deadline")]
    MemoryBudget {
        /// The [`MemoryBudget`](crate::MemoryBudget).
        budget: usize,
    },
    /// It recursed too deeply for the engine to report as a guest error.
    #[error("the program recursed too deeply")]
    Stack,
    /// Output and value together are larger than `output_bytes`.
    #[error("the program's output of at least {bytes} bytes passes the limit of {limit}")]
    Output {
        /// The size so far.
        bytes: usize,
        /// The cap.
        limit: usize,
    },
    /// It printed more often than [`MAX_OUTPUT_ITEMS`](crate::MAX_OUTPUT_ITEMS).
    #[error("the program printed more than {limit} times")]
    OutputItems {
        /// The cap.
        limit: usize,
    },
    /// A value is larger than `value_bytes`.
    #[error("a value of at least {bytes} bytes passes the limit of {limit}")]
    Value {
        /// The size so far.
        bytes: usize,
        /// The cap.
        limit: usize,
    },
    /// The arguments of one turn's requests are together larger than [`Limits::arguments_bytes`](crate::Limits::arguments_bytes).
    /// Only refuses a request.
    #[error("the calls since the last await have arguments of at least {bytes} bytes, more than {limit}")]
    Arguments {
        /// The size so far.
        bytes: usize,
        /// The cap.
        limit: usize,
    },
    /// More requests are unanswered than `pending_requests`.
    #[error("more than {limit} requests are pending")]
    Requests {
        /// The cap.
        limit: usize,
    },
    /// A value is made of too many values and keys to be read by others.
    #[error("a value is made of more than {limit} values and keys")]
    Nodes {
        /// The cap.
        limit: usize,
    },
    /// A value is nested too deeply to be read by others.
    #[error("a value is nested deeper than {limit} levels")]
    Depth {
        /// The cap.
        limit: usize,
    },
}
