//! `approvals`: which calls a person is asked about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OneOrMany;

/// Which calls a person is asked about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Approvals {
    /// The first rule that matches a tool decides.
    pub rules: Vec<Rule>,
    /// How long a question stays open. Without this, until it is answered.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub expire_after_seconds: Option<u64>,
}

/// What is decided about calls of some tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The tools, as in `tools.allow`: names, ids, globs, groups.
    #[serde(rename = "match")]
    pub matches: OneOrMany,
    /// What is decided.
    pub decision: Decision,
}

/// What a rule says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// A person is asked.
    Ask,
    /// It may be made.
    Allow,
    /// It may not be made.
    Deny,
}
