//! Anthropic Messages.

use pincer_json::Json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{called_name, kept, malformed, tokens, told_tokens};
use crate::body::Body;
use crate::draft::{At, Draft};
use crate::error::ModelError;
use crate::event::{Event, Stop};
use crate::failure::in_stream;
use crate::message::{Assistant, Content, Image, Message, Part, ToolResult};
use crate::request::{Cache, Choice, Request, Tool};
use crate::settings::Target;
use crate::thinking::{Level, Reasoning, budget};

/// The most boundaries that a request may have.
const MOST_MARKS: usize = 4;

pub(super) fn body(request: &Request, target: &Target, level: Level) -> Result<Body, ModelError> {
    let mark = mark(&request.cache);
    let most = request.max_tokens.unwrap_or_else(|| target.max_tokens());
    let mut body = Body::default();
    body.set("model", &target.model.id)?;
    let thinking = match (target.reasoning(), level) {
        (Reasoning::None | Reasoning::Effort(_), _) => None,
        (_, Level::Off) => Some((json!({ "type": "disabled" }), None)),
        (Reasoning::Budget, level) => Some((json!({ "type": "enabled", "budget_tokens": budget(level, most) }), None)),
        (Reasoning::Adaptive(_), Level::Adaptive) => Some((json!({ "type": "adaptive" }), None)),
        (Reasoning::Adaptive(_), level) => Some((json!({ "type": "adaptive" }), Some(level.name()))),
    };
    let thinks = thinking.is_some() && level != Level::Off;
    // A budget is part of the reply, and must be less than all of it.
    let most = if matches!(target.reasoning(), Reasoning::Budget) { most.max(budget(level, most) + 1) } else { most };
    body.set("max_tokens", &most)?;
    let system: Vec<(&str, bool)> = request.instructions().collect();
    let marks_system = request.cache.after_system;
    let is_stable = system.iter().any(|(_, is_boundary)| *is_boundary);
    if !system.is_empty() {
        let block = |(text, is_boundary): &(&str, bool)| {
            let mark = mark.as_ref().filter(|_| marks_system && *is_boundary);
            marked(json!({ "type": "text", "text": text }), mark)
        };
        body.set("system", &system.iter().map(block).collect::<Vec<_>>())?;
    }
    body.set("messages", &messages(request, target, mark.as_ref()))?;
    if !request.tools.is_empty() {
        let last = request.tools.len() - 1;
        let tool = |(index, tool): (usize, &Tool)| {
            let entry = json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters });
            marked(entry, mark.as_ref().filter(|_| marks_system && !is_stable && index == last))
        };
        body.set("tools", &request.tools.iter().enumerate().map(tool).collect::<Vec<_>>())?;
        body.set_some("tool_choice", choice(&request.choice))?;
    }
    body.set("stream", &true)?;
    // A model that thinks takes no other.
    body.set_some("temperature", request.temperature.filter(|_| !thinks))?;
    if let Some((thinking, effort)) = thinking {
        body.set("thinking", &thinking)?;
        body.set_some("output_config", effort.map(|effort| json!({ "effort": effort })))?;
    }
    Ok(body)
}

fn choice(choice: &Choice) -> Option<Value> {
    match choice {
        Choice::Auto => None,
        Choice::Never => Some(json!({ "type": "none" })),
        Choice::Any => Some(json!({ "type": "any" })),
        Choice::Named(name) => Some(json!({ "type": "tool", "name": name })),
    }
}

/// The mark of a boundary, if the request has any.
fn mark(cache: &Cache) -> Option<Value> {
    let is_wanted = cache.after_system || !cache.after_messages.is_empty();
    let mark = if cache.is_long { json!({ "type": "ephemeral", "ttl": "1h" }) } else { json!({ "type": "ephemeral" }) };
    is_wanted.then_some(mark)
}

fn marked(mut block: Value, mark: Option<&Value>) -> Value {
    if let Some(mark) = mark {
        block["cache_control"] = mark.clone();
    }
    block
}

