//! `tools.exec`: commands.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Exec {
    /// What happens to a command that is not on the list `allow`.
    pub mode: ExecMode,
    /// Commands that run without asking. A program, as a bare name (`git`) or a glob over its path (`/usr/bin/*`), runs alone, without a
    /// shell, only with options that are known to read, and confined to reading (Linux 6.2 or newer). A whole command (`make test`,
    /// or `npm run *` with any further words) runs without a shell as the other keys here say.
    pub allow: Vec<String>,
    /// How long a command may take if it does not say.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub timeout_ms: u64,
    /// How much of standard output and of standard error is kept, half from the beginning and half from the end.
    #[schemars(range(min = 1024, max = 10_485_760))]
    pub max_output_bytes: u64,
    /// Variables that commands get.
    pub env: BTreeMap<String, String>,
    /// Variables of Pincer's own environment that look like secrets and are passed to commands all the same.
    pub pass_env: Vec<String>,
    /// Commands can write in the workspace only, and use no Unix sockets (Linux 6.2 or newer). Where the kernel cannot do that, no
    /// command runs.
    pub confine: bool,
    /// Whether confined commands may use the network.
    pub network: bool,
}

impl Default for Exec {
    fn default() -> Self {
        Self {
            mode: ExecMode::Ask,
            allow: Vec::new(),
            timeout_ms: 120_000,
            max_output_bytes: 65_536,
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            confine: false,
            network: true,
        }
    }
}

/// What happens to a command that is not on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecMode {
    /// No command runs, not even one on the list.
    Deny,
    /// It does not run.
    Allowlist,
    /// A person is asked.
    Ask,
    /// It runs.
    Full,
}
