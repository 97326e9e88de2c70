//! OpenAI Responses.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pincer_json::Json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{called_name, effort, image_url, kept, malformed, tokens};
use crate::body::Body;
use crate::draft::{At, Draft, Piece};
use crate::error::ModelError;
use crate::event::{Event, Stop, Usage};
use crate::failure::in_stream;
use crate::message::{Assistant, Content, Message, Part, ToolResult, text_of};
use crate::request::{Choice, Request, Tool};
use crate::settings::Target;
use crate::thinking::{Level, Reasoning};

pub(super) fn body(request: &Request, target: &Target, level: Level) -> Result<Body, ModelError> {
    let mut body = Body::default();
    body.set("model", &target.model.id)?;
    body.set_some("instructions", request.instruction_text())?;
    body.set("input", &items(request, target))?;
    if !request.tools.is_empty() {
        let function = |tool: &Tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.parameters, "strict": false,
            })
        };
        body.set("tools", &request.tools.iter().map(function).collect::<Vec<_>>())?;
        body.set_some("tool_choice", choice(&request.choice))?;
    }
    body.set("stream", &true)?;
    // The conversation is ours to keep. The thoughts of the model then come along, encrypted.
    body.set("store", &false)?;
    body.set_some("max_output_tokens", request.max_tokens.or(target.model.max_tokens))?;
    body.set_some("temperature", request.temperature)?;
    if let Reasoning::Effort(_) = target.reasoning() {
        body.set("reasoning", &json!({ "effort": effort(level), "summary": "auto" }))?;
        body.set("include", &["reasoning.encrypted_content"])?;
    }
    body.set_some("prompt_cache_key", request.cache.key.as_ref())?;
    Ok(body)
}

fn choice(choice: &Choice) -> Option<Value> {
    match choice {
        Choice::Auto => None,
        Choice::Never => Some(json!("none")),
        Choice::Any => Some(json!("required")),
        Choice::Named(name) => Some(json!({ "type": "function", "name": name })),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Own(Value),
    /// As the provider sent it.
    Raw(Json),
}

fn items(request: &Request, target: &Target) -> Vec<Item> {
    let mut items = Vec::new();
    for message in &request.messages {
        match message {
            Message::User(content) => items.push(Item::Own(json!({
                "type": "message", "role": "user", "content": content.iter().map(input).collect::<Vec<_>>(),
            }))),
            Message::Assistant(reply) => items.extend(assistant(reply, target)),
            Message::Results(results) => items.extend(results.iter().map(|result| Item::Own(output(result)))),
        }
    }
    items
}

fn input(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!({ "type": "input_text", "text": text }),
        Content::Image(image) => json!({ "type": "input_image", "image_url": image_url(image), "detail": "auto" }),
    }
}

fn output(result: &ToolResult) -> Value {
    let has_images = result.content.iter().any(|content| matches!(content, Content::Image(_)));
    let output = match has_images {
        true => Value::from(result.content.iter().map(input).collect::<Vec<_>>()),
        false => text_of(&result.content).into(),
    };
    json!({ "type": "function_call_output", "call_id": result.call, "output": output })
}

fn assistant(reply: &Assistant, target: &Target) -> Vec<Item> {
    let is_own = reply.is_from(target);
    let mut items = Vec::new();
    for part in &reply.parts {
        match part {
            Part::Text { raw: Some(raw), .. }
            | Part::Refusal { raw: Some(raw), .. }
            | Part::Thinking { raw: Some(raw), .. }
            | Part::Other(raw)
                if is_own =>
            {
                items.push(Item::Raw(raw.clone()));
            }
            Part::Call(call) => items.push(match (&call.raw, called_name(&call.name)) {
                (Some(raw), Cow::Borrowed(_)) if is_own => Item::Raw(named(raw, &call.id)),
                (_, name) => Item::Own(json!({
                    "type": "function_call", "call_id": call.id, "name": name, "arguments": call.arguments.as_str(),
                })),
            }),
            Part::Text { text, .. } | Part::Refusal { text, .. } if !text.is_empty() => items.push(Item::Own(json!({
                "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text, "annotations": [] }],
            }))),
            _ => {}
        }
    }
    // A thought without the item that it led to is refused.
    let is_thought = |part: &&Part| matches!(part, Part::Thinking { .. });
    if is_own && reply.parts.last().as_ref().is_some_and(is_thought) {
        let thoughts = reply.parts.iter().rev().take_while(is_thought);
        let kept = thoughts.filter(|part| matches!(part, Part::Thinking { raw: Some(_), .. })).count();
        items.truncate(items.len().saturating_sub(kept));
    }
    items
}

