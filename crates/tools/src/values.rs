//! The input of a call and the value of a tool, on their way through the door.

use std::io;
use std::sync::Arc;

use pincer_json::{Json, JsonError, Payload};
use pincer_process::give_memory_back;
use serde_json::Value;

use crate::registry::Registered;

/// The most bytes of a tool's value as JSON: it is journalled, shown and handed to programs.
const MOST_VALUE_BYTES: usize = 8 << 20;

/// An input with a longer text is not kept as a tree while its call waits for a person, its turn or the journal.
const LARGE_INPUT_BYTES: usize = 64 << 10;

/// Memory is given back to the system before and after a tree is made of an input with a longer text.
const HUGE_INPUT_BYTES: usize = 1 << 20;

/// An input on its way to its tool.
pub(crate) struct Given {
    /// As the caller passed it, unless that was a tree or a hook has rewritten it.
    pub text: Option<Json>,
    pub value: Value,
}

/// Makes room for the tree of an input, or gives its room back, if it is large.
pub(crate) fn give_back(text: Option<&Json>) {
    if text.is_some_and(|text| text.as_str().len() > HUGE_INPUT_BYTES) {
        give_memory_back();
    }
}

impl Given {
    /// Returns the text, and what is kept of the input until its tool runs.
    pub(crate) fn held(self) -> (Option<Json>, Payload) {
        let Self { text, value } = self;
        let held = match &text {
            Some(text) if text.as_str().len() > LARGE_INPUT_BYTES => text.clone().into(),
            _ => value.into(),
        };
        (text, held)
    }
}

/// Returns an input as the journal has it.
pub(crate) fn noted(input: &Payload) -> Arc<String> {
    match input {
        Payload::Text(text) => text.shared(),
        Payload::Value(value) => value.to_string().into(),
    }
}

/// The reason why the value of a tool is not passed on, as the end of a sentence: the tool returned…
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("more than the {MOST_VALUE_BYTES} bytes that a value may have: ask it for less")]
    TooLarge,
    #[error("what it does not declare: {complaint}")]
    Undeclared { complaint: String },
    #[error("a value {}: ask it for less", JsonError::TooManyNodes)]
    TooManyNodes,
    #[error("a value that cannot be passed on: {0}")]
    Json(#[source] JsonError),
}

impl From<JsonError> for ValueError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::TooManyNodes => Self::TooManyNodes,
            error => Self::Json(error),
        }
    }
}

/// Returns the value of a tool as text.
pub(crate) fn checked(registered: &Registered, value: Payload) -> Result<Json, ValueError> {
    let is_too_large = match &value {
        Payload::Text(text) => text.as_str().len() > MOST_VALUE_BYTES,
        Payload::Value(value) => is_larger(value, MOST_VALUE_BYTES),
    };
    if is_too_large {
        return Err(ValueError::TooLarge);
    }
    if let Some(output) = &registered.output {
        let value = value.as_value()?;
        if let Some(complaint) = output.complaint(&value) {
            return Err(ValueError::Undeclared { complaint });
        }
    }
    Ok(value.into_text()?)
}

/// Returns whether a value has more than so many bytes as JSON. Stops counting there.
fn is_larger(value: &Value, bytes: usize) -> bool {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(part.len()).ok_or(io::ErrorKind::WriteZero)?;
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Counter(bytes), value).is_err()
}
