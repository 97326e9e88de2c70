//! `tools.web`: fetches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fetches from the web.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Web {
    /// Host names and addresses within your own network that may be fetched from: globs, for instance `*.corp.example` or
    /// `127.0.0.1`. Without this, private, loopback and link-local addresses are refused.
    pub allow_hosts: Vec<String>,
    /// How long a fetch may take, redirects included.
    #[schemars(range(min = 100, max = 600_000))]
    pub timeout_ms: u64,
    /// How much of an answer is read, after decompression.
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub max_bytes: u64,
}

impl Default for Web {
    fn default() -> Self {
        Self { allow_hosts: Vec::new(), timeout_ms: 30_000, max_bytes: 4_194_304 }
    }
}
