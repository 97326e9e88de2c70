//! OpenAI Chat Completions.

use serde_json::{Map, Value, json};

use super::{Ask, CREATED};
use crate::frame::Frame;
use crate::message::{Message, Part, Stop, Usage};
use crate::pieces::pieces;

/// Makes the events: a delta with the role, the parts, the reason to stop, the usage if it was asked for, and `[DONE]`.
pub(super) fn frames(ask: &Ask<'_>, message: &Message) -> Vec<Frame> {
    let with_usage = ask.body["stream_options"]["include_usage"] == true;
    let mut frames = Vec::new();
    let mut chunk = |choices: Value, usage: Value| {
        let mut chunk = head(ask, "chat.completion.chunk");
        chunk.insert("choices".into(), choices);
        if with_usage {
            chunk.insert("usage".into(), usage);
        }
        frames.push(Frame::data(Value::Object(chunk)));
    };
    let choice = |delta: Value, finish: Value| json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
    let begins_with_text = matches!(message.parts.first(), Some(Part::Text(_)));
    let content = if begins_with_text { json!("") } else { Value::Null };
    let role = json!({ "role": "assistant", "content": content, "refusal": null });
    for delta in std::iter::once(role).chain(deltas(ask, message)) {
        chunk(choice(delta, Value::Null), Value::Null);
    }
    chunk(choice(json!({}), finish_reason(message).into()), Value::Null);
    if with_usage {
        chunk(json!([]), usage(&message.usage));
    }
    frames.push(Frame::data("[DONE]"));
    frames
}

fn deltas(ask: &Ask<'_>, message: &Message) -> Vec<Value> {
    let mut deltas = Vec::new();
    let mut calls = 0;
    for part in &message.parts {
        let (key, text) =
            match part {
                Part::Text(text) => ("content", text.as_str()),
                Part::Refusal(text) => ("refusal", text.as_str()),
                Part::Thinking(thinking) => ("reasoning_content", thinking.text.as_deref().unwrap_or_default()),
                Part::Call(call) => {
                    let arguments = call.text();
                    let id = call_id(ask, call.id.as_deref(), calls);
                    deltas.push(json!({ "tool_calls": [{
                    "index": calls, "id": id, "type": "function", "function": { "name": call.name, "arguments": "" },
                }] }));
                    deltas.extend(pieces(&arguments, message.pieces).into_iter().map(
                        |piece| json!({ "tool_calls": [{ "index": calls, "function": { "arguments": piece } }] }),
                    ));
                    calls += 1;
                    continue;
                }
            };
        deltas.extend(pieces(text, message.pieces).into_iter().map(|piece| json!({ key: piece })));
    }
    deltas
}

/// Makes the reply that is not streamed.
pub(super) fn whole(ask: &Ask<'_>, message: &Message) -> Value {
    let (mut text, mut refusal, mut thinking, mut calls) = (None, None, None, Vec::new());
    let append = |to: &mut Option<String>, text: &str| to.get_or_insert_default().push_str(text);
    for part in &message.parts {
        match part {
            Part::Text(more) => append(&mut text, more),
            Part::Refusal(more) => append(&mut refusal, more),
            Part::Thinking(more) => {
                if let Some(more) = &more.text {
                    append(&mut thinking, more);
                }
            }
            Part::Call(call) => calls.push(json!({
                "id": call_id(ask, call.id.as_deref(), calls.len()),
                "type": "function",
                "function": { "name": call.name, "arguments": call.text() },
            })),
        }
    }
    let mut said = json!({ "role": "assistant", "content": text, "refusal": refusal, "annotations": [] });
    if let Some(thinking) = thinking {
        said["reasoning_content"] = thinking.into();
    }
    if !calls.is_empty() {
        said["tool_calls"] = calls.into();
    }
    let mut whole = head(ask, "chat.completion");
    let finish = finish_reason(message);
    let choices = json!([{ "index": 0, "message": said, "logprobs": null, "finish_reason": finish }]);
    whole.insert("choices".into(), choices);
    whole.insert("usage".into(), usage(&message.usage));
    Value::Object(whole)
}

fn head(ask: &Ask<'_>, object: &str) -> Map<String, Value> {
    let fields = [
        ("id", json!(format!("chatcmpl-{}", ask.number))),
        ("object", json!(object)),
        ("created", json!(CREATED)),
        ("model", json!(ask.model)),
        ("service_tier", json!("default")),
        ("system_fingerprint", json!("fp_scripted")),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn call_id(ask: &Ask<'_>, id: Option<&str>, index: usize) -> String {
    id.map_or_else(|| format!("call_{}_{}", ask.number, index + 1), str::to_owned)
}

fn finish_reason(message: &Message) -> &'static str {
    match message.stopped() {
        // A refusal is told by the field, not by the reason; a paused turn is unknown here.
        Stop::End | Stop::Refusal | Stop::Pause => "stop",
        Stop::Calls => "tool_calls",
        Stop::Length | Stop::Window => "length",
        Stop::Filter => "content_filter",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.whole_input(),
        "completion_tokens": usage.output,
        "total_tokens": usage.whole_input().saturating_add(usage.output),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write, "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.thinking, "audio_tokens": 0, "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}