/// Returns the provider's own form of a call under the id that its result names. They differ if the server gave none, or gave it twice.
fn named(raw: &Json, id: &str) -> Json {
    const ID: &str = "call_id";
    let mut members: BTreeMap<String, Json> = raw.to().unwrap_or_default();
    let known: Option<String> = members.get(ID).and_then(|known| known.to().ok());
    if known.as_deref() == Some(id) {
        return raw.clone();
    }
    members.extend(Json::of(&id).ok().map(|id| (ID.to_owned(), id)));
    Json::of(&members).unwrap_or_else(|_| raw.clone())
}

#[derive(Deserialize)]
struct Wire<'a> {
    r#type: String,
    delta: Option<Value>,
    text: Option<String>,
    arguments: Option<String>,
    refusal: Option<String>,
    item_id: Option<String>,
    output_index: Option<u64>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

/// An item of the output while it comes in.
struct Open {
    id: Option<String>,
    index: Option<u64>,
    at: At,
    is_done: bool,
}

#[derive(Default)]
pub(crate) struct Reader {
    pub(super) draft: Draft,
    items: Vec<Open>,
}

impl Reader {
    pub(super) fn take(&mut self, data: &str, out: &mut Vec<Event>) -> Result<bool, ModelError> {
        if data.trim() == "[DONE]" {
            return Ok(false);
        }
        let wire: Wire<'_> = serde_json::from_str(data).map_err(|error| malformed("an event", error))?;
        let kind = wire.r#type.strip_prefix("response.").unwrap_or(&wire.r#type);
        match kind {
            "created" => {
                let response = response(wire.response)?;
                self.draft.set_id(response["id"].as_str());
                let model = response["model"].as_str().map(str::to_owned);
                out.push(Event::Began { id: self.draft.id.clone(), model });
            }
            "output_item.added" => {
                let item = wire.item.ok_or_else(|| malformed("an event", "it has no item"))?;
                self.begin(item.get(), wire.output_index, out)?;
            }
            "output_text.delta"
            | "refusal.delta"
            | "function_call_arguments.delta"
            | "reasoning_text.delta"
            | "reasoning_summary_text.delta" => {
                let delta = wire.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
                if let Some(at) = self.at(&wire, kind)? {
                    self.draft.push(at, delta, out)?;
                }
            }
            // Summaries come in paragraphs.
            "reasoning_summary_part.added" => {
                let at = self.at(&wire, kind)?;
                let at = at
                    .filter(|at| matches!(self.draft.get(*at), Some(Piece::Thinking { text, .. }) if !text.is_empty()));
                if let Some(at) = at {
                    self.draft.push(at, "\n\n", out)?;
                }
            }
            // A part that came without deltas.
            "output_text.done" | "refusal.done" | "function_call_arguments.done" => {
                let Some(at) = self.at(&wire, kind)? else { return Ok(false) };
                let whole = wire.text.as_ref().or(wire.arguments.as_ref()).or(wire.refusal.as_ref());
                let is_empty = self.draft.get(at).is_some_and(|piece| match piece {
                    Piece::Text { text, .. } | Piece::Refusal { text, .. } => text.is_empty(),
                    Piece::Call { arguments, .. } => arguments.is_empty(),
                    Piece::Thinking { .. } | Piece::Other(_) => false,
                });
                if let Some(whole) = whole.filter(|_| is_empty) {
                    self.draft.push(at, whole, out)?;
                }
            }
            "output_item.done" => {
                let item = wire.item.ok_or_else(|| malformed("an event", "it has no item"))?;
                self.complete(item.get(), wire.output_index, out)?;
            }
            "completed" | "incomplete" => {
                self.end(&response(wire.response)?, wire.response, out)?;
                return Ok(true);
            }
            "failed" => {
                let response = response(wire.response)?;
                return Err(in_stream(&response["error"].to_string()));
            }
            "error" => return Err(in_stream(data)),
            // Progress, annotations, and what is yet to come.
            _ => {}
        }
        Ok(false)
    }

