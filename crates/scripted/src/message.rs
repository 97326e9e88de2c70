//! Messages of a model, independent of any format.

use std::num::NonZeroUsize;

use serde::Deserialize;
use serde_json::Value;

/// A reply of the model: parts, a reason to stop, and what it cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    pub(crate) parts: Vec<Part>,
    pub(crate) pieces: Option<NonZeroUsize>,
    pub(crate) usage: Usage,
    pub(crate) stop: Option<Stop>,
    pub(crate) stream_error: Option<StreamError>,
}

/// A part of a [`Message`], in the order in which the model says them.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Reasoning.
    Thinking(Thinking),
    /// Text for the user.
    Text(String),
    /// A refusal. Anthropic's format has no such part and sends it as text.
    Refusal(String),
    /// A call of a tool.
    Call(Call),
}

/// Reasoning, as far as a provider shows it.
///
/// Chat Completions carries the text alone, as `reasoning_content`; Responses the text as a summary, with `encrypted`; Messages
/// the text with `signature`, or `encrypted` as a redacted block if there is no text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thinking {
    /// The text.
    pub text: Option<String>,
    /// Anthropic's signature of the text.
    pub signature: Option<String>,
    /// OpenAI's encrypted content, or Anthropic's redacted data.
    pub encrypted: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Call {
    /// The id; without one, the server numbers the calls.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments. A string is sent as it is, so that it need not be JSON; absent arguments are `{}`.
    #[serde(default)]
    pub arguments: Value,
}

impl Call {
    /// The arguments as a model writes them.
    pub(crate) fn text(&self) -> String {
        match &self.arguments {
            Value::Null => "{}".into(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        }
    }

    /// The arguments as a tree; text that is no JSON stays a string.
    pub(crate) fn tree(&self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }
}

/// Tokens that a reply cost.
///
/// The numbers of `input`, `cache_read` and `cache_write` do not overlap, as Anthropic counts; OpenAI's formats send their sum as
/// the input. `thinking` is a part of `output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Usage {
    /// Input that touched no cache.
    pub input: u64,
    /// Input that was read from a cache.
    pub cache_read: u64,
    /// Input that was written to a cache.
    pub cache_write: u64,
    /// All output.
    pub output: u64,
    /// Output that was reasoning.
    pub thinking: u64,
}

impl Usage {
    /// All input, as OpenAI counts it.
    pub(crate) fn whole_input(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

/// The reason why a model stopped. A format without a word for a reason sends the nearest it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// It has said everything.
    End,
    /// It waits for the results of calls.
    Calls,
    /// The limit of output tokens.
    Length,
    /// The end of the context window.
    Window,
    /// It refuses.
    Refusal,
    /// The server paused a long turn; the client sends the message back to continue.
    Pause,
    /// A content filter.
    Filter,
}

/// An error as providers describe it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Fault {
    /// The `type`; without one, the provider's usual type for the status.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The `code`, which only OpenAI's formats have.
    pub code: Option<String>,
    /// The message; without one, a sentence about the status.
    pub message: Option<String>,
}

/// An error in the middle of a stream that began with status 200. A request without `stream` gets it as status 500.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamError {
    /// The number of events before it.
    pub after: usize,
    /// The error.
    pub fault: Fault,
    /// Its form in a Responses stream. The other formats have only one.
    pub form: ErrorForm,
}

/// The form of an error in a Responses stream. Clients meet all three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorForm {
    /// An `error` event with code and message, as the published schema has it.
    #[default]
    Flat,
    /// An `error` event with an `error` object in it, as the provider itself sends it.
    Nested,
    /// A `response.failed` event.
    Failed,
}

impl Message {
    /// Makes a message that says nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a part.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Appends reasoning with a signature.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        let (text, signature) = (Some(text.into()), Some(signature.into()));
        self.part(Part::Thinking(Thinking { text, signature, encrypted: None }))
    }

    /// Appends text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.part(Part::Text(text.into()))
    }

    /// Appends a call of a tool, whose id the server chooses.
    #[must_use]
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.part(Part::Call(Call { id: None, name: name.into(), arguments }))
    }

    /// Sends so many characters per delta instead of whole words.
    #[must_use]
    pub fn pieces(mut self, characters: NonZeroUsize) -> Self {
        self.pieces = Some(characters);
        self
    }

    /// Sets the tokens that the reply cost.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets why the model stopped. Without it, the parts decide: calls, a refusal, or the end.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Ends the stream with an error.
    #[must_use]
    pub fn stream_error(mut self, error: StreamError) -> Self {
        self.stream_error = Some(error);
        self
    }

    /// Returns why the model stopped.
    pub(crate) fn stopped(&self) -> Stop {
        let has = |wanted: fn(&Part) -> bool| self.parts.iter().any(wanted);
        match self.stop {
            Some(stop) => stop,
            None if has(|part| matches!(part, Part::Call(_))) => Stop::Calls,
            None if has(|part| matches!(part, Part::Refusal(_))) => Stop::Refusal,
            None => Stop::End,
        }
    }
}
