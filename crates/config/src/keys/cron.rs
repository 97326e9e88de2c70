//! Jobs of the schedule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Jobs of the schedule: how they are run. The jobs themselves are in the store; see `pincer cron`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cron {
    /// Whether jobs run by themselves, and agents have the tool `cron`.
    pub enabled: bool,
    /// The most runs of jobs that go on at a time in one process. Those that wait for a person do not count.
    #[schemars(range(min = 1, max = 100))]
    pub max_concurrent_runs: u32,
    /// The rule for times at which no process ran jobs, unless a job says otherwise.
    pub missed: CronMissed,
    /// The number of runs of each job that are kept in its history, with the sessions that began anew for them.
    #[schemars(range(min = 1, max = 10_000))]
    pub keep_runs: u32,
    /// The number of failures in a row that turns a job off. If absent, none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub disable_after_failures: Option<u32>,
}

impl Default for Cron {
    fn default() -> Self {
        Self {
            enabled: true,
            max_concurrent_runs: 3,
            missed: CronMissed::Run,
            keep_runs: 50,
            disable_after_failures: None,
        }
    }
}

/// The rule for times at which no process ran jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CronMissed {
    /// The job runs once for all of them, late.
    #[default]
    Run,
    /// They are skipped, and the history says so.
    Skip,
}
