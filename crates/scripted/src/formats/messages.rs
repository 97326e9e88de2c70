//! Anthropic Messages.

use serde_json::{Value, json};

use super::Ask;
use crate::frame::Frame;
use crate::message::{Message, Part, Stop, Usage};
use crate::pieces::pieces;

/// Makes the events: `message_start`, each block from its start over its deltas to its stop, `message_delta`, `message_stop`.
pub(super) fn frames(ask: &Ask<'_>, message: &Message) -> Vec<Frame> {
    let mut events = Vec::new();
    let mut begun = skeleton(ask);
    begun["usage"]["input_tokens"] = message.usage.input.into();
    begun["usage"]["cache_creation_input_tokens"] = message.usage.cache_write.into();
    begun["usage"]["cache_read_input_tokens"] = message.usage.cache_read.into();
    begun["usage"]["output_tokens"] = message.usage.output.min(1).into();
    events.push(json!({ "type": "message_start", "message": begun }));
    for (index, block) in blocks(ask, message).into_iter().enumerate() {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": block.start }));
        for delta in block.deltas {
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason(message), "stop_sequence": null },
        "usage": usage(&message.usage),
    }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(Frame::named).collect()
}

/// Makes the reply that is not streamed.
pub(super) fn whole(ask: &Ask<'_>, message: &Message) -> Value {
    let mut whole = skeleton(ask);
    whole["content"] = blocks(ask, message).into_iter().map(|block| block.whole).collect();
    whole["stop_reason"] = stop_reason(message).into();
    whole["usage"] = usage(&message.usage);
    whole["usage"]["service_tier"] = "standard".into();
    whole
}

/// A message before anything is known of it.
fn skeleton(ask: &Ask<'_>) -> Value {
    json!({
        "id": format!("msg_{}", ask.number),
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": { "input_tokens": 0, "output_tokens": 0, "service_tier": "standard" },
    })
}

/// A content block, as a stream builds it and as a whole.
struct Block {
    start: Value,
    deltas: Vec<Value>,
    whole: Value,
}

fn blocks(ask: &Ask<'_>, message: &Message) -> Vec<Block> {
    let mut calls = 0;
    let split = |text: &str, kind: &str, key: &str| -> Vec<Value> {
        pieces(text, message.pieces).into_iter().map(|piece| json!({ "type": kind, key: piece })).collect()
    };
    let block = |part: &Part| match part {
        Part::Text(text) | Part::Refusal(text) => Block {
            start: json!({ "type": "text", "text": "" }),
            deltas: split(text, "text_delta", "text"),
            whole: json!({ "type": "text", "text": text }),
        },
        Part::Thinking(thinking) => match (&thinking.text, &thinking.encrypted) {
            (None, Some(data)) => {
                let whole = json!({ "type": "redacted_thinking", "data": data });
                Block { start: whole.clone(), deltas: Vec::new(), whole }
            }
            (text, _) => {
                let text = text.as_deref().unwrap_or_default();
                let mut deltas = split(text, "thinking_delta", "thinking");
                let signature = thinking.signature.as_deref();
                deltas.extend(signature.map(|signature| json!({ "type": "signature_delta", "signature": signature })));
                Block {
                    start: json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    deltas,
                    whole: json!({ "type": "thinking", "thinking": text, "signature": signature.unwrap_or_default() }),
                }
            }
        },
        Part::Call(call) => {
            calls += 1;
            let id = call.id.clone().unwrap_or_else(|| format!("toolu_{}_{calls}", ask.number));
            // As the real server does, the first delta is empty.
            let mut deltas = vec![json!({ "type": "input_json_delta", "partial_json": "" })];
            deltas.extend(split(&call.text(), "input_json_delta", "partial_json"));
            Block {
                start: json!({ "type": "tool_use", "id": id, "name": call.name, "input": {} }),
                deltas,
                whole: json!({ "type": "tool_use", "id": id, "name": call.name, "input": call.tree() }),
            }
        }
    };
    message.parts.iter().map(block).collect()
}

fn stop_reason(message: &Message) -> &'static str {
    match message.stopped() {
        Stop::End => "end_turn",
        Stop::Calls => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Window => "model_context_window_exceeded",
        Stop::Refusal | Stop::Filter => "refusal",
        Stop::Pause => "pause_turn",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": { "thinking_tokens": usage.thinking },
    })
}
