//! The events of an entry.

use pincer_secrecy::Cut;
use pincer_sessions::Role;
use pincer_store::{Entry, EntryKind, EntryText, Millis};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::event::{Event, Model, Reading, Source};

/// A message, with its parts as they are written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'b> {
    role: Role,
    #[serde(borrow, default)]
    content: Option<&'b RawValue>,
    #[serde(default)]
    api: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(borrow, default)]
    usage: Option<&'b RawValue>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow, default)]
    details: Option<&'b RawValue>,
}

#[derive(Deserialize)]
struct Body<'b> {
    #[serde(borrow)]
    message: Message<'b>,
}

/// A part of a message, as far as it is a call.
#[derive(Deserialize)]
struct Part<'b> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'b RawValue>,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Nested<'b> {
    program: String,
    seq: u32,
    tool: String,
    #[serde(default)]
    line: Option<u32>,
    #[serde(borrow, default)]
    input: Option<&'b RawValue>,
    #[serde(borrow, default)]
    output: Option<&'b RawValue>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    duration_ms: Option<i64>,
    #[serde(default)]
    effect: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note<'b> {
    custom_type: String,
    #[serde(borrow, default)]
    data: Option<&'b RawValue>,
}

/// Tokens of replies.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// The share of an entry in the files beside the events.
#[derive(Default)]
pub(crate) struct Told {
    pub events: Vec<Event>,
    /// The text of a reply.
    pub answer: Option<String>,
    /// The text of a user.
    pub prompt: Option<String>,
    pub usage: Option<Usage>,
    /// An error, with its kind.
    pub error: Option<Value>,
    /// The questions that a note tells of.
    pub questions: Vec<String>,
    /// Why the entry could not be read as what it is.
    pub complaint: Option<String>,
}

/// Returns what an entry tells. Its own events come in the order in which they happened.
pub(crate) fn told(text: &EntryText, reading: &Reading<'_>) -> Told {
    let entry = &text.entry;
    let mut told = match entry.kind {
        EntryKind::Message => message(entry, reading),
        EntryKind::Custom => note(entry, reading),
        kind => plain(entry, kind, reading),
    };
    for event in &mut told.events {
        place(event, text, reading);
    }
    told
}

/// Notes where an event comes from.
fn place(event: &mut Event, text: &EntryText, reading: &Reading<'_>) {
    event.source_seq = Some(text.entry.position.into());
    event.run = text.entry.run.as_ref().map(|run| reading.name(run.as_str()));
    event.entry = Some(reading.name(text.entry.id.as_str()));
    event.parent = text.parent_id.as_ref().map(|id| reading.name(id.as_str()));
}

/// Returns what is told of an entry that cannot be read as what it is.
fn broken(entry: &Entry, reading: &Reading<'_>, why: &dyn std::fmt::Display) -> Told {
    let mut cut = Cut::Whole;
    let data = json!({ "kind": entry.kind.as_str(), "body": reading.json(&entry.body, &mut cut) });
    let event = Event { cut, ..Event::new(Source::Transcript, "session.broken", entry.at, data) };
    let complaint = format!("entry {} is damaged: {why}", entry.position);
    Told { events: vec![event], complaint: Some(complaint), ..Told::default() }
}

fn message(entry: &Entry, reading: &Reading<'_>) -> Told {
    let message = match serde_json::from_str::<Body<'_>>(&entry.body) {
        Ok(body) => body.message,
        Err(error) => return broken(entry, reading, &error),
    };
    match message.role {
        Role::Assistant => reply(entry, &message, reading),
        Role::ToolResult => result(entry, &message, reading),
        Role::User | Role::Other => {
            let mut cut = Cut::Whole;
            let kind = if message.role == Role::User { "user.message" } else { "message.other" };
            let content = message.content.map_or(Value::Null, |content| reading.json(content.get(), &mut cut));
            let prompt = (message.role == Role::User).then(|| texts(&message, reading));
            let data = json!({ "message": { "role": message.role, "content": content } });
            Told {
                events: vec![Event { cut, ..Event::new(Source::Transcript, kind, entry.at, data) }],
                prompt,
                ..Told::default()
            }
        }
    }
}

/// Returns the parts of a message. A text may stand in their place.
fn parts<'b>(message: &Message<'b>) -> Vec<&'b RawValue> {
    message.content.and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default()
}

