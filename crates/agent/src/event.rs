//! What is told of a run while it goes on.

use pincer_store::{AgentRunId, Millis, SessionKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    /// The run.
    pub run_id: AgentRunId,
    /// Its number in the run, from 1.
    pub seq: u32,
    /// The number of the first event that it stands for, if it stands for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u32>,
    /// How many processes have worked on the run up to now. In a new one, numbers may come again.
    pub generation: u32,
    /// What kind of event it is.
    pub stream: Stream,
    /// The time, in milliseconds since 1970.
    pub ts: Millis,
    /// The session.
    pub session_key: SessionKey,
    /// The event.
    pub data: Map<String, Value>,
}

/// A kind of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// The run begins, waits, goes on or ends.
    Lifecycle,
    /// Text of the model for the user.
    Assistant,
    /// Thoughts of the model.
    Thinking,
    /// A tool is called, reports something, or has a result.
    Tool,
    /// A person is asked, or has answered.
    Approval,
    /// Output of a command.
    CommandOutput,
    /// A block of a reply, if replies are told in blocks.
    Block,
    /// The older part of the conversation gives way to a summary.
    Compaction,
}

impl AgentEvent {
    /// Returns whether it is the last one of its run.
    pub fn is_terminal(&self) -> bool {
        self.stream == Stream::Lifecycle && matches!(self.phase(), "end" | "error")
    }

    /// Returns the phase that it tells of, or nothing.
    pub fn phase(&self) -> &str {
        self.data.get("phase").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a text in it, or nothing.
    pub fn text(&self, name: &str) -> &str {
        self.data.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// An event that is not numbered yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Happening {
    pub stream: Stream,
    pub data: Map<String, Value>,
}

impl Happening {
    pub(crate) fn new(stream: Stream, data: Value) -> Self {
        let data = match data {
            Value::Object(data) => data,
            _ => Map::new(),
        };
        Self { stream, data }
    }

    pub(crate) fn lifecycle(data: Value) -> Self {
        Self::new(Stream::Lifecycle, data)
    }

    pub(crate) fn tool(data: Value) -> Self {
        Self::new(Stream::Tool, data)
    }
}

/// Returns what a tool reports of itself: output of a command, or anything else.
pub(crate) fn reported(call: &str, name: &str, parent: Option<&str>, update: &Value) -> Happening {
    let text = |name: &str| update.get(name).and_then(Value::as_str);
    if let (Some(stream), Some(output)) = (text("stream"), text("text")) {
        let data = json!({ "phase": "delta", "toolCallId": call, "name": name, "stream": stream, "output": output });
        return Happening::new(Stream::CommandOutput, data);
    }
    let mut data = json!({ "phase": "update", "name": name, "toolCallId": call, "partialResult": shown(update) });
    if let (Some(parent), Some(data)) = (parent, data.as_object_mut()) {
        data.insert("parentToolCallId".into(), parent.into());
    }
    Happening::tool(data)
}

/// An event as it is stored with an entry. Texts and results are left out: they are the entry's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredEvent {
    pub seq: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    pub generation: u32,
    pub stream: Stream,
    pub ts: Millis,
    pub data: Map<String, Value>,
}

/// The most bytes of arguments or of a result in an event.
const MOST_SHOWN: usize = 16 << 10;

/// Makes a value safe to show: long texts are cut, pictures are named and not shown.
pub(crate) fn shown(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= MOST_SHOWN && !text.contains("\"data\"") {
        return value.clone();
    }
    let mut left = MOST_SHOWN;
    cut(value, &mut left, 0)
}

fn cut(value: &Value, left: &mut usize, depth: usize) -> Value {
    const DEEP: usize = 12;
    match value {
        Value::String(text) => {
            let kept = shortened(text, (*left).max(16));
            *left = left.saturating_sub(kept.len());
            Value::String(kept)
        }
        Value::Array(_) | Value::Object(_) if depth > DEEP || *left == 0 => json!("…"),
        Value::Array(items) => {
            let mut kept = Vec::new();
            for item in items {
                if *left == 0 {
                    kept.push(json!(format!("… {} more", items.len() - kept.len())));
                    break;
                }
                kept.push(cut(item, left, depth + 1));
                *left = left.saturating_sub(2);
            }
            Value::Array(kept)
        }
        Value::Object(members) => {
            let is_picture =
                members.get("type").and_then(Value::as_str).is_some_and(|kind| kind == "image" || kind == "audio");
            let mut kept = Map::new();
            for (name, member) in members {
                if *left == 0 {
                    kept.insert("…".into(), json!(format!("{} more", members.len() - kept.len())));
                    break;
                }
                let member = match member {
                    Value::String(data) if is_picture && name == "data" => {
                        json!(format!("[{} bytes left out]", data.len()))
                    }
                    member => cut(member, left, depth + 1),
                };
                *left = left.saturating_sub(name.len() + 4);
                kept.insert(name.clone(), member);
            }
            Value::Object(kept)
        }
        other => {
            *left = left.saturating_sub(8);
            other.clone()
        }
    }
}

/// Returns the beginning of a text, with a mark if that is not all of it.
pub(crate) fn shortened(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… [{} more bytes]", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_bounded_and_has_no_pictures() {
        let long = json!({ "a": "x".repeat(100_000), "b": [1, 2], "c": { "type": "image", "data": "AAAA" } });
        let text = shown(&long).to_string();
        assert!(text.len() < MOST_SHOWN + 200, "{}", text.len());
        let picture = shown(&json!([{ "type": "image", "data": "AAAA", "mimeType": "image/png" }]));
        assert_eq!(picture, json!([{ "type": "image", "data": "[4 bytes left out]", "mimeType": "image/png" }]));
        assert_eq!(shown(&json!({ "a": 1 })), json!({ "a": 1 }));
        let many = json!(vec!["ä".repeat(40); 5000]);
        assert!(shown(&many).to_string().len() < 2 * MOST_SHOWN);
    }
}
