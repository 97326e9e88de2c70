//! `skills`: folders of instructions that an agent reads when it needs them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Skills: folders with a `SKILL.md`, in `skills` of the workspace, of the state directory and of plugins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Skills {
    /// Settings of single skills, by their name.
    pub entries: BTreeMap<String, SkillEntry>,
}

/// Settings of one skill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SkillEntry {
    /// Whether agents have it.
    pub enabled: bool,
    /// Variables that commands get in runs that have the skill, and only those. No model is told their values. `PATH` cannot be set, and
    /// `tools.exec.env` counts more.
    pub env: BTreeMap<String, String>,
    /// Whether a skill of this name in a workspace has `env` too, and not only one in the state directory or of a plugin. An agent that
    /// can write in the workspace can make such a skill there, and read the values.
    pub from_workspace: bool,
}

impl Default for SkillEntry {
    fn default() -> Self {
        Self { enabled: true, env: BTreeMap::new(), from_workspace: false }
    }
}
