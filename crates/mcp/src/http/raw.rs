//! Answers, kept as they were sent.
//!
//! Events rmcp reads itself, and drops those it cannot read. So results go through it [sealed](crate::sealed).

use pincer_json::{JsonError, has_too_many_nodes};
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::sealed::seal;

#[derive(Deserialize)]
struct Answer<'a> {
    id: RequestId,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Value>,
    /// A request has one.
    #[serde(default)]
    method: Option<IgnoredAny>,
}

/// A result that is `null` is one.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A message, its result sealed if it has one.
pub(super) fn sealed(text: &str) -> Result<ServerJsonRpcMessage, JsonError> {
    // Before it is parsed: a tree of any such message would take more memory than it may.
    if has_too_many_nodes(text.as_bytes()) {
        return Err(JsonError::TooManyNodes);
    }
    match serde_json::from_str(text) {
        Ok(Answer { id, result: Some(result), method: None, .. }) => {
            Ok(JsonRpcMessage::response(seal(result.get()), id))
        }
        Ok(Answer { id, error: Some(error), method: None, .. }) => {
            // Servers put all sorts of things there.
            let data = serde_json::from_value(error.clone());
            let data = data.unwrap_or_else(|_| ErrorData::internal_error(error.to_string(), None));
            Ok(JsonRpcMessage::error(data, Some(id)))
        }
        _ => serde_json::from_str(text).map_err(JsonError::Syntax),
    }
}

/// The text of an event, its result sealed if it has one.
pub(super) fn sealed_text(text: String) -> Result<String, JsonError> {
    match sealed(&text)? {
        message @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) => {
            drop(text);
            serde_json::to_string(&message).map_err(JsonError::Syntax)
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::sealed::open;

    #[test]
    fn results_come_through_as_they_were_sent() {
        for result in [
            r#"{"content":[{"type":"hologram","x":1}],"extra":null}"#,
            r#"{"tools":[],"more":[1.0,2]}"#,
            "null",
            "[]",
            r#""sealed:{}""#,
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
            // Through rmcp's own reading.
            let read = serde_json::from_str(&sealed_text(text.clone()).unwrap()).unwrap();
            for message in [read, sealed(&text).unwrap()] {
                let JsonRpcMessage::Response(response) = message else { panic!("{text} is an answer") };
                assert_eq!(open(response.result).unwrap().as_str(), result);
            }
        }
    }

    #[test]
    fn errors_requests_and_notifications_are_what_they_were() {
        let odd = sealed(r#"{"jsonrpc":"2.0","id":2,"error":{"code":"high","message":5}}"#).unwrap();
        assert!(matches!(odd, JsonRpcMessage::Error(error) if error.error.message.contains("high")));
        let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#.to_owned();
        assert!(matches!(sealed(&ping).unwrap(), JsonRpcMessage::Request(_)));
        assert_eq!(sealed_text(ping.clone()).unwrap(), ping);
        assert!(sealed("{").is_err() && sealed("{}").is_err());
    }

    #[test]
    fn hostile_shapes_are_refused_by_their_count_whatever_the_message_is() {
        for hostile in ["\"result\":[", "\"error\":[", "\"method\":\"x\",\"params\":["] {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{hostile}{}0]}}", "0,".repeat(1_000_000));
            assert!(matches!(sealed(&text), Err(JsonError::TooManyNodes)), "{hostile}");
            assert!(matches!(sealed_text(text), Err(JsonError::TooManyNodes)), "{hostile}");
        }
    }
}