#[derive(Serialize)]
struct Line {
    role: &'static str,
    content: Vec<Block>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block {
    Own(Value),
    Call {
        r#type: &'static str,
        id: String,
        name: String,
        input: Json,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Value>,
    },
    /// As the provider sent it.
    Raw(Json),
}

fn messages(request: &Request, target: &Target, mark: Option<&Value>) -> Vec<Line> {
    let mut marks: Vec<usize> = request.cache.after_messages.clone();
    marks.sort_unstable();
    let most = MOST_MARKS - usize::from(request.cache.after_system);
    let marks = &marks[marks.len().saturating_sub(most)..];
    let mut lines: Vec<Line> = Vec::new();
    for (index, message) in request.messages.iter().enumerate() {
        let (role, mut content) = match message {
            Message::User(content) => ("user", content.iter().filter_map(block).map(Block::Own).collect()),
            Message::Assistant(reply) => ("assistant", assistant(reply, target)),
            Message::Results(results) => ("user", results.iter().map(result).collect()),
        };
        if marks.contains(&index) {
            set_mark(&mut content, mark);
        }
        // Two messages of one side are one message here.
        match lines.last_mut() {
            Some(last) if last.role == role => last.content.append(&mut content),
            _ if content.is_empty() => {}
            _ => lines.push(Line { role, content }),
        }
    }
    lines
}

/// Marks the last block that takes a mark: thoughts do not.
fn set_mark(content: &mut [Block], mark: Option<&Value>) {
    for block in content.iter_mut().rev() {
        match block {
            Block::Own(value) => {
                *value = marked(std::mem::take(value), mark);
                return;
            }
            Block::Call { cache_control, .. } => {
                *cache_control = mark.cloned();
                return;
            }
            Block::Raw(_) => {}
        }
    }
}

/// Blocks without text are refused.
fn block(content: &Content) -> Option<Value> {
    match content {
        Content::Text(text) if text.is_empty() => None,
        Content::Text(text) => Some(json!({ "type": "text", "text": text })),
        Content::Image(Image::Data { media_type, base64 }) => Some(json!({
            "type": "image", "source": { "type": "base64", "media_type": media_type, "data": base64 },
        })),
        Content::Image(Image::Url(url)) => Some(json!({ "type": "image", "source": { "type": "url", "url": url } })),
    }
}

fn result(result: &ToolResult) -> Block {
    let content: Vec<Value> = result.content.iter().filter_map(block).collect();
    let mut value = json!({ "type": "tool_result", "tool_use_id": result.call, "content": content });
    if result.is_error {
        value["is_error"] = true.into();
    }
    Block::Own(value)
}

fn assistant(reply: &Assistant, target: &Target) -> Vec<Block> {
    let is_own = reply.is_from(target);
    let mut blocks = Vec::new();
    for part in &reply.parts {
        match part {
            Part::Text { text, .. } | Part::Refusal { text, .. } if text.is_empty() => {}
            Part::Text { text, .. } | Part::Refusal { text, .. } => {
                blocks.push(Block::Own(json!({ "type": "text", "text": text })));
            }
            Part::Thinking { raw: Some(raw), .. } | Part::Other(raw) if is_own => blocks.push(Block::Raw(raw.clone())),
            Part::Thinking { .. } | Part::Other(_) => {}
            Part::Call(call) => blocks.push(Block::Call {
                r#type: "tool_use",
                id: call.id.clone(),
                name: called_name(&call.name).into_owned(),
                input: call.arguments.clone(),
                cache_control: None,
            }),
        }
    }
    // A message that ends with a thought is refused.
    while matches!(blocks.last(), Some(Block::Raw(_))) {
        blocks.pop();
    }
    blocks
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wire {
    MessageStart {
        message: Value,
    },
    ContentBlockStart {
        index: u64,
        content_block: Value,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        #[serde(default)]
        delta: Value,
        #[serde(default)]
        usage: Value,
    },
    MessageStop,
    Error {
        error: Value,
    },
    /// `ping`, and what is yet to come.
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(other)]
    Unknown,
}

/// A block while it comes in.
struct Open {
    index: u64,
    at: At,
    kind: Kind,
}

enum Kind {
    Text,
    Thinking {
        signature: String,
    },
    /// The input that its start brought, used if nothing follows.
    Call {
        input: Value,
    },
    Other,
}

#[derive(Default)]
pub(crate) struct Reader {
    pub(super) draft: Draft,
    open: Vec<Open>,
}

impl Reader {
    pub(super) fn take(&mut self, data: &str, out: &mut Vec<Event>) -> Result<bool, ModelError> {
        let wire: Wire = serde_json::from_str(data).map_err(|error| malformed("an event", error))?;
        match wire {
            Wire::MessageStart { message } => {
                self.draft.set_id(message["id"].as_str());
                self.usage(&message["usage"]);
                let model = message["model"].as_str().map(str::to_owned);
                out.push(Event::Began { id: self.draft.id.clone(), model });
            }
            Wire::ContentBlockStart { index, content_block } => self.start(index, content_block, data, out)?,
            Wire::ContentBlockDelta { index, delta } => self.delta(index, delta, out)?,
            Wire::ContentBlockStop { index } => self.stop(index, out)?,
            Wire::MessageDelta { delta, usage } => {
                if let Some(reason) = delta["stop_reason"].as_str() {
                    self.draft.stop = Some(stop(reason));
                }
                self.usage(&usage);
            }
            Wire::MessageStop => {
                // Blocks that nobody closed are as complete as they get.
                while let Some(open) = self.open.first() {
                    self.stop(open.index, out)?;
                }
                return Ok(true);
            }
            Wire::Error { error } => return Err(in_stream(&error.to_string())),
            Wire::Unknown => {}
        }
        Ok(false)
    }

