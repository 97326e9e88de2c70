//! The members of entries, in the words of the exchange format (version 3).

use pincer_json::Json;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The body of a message entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageBody {
    /// The message.
    pub message: Message,
}

/// A message of a user, a model or a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The sender.
    pub role: Role,
    /// The parts, in their order.
    #[serde(default, deserialize_with = "blocks")]
    pub content: Vec<Block>,
    /// The wire format of the model's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model, as the provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tokens of the request and its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Why the reply ends: `stop`, `toolUse`, `length`, `error` or `aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The call that it is the result of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool that was called, as the model calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Facts about the call that no model is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
    /// The time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The user.
    #[default]
    User,
    /// The model.
    Assistant,
    /// A tool.
    ToolResult,
    /// Something else, which no model is sent.
    #[serde(other)]
    Other,
}

/// A part of a message. The members that are set depend on the type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// `text`, `thinking`, `refusal`, `image`, `toolCall`, or `other` for what only the provider understands.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The thoughts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The bytes of a picture, in Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The kind of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The address of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The id of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the tool that is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The arguments of a call, as the model wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Json>,
    /// The provider's own form, which goes back to it unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Json>,
}

/// Tokens of a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// The prompt, without what the cache had.
    pub input: u64,
    /// The reply.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
    /// All of them.
    pub total_tokens: u64,
}

/// The body of a note that no model is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Custom {
    /// The kind of note.
    pub custom_type: String,
    /// The note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// The body of a summary that stands for the entries before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// The summary.
    pub summary: String,
    /// The first entry that is sent besides.
    pub first_kept_entry_id: String,
    /// The size of what was sent before.
    #[serde(default)]
    pub tokens_before: u64,
    /// Facts about it that only its writer understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
}

/// The body of a message that the system adds to what a model is sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    /// The part of the system that added it.
    #[serde(default)]
    pub custom_type: String,
    /// The parts, in their order: texts and pictures.
    #[serde(deserialize_with = "blocks")]
    pub content: Vec<Block>,
}

/// The body of a summary of a branch that was left.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BranchSummary {
    /// The summary.
    pub summary: String,
}

/// The body of a call that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NestedCall {
    /// The program's run.
    pub program: String,
    /// The number of the call in there.
    pub seq: u32,
    /// The tool's id.
    pub tool: String,
    /// The line of the program that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The input, shortened if it is long.
    pub input: Json,
    /// The value that came of it, shortened if it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
    /// Why no value came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// When it was handed to its tool, in milliseconds since 1970. Calls of earlier versions have no time of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<i64>,
    /// Its effect: `none`, `unknown` or `done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

impl Message {
    /// Reads the message of an entry's body.
    pub fn parse(body: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<MessageBody>(body).map(|body| body.message)
    }

    /// Returns the body of an entry with this message.
    pub fn to_body(&self) -> String {
        #[derive(Serialize)]
        struct Body<'m> {
            message: &'m Message,
        }
        serde_json::to_string(&Body { message: self }).unwrap_or_default()
    }

    /// Returns the text of the message, without thoughts.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter(|block| block.kind == "text").filter_map(|block| block.text.as_deref());
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Block {
    /// Returns a part with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { kind: "text".into(), text: Some(text.into()), ..Self::default() }
    }
}

/// Reads the parts of a message; plain text may stand in their place.
///
/// Not as one [`Json`]: each value in a part may be as deep and as large as one may be, so all of them together are deeper and may
/// be larger.
fn blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Block>, D::Error> {
    use serde::de::Error;
    let content = Box::<RawValue>::deserialize(deserializer)?;
    match content.get().trim_start().starts_with('"') {
        true => Ok(vec![Block::text(serde_json::from_str::<String>(content.get()).map_err(Error::custom)?)]),
        false => serde_json::from_str::<Option<Vec<Block>>>(content.get())
            .map(Option::unwrap_or_default)
            .map_err(Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use pincer_json::{MAX_DEPTH, MAX_NODES};

    use super::*;

    #[test]
    fn arguments_and_raw_parts_are_kept_as_they_were_written() {
        let body = r#"{"message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"exec","arguments":{"z":1.0,"a":"\u00e9"},"raw":{"n":10000000000000000000000}}]}}"#;
        let message = Message::parse(body).expect("a message");
        assert_eq!(message.to_body(), body);
    }

    #[test]
    fn every_value_of_a_part_may_be_as_deep_and_large_as_one_may_be() {
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let large = format!("[{}0]", "0,".repeat(MAX_NODES - 2));
        let block = |json: &str| Block {
            kind: "toolCall".into(),
            arguments: Some(Json::parse(json).expect("JSON")),
            raw: Some(Json::parse(json).expect("JSON")),
            ..Block::default()
        };
        let message =
            Message { role: Role::Assistant, content: vec![block(&deep), block(&large)], ..Message::default() };
        assert!(Message::parse(&message.to_body()).expect("a message") == message);
        let deeper = message.to_body().replace(&deep, &format!("[{deep}]"));
        assert!(Message::parse(&deeper).is_err(), "none may be deeper");
    }

    #[test]
    fn plain_text_stands_for_one_part() {
        let message = Message::parse(r#"{"message":{"role":"user","content":"hello \"you\""}}"#).expect("a message");
        assert_eq!((message.role, message.text()), (Role::User, "hello \"you\"".to_owned()));
    }
}
