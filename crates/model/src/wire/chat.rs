//! OpenAI Chat Completions, and what others made of it.

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
use crate::message::{Assistant, Content, Message, Part, ToolCall, text_of};
use crate::request::{Choice, Request};
use crate::settings::Target;
use crate::thinking::{Level, Reasoning};

/// Members in which servers send thoughts, and want them back.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// The list of thoughts in parts, which goes back as it came.
const DETAILS: &str = "reasoning_details";

pub(super) fn body(request: &Request, target: &Target, level: Level) -> Result<Body, ModelError> {
    let mut body = Body::default();
    body.set("model", &target.model.id)?;
    body.set("messages", &messages(request, target))?;
    if !request.tools.is_empty() {
        let function = |tool: &crate::request::Tool| {
            json!({ "type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            } })
        };
        body.set("tools", &request.tools.iter().map(function).collect::<Vec<_>>())?;
        body.set_some("tool_choice", choice(&request.choice))?;
    }
    body.set("stream", &true)?;
    body.set("stream_options", &json!({ "include_usage": true }))?;
    let is_openai = target.provider.base_url.host_str() == Some("api.openai.com");
    // OpenAI's own models take the new name alone, most other servers the old one alone.
    let limit = if is_openai { "max_completion_tokens" } else { "max_tokens" };
    body.set_some(limit, request.max_tokens.or(target.model.max_tokens))?;
    body.set_some("temperature", request.temperature)?;
    if let Reasoning::Effort(_) = target.reasoning() {
        body.set("reasoning_effort", &effort(level))?;
    }
    // Strict servers refuse members that they do not know.
    body.set_some("prompt_cache_key", request.cache.key.as_ref().filter(|_| is_openai))?;
    Ok(body)
}

fn choice(choice: &Choice) -> Option<Value> {
    match choice {
        Choice::Auto => None,
        Choice::Never => Some(json!("none")),
        Choice::Any => Some(json!("required")),
        Choice::Named(name) => Some(json!({ "type": "function", "function": { "name": name } })),
    }
}

#[derive(Default, Serialize)]
struct Line<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: Option<Said<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called<'a>>,
    #[serde(flatten)]
    more: BTreeMap<String, Json>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Value>),
}

#[derive(Serialize)]
struct Called<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
    #[serde(flatten)]
    more: BTreeMap<String, Json>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

fn messages<'a>(request: &'a Request, target: &Target) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    if let Some(text) = request.instruction_text() {
        let content = Some(Said::Text(text.into()));
        lines.push(Line { role: "system", content, ..Line::default() });
    }
    for message in &request.messages {
        match message {
            Message::User(content) => {
                lines.push(Line { role: "user", content: Some(said(content)), ..Line::default() })
            }
            Message::Assistant(reply) => lines.extend(assistant(reply, target)),
            Message::Results(results) => {
                let line = |result: &'a crate::message::ToolResult| Line {
                    role: "tool",
                    tool_call_id: Some(&result.call),
                    content: Some(Said::Text(text_of(&result.content).into())),
                    ..Line::default()
                };
                lines.extend(results.iter().map(line));
                // A result is text here. Pictures come right behind, as if the user had sent them.
                let is_image = |content: &&Content| matches!(content, Content::Image(_));
                let images: Vec<Content> =
                    results.iter().flat_map(|result| &result.content).filter(is_image).cloned().collect();
                if !images.is_empty() {
                    let words = Content::Text("Pictures of the results above:".to_owned());
                    let content: Vec<Content> = std::iter::once(words).chain(images).collect();
                    lines.push(Line { role: "user", content: Some(owned(said(&content))), ..Line::default() });
                }
            }
        }
    }
    lines
}

fn owned(said: Said<'_>) -> Said<'static> {
    match said {
        Said::Text(text) => Said::Text(text.into_owned().into()),
        Said::Parts(parts) => Said::Parts(parts),
    }
}

fn said(content: &[Content]) -> Said<'_> {
    if let [Content::Text(text)] = content {
        return Said::Text(text.into());
    }
    let part = |content: &Content| match content {
        Content::Text(text) => json!({ "type": "text", "text": text }),
        Content::Image(image) => json!({ "type": "image_url", "image_url": { "url": image_url(image) } }),
    };
    Said::Parts(content.iter().map(part).collect())
}

fn assistant<'a>(reply: &'a Assistant, target: &Target) -> Option<Line<'a>> {
    let is_own = reply.is_from(target);
    let mut line = Line { role: "assistant", ..Line::default() };
    let mut text = String::new();
    for part in &reply.parts {
        match part {
            Part::Text { text: more, .. } | Part::Refusal { text: more, .. } => text.push_str(more),
            Part::Thinking { raw: Some(raw), .. } if is_own => line.more.extend(members(raw)),
            Part::Call(call) => line.tool_calls.push(called(call, is_own)),
            Part::Thinking { .. } | Part::Other(_) => {}
        }
    }
    if text.is_empty() && line.tool_calls.is_empty() {
        return None;
    }
    line.content = (!text.is_empty()).then(|| Said::Text(text.into()));
    Some(line)
}

