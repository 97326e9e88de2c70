//! How a command that only looks things up or changes something small ends.

use pincer_store::StoreError;
use serde_json::Value;

use crate::print::{chain, line, note};
use crate::{DONE, FAILED};

/// Why a command came to nothing, and the exit code for it.
pub(crate) struct Refused(pub u8, pub String);

impl Refused {
    /// Prints the error, and returns the exit code.
    pub(crate) fn tell(self) -> u8 {
        note(&format!("error: {}", self.1));
        self.0
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self(FAILED, chain(&error))
    }
}

/// Prints what it came to, for programs or for people.
pub(crate) fn report(done: Result<(Value, String), Refused>, json: bool) -> u8 {
    match done {
        Ok((document, _)) if json => line(&document.to_string()),
        Ok((_, text)) => line(&text),
        Err(refused) => return refused.tell(),
    }
    DONE
}