    /// The part that an event is about: by id, then by position, then the latest. Not every server says which.
    fn find(&self, id: Option<&str>, index: Option<u64>) -> Option<usize> {
        let by_id = id.and_then(|id| self.items.iter().position(|item| item.id.as_deref() == Some(id)));
        let by_index = || index.and_then(|index| self.items.iter().position(|item| item.index == Some(index)));
        by_id.or_else(by_index)
    }

    fn at(&mut self, wire: &Wire<'_>, kind: &str) -> Result<Option<At>, ModelError> {
        let known = self.find(wire.item_id.as_deref(), wire.output_index);
        let is_told = wire.item_id.is_some() || wire.output_index.is_some();
        let latest = || self.items.iter().rposition(|item| !item.is_done).filter(|_| !is_told);
        if let Some(found) = known.or_else(latest) {
            // A message that turns out to be a refusal has begun as a text.
            let at = self.items[found].at;
            let is_empty_text = matches!(self.draft.get(at), Some(Piece::Text { text, .. }) if text.is_empty());
            if kind.starts_with("refusal") && is_empty_text {
                self.items[found].at = self.draft.begin_refusal()?;
            }
            return Ok(Some(self.items[found].at));
        }
        // Some servers forget to announce an item.
        let at = match kind.split('.').next().unwrap_or_default() {
            // Its name is not known yet; the whole call comes when it is done.
            "function_call_arguments" => return Ok(None),
            "refusal" => self.draft.begin_refusal()?,
            kind if kind.starts_with("reasoning") => self.draft.begin_thinking()?,
            _ => self.draft.begin_text()?,
        };
        self.items.push(Open { id: wire.item_id.clone(), index: wire.output_index, at, is_done: false });
        Ok(Some(at))
    }

    fn begin(&mut self, raw: &str, index: Option<u64>, out: &mut Vec<Event>) -> Result<usize, ModelError> {
        let item: Value = serde_json::from_str(raw).map_err(|error| malformed("an item", error))?;
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let at = match item["type"].as_str() {
            Some("message") => self.draft.begin_text()?,
            Some("reasoning") => self.draft.begin_thinking()?,
            Some("function_call") => self.draft.begin_call(text("call_id"), text("name"), out)?,
            _ => self.draft.add_other(kept(raw)?)?,
        };
        let id = item["id"].as_str().map(str::to_owned);
        self.items.push(Open { id, index, at, is_done: false });
        Ok(self.items.len() - 1)
    }

