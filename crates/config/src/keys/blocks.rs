//! Keys of `agents.<id>` about replies: thoughts, and blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The treatment of a model's thoughts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningLevel {
    /// They are told to no one.
    Off,
    /// They are part of the answer, before the text that they led to.
    On,
    /// They are told while they come in, as a stream of their own.
    #[default]
    Stream,
}

/// Whether replies are told in blocks while they come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockStreaming {
    /// They are not.
    #[default]
    Off,
    /// They are.
    On,
}

/// When blocks of a reply are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockBreak {
    /// As soon as a block is complete.
    #[default]
    TextEnd,
    /// When the reply has ended.
    MessageEnd,
}

/// The length of blocks, and their ends. A code fence that fits into a block stays whole; a longer one is closed and opened again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BlockChunk {
    /// The fewest characters of a block.
    #[schemars(range(min = 1, max = 100_000))]
    pub min_chars: u32,
    /// The most characters of a block.
    #[schemars(range(min = 80, max = 100_000))]
    pub max_chars: u32,
    /// Where a block ends best.
    pub break_preference: BreakPreference,
}

impl Default for BlockChunk {
    fn default() -> Self {
        Self { min_chars: 800, max_chars: 1200, break_preference: BreakPreference::default() }
    }
}

/// Where a block ends best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BreakPreference {
    /// At the end of a paragraph.
    #[default]
    Paragraph,
    /// At the end of a line.
    Newline,
    /// At the end of a sentence.
    Sentence,
}

/// Small blocks that follow each other closely are told together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BlockCoalesce {
    /// A block with fewer characters waits for the next one.
    #[schemars(range(max = 100_000))]
    pub min_chars: u32,
    /// The longest that it waits.
    #[schemars(range(max = 60_000))]
    pub idle_ms: u64,
}

impl Default for BlockCoalesce {
    fn default() -> Self {
        Self { min_chars: 0, idle_ms: 1000 }
    }
}
