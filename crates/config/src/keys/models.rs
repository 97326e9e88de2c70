//! `models` and `auth`: providers of language models, and the keys to them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SecretSource;

/// Providers of language models. Well-known ones (`anthropic`, `openai`, `google`, `openrouter`, `ollama` and others) need no entry if
/// their key is in the usual variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Models {
    /// The providers, by the name that stands before the slash in `provider/model`.
    pub providers: BTreeMap<String, ModelProvider>,
    /// Logs of requests and replies, on standard error.
    pub debug: ModelDebug,
    /// A directory in which every exchange with a model is recorded, without keys but with all messages. For tests of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// One provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelProvider {
    /// Its address, as the official clients take it: OpenAI's with `/v1`, Anthropic's without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The format that it speaks. If absent, that of the well-known provider of this name, or `openai-completions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<ModelApi>,
    /// Its key: best as `${NAME}` or `${secret:NAME}`, or from a file, a command or the keychain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<ApiKey>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, String>,
    /// Bounds the connection, the wait for an answer and every gap in a reply, but not a reply that makes progress. Without it a gap may
    /// last 120 seconds; 60 in runs of the schedule whose job has a timeout; there models of your own network may take as long as the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u64>,
    /// Models with settings of their own. Others can be used too.
    pub models: Vec<ModelEntry>,
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModelApi {
    /// OpenAI Chat Completions, which most others speak too.
    #[serde(rename = "openai-completions")]
    OpenaiCompletions,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenaiResponses,
    /// Anthropic Messages.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
}

/// A key: a text, or where it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ApiKey {
    /// The key itself; best as `${NAME}` or `${secret:NAME}`.
    Text(String),
    /// Where it is kept.
    Source(SecretSource),
}

/// A model with settings of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelEntry {
    /// Its id, as the provider calls it.
    pub id: String,
    /// The tokens that a conversation with it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 256))]
    pub context_window: Option<u64>,
    /// The most tokens of a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_tokens: Option<u32>,
    /// Whether it thinks before it answers, or the levels that it takes. If absent, as its name says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ModelReasoning>,
    /// The kinds of input that it takes. If absent, pictures are sent to it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<ModelInput>>,
    /// Whether agents that ask it see `exec` and `wait` in place of their tools. If absent, as `tools.codeMode` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_mode: Option<bool>,
    /// Its price, in dollars for a million tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ModelCost>,
    /// Further members of the request's body; `null` takes one away. Those that are not known to be harmless keep a request from being
    /// sent: they could add tools.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
}

/// How a model thinks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelReasoning {
    /// Whether it does at all.
    Switch(bool),
    /// The levels that it takes.
    Levels(Vec<ThinkingLevel>),
}

/// How much a model is to think before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all.
    Off,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// Usual.
    Medium,
    /// Much.
    High,
    /// Very much.
    XHigh,
    /// As much as the model finds right.
    Adaptive,
    /// As much as it can.
    Max,
}

/// A kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelInput {
    /// Text.
    Text,
    /// Pictures.
    Image,
}

/// Dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelCost {
    /// Of the prompt.
    pub input: f64,
    /// Of the reply.
    pub output: f64,
    /// Read from the cache.
    pub cache_read: f64,
    /// Written to the cache.
    pub cache_write: f64,
}

/// Logs of requests and replies. Variables of the environment outweigh them: `OPENCLAW_DEBUG_MODEL_TRANSPORT`,
/// `OPENCLAW_DEBUG_MODEL_PAYLOAD`, `OPENCLAW_DEBUG_SSE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelDebug {
    /// Addresses, sizes and times.
    pub transport: bool,
    /// The bodies of requests.
    pub payload: ModelPayload,
    /// The events of replies.
    pub sse: ModelEvents,
}

/// How much of a request's body is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModelPayload {
    /// Nothing.
    #[default]
    Off,
    /// Counts and sizes.
    Summary,
    /// The names of its tools too.
    Tools,
    /// All of it, capped, without secrets. Prompts and messages are in it.
    FullRedacted,
}

/// How much of a reply's events is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelEvents {
    /// Nothing.
    #[default]
    Off,
    /// The kind and size of each.
    Events,
    /// The first five, without secrets.
    Peek,
}

/// A model and those that are asked when it fails: `"provider/model"`, or an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelChoice {
    /// `provider/model`.
    One(String),
    /// With fallbacks.
    Several(ModelChain),
}

/// A model and its fallbacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelChain {
    /// The model, as `provider/model`.
    pub primary: String,
    /// Those that are asked when it fails, in this order.
    #[serde(default)]
    pub fallbacks: Vec<String>,
}

impl ModelChoice {
    /// Returns the models in the order in which they are asked.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let (first, rest) = match self {
            Self::One(model) => (model, [].as_slice()),
            Self::Several(chain) => (&chain.primary, chain.fallbacks.as_slice()),
        };
        std::iter::once(first).chain(rest).map(String::as_str)
    }
}

/// Several keys for one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Auth {
    /// The keys, by a name of your own.
    pub profiles: BTreeMap<String, AuthProfile>,
    /// The order in which the keys of a provider are used. Those that are not named come last.
    pub order: BTreeMap<String, Vec<String>>,
}

/// A key of a provider. One that was refused, or used too much, rests for a while, and the next is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthProfile {
    /// The provider.
    pub provider: String,
    /// The key: best as `${NAME}` or `${secret:NAME}`, or from a file, a command or the keychain.
    pub api_key: ApiKey,
}
