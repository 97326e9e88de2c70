//! Saying the same thing very often, in the middle of a call.

use serde_json::{Value, json};

use super::{Act, NUMBER};

/// The tools of `flood`, which are named after what they say `count` times, each with `bytes` of text, before they answer.
pub(super) const TOOLS: [&str; 6] = ["progress", "log", "changed", "updated", "ping", "ask"];

pub(super) fn acts(name: &str, token: &Value, arguments: &Value, answer: &Value) -> Vec<Act> {
    let number = |key: &str| arguments.get(key).and_then(Value::as_u64).and_then(|number| number.try_into().ok());
    let (count, bytes) = (number("count").unwrap_or(1000), number("bytes").unwrap_or(10));
    let padding = "x".repeat(bytes);
    let told = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    let message = match name {
        "progress" => {
            let params = json!({ "progressToken": token, "progress": 0, "message": padding });
            // A number, which the template would make a string of.
            let message = told("notifications/progress", params).to_string();
            return many(message.replace("\"progress\":0", &format!("\"progress\":{NUMBER}")), count, answer);
        }
        "log" => told("notifications/message", json!({ "level": "info", "data": padding })),
        "updated" => told("notifications/resources/updated", json!({ "uri": format!("liar://{padding}") })),
        "ping" => json!({ "jsonrpc": "2.0", "id": format!("ping-{NUMBER}"), "method": "ping" }),
        "ask" => {
            let params = json!({ "message": padding, "requestedSchema": { "type": "object", "properties": {} } });
            json!({ "jsonrpc": "2.0", "id": format!("ask-{NUMBER}"), "method": "elicitation/create", "params": params })
        }
        _ => told("notifications/tools/list_changed", json!({})),
    };
    many(message.to_string(), count, answer)
}

fn many(text: String, count: usize, answer: &Value) -> Vec<Act> {
    vec![Act::Many(text, count), Act::Say(answer.clone())]
}