    /// Takes the final form of an item: it goes back as it is.
    fn complete(&mut self, raw: &str, index: Option<u64>, out: &mut Vec<Event>) -> Result<(), ModelError> {
        let item: Value = serde_json::from_str(raw).map_err(|error| malformed("an item", error))?;
        let found = self.find(item["id"].as_str(), index).filter(|found| !self.items[*found].is_done);
        let fits = |found: &usize| self.fits(self.items[*found].at, &item);
        let latest = || self.items.iter().rposition(|item| !item.is_done).filter(fits);
        let found = match found.or_else(latest) {
            Some(found) => found,
            None => self.begin(raw, index, out)?,
        };
        self.items[found].is_done = true;
        let at = self.items[found].at;
        let missing = match self.draft.get(at) {
            Some(Piece::Text { text, .. }) if text.is_empty() => joined(&item["content"], "output_text", "text", ""),
            Some(Piece::Refusal { text, .. }) if text.is_empty() => joined(&item["content"], "refusal", "refusal", ""),
            Some(Piece::Thinking { text, .. }) if text.is_empty() => {
                let summary = joined(&item["summary"], "summary_text", "text", "\n\n");
                if summary.is_empty() { joined(&item["content"], "reasoning_text", "text", "") } else { summary }
            }
            Some(Piece::Call { arguments, .. }) if arguments.is_empty() => {
                item["arguments"].as_str().unwrap_or_default().to_owned()
            }
            _ => String::new(),
        };
        self.draft.push(at, &missing, out)?;
        self.draft.set_raw(at, kept(raw)?)
    }

    fn fits(&self, at: At, item: &Value) -> bool {
        matches!(
            (self.draft.get(at), item["type"].as_str()),
            (Some(Piece::Text { .. } | Piece::Refusal { .. }), Some("message"))
                | (Some(Piece::Thinking { .. }), Some("reasoning"))
                | (Some(Piece::Call { .. }), Some("function_call"))
        )
    }

    fn end(&mut self, whole: &Value, raw: Option<&RawValue>, out: &mut Vec<Event>) -> Result<(), ModelError> {
        if let Some(error) = whole.get("error").filter(|error| !error.is_null()) {
            return Err(in_stream(&error.to_string()));
        }
        if self.draft.id.is_none() {
            self.draft.set_id(whole["id"].as_str());
        }
        // The whole reply again: items that no event has completed are taken from here.
        #[derive(Deserialize)]
        struct Whole<'a> {
            #[serde(borrow, default)]
            output: Vec<&'a RawValue>,
        }
        let output = raw.and_then(|raw| serde_json::from_str::<Whole<'_>>(raw.get()).ok()).map(|whole| whole.output);
        for (index, item) in output.into_iter().flatten().enumerate() {
            let value: Value = serde_json::from_str(item.get()).map_err(|error| malformed("an item", error))?;
            let known = self
                .find(value["id"].as_str(), Some(index as u64))
                .or_else(|| (index < self.items.len()).then_some(index));
            if known.is_none_or(|known| !self.items[known].is_done) {
                self.complete(item.get(), Some(index as u64), out)?;
            }
        }
        let usage = &whole["usage"];
        let prompt = tokens(usage, &["input_tokens"]);
        let cache_read = tokens(usage, &["input_tokens_details", "cached_tokens"]).min(prompt);
        let cache_write = tokens(usage, &["input_tokens_details", "cache_write_tokens"]).min(prompt - cache_read);
        self.draft.usage = Usage {
            input: prompt - cache_read - cache_write,
            cache_read,
            cache_write,
            output: tokens(usage, &["output_tokens"]),
            thinking: tokens(usage, &["output_tokens_details", "reasoning_tokens"]),
        };
        self.draft.stop = Some(match whole["incomplete_details"]["reason"].as_str() {
            Some("max_output_tokens" | "max_tokens") => Stop::Length,
            Some("content_filter") => Stop::Refusal,
            Some(other) => Stop::Other(other.to_owned()),
            None if whole["status"].as_str() == Some("incomplete") => Stop::Length,
            None => Stop::End,
        });
        Ok(())
    }
}

fn response(raw: Option<&RawValue>) -> Result<Value, ModelError> {
    let raw = raw.ok_or_else(|| malformed("an event", "it has no response"))?;
    serde_json::from_str(raw.get()).map_err(|error| malformed("an event", error))
}

fn joined(list: &Value, kind: &str, member: &str, between: &str) -> String {
    let parts = list.as_array().into_iter().flatten().filter(|part| part["type"].as_str() == Some(kind));
    parts.filter_map(|part| part[member].as_str()).collect::<Vec<_>>().join(between)
}
