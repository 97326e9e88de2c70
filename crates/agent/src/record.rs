//! A conversation as a model takes it, and as a session keeps it.

use pincer_json::Json;
use pincer_model::{Api, Assistant, Content, Image, Message, Origin, Part, Reply, Stop, ToolCall, ToolResult};
use pincer_sessions::{Block, Message as Stored, Role, TokenUsage};
use pincer_store::Millis;
use serde_json::{Value, json};

use crate::event::shown;
use crate::fitting::{complaint, left_out};
use crate::request::Request;

/// Returns the message of a user.
pub(crate) fn user(request: &Request, at: Millis) -> Stored {
    let text = (!request.message.is_empty()).then(|| Block::text(request.message.clone()));
    let images = request.images.iter().map(|image| Block {
        kind: "image".into(),
        data: Some(image.data.clone()),
        mime_type: Some(image.mime_type.clone()),
        ..Block::default()
    });
    Stored {
        role: Role::User,
        content: text.into_iter().chain(images).collect(),
        timestamp: Some(at),
        ..Stored::default()
    }
}

/// Returns a reply of a model.
pub(crate) fn assistant(reply: &Reply, at: Millis) -> Stored {
    let origin = reply.message.origin.as_ref();
    let usage = &reply.usage;
    Stored {
        role: Role::Assistant,
        content: reply.message.parts.iter().map(block).collect(),
        api: origin.map(|origin| origin.api.name().to_owned()),
        provider: origin.map(|origin| origin.provider.clone()),
        model: origin.map(|origin| origin.model.clone()),
        usage: Some(TokenUsage {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            total_tokens: usage.prompt().saturating_add(usage.output),
        }),
        stop_reason: Some(stop(&reply.stop).to_owned()),
        timestamp: Some(at),
        ..Stored::default()
    }
}

/// Returns the word for the end of a reply.
pub(crate) fn stop(stop: &Stop) -> &str {
    match stop {
        Stop::End | Stop::Word => "stop",
        Stop::Calls => "toolUse",
        Stop::Length | Stop::Window => "length",
        Stop::Refusal => "refusal",
        Stop::Pause => "pause",
        Stop::Other(other) => other,
    }
}

/// Returns a reply that no model has given.
pub(crate) fn given_reply(text: &str, at: Millis) -> Stored {
    Stored { stop_reason: Some("hook".into()), ..stopped_reply(text, at) }
}

/// Returns the text of a reply that was stopped in the middle.
pub(crate) fn stopped_reply(text: &str, at: Millis) -> Stored {
    Stored {
        role: Role::Assistant,
        content: vec![Block::text(text)],
        stop_reason: Some("aborted".into()),
        timestamp: Some(at),
        ..Stored::default()
    }
}

/// Returns the result of a call.
pub(crate) fn result(call: &str, tool: &str, outcome: &CallResult, at: Millis) -> Stored {
    let blocks = outcome.content.iter().map(|content| match content {
        Content::Text(text) => Block::text(text.clone()),
        Content::Image(Image::Data { media_type, base64 }) => Block {
            kind: "image".into(),
            data: Some(base64.clone()),
            mime_type: Some(media_type.clone()),
            ..Block::default()
        },
        Content::Image(Image::Url(url)) => Block { kind: "image".into(), url: Some(url.clone()), ..Block::default() },
    });
    Stored {
        role: Role::ToolResult,
        content: blocks.collect(),
        tool_call_id: Some(call.to_owned()),
        tool_name: Some(tool.to_owned()),
        is_error: Some(outcome.is_error),
        details: outcome.details.as_ref().and_then(|details| Json::of(details).ok()),
        timestamp: Some(at),
        ..Stored::default()
    }
}

/// The result of a call, as the model is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallResult {
    pub content: Vec<Content>,
    pub is_error: bool,
    /// Facts that the model is not told.
    pub details: Option<Value>,
}

impl CallResult {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], ..Self::default() }
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// Returns the content of a stored result, safe to show.
pub(crate) fn shown_result(message: &Stored) -> Value {
    let blocks = serde_json::to_value(&message.content).unwrap_or_default();
    shown(&json!({ "content": blocks }))
}

fn block(part: &Part) -> Block {
    match part {
        Part::Text { text, raw } => Block { raw: raw.clone(), ..Block::text(text.clone()) },
        Part::Thinking { text, raw } => {
            Block { kind: "thinking".into(), thinking: Some(text.clone()), raw: raw.clone(), ..Block::default() }
        }
        Part::Refusal { text, raw } => Block { kind: "refusal".into(), raw: raw.clone(), ..Block::text(text.clone()) },
        Part::Call(call) => Block {
            kind: "toolCall".into(),
            id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            arguments: Some(call.arguments.clone()),
            raw: call.raw.clone(),
            ..Block::default()
        },
        Part::Other(raw) => Block { kind: "other".into(), raw: Some(raw.clone()), ..Block::default() },
    }
}

