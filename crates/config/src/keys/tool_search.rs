//! `tools.toolSearch`: whether a model finds its tools by searching for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tool Search: the model finds its tools by searching for them. It is experimental, and a small catalog is better shown directly. Code
/// mode, where it is on, takes its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ToolSearch {
    /// `true` turns it on in the mode `code`.
    Switch(bool),
    /// On, unless `enabled` is `false` or no other field is set.
    Fields(ToolSearchFields),
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self::Switch(false)
    }
}

impl ToolSearch {
    /// Returns the fields. A mere switch sets `enabled` only.
    pub fn fields(&self) -> ToolSearchFields {
        match self {
            Self::Switch(enabled) => ToolSearchFields { enabled: Some(*enabled), ..ToolSearchFields::default() },
            Self::Fields(fields) => fields.clone(),
        }
    }
}

/// Tool Search in detail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolSearchFields {
    /// Whether it is on. If absent, any other field turns it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The tools that the model sees in place of all others.
    #[schemars(extend("default" = "code"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolSearchMode>,
    /// The time that a program of `tool_search_code` may compute. The time of its calls does not count.
    #[schemars(range(min = 1000, max = 60_000), extend("default" = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_timeout_ms: Option<u64>,
    /// The number of tools that a search finds if it names none. At most `maxSearchLimit`.
    #[schemars(range(min = 1, max = 50), extend("default" = 8))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_default_limit: Option<u64>,
    /// The most tools that a search can find.
    #[schemars(range(min = 1, max = 50), extend("default" = 20))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_search_limit: Option<u64>,
    /// Whether a model that answered without any tool, though tools fit the message well, is told of these tools with the next message.
    /// By default it is in the modes `tools` and `directory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<bool>,
}

impl ToolSearchFields {
    /// Returns these, and what they leave open as in `others`. Any of these turns it on, whatever the others say of that.
    #[must_use]
    pub fn over(self, others: Self) -> Self {
        let says_something = self != Self::default();
        Self {
            enabled: self.enabled.or(says_something.then_some(true)).or(others.enabled),
            mode: self.mode.or(others.mode),
            code_timeout_ms: self.code_timeout_ms.or(others.code_timeout_ms),
            search_default_limit: self.search_default_limit.or(others.search_default_limit),
            max_search_limit: self.max_search_limit.or(others.max_search_limit),
            hints: self.hints.or(others.hints),
        }
    }

    /// Returns whether Tool Search is on.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or_else(|| *self != Self::default())
    }
}

/// The tools that a model sees in place of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolSearchMode {
    /// `tool_search_code`: programs that search, describe and call.
    #[default]
    Code,
    /// `tool_search`, `tool_describe` and `tool_call`.
    Tools,
    /// The same three, with a list of the tools in the instructions.
    Directory,
}
