//! OpenAI Responses.

use serde_json::{Map, Value, json};

use super::{Ask, CREATED, message_of};
use crate::frame::Frame;
use crate::message::{Call, ErrorForm, Message, Part, Stop, StreamError, Thinking, Usage};
use crate::pieces::pieces;

/// Makes the events: `created`, `in_progress`, each item from `output_item.added` to `output_item.done`, and the last one.
pub(super) fn frames(ask: &Ask<'_>, message: &Message) -> Vec<Frame> {
    let mut events = Events { message, events: Vec::new() };
    for name in ["response.created", "response.in_progress"] {
        events.push(name, json!({ "response": response(ask, "in_progress", Vec::new()) }));
    }
    let items = items(ask, message);
    for (index, item) in items.iter().enumerate() {
        events.push("response.output_item.added", json!({ "output_index": index, "item": item.added() }));
        item.write(&mut events, index);
        events.push("response.output_item.done", json!({ "output_index": index, "item": item.done() }));
    }
    let name = format!("response.{}", status(message));
    events.push(&name, json!({ "response": whole(ask, message) }));
    events.events.iter().map(Frame::named).collect()
}

/// Makes the reply that is not streamed.
pub(super) fn whole(ask: &Ask<'_>, message: &Message) -> Value {
    let output = items(ask, message).iter().map(Item::done).collect();
    let mut whole = response(ask, status(message), output);
    if let Some(reason) = incomplete_reason(message) {
        whole["incomplete_details"] = json!({ "reason": reason });
    }
    whole["usage"] = usage(&message.usage);
    whole
}

/// Makes the event that ends a stream with an error, as the event with number `after`.
pub(super) fn error_frame(ask: &Ask<'_>, error: &StreamError, after: usize) -> Frame {
    let message = message_of(500, &error.fault);
    let kind = error.fault.kind.as_deref().unwrap_or("server_error");
    let code = error.fault.code.as_deref().unwrap_or(kind);
    Frame::named(&match error.form {
        ErrorForm::Flat => json!({
            "type": "error", "code": code, "message": message, "param": null, "sequence_number": after,
        }),
        ErrorForm::Nested => json!({
            "type": "error",
            "error": { "type": kind, "code": code, "message": message, "param": null },
            "sequence_number": after,
        }),
        ErrorForm::Failed => {
            let mut response = response(ask, "failed", Vec::new());
            // The published schema has a list of codes here, and no types of errors are in it.
            let code = error.fault.code.as_deref().unwrap_or("server_error");
            response["error"] = json!({ "code": code, "message": message });
            json!({ "type": "response.failed", "sequence_number": after, "response": response })
        }
    })
}

/// The events so far, which are numbered.
struct Events<'a> {
    message: &'a Message,
    events: Vec<Value>,
}

impl Events<'_> {
    fn push(&mut self, name: &str, fields: Value) {
        let mut event = json!({ "type": name, "sequence_number": self.events.len() });
        if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        self.events.push(event);
    }

    /// Appends a delta per piece of `text`. `place` says where they belong.
    fn deltas(&mut self, name: &str, place: &Value, text: &str) {
        for piece in pieces(text, self.message.pieces) {
            self.push(name, with(place, [("delta", json!(piece))]));
        }
    }
}

/// Returns an object with more fields.
fn with<const N: usize>(object: &Value, fields: [(&str, Value); N]) -> Value {
    let mut object = object.clone();
    for (key, value) in fields {
        object[key] = value;
    }
    object
}

/// An output item. A message has all texts and refusals up to the next part of another kind.
struct Item<'a> {
    id: String,
    kind: Kind<'a>,
    status: &'static str,
}

