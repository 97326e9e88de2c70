//! The protocol: JSON-RPC 2.0, one message a line.

use pincer_json::{MAX_NODES, has_too_many_nodes};
use pincer_tools::{Effect, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version that is spoken here.
pub(crate) const PROTOCOL_VERSION: u32 = 1;
/// The longest message that is read.
pub(crate) const MOST_MESSAGE_BYTES: usize = 16 << 20;

/// A channel of the plugin has received a message.
pub(crate) const RECEIVED: &str = "channel/received";
/// A channel of the plugin is up or down.
pub(crate) const CHANNEL_STATE: &str = "channel/state";
/// The longest id of a plugin's own request.
const MOST_ID_BYTES: usize = 128;

/// A message to a plugin.
#[derive(Serialize)]
pub(crate) struct Outgoing<'a> {
    pub jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    pub method: &'a str,
    pub params: Value,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn request(id: u64, method: &'a str, params: Value) -> Self {
        Self { jsonrpc: "2.0", id: Some(id), method, params }
    }

    pub(crate) fn notification(method: &'a str, params: Value) -> Self {
        Self { jsonrpc: "2.0", id: None, method, params }
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        // Cannot fail: it is JSON already.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Returns the answer to a request of a plugin, as a line.
pub(crate) fn answer(id: &Value, result: Result<Value, RpcError>) -> Vec<u8> {
    let answer = match result {
        Ok(value) => json!({ "jsonrpc": "2.0", "id": id, "result": value }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    };
    let mut line = answer.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A message of a plugin.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// The answer to a request.
    Answer { id: u64, result: Result<Value, RpcError> },
    /// A report about a call.
    Update { id: u64, update: Value },
    /// A message that a channel has received, to be acknowledged under this id.
    Received { id: Value, params: Value },
    /// The state of a channel.
    ChannelState { params: Value },
}

/// An error that a plugin answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RpcError {
    #[serde(default)]
    pub code: i64,
    pub message: String,
    #[serde(default)]
    pub data: Value,
}

impl RpcError {
    /// Returns the error as the door takes it. The effect is unknown unless the plugin states it.
    pub(crate) fn into_tool_error(self) -> ToolError {
        let effect = match self.data.get("effect").and_then(Value::as_str) {
            Some("none") => Effect::None,
            Some("done") => Effect::Done,
            _ => Effect::Unknown,
        };
        ToolError { message: self.message, effect, detail: None }
    }
}

#[derive(Deserialize)]
struct Message {
    jsonrpc: String,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    /// `null` is an answer too.
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default)]
    error: Option<RpcError>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The reason why a message of a plugin cannot be used, as a sentence that begins behind its name.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("wrote a message of more than {MOST_MESSAGE_BYTES} bytes")]
    TooLong,
    #[error("wrote a message of more than {MAX_NODES} JSON values and keys")]
    TooManyNodes,
    #[error("wrote something to its standard output that is not JSON-RPC: `{0}`")]
    NotJsonRpc(String),
    #[error("wrote a message that is not JSON-RPC 2.0: `{0}`")]
    OtherVersion(String),
    #[error("wrote a message that is neither an answer nor an update: `{0}`")]
    Neither(String),
    #[error("sent an update without the id of its call")]
    UpdateWithoutId,
    #[error(
        "sent `channel/received` without an id, or with one that is neither a number nor a text of at most {MOST_ID_BYTES} bytes"
    )]
    ReceivedWithoutId,
    #[error("sent `{0}`, which a plugin may not")]
    Forbidden(String),
    #[error("answered with the id {0}, which is none of ours")]
    ForeignId(Value),
    #[error("answered request {0} with both or neither of a result and an error")]
    Ambiguous(u64),
    #[error("answered request {0}, which nobody has made or which had its answer")]
    Unasked(u64),
}

/// Reads one line.
pub(crate) fn read(line: &[u8]) -> Result<Incoming, WireError> {
    if has_too_many_nodes(line) {
        return Err(WireError::TooManyNodes);
    }
    let shown = || String::from_utf8_lossy(line.trim_ascii()).chars().take(120).collect::<String>();
    let message: Message = serde_json::from_slice(line).map_err(|_| WireError::NotJsonRpc(shown()))?;
    if message.jsonrpc != "2.0" {
        return Err(WireError::OtherVersion(shown()));
    }
    match message {
        Message { method: Some(method), id: None, params, .. } if method == "update" => {
            let id = params.get("id").and_then(Value::as_u64);
            let id = id.ok_or(WireError::UpdateWithoutId)?;
            Ok(Incoming::Update { id, update: params.get("update").cloned().unwrap_or_default() })
        }
        Message { method: Some(method), id, params, .. } if method == RECEIVED => match id {
            Some(id) if id.is_u64() || id.as_str().is_some_and(|id| id.len() <= MOST_ID_BYTES) => {
                Ok(Incoming::Received { id, params })
            }
            _ => Err(WireError::ReceivedWithoutId),
        },
        Message { method: Some(method), id: None, params, .. } if method == CHANNEL_STATE => {
            Ok(Incoming::ChannelState { params })
        }
        Message { method: Some(method), .. } => Err(WireError::Forbidden(method)),
        Message { id: Some(id), result, error, .. } => {
            let id = id.as_u64().ok_or(WireError::ForeignId(id))?;
            let result = match (result, error) {
                (Some(value), None) => Ok(value),
                (None, Some(error)) => Err(error),
                _ => return Err(WireError::Ambiguous(id)),
            };
            Ok(Incoming::Answer { id, result })
        }
        _ => Err(WireError::Neither(shown())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_understood_or_told() {
        let said = |text: &str| read(text.as_bytes());
        assert_eq!(
            said(r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
            Ok(Incoming::Answer { id: 1, result: Ok(Value::Null) })
        );
        assert_eq!(
            said(r#"{"jsonrpc":"2.0","method":"update","params":{"id":3,"update":{"done":1}}}"#),
            Ok(Incoming::Update { id: 3, update: json!({ "done": 1 }) })
        );
        assert_eq!(
            said(r#"{"jsonrpc":"2.0","id":"r1","method":"channel/received","params":{"channel":"irc"}}"#),
            Ok(Incoming::Received { id: json!("r1"), params: json!({ "channel": "irc" }) })
        );
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"channel/received"}}"#, "x".repeat(200));
        for (text, told) in [
            (r#"{"jsonrpc":"2.0","method":"channel/received","params":{}}"#, "without an id"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"channel/received"}"#, "without an id"),
            (&long, "without an id"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"channel/state"}"#, "sent `channel/state`, which a plugin may not"),
            ("hello", "not JSON-RPC: `hello`"),
            ("{}", "not JSON-RPC"),
            (r#"{"jsonrpc":"1.0","id":1,"result":1}"#, "not JSON-RPC 2.0"),
            (r#"{"jsonrpc":"2.0","id":"x","result":1}"#, "the id \"x\""),
            (r#"{"jsonrpc":"2.0","id":1}"#, "both or neither"),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"x"}}"#, "both or neither"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/add","params":{}}"#,
                "sent `tools/add`, which a plugin may not",
            ),
            (r#"{"jsonrpc":"2.0","method":"update","params":{}}"#, "without the id"),
            (r#"{"jsonrpc":"2.0"}"#, "neither an answer nor an update"),
            (&format!("[{}1]", "1,".repeat(MAX_NODES)), "more than 1000000 JSON values"),
        ] {
            let error = said(text).expect_err(told).to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
