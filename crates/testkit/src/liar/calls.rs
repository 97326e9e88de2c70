//! Answers to calls.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Act, Liar, Mode, QUESTION, error, floods, result, text};

/// The tools of `bad-result`, which are named after what is wrong with what they return.
pub(super) const BAD_RESULTS: [&str; 10] = [
    "content-missing",
    "content-null",
    "content-string",
    "content-unknown-type",
    "content-no-text",
    "structured-array",
    "structured-string",
    "result-null",
    "result-number",
    "good",
];

impl Liar {
    pub(super) fn call(&mut self, id: &Value, params: &Value) -> Vec<Act> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = params.get("arguments").cloned().unwrap_or_default();
        let echo = || text(id, &json!({ "name": name, "arguments": arguments }).to_string());
        let bytes = |default: usize| {
            arguments.get("bytes").and_then(Value::as_u64).and_then(|bytes| bytes.try_into().ok()).unwrap_or(default)
        };
        match (self.mode, name) {
            (Mode::Silent, _) => Vec::new(),
            (Mode::Crash, _) => vec![Act::Bytes(br#"{"jsonrpc":"2.0","id":"#.to_vec()), Act::Die],
            (Mode::InvalidJson, "broken") => {
                vec![Act::Bytes(br#"{"jsonrpc":"2.0","result":{"content":[}"#.to_vec()), newline()]
            }
            (Mode::Deaf, _) => vec![Act::Wait(Duration::MAX)],
            (Mode::Flood, name) => floods::acts(name, &params["_meta"]["progressToken"], &arguments, &echo()),
            (Mode::Drip, _) => vec![Act::Drip(text(id, "slowly"))],
            (Mode::Huge, "huge") => vec![Act::Say(text(id, &"x".repeat(bytes(50_000_000))))],
            (Mode::Binary, _) => vec![Act::Say(result(id, blobs(bytes(1024))))],
            (Mode::BadResult, _) => vec![Act::Say(bad_result(id, name))],
            (Mode::WrongIds, _) => wrong_ids(&echo()),
            (Mode::Elicit | Mode::Sample, _) => {
                self.asking = Some(id.clone());
                vec![Act::Say(self.question())]
            }
            (Mode::Changing, "swap") => {
                self.swapped = !self.swapped;
                let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                vec![Act::Say(changed), Act::Say(text(id, "swapped"))]
            }
            (Mode::Changing, name) if name != self.other() => {
                vec![Act::Say(error(id, -32602, "there is no such tool"))]
            }
            _ => vec![Act::Say(echo())],
        }
    }

    /// The client's answer to the open question becomes the call's result, whatever it is.
    pub(super) fn on_answer(&mut self, id: &Value, message: &Value) -> Vec<Act> {
        if id != QUESTION {
            return Vec::new();
        }
        let Some(call) = self.asking.take() else { return Vec::new() };
        let answer = message.get("result").or_else(|| message.get("error")).cloned().unwrap_or_default();
        vec![Act::Say(text(&call, &answer.to_string()))]
    }

    fn question(&self) -> Value {
        let (method, params) = if self.mode == Mode::Elicit {
            let schema =
                json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
            ("elicitation/create", json!({ "message": "Who are you?", "requestedSchema": schema }))
        } else {
            let message = json!({ "role": "user", "content": { "type": "text", "text": "Say something" } });
            ("sampling/createMessage", json!({ "messages": [message], "maxTokens": 10 }))
        };
        json!({ "jsonrpc": "2.0", "id": QUESTION, "method": method, "params": params })
    }
}

fn newline() -> Act {
    Act::Bytes(b"\n".to_vec())
}

/// Zeros of the given size in all three blocks. What is said to be a picture does not have to be one.
fn blobs(bytes: usize) -> Value {
    let data = "AAAA".repeat(bytes.div_ceil(3));
    json!({ "content": [
        { "type": "image", "data": data, "mimeType": "image/png" },
        { "type": "audio", "data": data, "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "liar://blob", "mimeType": "application/octet-stream", "blob": data } },
    ] })
}

fn wrong_ids(answer: &Value) -> Vec<Act> {
    let nobody = |id: Value| Act::Say(text(&id, "you did not ask"));
    vec![
        nobody(json!(999_999)),
        nobody(json!("nobody")),
        Act::Say(json!({ "jsonrpc": "2.0", "method": "notifications/liar/unknown", "params": { "x": 1 } })),
        Act::Say(json!({ "jsonrpc": "2.0", "id": "liar-unknown", "method": "liar/unknown" })),
        Act::Say(answer.clone()),
        Act::Say(answer.clone()),
        nobody(json!(999_999)),
    ]
}

fn bad_result(id: &Value, name: &str) -> Value {
    result(
        id,
        match name {
            "content-missing" => json!({ "isError": false }),
            "content-null" => json!({ "content": null }),
            "content-string" => json!({ "content": "text" }),
            "content-unknown-type" => json!({ "content": [{ "type": "smell", "data": "roses" }] }),
            "content-no-text" => json!({ "content": [{ "type": "text" }] }),
            "structured-array" => json!({ "content": [], "structuredContent": [1, 2, 3] }),
            "structured-string" => json!({ "content": [], "structuredContent": "text" }),
            "result-null" => Value::Null,
            "result-number" => json!(42),
            _ => json!({ "content": [{ "type": "text", "text": "good" }] }),
        },
    )
}