/// A stored message in the words of models.
pub(crate) enum Read {
    Message(Message),
    /// The result of one call. Results of one reply belong together.
    Result(ToolResult),
    /// Nothing for a model.
    Nothing,
}

/// Reads a stored message.
pub(crate) fn read(stored: Stored) -> Read {
    match stored.role {
        Role::User => {
            let content: Vec<Content> = stored.content.into_iter().filter_map(content).collect();
            if content.is_empty() { Read::Nothing } else { Read::Message(Message::User(content)) }
        }
        Role::Assistant => {
            let parts: Vec<Part> = stored.content.into_iter().filter_map(part).collect();
            let api = stored.api.as_deref().and_then(|name| Api::ALL.into_iter().find(|api| api.name() == name));
            let origin = match (stored.provider, api, stored.model) {
                (Some(provider), Some(api), Some(model)) => Some(Origin { provider, api, model }),
                _ => None,
            };
            if parts.is_empty() {
                Read::Nothing
            } else {
                Read::Message(Message::Assistant(Assistant { parts, origin }))
            }
        }
        Role::ToolResult => match stored.tool_call_id {
            Some(call) => Read::Result(ToolResult {
                call,
                content: stored.content.into_iter().filter_map(content).collect(),
                is_error: stored.is_error.unwrap_or_default(),
            }),
            None => Read::Nothing,
        },
        Role::Other => Read::Nothing,
    }
}

fn content(block: Block) -> Option<Content> {
    match block.kind.as_str() {
        "text" => block.text.map(Content::Text),
        "image" => match (block.data, block.mime_type, block.url) {
            // Earlier versions and other programs stored pictures that no model takes.
            (Some(base64), Some(media_type), _) => Some(match complaint(&media_type, &base64) {
                Some(reason) => Content::Text(left_out(&reason)),
                None => Content::Image(Image::Data { media_type, base64 }),
            }),
            (_, _, Some(url)) => Some(Content::Image(Image::Url(url))),
            _ => None,
        },
        _ => None,
    }
}

fn part(block: Block) -> Option<Part> {
    let raw = block.raw;
    match block.kind.as_str() {
        "text" => Some(Part::Text { text: block.text?, raw }),
        "thinking" => Some(Part::Thinking { text: block.thinking.unwrap_or_default(), raw }),
        "refusal" => Some(Part::Refusal { text: block.text?, raw }),
        "toolCall" => Some(Part::Call(ToolCall {
            id: block.id?,
            name: block.name?,
            arguments: block.arguments.unwrap_or_else(Json::empty_object),
            raw,
        })),
        "other" => Some(Part::Other(raw?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pincer_model::Usage;

    use super::*;

    #[test]
    fn a_stored_picture_that_no_model_takes_is_read_as_a_note() {
        let body = r#"{"message":{"role":"user","content":[
            {"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"image","data":"AAAA","mimeType":"image/svg+xml"}]}}"#;
        let Read::Message(Message::User(content)) = read(Stored::parse(body).expect("a message")) else { panic!() };
        assert!(
            matches!(&content[..], [Content::Image(_), Content::Text(note)] if note.contains("svg")),
            "{content:?}"
        );
    }

    #[test]
    fn a_reply_comes_back_as_it_was() {
        let json = |text: &str| Json::parse(text).expect("JSON");
        let message = Assistant {
            parts: vec![
                Part::Thinking { text: "hm".into(), raw: Some(json(r#"{"signature":"s=="}"#)) },
                Part::Text { text: "I look.".into(), raw: None },
                Part::Call(ToolCall {
                    id: "call_1".into(),
                    name: "exec".into(),
                    arguments: json(r#"{"code":"return 1.0","n":12345678901234567890123}"#),
                    raw: Some(json(r#"{"id":"fc_1"}"#)),
                }),
                Part::Other(json(r#"{"type":"x"}"#)),
            ],
            origin: Some(Origin { provider: "p".into(), api: Api::Responses, model: "m".into() }),
        };
        let reply = Reply {
            message: message.clone(),
            stop: Stop::Calls,
            usage: Usage::default(),
            id: None,
            cut_calls: Vec::new(),
        };
        let body = assistant(&reply, 1).to_body();
        let Read::Message(Message::Assistant(read)) = read(Stored::parse(&body).expect("a message")) else {
            panic!("{body}")
        };
        assert_eq!(read, message);
    }
}