    fn usage(&mut self, usage: &Value) {
        let known = &mut self.draft.usage;
        // The end repeats what the beginning said, and may leave parts of it out.
        let take = |known: &mut u64, key: &str| *known = told_tokens(usage, &[key]).unwrap_or(*known);
        take(&mut known.input, "input_tokens");
        take(&mut known.cache_read, "cache_read_input_tokens");
        take(&mut known.cache_write, "cache_creation_input_tokens");
        take(&mut known.output, "output_tokens");
        known.thinking = known.thinking.max(tokens(usage, &["output_tokens_details", "thinking_tokens"]));
    }

    fn start(&mut self, index: u64, block: Value, data: &str, out: &mut Vec<Event>) -> Result<(), ModelError> {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        let (at, kind) = match block["type"].as_str() {
            Some("text") => {
                let at = self.draft.begin_text()?;
                self.draft.push(at, text("text"), out)?;
                (at, Kind::Text)
            }
            Some("thinking") => {
                let at = self.draft.begin_thinking()?;
                self.draft.push(at, text("thinking"), out)?;
                (at, Kind::Thinking { signature: text("signature").to_owned() })
            }
            Some("tool_use") => {
                self.draft.grow(data.len())?;
                let at = self.draft.begin_call(text("id"), text("name"), out)?;
                (at, Kind::Call { input: block["input"].clone() })
            }
            Some("redacted_thinking") => {
                let at = self.draft.begin_thinking()?;
                self.draft.set_raw(at, raw_block(data)?)?;
                (at, Kind::Other)
            }
            _ => (self.draft.add_other(raw_block(data)?)?, Kind::Other),
        };
        self.open.retain(|open| open.index != index);
        self.open.push(Open { index, at, kind });
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: Delta, out: &mut Vec<Event>) -> Result<(), ModelError> {
        let Some(open) = self.open.iter_mut().find(|open| open.index == index) else {
            return Err(malformed("an event", "it belongs to a block that has not begun"));
        };
        match (delta, &mut open.kind) {
            (Delta::Text { text }, Kind::Text) => self.draft.push(open.at, &text, out),
            (Delta::Thinking { thinking }, Kind::Thinking { .. }) => self.draft.push(open.at, &thinking, out),
            (Delta::Input { partial_json }, Kind::Call { .. }) => self.draft.push(open.at, &partial_json, out),
            (Delta::Signature { signature }, Kind::Thinking { signature: known }) => {
                known.push_str(&signature);
                self.draft.grow(signature.len())
            }
            // Citations, and what is yet to come.
            _ => Ok(()),
        }
    }

    fn stop(&mut self, index: u64, out: &mut Vec<Event>) -> Result<(), ModelError> {
        let Some(position) = self.open.iter().position(|open| open.index == index) else { return Ok(()) };
        let Open { at, kind, .. } = self.open.remove(position);
        match (kind, self.draft.get(at)) {
            (Kind::Thinking { signature }, Some(crate::draft::Piece::Thinking { text, .. }))
                if !signature.is_empty() =>
            {
                let block = json!({ "type": "thinking", "thinking": text, "signature": signature });
                self.draft.set_raw(at, kept(&block.to_string())?)
            }
            (Kind::Call { input }, Some(crate::draft::Piece::Call { arguments, .. })) if arguments.is_empty() => {
                let is_empty = input.as_object().is_none_or(serde_json::Map::is_empty);
                if is_empty { Ok(()) } else { self.draft.push(at, &input.to_string(), out) }
            }
            _ => Ok(()),
        }
    }
}

/// The block of a start, as the provider wrote it.
fn raw_block(data: &str) -> Result<Json, ModelError> {
    #[derive(Deserialize)]
    struct Start<'a> {
        #[serde(borrow)]
        content_block: &'a RawValue,
    }
    let start: Start<'_> = serde_json::from_str(data).map_err(|error| malformed("an event", error))?;
    kept(start.content_block.get())
}

fn stop(reason: &str) -> Stop {
    match reason {
        "end_turn" => Stop::End,
        "tool_use" => Stop::Calls,
        "max_tokens" => Stop::Length,
        "stop_sequence" => Stop::Word,
        "pause_turn" => Stop::Pause,
        "refusal" => Stop::Refusal,
        "model_context_window_exceeded" => Stop::Window,
        other => Stop::Other(other.to_owned()),
    }
}