/// Returns the text of a message, cleaned.
fn texts(message: &Message<'_>, reading: &Reading<'_>) -> String {
    if let Some(text) = message.content.and_then(|content| serde_json::from_str::<String>(content.get()).ok()) {
        return reading.text(&text);
    }
    let part =
        |raw: &RawValue| serde_json::from_str::<Part<'_>>(raw.get()).ok().filter(|part| part.kind == "text")?.text;
    let texts: Vec<String> = parts(message).into_iter().filter_map(part).collect();
    reading.text(&texts.join("\n"))
}

fn reply(entry: &Entry, message: &Message<'_>, reading: &Reading<'_>) -> Told {
    let name = |text: &Option<String>| text.as_deref().map(|text| reading.name(text));
    let model = Model { provider: name(&message.provider), id: name(&message.model), api: name(&message.api) };
    let usage = message.usage.and_then(|usage| serde_json::from_str::<Usage>(usage.get()).ok());
    let mut cut = Cut::Whole;
    let (mut said, mut calls) = (Vec::new(), Vec::new());
    for (index, raw) in parts(message).into_iter().enumerate() {
        let part = serde_json::from_str::<Part<'_>>(raw.get()).ok().filter(|part| part.kind == "toolCall");
        let Some(part) = part else {
            said.push(reading.json(raw.get(), &mut cut));
            continue;
        };
        let mut call_cut = Cut::Whole;
        let arguments =
            part.arguments.map_or_else(|| json!({}), |arguments| reading.json(arguments.get(), &mut call_cut));
        let data = json!({
            "toolCallId": name(&part.id),
            "name": name(&part.name),
            "arguments": arguments,
            "assistantEntryId": reading.name(entry.id.as_str()),
            "blockIndex": index,
        });
        said.push(json!({ "type": "toolCall", "id": name(&part.id), "name": name(&part.name) }));
        calls.push(Event {
            cut: call_cut,
            model: model.clone(),
            ..Event::new(Source::Transcript, "tool.call", entry.at, data)
        });
    }
    if let Some(text) = message.content.and_then(|content| serde_json::from_str::<String>(content.get()).ok()) {
        said.push(json!({ "type": "text", "text": reading.text(&text) }));
    }
    let stop = name(&message.stop_reason);
    let mut tokens = Cut::Whole;
    let usage_data = message.usage.map(|usage| reading.json(usage.get(), &mut tokens));
    let completed = json!({ "usage": usage_data, "stopReason": stop, "toolCalls": calls.len() });
    let data = json!({ "message": { "role": "assistant", "content": said, "stopReason": stop } });
    let answer = Some(texts(message, reading)).filter(|text| !text.is_empty());
    let mut events = vec![
        Event { model: model.clone(), ..Event::new(Source::Runtime, "model.completed", entry.at, completed) },
        Event { cut, model, ..Event::new(Source::Transcript, "assistant.message", entry.at, data) },
    ];
    events.extend(calls);
    Told { events, answer, usage, ..Told::default() }
}

fn result(entry: &Entry, message: &Message<'_>, reading: &Reading<'_>) -> Told {
    let mut cut = Cut::Whole;
    let details = message.details.map_or(Value::Null, |details| reading.json(details.get(), &mut cut));
    let content = message.content.map_or(Value::Null, |content| reading.json(content.get(), &mut cut));
    let name = |text: &Option<String>| text.as_deref().map(|text| reading.name(text));
    let mut data = object([
        ("toolCallId", json!(name(&message.tool_call_id))),
        ("name", json!(name(&message.tool_name))),
        ("isError", json!(message.is_error.unwrap_or_default())),
    ]);
    for (from, to) in
        [("durationMs", "durationMs"), ("effect", "effect"), ("program", "programRunId"), ("status", "status")]
    {
        let value = details.get(from).filter(|value| !value.is_null() && !value.is_object() && !value.is_array());
        data.extend(value.map(|value| (to.to_owned(), value.clone())));
    }
    data.insert("content".into(), content);
    data.insert("details".into(), details);
    data.retain(|_, value| !value.is_null());
    let event = Event::new(Source::Transcript, "tool.result", entry.at, data.into());
    Told { events: vec![Event { cut, ..event }], ..Told::default() }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Which end of a call that a program made is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Began,
    Ended,
}

