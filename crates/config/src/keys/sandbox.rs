//! `agents.<id>.sandbox`: sessions that work in directories of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sandboxed sessions of an agent. Each works in a directory of its own, commands write nowhere else (Linux 6.2 or newer; elsewhere they do
/// not run), and `tools.sandbox` narrows the tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSandbox {
    /// Which sessions are sandboxed. If absent, as `agents.defaults` says; `off` if that says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SandboxMode>,
    /// The directory in which their directories are made; a relative path is seen from the config. If absent, as `agents.defaults` says;
    /// `sandboxes` in the state directory if that says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_root: Option<String>,
}

/// Which sessions are sandboxed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// None.
    #[default]
    Off,
    /// All but the session `main`.
    NonMain,
    /// All.
    All,
}

impl AgentSandbox {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
