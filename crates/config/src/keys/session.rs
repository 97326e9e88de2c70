//! Sessions and the messages that wait for them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DmScope;

/// Sessions: when they begin anew, how long they are kept, how long a writer waits for another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionKeys {
    /// Whose direct messages share a session, for channels without a `session` of their own.
    pub dm_scope: DmScope,
    /// When a session begins anew by itself.
    pub reset: SessionReset,
    /// How one writer of a session waits for another.
    pub write_lock: WriteLock,
    /// Which sessions are forgotten.
    pub maintenance: SessionMaintenance,
}

/// When a session begins anew by itself. The earlier of the two counts. It never does while a run waits for a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionReset {
    /// `none`, or `daily`: with the first message after `atHour`.
    pub mode: ResetMode,
    /// The hour of the day, in local time.
    #[schemars(range(min = 0, max = 23))]
    pub at_hour: Option<u32>,
    /// With the first message after so many minutes in which neither a message came nor a run ended. A message that comes while a run
    /// is open goes on with its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub idle_minutes: Option<u64>,
}

/// When a session begins anew by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResetMode {
    /// Never.
    #[default]
    None,
    /// Once a day.
    Daily,
}

/// How one writer of a session waits for another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WriteLock {
    /// How long a command waits for a session that another one writes to, before it says that the session is busy.
    pub acquire_timeout_ms: u64,
}

impl Default for WriteLock {
    fn default() -> Self {
        Self { acquire_timeout_ms: 60_000 }
    }
}

/// Which sessions are forgotten.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionMaintenance {
    /// Those that nothing was stored in for so many days. If absent, none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub prune_after_days: Option<u64>,
}

/// Messages on their way to an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Messages {
    /// What happens to a message for a session that is busy.
    pub queue: MessageQueue,
}

/// What happens to a message for a session that is busy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MessageQueue {
    /// How it is queued.
    pub mode: QueueMode,
    /// The most messages that wait for one session.
    #[schemars(range(min = 1))]
    pub cap: u32,
    /// Which message gives way when more come.
    pub drop: QueueDrop,
    /// How long the session must be quiet before messages are collected.
    #[schemars(range(max = 600_000))]
    pub debounce_ms: u64,
    /// The mode for single channels.
    pub by_channel: BTreeMap<String, QueueMode>,
    /// The quiet time for single channels.
    pub debounce_ms_by_channel: BTreeMap<String, u64>,
}

impl Default for MessageQueue {
    fn default() -> Self {
        Self {
            mode: QueueMode::Steer,
            cap: 20,
            drop: QueueDrop::Summarize,
            debounce_ms: 500,
            by_channel: BTreeMap::new(),
            debounce_ms_by_channel: BTreeMap::new(),
        }
    }
}

/// How a message for a busy session is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueMode {
    /// It joins the run that goes on, before its next request to the model.
    #[default]
    Steer,
    /// It gets a run of its own, later.
    Followup,
    /// All that wait get one run together, later.
    Collect,
    /// The run that goes on is stopped, and this message comes next.
    Interrupt,
}

/// Which message gives way when a queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueDrop {
    /// The oldest.
    Old,
    /// The new one: it is refused.
    New,
    /// The oldest, of which the next run is told in a line.
    #[default]
    Summarize,
}