/// Returns one side of a call that a program made, with the call that ran the program.
pub(crate) fn nested(text: &EntryText, side: Side, at: Millis, reading: &Reading<'_>) -> Told {
    let entry = &text.entry;
    let call = match serde_json::from_str::<Nested<'_>>(&entry.body) {
        Ok(call) => call,
        // It is told once.
        Err(_) if side == Side::Began => return Told::default(),
        Err(error) => {
            let mut told = broken(entry, reading, &error);
            told.events.iter_mut().for_each(|event| place(event, text, reading));
            return told;
        }
    };
    let mut cut = Cut::Whole;
    let program = reading.name(&call.program);
    let mut data = object([
        ("toolCallId", json!(format!("{program}:{}", call.seq))),
        ("parentToolCallId", json!(entry.call.as_deref().map(|call| reading.name(call)))),
        ("name", json!(reading.name(&call.tool))),
        ("programRunId", json!(program)),
        ("programLine", json!(call.line)),
        ("callSeq", json!(call.seq)),
    ]);
    if side == Side::Began {
        let arguments = call.input.map_or_else(|| json!({}), |input| reading.json(input.get(), &mut cut));
        data.insert("arguments".into(), arguments);
        data.insert("assistantEntryId".into(), json!(text.parent_id.as_ref().map(|id| reading.name(id.as_str()))));
    } else {
        data.insert("isError".into(), json!(call.error.is_some()));
        data.insert("durationMs".into(), json!(call.duration_ms));
        data.insert("effect".into(), json!(call.effect.as_deref().map(|effect| reading.name(effect))));
        data.insert("error".into(), json!(call.error.as_deref().map(|error| reading.text(error))));
        data.insert("output".into(), call.output.map_or(Value::Null, |output| reading.json(output.get(), &mut cut)));
    }
    data.retain(|_, value| !value.is_null());
    let kind = if side == Side::Began { "tool.call" } else { "tool.result" };
    let mut event = Event { cut, ..Event::new(Source::Transcript, kind, at, data.into()) };
    place(&mut event, text, reading);
    Told { events: vec![event], ..Told::default() }
}

fn note(entry: &Entry, reading: &Reading<'_>) -> Told {
    let note = match serde_json::from_str::<Note<'_>>(&entry.body) {
        Ok(note) => note,
        Err(error) => return broken(entry, reading, &error),
    };
    let mut cut = Cut::Whole;
    let data = note.data.map_or(Value::Null, |data| reading.json(data.get(), &mut cut));
    let (source, kind) = match note.custom_type.as_str() {
        "pincer.waiting" => (Source::Runtime, "run.suspended"),
        "pincer.resumed" => (Source::Runtime, "run.resumed"),
        "pincer.taken-over" => (Source::Runtime, "run.taken_over"),
        "pincer.stopped" => (Source::Runtime, "run.stopped"),
        "pincer.error" => (Source::Runtime, "run.failed"),
        "pincer.end" => return Told::default(),
        _ => (Source::Transcript, "session.custom"),
    };
    let ids = |list: &str| {
        let list = data.get(list).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|item| item.get("approvalId")?.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let questions = if kind == "run.suspended" { ids("approvals") } else { ids("answers") };
    let error = (kind == "run.failed").then(|| data.clone());
    let data = match kind {
        "session.custom" => json!({ "customType": reading.name(&note.custom_type), "data": data }),
        _ => data,
    };
    let event = Event { cut, ..Event::new(source, kind, entry.at, data) };
    Told { events: vec![event], error, questions, ..Told::default() }
}

fn plain(entry: &Entry, kind: EntryKind, reading: &Reading<'_>) -> Told {
    let (data, cut) = match reading.cleaner.json(&entry.body, &reading.bounds) {
        Ok((data @ Value::Object(_), cut)) => (data, cut),
        Ok(_) => return broken(entry, reading, &"its body is no object"),
        Err(error) => return broken(entry, reading, &error),
    };
    let kind = match kind {
        EntryKind::CustomMessage => "session.custom_message",
        EntryKind::Compaction => "session.compaction",
        EntryKind::BranchSummary => "session.branch_summary",
        EntryKind::ModelChange => "session.model_change",
        EntryKind::ThinkingLevelChange => "session.thinking_level_change",
        EntryKind::Label => "session.label",
        EntryKind::SessionInfo => "session.info",
        EntryKind::Reset => "session.reset",
        EntryKind::Message | EntryKind::Custom | EntryKind::NestedCall => "session.custom",
    };
    Told { events: vec![Event { cut, ..Event::new(Source::Transcript, kind, entry.at, data) }], ..Told::default() }
}