enum Kind<'a> {
    Reasoning(&'a Thinking),
    Message(Vec<Content<'a>>),
    Call { call: &'a Call, id: String },
}

#[derive(Clone, Copy)]
enum Content<'a> {
    Text(&'a str),
    Refusal(&'a str),
}

fn items<'a>(ask: &Ask<'_>, message: &'a Message) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'a>> = Vec::new();
    let mut calls = 0;
    for part in &message.parts {
        let content = match part {
            Part::Text(text) => Some(Content::Text(text)),
            Part::Refusal(text) => Some(Content::Refusal(text)),
            Part::Thinking(_) | Part::Call(_) => None,
        };
        if let (Some(Item { kind: Kind::Message(contents), .. }), Some(content)) = (items.last_mut(), content) {
            contents.push(content);
            continue;
        }
        let (prefix, kind) = match part {
            Part::Text(_) | Part::Refusal(_) => ("msg", Kind::Message(content.into_iter().collect())),
            Part::Thinking(thinking) => ("rs", Kind::Reasoning(thinking)),
            Part::Call(call) => {
                calls += 1;
                let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{calls}", ask.number));
                ("fc", Kind::Call { call, id })
            }
        };
        items.push(Item { id: format!("{prefix}_{}_{}", ask.number, items.len()), kind, status: "completed" });
    }
    if let (Some(last), Some(_)) = (items.last_mut(), incomplete_reason(message)) {
        last.status = "incomplete";
    }
    items
}

impl Item<'_> {
    /// The item when it begins. Its encrypted content is not whole yet, as with the real server.
    fn added(&self) -> Value {
        match &self.kind {
            Kind::Reasoning(thinking) => {
                let encrypted = thinking.encrypted.as_deref();
                self.reasoning(Vec::new(), encrypted.map(|text| text.chars().take(text.chars().count() / 2).collect()))
            }
            Kind::Message(_) => self.message("in_progress", Vec::new()),
            Kind::Call { call, id } => self.call("in_progress", call, id, ""),
        }
    }

    fn done(&self) -> Value {
        match &self.kind {
            Kind::Reasoning(thinking) => {
                let summary = thinking.text.iter().map(|text| summary(text)).collect();
                self.reasoning(summary, thinking.encrypted.clone())
            }
            Kind::Message(contents) => self.message(self.status, contents.iter().map(Content::whole).collect()),
            Kind::Call { call, id } => self.call(self.status, call, id, &call.text()),
        }
    }

    fn reasoning(&self, summary: Vec<Value>, encrypted: Option<String>) -> Value {
        let mut item = json!({ "id": self.id, "type": "reasoning", "summary": summary });
        if let Some(encrypted) = encrypted {
            item["encrypted_content"] = encrypted.into();
        }
        item
    }

    fn message(&self, status: &str, content: Vec<Value>) -> Value {
        json!({ "id": self.id, "type": "message", "status": status, "role": "assistant", "content": content })
    }

    fn call(&self, status: &str, call: &Call, id: &str, arguments: &str) -> Value {
        json!({
            "id": self.id, "type": "function_call", "status": status, "arguments": arguments, "call_id": id,
            "name": call.name,
        })
    }

    /// Appends the events between `added` and `done`.
    fn write(&self, events: &mut Events<'_>, index: usize) {
        let place = json!({ "item_id": self.id, "output_index": index });
        match &self.kind {
            Kind::Reasoning(thinking) => {
                let Some(text) = &thinking.text else { return };
                let place = with(&place, [("summary_index", json!(0))]);
                events.push("response.reasoning_summary_part.added", with(&place, [("part", summary(""))]));
                events.deltas("response.reasoning_summary_text.delta", &place, text);
                events.push("response.reasoning_summary_text.done", with(&place, [("text", json!(text))]));
                events.push("response.reasoning_summary_part.done", with(&place, [("part", summary(text))]));
            }
            Kind::Message(contents) => {
                for (at, content) in contents.iter().enumerate() {
                    content.write(events, &with(&place, [("content_index", json!(at))]));
                }
            }
            Kind::Call { call, .. } => {
                let arguments = call.text();
                events.deltas("response.function_call_arguments.delta", &place, &arguments);
                events.push("response.function_call_arguments.done", with(&place, [("arguments", json!(arguments))]));
            }
        }
    }
}

impl Content<'_> {
    fn whole(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }),
            Self::Refusal(text) => json!({ "type": "refusal", "refusal": text }),
        }
    }

    fn write(&self, events: &mut Events<'_>, place: &Value) {
        let begun = match self {
            Self::Text(_) => Self::Text(""),
            Self::Refusal(_) => Self::Refusal(""),
        };
        events.push("response.content_part.added", with(place, [("part", begun.whole())]));
        match self {
            Self::Text(text) => {
                let place = with(place, [("logprobs", json!([]))]);
                events.deltas("response.output_text.delta", &place, text);
                events.push("response.output_text.done", with(&place, [("text", json!(text))]));
            }
            Self::Refusal(text) => {
                events.deltas("response.refusal.delta", place, text);
                events.push("response.refusal.done", with(place, [("refusal", json!(text))]));
            }
        }
        events.push("response.content_part.done", with(place, [("part", self.whole())]));
    }
}

fn summary(text: &str) -> Value {
    json!({ "type": "summary_text", "text": text })
}

/// A response without usage. The settings of the request are repeated, as the real server does.
fn response(ask: &Ask<'_>, status: &str, output: Vec<Value>) -> Value {
    let mut response = Map::new();
    let mut put = |key: &str, value: Value| response.insert(key.to_owned(), value);
    put("id", json!(format!("resp_{}", ask.number)));
    put("object", json!("response"));
    put("created_at", json!(CREATED));
    put("status", json!(status));
    put("error", Value::Null);
    put("incomplete_details", Value::Null);
    put("model", json!(ask.model));
    put("output", json!(output));
    let settings = [
        ("background", json!(false)),
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("reasoning", json!({ "effort": null, "summary": null })),
        ("service_tier", json!("default")),
        ("store", json!(true)),
        ("temperature", json!(1.0)),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_p", json!(1.0)),
        ("truncation", json!("disabled")),
    ];
    for (key, usual) in settings {
        put(key, ask.body.get(key).filter(|value| !value.is_null()).cloned().unwrap_or(usual));
    }
    put("usage", Value::Null);
    Value::Object(response)
}

fn status(message: &Message) -> &'static str {
    incomplete_reason(message).map_or("completed", |_| "incomplete")
}

/// Returns why a response is incomplete. A full window has no word of its own here.
fn incomplete_reason(message: &Message) -> Option<&'static str> {
    match message.stopped() {
        Stop::Length | Stop::Window => Some("max_output_tokens"),
        Stop::Filter => Some("content_filter"),
        Stop::End | Stop::Calls | Stop::Refusal | Stop::Pause => None,
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.whole_input(),
        "input_tokens_details": { "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.thinking },
        "total_tokens": usage.whole_input().saturating_add(usage.output),
    })
}
