//! Reports about sessions that make no progress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reports about sessions that take long, make no progress, or belong to a process that is gone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Diagnostics {
    /// Whether sessions are watched. `true` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The time for which nothing may happen in a session that is worked on, before that is reported. 120000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub stuck_session_warn_ms: Option<u64>,
    /// The time for which nothing may happen before the run is stopped. If absent, three times `stuckSessionWarnMs` and at least
    /// 300000; then a tool may be silent for any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub stuck_session_abort_ms: Option<u64>,
}
