//! Answers, kept as they were sent.
//!
//! rmcp reads a result as the first of its types that fits, and what that type does not know is lost. Events it reads itself, and
//! drops those it cannot read. So a result goes through it as a text, which fits none of its types, and is opened behind it.

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, CustomResult, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Before a result that is still to be opened. All are sealed, so no server's text can be taken for one.
const SEAL: &str = "sealed:";

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
pub(super) fn sealed(text: &str) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    match serde_json::from_str(text) {
        Ok(Answer { id, result: Some(result), method: None, .. }) => {
            let result = CustomResult::new(Value::String(format!("{SEAL}{}", result.get())));
            Ok(JsonRpcMessage::response(ServerResult::CustomResult(result), id))
        }
        Ok(Answer { id, error: Some(error), method: None, .. }) => {
            // Servers put all sorts of things there.
            let data = serde_json::from_value(error.clone());
            let data = data.unwrap_or_else(|_| ErrorData::internal_error(error.to_string(), None));
            Ok(JsonRpcMessage::error(data, Some(id)))
        }
        _ => serde_json::from_str(text),
    }
}

/// The text of an event, its result sealed if it has one.
pub(super) fn sealed_text(text: String) -> Result<String, serde_json::Error> {
    match sealed(&text)? {
        message @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) => serde_json::to_string(&message),
        _ => Ok(text),
    }
}

/// A message, as it was sent.
pub(super) fn message(text: &str) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    sealed(text).map(opened)
}

fn opened(mut message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    if let JsonRpcMessage::Response(response) = &mut message
        && let ServerResult::CustomResult(CustomResult(Value::String(text), ..)) = &response.result
        && let Some(value) = text.strip_prefix(SEAL).and_then(|text| serde_json::from_str(text).ok())
    {
        response.result = ServerResult::CustomResult(CustomResult::new(value));
    }
    message
}

/// A transport behind which results are opened.
pub(super) struct Opening<T>(pub T);

impl<T: Transport<RoleClient>> Transport<RoleClient> for Opening<T> {
    type Error = T::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.0.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.0.receive().await.map(opened)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

    use super::*;

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
            let sent: Value = serde_json::from_str(&text).unwrap();
            // Through rmcp's own reading.
            let read = serde_json::from_str(&sealed_text(text.clone()).unwrap()).unwrap();
            assert_eq!(serde_json::to_value(opened(read)).unwrap(), sent);
            assert_eq!(serde_json::to_value(message(&text).unwrap()).unwrap(), sent);
        }
    }

    #[test]
    fn errors_requests_and_notifications_are_what_they_were() {
        let odd = message(r#"{"jsonrpc":"2.0","id":2,"error":{"code":"high","message":5}}"#).unwrap();
        assert!(matches!(odd, JsonRpcMessage::Error(error) if error.error.message.contains("high")));
        let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#.to_owned();
        assert!(matches!(message(&ping).unwrap(), JsonRpcMessage::Request(_)));
        assert_eq!(sealed_text(ping.clone()).unwrap(), ping);
        assert!(message("{").is_err() && message("{}").is_err());
    }
}