fn called(call: &ToolCall, is_own: bool) -> Called<'_> {
    let more = call.raw.as_ref().filter(|_| is_own).map(members).unwrap_or_default();
    let function = Function { name: called_name(&call.name), arguments: call.arguments.as_str() };
    Called { id: &call.id, r#type: "function", function, more }
}

fn members(raw: &Json) -> BTreeMap<String, Json> {
    raw.to().unwrap_or_default()
}

#[derive(Deserialize)]
struct Chunk<'a> {
    id: Option<String>,
    model: Option<String>,
    #[serde(borrow)]
    choices: Option<Vec<Choose<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choose<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    content: Option<Given>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    #[serde(borrow)]
    reasoning_details: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

/// Most send text; some send parts, with thoughts among them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Text(String),
    Parts(Vec<Value>),
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Default)]
pub(crate) struct Reader {
    pub(super) draft: Draft,
    has_begun: bool,
    /// The server's indices of calls, and where these are.
    indices: Vec<(u64, At)>,
    /// Calls whose id another call had before: the id, the index, and where they are.
    namesakes: Vec<(String, u64, At)>,
    /// The member in which thoughts came.
    thoughts: Option<&'static str>,
    details: Vec<Json>,
    has_kept: bool,
}

impl Reader {
    pub(super) fn take(&mut self, data: &str, out: &mut Vec<Event>) -> Result<bool, ModelError> {
        if data.trim() == "[DONE]" {
            if self.draft.stop.is_none() && !self.has_begun {
                return Err(malformed("the reply", "it ended before it began"));
            }
            self.keep_thoughts()?;
            return Ok(true);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| malformed("an event", error))?;
        if let Some(error) = chunk.error.filter(|error| error.get() != "null") {
            return Err(in_stream(error.get()));
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.draft.set_id(chunk.id.as_deref());
            out.push(Event::Began { id: self.draft.id.clone(), model: chunk.model });
        }
        if let Some(usage) = chunk.usage.and_then(|usage| serde_json::from_str::<Value>(usage.get()).ok()) {
            self.draft.usage = read_usage(&usage).unwrap_or(self.draft.usage);
        }
        for choose in chunk.choices.into_iter().flatten().filter(|choose| choose.index.unwrap_or(0) == 0) {
            if let Some(delta) = choose.delta {
                self.delta(delta, out)?;
            }
            if let Some(reason) = choose.finish_reason.filter(|reason| !reason.is_empty()) {
                self.draft.stop = Some(stop(reason));
                self.keep_thoughts()?;
            }
        }
        Ok(false)
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Vec<Event>) -> Result<(), ModelError> {
        let thoughts = [delta.reasoning_content, delta.reasoning];
        for (member, thought) in THOUGHTS.into_iter().zip(thoughts) {
            // Some servers send the same thought in both.
            if let Some(thought) = thought.filter(|thought| !thought.is_empty())
                && *self.thoughts.get_or_insert(member) == member
            {
                self.think(&thought, out)?;
            }
        }
        for detail in delta.reasoning_details.into_iter().flatten() {
            self.draft.grow(detail.get().len())?;
            self.details.push(kept(detail.get())?);
        }
        match delta.content {
            Some(Given::Text(text)) => self.say(&text, out)?,
            Some(Given::Parts(parts)) => self.parts(&parts, out)?,
            None => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            let last = self.draft.last(|piece| matches!(piece, Piece::Refusal { .. }));
            let at = last.map_or_else(|| self.draft.begin_refusal(), Ok)?;
            self.draft.push(at, &refusal, out)?;
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn say(&mut self, text: &str, out: &mut Vec<Event>) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        let last = self.draft.last(|piece| matches!(piece, Piece::Text { .. }));
        let at = last.map_or_else(|| self.draft.begin_text(), Ok)?;
        self.draft.push(at, text, out)
    }

    fn think(&mut self, text: &str, out: &mut Vec<Event>) -> Result<(), ModelError> {
        let last = self.draft.last(|piece| matches!(piece, Piece::Thinking { .. }));
        let at = last.map_or_else(|| self.draft.begin_thinking(), Ok)?;
        self.draft.push(at, text, out)
    }

    fn parts(&mut self, parts: &[Value], out: &mut Vec<Event>) -> Result<(), ModelError> {
        for part in parts {
            match (part["type"].as_str(), part["text"].as_str()) {
                (Some("text"), Some(text)) => self.say(text, out)?,
                (Some("thinking"), _) => {
                    let thoughts = part["thinking"].as_array().into_iter().flatten();
                    for thought in thoughts.filter_map(|thought| thought["text"].as_str()) {
                        self.think(thought, out)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta<'_>, out: &mut Vec<Event>) -> Result<(), ModelError> {
        let function = delta.function.unwrap_or(FunctionDelta { name: None, arguments: None });
        let id = delta.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let known = self.known(&id, &name, delta.index);
        // Another tool under the same id is another call, if the index says so too. So is the same tool once the arguments of the
        // call before are whole.
        let is_namesake = |at: &At| {
            let other = |index: u64| !self.indices.contains(&(index, *at));
            !name.is_empty()
                && !id.is_empty()
                && delta.index.is_some_and(other)
                && matches!(self.draft.get(*at), Some(Piece::Call { name: known, arguments, .. })
                    if *known != name || arguments.is_empty() || is_complete(arguments))
        };
        let is_namesake = known.as_ref().is_some_and(is_namesake);
        let at = match known.filter(|_| !is_namesake) {
            Some(at) => at,
            None => {
                let at = self.draft.begin_call(if is_namesake { "" } else { &id }, &name, out)?;
                if let (true, Some(index)) = (is_namesake, delta.index) {
                    self.namesakes.push((id.clone(), index, at));
                }
                if let Some(index) = delta.index {
                    self.indices.retain(|(known, _)| *known != index);
                    self.indices.push((index, at));
                }
                at
            }
        };
        match function.arguments {
            Some(Value::String(arguments)) => self.draft.push(at, &arguments, out)?,
            // Not as a text, by servers that mean well.
            Some(arguments @ Value::Object(_)) => self.draft.push(at, &arguments.to_string(), out)?,
            _ => {}
        }
        if let Some(extra) = delta.extra_content {
            self.draft.set_raw(at, kept(&format!("{{\"extra_content\":{}}}", extra.get()))?)?;
        }
        Ok(())
    }

    /// The call that a delta belongs to. An index alone does not tell: some servers give all calls the same.
    fn known(&self, id: &str, name: &str, index: Option<u64>) -> Option<At> {
        if let Some((.., at)) = self.namesakes.iter().find(|(known, of, _)| known == id && index == Some(*of)) {
            return Some(*at);
        }
        if !id.is_empty() {
            return self.draft.calls().find(|(_, known)| *known == id).map(|(at, _)| at);
        }
        let by_index =
            index.and_then(|index| self.indices.iter().find(|(known, _)| *known == index)).map(|(_, at)| *at);
        let at = by_index.or_else(|| self.draft.calls().next().filter(|_| index.is_none()).map(|(at, _)| at))?;
        // A name without an id begins another call, unless it only repeats the name.
        let is_new = !name.is_empty()
            && matches!(self.draft.get(at), Some(Piece::Call { arguments, name: known, .. })
                if known != name || is_complete(arguments));
        (!is_new).then_some(at)
    }

    /// Keeps the thoughts in the form in which the server wants them back.
    fn keep_thoughts(&mut self) -> Result<(), ModelError> {
        if std::mem::replace(&mut self.has_kept, true) {
            return Ok(());
        }
        let details = std::mem::take(&mut self.details);
        let at = (0..).map_while(|at| Some((at, self.draft.get(at)?)));
        let thinking = at.filter_map(|(at, piece)| match piece {
            Piece::Thinking { text, raw: None } => Some((at, text.clone())),
            _ => None,
        });
        let thinking: Vec<(At, String)> = thinking.collect();
        let Some((last, _)) = thinking.last() else {
            if !details.is_empty() {
                let at = self.draft.begin_thinking()?;
                self.draft.set_raw(at, raw(DETAILS, &details)?)?;
            }
            return Ok(());
        };
        let form = match (details.is_empty(), self.thoughts) {
            (false, _) => raw(DETAILS, &details)?,
            (true, Some(member)) => raw(member, &thinking.iter().map(|(_, text)| text.as_str()).collect::<String>())?,
            (true, None) => return Ok(()),
        };
        self.draft.set_raw(*last, form)
    }
}

/// Whether arguments are a whole JSON text. Long ones are not looked at for each piece of them.
fn is_complete(arguments: &str) -> bool {
    const MOST: usize = 65_536;
    arguments.len() <= MOST
        && arguments.ends_with('}')
        && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

fn raw(member: &str, value: &impl Serialize) -> Result<Json, ModelError> {
    Json::of(&BTreeMap::from([(member, value)])).map_err(|error| malformed("a thought", error))
}

fn stop(reason: String) -> Stop {
    match reason.as_str() {
        "stop" | "eos" | "end_turn" => Stop::End,
        "length" | "max_tokens" => Stop::Length,
        "tool_calls" | "function_call" => Stop::Calls,
        "content_filter" => Stop::Refusal,
        _ => Stop::Other(reason),
    }
}

fn read_usage(usage: &Value) -> Option<Usage> {
    usage.as_object()?;
    let prompt = tokens(usage, &["prompt_tokens"]);
    let cache_read = tokens(usage, &["prompt_tokens_details", "cached_tokens"])
        .max(tokens(usage, &["prompt_cache_hit_tokens"]))
        .min(prompt);
    let cache_write = tokens(usage, &["prompt_tokens_details", "cache_write_tokens"]).min(prompt - cache_read);
    Some(Usage {
        input: prompt - cache_read - cache_write,
        cache_read,
        cache_write,
        output: tokens(usage, &["completion_tokens"]),
        thinking: tokens(usage, &["completion_tokens_details", "reasoning_tokens"]),
    })
}
