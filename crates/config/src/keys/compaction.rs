//! Compaction of conversations that fill the window of their model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Compaction: when a conversation fills the window of its model, a summary replaces the older part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Compaction {
    /// Whether conversations are compacted by themselves. `/compact` works in any case. `true` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The tokens of the window that are kept free for the reply. 16384 if absent; raised to `reserveTokensFloor`, and at most a quarter
    /// of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_tokens: Option<u64>,
    /// The least that `reserveTokens` counts as. 20000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_tokens_floor: Option<u64>,
    /// About how many tokens of the latest messages stay as they are. 20000 if absent, and at most half of the room that there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_recent_tokens: Option<u64>,
    /// The model that writes summaries, as `provider/model`. If absent, the model of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The chance for the model to write lasting notes before a conversation is compacted.
    pub memory_flush: MemoryFlush,
}

/// The chance for the model to write lasting notes before a conversation is compacted: a turn whose answer is withheld. There is at most
/// one between two compactions, and none for a run without a tool that writes files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryFlush {
    /// Whether there is one. `true` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The number of tokens before the limit at which the turn comes, at most a quarter of the limit. 4000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_threshold_tokens: Option<u64>,
    /// The model that is asked, as `provider/model`. If absent, the model of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The text that asks for the notes, in place of the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Text that is added to the instructions of the model in this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
}
