//! Results on their way through the SDK, as text.
//!
//! rmcp reads a result as the first of its types that fits, and what that type does not know is lost; and a tree of values takes ten
//! times the memory of its text. So a result goes through it as one string, which fits none of its types, and is opened behind it.

use pincer_json::{Json, JsonError};
use rmcp::model::{CustomResult, ServerResult};
use serde_json::Value;

use crate::connection::Failure;

/// Before a result that is still to be opened. All are sealed, so no server's text can be taken for one.
const SEAL: &str = "sealed:";

/// Returns the result with this JSON text, sealed.
pub(crate) fn seal(result: &str) -> ServerResult {
    ServerResult::CustomResult(CustomResult::new(Value::String([SEAL, result].concat())))
}

/// Returns the text of a result that came over a [`Wire`](crate::Wire), checked. A result that was not sealed is one that rmcp has
/// read.
pub fn opened(result: ServerResult) -> Result<Json, JsonError> {
    match result {
        ServerResult::CustomResult(CustomResult(Value::String(mut text), ..)) if text.starts_with(SEAL) => {
            text.drain(..SEAL.len());
            Json::parse(text)
        }
        other => Json::of(&other),
    }
}

/// The same, with what is wrong otherwise as the failure of its request.
pub(crate) fn open(result: ServerResult) -> Result<Json, Failure> {
    opened(result).map_err(|error| Failure::Garbled(wrong(&error)))
}

/// Says what is wrong with a message, behind the name of its server.
pub(crate) fn wrong(error: &JsonError) -> String {
    match error {
        JsonError::Syntax(error) => format!("sent a message that is not JSON ({error})"),
        JsonError::TooManyNodes => format!("sent a message {error}: ask it for less"),
        JsonError::TooDeep | JsonError::ReservedKey => format!("sent a message that cannot be used: it is {error}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use pincer_json::MAX_NODES;

    use super::*;

    #[test]
    fn a_result_comes_out_as_it_went_in() {
        for text in [r#"{ "content": [1.0] }"#, "null", r#""sealed:{}""#] {
            assert_eq!(open(seal(text)).unwrap().as_str(), text);
        }
    }

    #[test]
    fn results_that_nobody_could_read_are_refused_by_what_is_wrong_with_them() {
        let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
        let zeros = format!("[{}0]", "0,".repeat(MAX_NODES));
        for (text, told) in [
            (deep.as_str(), "sent a message that cannot be used: it is nested deeper than 100 levels"),
            (zeros.as_str(), "sent a message made of more than 1000000 values and keys: ask it for less"),
            (r#"{"n":1E400}"#, "sent a message that is not JSON (number out of range at line 1 column 5)"),
        ] {
            assert_eq!(open(seal(text)).unwrap_err(), Failure::Garbled(told.into()));
        }
    }
}
