//! `logging`: what may be written down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be written to logs, events and trajectories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Logging {
    /// Regular expressions for secrets of your own: what they match is replaced, beside what Pincer knows as secret anyway.
    pub redact_patterns: Vec<String>,
}
