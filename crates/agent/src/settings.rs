//! The config's keys and a session's own settings, as the loop uses them.

use std::thread::available_parallelism;
use std::time::Duration;

use pincer_config::Config;
use pincer_config::keys;
use pincer_model::Level;
use pincer_sessions::Freshness;
use pincer_store::{QueueLimit, WhenFull};
use serde::{Deserialize, Serialize};

use crate::replies::{BlockBreak, BlockSettings, Preference};
use crate::request::{QueueMode, Reasoning, Verbose};

/// The longest that a run may take if the config does not say.
const USUAL_TIMEOUT: Duration = Duration::from_secs(48 * 3600);
/// The most runs in the background at a time, if the schedule may not run more.
const USUAL_IN_BACKGROUND: usize = 3;
/// The hour at which a session begins anew each day, if that is wished for.
const USUAL_HOUR: u32 = 4;

/// Settings that a user has changed for a session, by commands in messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionSettings {
    /// The model, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much the model is to think.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Level>,
    /// Whether runs tell of the tools that they use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<Verbose>,
    /// The treatment of the model's thoughts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Whether runs tell how they were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<bool>,
    /// What happens to messages while the session is busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSettings>,
}

/// What happens to messages while a session is busy, as far as its user has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueSettings {
    /// How they are queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<QueueMode>,
    /// How long the queue must be quiet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce_ms: Option<u64>,
    /// How many may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// Which one gives way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<Drop>,
}

/// Which message gives way when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drop {
    /// The oldest.
    Old,
    /// The new one.
    New,
    /// The oldest, of which the next run is told.
    Summarize,
}

impl SessionSettings {
    /// Reads the settings of a session. Those that cannot be read are as if never changed.
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| {
            tracing::warn!("the settings of a session cannot be read and are left out: {error}");
            Self::default()
        })
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".into())
    }
}

/// The queue that a message joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub mode: QueueMode,
    pub debounce_ms: u64,
    pub limit: QueueLimit,
}

/// Returns the queue for a message: as its sender says, then its session, then its channel, then the config.
pub(crate) fn queue(
    config: &Config,
    session: &SessionSettings,
    channel: Option<&str>,
    said: Option<QueueMode>,
) -> Queue {
    let all = &config.messages.queue;
    let own = session.queue.unwrap_or_default();
    let of_channel = channel.and_then(|channel| all.by_channel.get(channel));
    let quiet = channel.and_then(|channel| all.debounce_ms_by_channel.get(channel));
    let mode = |mode: &keys::QueueMode| match mode {
        keys::QueueMode::Steer => QueueMode::Steer,
        keys::QueueMode::Followup => QueueMode::Followup,
        keys::QueueMode::Collect => QueueMode::Collect,
        keys::QueueMode::Interrupt => QueueMode::Interrupt,
    };
    let full = match (own.drop, all.drop) {
        (Some(Drop::Old), _) | (None, keys::QueueDrop::Old) => WhenFull::DropOldest,
        (Some(Drop::New), _) | (None, keys::QueueDrop::New) => WhenFull::RefuseNew,
        (Some(Drop::Summarize), _) | (None, keys::QueueDrop::Summarize) => WhenFull::Summarize,
    };
    Queue {
        mode: said.or(own.mode).unwrap_or_else(|| mode(of_channel.unwrap_or(&all.mode))),
        debounce_ms: own.debounce_ms.unwrap_or(*quiet.unwrap_or(&all.debounce_ms)),
        limit: QueueLimit { cap: own.cap.unwrap_or(all.cap), full },
    }
}

/// Returns when a session begins anew by itself.
pub(crate) fn freshness(config: &Config) -> Freshness {
    let reset = &config.session.reset;
    Freshness {
        daily_at: (reset.mode == keys::ResetMode::Daily).then_some(reset.at_hour.unwrap_or(USUAL_HOUR)),
        idle: reset.idle_minutes.map(|minutes| i64::try_from(minutes.saturating_mul(60_000)).unwrap_or(i64::MAX)),
    }
}

/// Returns how long a writer waits for a session.
pub(crate) fn write_wait(config: &Config) -> Duration {
    Duration::from_millis(config.session.write_lock.acquire_timeout_ms)
}

/// Returns the longest that a run of an agent may take.
pub(crate) fn run_timeout(config: &Config, agent: Option<&str>, said: Option<u64>) -> Duration {
    let set = said.or_else(|| config.agent_setting(agent, |agent| agent.timeout_seconds));
    set.map_or(USUAL_TIMEOUT, Duration::from_secs)
}

/// Returns whether runs of an agent tell of the tools that they use.
pub(crate) fn verbose(config: &Config, agent: Option<&str>) -> Verbose {
    match config.agent_setting(agent, |agent| agent.verbose_default).unwrap_or_default() {
        keys::VerboseLevel::Off => Verbose::Off,
        keys::VerboseLevel::On => Verbose::On,
        keys::VerboseLevel::Full => Verbose::Full,
    }
}

/// Returns what becomes of the thoughts of an agent's model.
pub(crate) fn reasoning(config: &Config, agent: Option<&str>) -> Reasoning {
    match config.agent_setting(agent, |agent| agent.reasoning_default).unwrap_or_default() {
        keys::ReasoningLevel::Off => Reasoning::Off,
        keys::ReasoningLevel::On => Reasoning::On,
        keys::ReasoningLevel::Stream => Reasoning::Stream,
    }
}

/// Returns how replies of an agent are cut into blocks, if they are.
pub(crate) fn blocks(config: &Config, agent: Option<&str>) -> Option<BlockSettings> {
    let is_on = config.agent_setting(agent, |agent| agent.block_streaming_default) == Some(keys::BlockStreaming::On);
    let chunk = config.agent_setting(agent, |agent| agent.block_streaming_chunk.clone()).unwrap_or_default();
    let coalesce = config.agent_setting(agent, |agent| agent.block_streaming_coalesce.clone()).unwrap_or_default();
    let break_at = config.agent_setting(agent, |agent| agent.block_streaming_break).unwrap_or_default();
    is_on.then(|| BlockSettings {
        break_at: match break_at {
            keys::BlockBreak::TextEnd => BlockBreak::TextEnd,
            keys::BlockBreak::MessageEnd => BlockBreak::MessageEnd,
        },
        min_chars: chunk.min_chars as usize,
        max_chars: chunk.max_chars as usize,
        preference: match chunk.break_preference {
            keys::BreakPreference::Paragraph => Preference::Paragraph,
            keys::BreakPreference::Newline => Preference::Newline,
            keys::BreakPreference::Sentence => Preference::Sentence,
        },
        coalesce_chars: coalesce.min_chars as usize,
        coalesce_idle: Duration::from_millis(coalesce.idle_ms),
    })
}

/// Returns how many background runs go on at a time.
pub(crate) fn most_in_background(config: &Config) -> usize {
    (config.cron.max_concurrent_runs as usize).max(USUAL_IN_BACKGROUND)
}

/// Returns how many runs go on at a time.
pub(crate) fn most_runs(config: &Config) -> usize {
    let set = config.agent_setting(None, |agent| agent.max_concurrent);
    let processors = available_parallelism().map_or(1, usize::from);
    set.map_or_else(|| (4 * processors).max(8), |set| set.max(1) as usize)
}
