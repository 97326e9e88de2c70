//! Conversations as hooks see them: the messages of the exchange format, without the data of pictures.

use pincer_model::{Content, Image, Message, Part};
use pincer_sessions::{Block, Message as Stored, Role};
use pincer_store::{Entry, EntryKind};
use serde_json::{Value, json};

use crate::transcript::Transcript;

/// Returns a conversation as hooks see it.
pub(crate) fn messages(transcript: &Transcript) -> Vec<Value> {
    of_model(&transcript.messages())
}

/// Returns the messages of stored entries as hooks see them.
pub(crate) fn stored_messages(entries: &[Entry]) -> Vec<Value> {
    let messages = entries.iter().filter(|entry| entry.kind == EntryKind::Message);
    messages.filter_map(|entry| Stored::parse(&entry.body).ok()).map(|message| of_stored(&message)).collect()
}

/// Returns the messages of a request as hooks see them.
pub(super) fn of_model(messages: &[Message]) -> Vec<Value> {
    let mut shown = Vec::new();
    for message in messages {
        match message {
            Message::User(content) => shown.push(json!({ "role": "user", "content": contents(content) })),
            Message::Assistant(message) => {
                let parts: Vec<Value> = message.parts.iter().filter_map(part).collect();
                shown.push(json!({ "role": "assistant", "content": parts }));
            }
            Message::Results(results) => shown.extend(results.iter().map(|result| {
                json!({
                    "role": "toolResult",
                    "toolCallId": result.call,
                    "content": contents(&result.content),
                    "isError": result.is_error,
                })
            })),
        }
    }
    shown
}

/// Returns how many pictures a request has.
pub(super) fn images(messages: &[Message]) -> usize {
    let count = |content: &[Content]| content.iter().filter(|part| matches!(part, Content::Image(_))).count();
    messages
        .iter()
        .map(|message| match message {
            Message::User(content) => count(content),
            Message::Results(results) => results.iter().map(|result| count(&result.content)).sum(),
            Message::Assistant(_) => 0,
        })
        .sum()
}

/// Returns a stored message as hooks see it.
pub(crate) fn of_stored(message: &Stored) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::ToolResult => "toolResult",
        Role::Other => "other",
    };
    let mut shown = json!({ "role": role, "content": message.content.iter().filter_map(block).collect::<Vec<_>>() });
    if let (Role::ToolResult, Some(members)) = (message.role, shown.as_object_mut()) {
        members.insert("toolCallId".into(), message.tool_call_id.clone().into());
        members.insert("toolName".into(), message.tool_name.clone().into());
        members.insert("isError".into(), message.is_error.unwrap_or_default().into());
    }
    shown
}

fn contents(content: &[Content]) -> Vec<Value> {
    let shown = |content: &Content| match content {
        Content::Text(text) => json!({ "type": "text", "text": text }),
        Content::Image(Image::Data { media_type, .. }) => json!({ "type": "image", "mimeType": media_type }),
        Content::Image(Image::Url(url)) => json!({ "type": "image", "url": url }),
    };
    content.iter().map(shown).collect()
}

fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text, .. } | Part::Refusal { text, .. } => json!({ "type": "text", "text": text }),
        Part::Thinking { text, .. } => json!({ "type": "thinking", "thinking": text }),
        Part::Call(call) => {
            json!({ "type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments.to::<Value>().ok() })
        }
        Part::Other(_) => return None,
    })
}

fn block(block: &Block) -> Option<Value> {
    Some(match block.kind.as_str() {
        "text" | "refusal" => json!({ "type": "text", "text": block.text }),
        "thinking" => json!({ "type": "thinking", "thinking": block.thinking }),
        "toolCall" => {
            let arguments = block.arguments.as_ref().and_then(|arguments| arguments.to::<Value>().ok());
            json!({ "type": "toolCall", "id": block.id, "name": block.name, "arguments": arguments })
        }
        "image" => match &block.url {
            Some(url) => json!({ "type": "image", "url": url }),
            None => json!({ "type": "image", "mimeType": block.mime_type }),
        },
        _ => return None,
    })
}
