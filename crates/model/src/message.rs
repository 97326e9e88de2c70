//! A conversation, as it is kept and as it is sent.

use pincer_json::Json;
use serde::{Deserialize, Serialize};

use crate::settings::Target;

/// One step of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message {
    /// From the user.
    User(Vec<Content>),
    /// From the model.
    Assistant(Assistant),
    /// The results of the calls that the model asked for.
    Results(Vec<ToolResult>),
}

/// A part of a message to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// Plain text.
    Text(String),
    /// A picture.
    Image(Image),
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Image {
    /// Its bytes.
    Data {
        /// Such as `image/png`.
        media_type: String,
        /// The bytes, in Base64.
        base64: String,
    },
    /// Its address, which the provider fetches.
    Url(String),
}

/// The outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The id of the call.
    pub call: String,
    /// The result.
    pub content: Vec<Content>,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A reply of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assistant {
    /// The parts, in the order in which they came.
    pub parts: Vec<Part>,
    /// The sender. Parts that only this sender understands go back to no other.
    pub origin: Option<Origin>,
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
        /// The provider's own form of it.
        raw: Option<Json>,
    },
    /// Thoughts of the model, as far as they are shown. Sent back to the origin unchanged, or not at all.
    Thinking {
        /// The text; empty if the provider shows none.
        text: String,
        /// The provider's own form of it, with signature or cipher.
        raw: Option<Json>,
    },
    /// The model declines.
    Refusal {
        /// The reason it gives.
        text: String,
        /// The provider's own form of it.
        raw: Option<Json>,
    },
    /// A call that the model asks for.
    Call(ToolCall),
    /// Something that only the provider understands. Sent back to it unchanged.
    Other(Json),
}

/// A call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The id that the result refers to.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: valid JSON, as the model wrote it.
    pub arguments: Json,
    /// The provider's own form of it.
    pub raw: Option<Json>,
}

/// The sender of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The provider's id in the config.
    pub provider: String,
    /// The wire format.
    pub api: Api,
    /// The model, as the provider calls it.
    pub model: String,
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Api {
    /// OpenAI Chat Completions, which most others speak too.
    #[serde(rename = "openai-completions")]
    ChatCompletions,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    Responses,
    /// Anthropic Messages.
    #[serde(rename = "anthropic-messages")]
    Messages,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ChatCompletions, Self::Responses, Self::Messages];

    /// Returns the name of the format in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "openai-completions",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic-messages",
        }
    }
}

impl Assistant {
    /// Returns the calls that the model asks for.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the text for the user.
    pub fn text(&self) -> String {
        let text = self.parts.iter().filter_map(|part| match part {
            Part::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        text.collect()
    }

    /// Returns whether raw parts may be sent there: each model understands only its own.
    pub(crate) fn is_from(&self, target: &Target) -> bool {
        let Target { provider, model } = target;
        let is_same =
            |origin: &Origin| origin.provider == provider.id && origin.api == provider.api && origin.model == model.id;
        self.origin.as_ref().is_some_and(is_same)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Message {
    /// Returns a message of the user with this text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Content::Text(text.into())])
    }
}

/// Joins the texts of a message that can carry nothing else.
pub(crate) fn text_of(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        Content::Text(text) => Some(text.as_str()),
        Content::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
