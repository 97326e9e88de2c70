//! `security`: rules for installations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules for installations. Hooks, arguments and answers cannot loosen it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Security {
    /// Which plugins and skills `pincer plugins install`, `pincer skills install` and their `update` take.
    pub install_policy: InstallPolicy,
}

/// Which plugins and skills may be installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InstallPolicy {
    /// Plugins and skills that are installed without a question. If one has critical findings, a person is asked all the same, unless an entry names
    /// its digest.
    pub allow: Vec<InstallRule>,
    /// Plugins and skills that are refused, even if `allow` names them too.
    pub block: Vec<InstallRule>,
    /// The treatment of all others.
    pub default: InstallDefault,
}

/// Plugins and skills: those that fit all keys that are set. At least one must be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InstallRule {
    /// A glob over the id of a plugin, or the name of a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A glob over the absolute path that it is installed from. `*` stays within a folder, `**` does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The digest of its files, as `sha256:` and 64 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Only plugins, or only skills.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<InstallType>,
}

impl InstallRule {
    /// Returns whether no key is set: such an entry would mean everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The kind of a thing that is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstallType {
    /// A plugin.
    Plugin,
    /// A skill.
    Skill,
}

/// The treatment of something that no entry names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstallDefault {
    /// A person is asked.
    #[default]
    Ask,
    /// The installation is refused.
    Deny,
    /// The thing is installed as if `allow` named it.
    Allow,
}
