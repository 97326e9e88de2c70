//! `plugins`: where they are, and their settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Plugins: folders with a `pincer.plugin.json5`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Plugins {
    /// Folders of plugins, or folders that have such folders in them. The folder `plugins` in the state directory is looked at too.
    pub paths: Vec<String>,
    /// Settings of single plugins, by their id.
    pub entries: BTreeMap<String, PluginEntry>,
}

/// Settings of one plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PluginEntry {
    /// Whether it is used.
    pub enabled: bool,
    /// What the plugin is told when it starts; it decides what may stand here.
    #[schemars(with = "Map<String, Value>")]
    pub config: Map<String, Value>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// Its hooks.
    pub hooks: PluginHooks,
}

impl Default for PluginEntry {
    fn default() -> Self {
        Self { enabled: true, config: Map::new(), env: BTreeMap::new(), hooks: PluginHooks::default() }
    }
}

/// Hooks of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PluginHooks {
    /// The longest that each hook may take to answer, whatever the plugin says. One that is late counts as failed.
    #[schemars(range(min = 10, max = 600_000))]
    pub timeout_ms: Option<u64>,
    /// The same for single hooks, by their names.
    #[schemars(inner(range(min = 10, max = 600_000)))]
    pub timeouts: BTreeMap<String, u64>,
    /// Whether its hooks that read conversations are used. They are left out if absent; a gate before runs must be decided about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_conversation_access: Option<bool>,
    /// Whether its hooks may add to prompts. They may if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_prompt_injection: Option<bool>,
}
