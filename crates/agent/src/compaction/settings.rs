//! The keys of the config about compaction, as one run uses them.

use pincer_config::Config;
use pincer_config::keys::{Agent, Compaction};

const RESERVE: u64 = 16_384;
const RESERVE_FLOOR: u64 = 20_000;
const KEEP_RECENT: u64 = 20_000;
const SOFT_THRESHOLD: u64 = 4_000;

/// The settings for compactions of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whether that happens by itself.
    pub is_enabled: bool,
    /// The tokens that stay free for the reply, before the window caps them.
    reserve: u64,
    /// About how many tokens of the latest messages stay.
    pub keep_recent: u64,
    /// The model that writes summaries.
    pub model: Option<String>,
    /// The silent turn before a compaction, if there is one.
    pub flush: Option<FlushSettings>,
}

/// The settings for the silent turn before a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlushSettings {
    /// The tokens before the limit at which it comes.
    pub soft_threshold: u64,
    pub model: Option<String>,
    pub prompt: Option<String>,
    pub system_prompt: Option<String>,
}

impl Settings {
    /// Reads the config. Each key is the agent's own, or that of `agents.defaults`.
    pub(crate) fn of(config: &Config, agent: Option<&str>) -> Self {
        fn key<T>(config: &Config, agent: Option<&str>, get: impl Fn(&Compaction) -> Option<T>) -> Option<T> {
            config.agent_setting(agent, |agent: &Agent| get(&agent.compaction))
        }
        let reserve = key(config, agent, |keys| keys.reserve_tokens).unwrap_or(RESERVE);
        let floor = key(config, agent, |keys| keys.reserve_tokens_floor).unwrap_or(RESERVE_FLOOR);
        let has_flush = key(config, agent, |keys| keys.memory_flush.enabled).unwrap_or(true);
        let flush = has_flush.then(|| FlushSettings {
            soft_threshold: key(config, agent, |keys| keys.memory_flush.soft_threshold_tokens)
                .unwrap_or(SOFT_THRESHOLD),
            model: key(config, agent, |keys| keys.memory_flush.model.clone()),
            prompt: key(config, agent, |keys| keys.memory_flush.prompt.clone()),
            system_prompt: key(config, agent, |keys| keys.memory_flush.system_prompt.clone()),
        });
        Self {
            is_enabled: key(config, agent, |keys| keys.enabled).unwrap_or(true),
            reserve: reserve.max(floor),
            keep_recent: key(config, agent, |keys| keys.keep_recent_tokens).unwrap_or(KEEP_RECENT),
            model: key(config, agent, |keys| keys.model.clone()),
            flush,
        }
    }

    /// Returns the tokens of a window that stay free for the reply.
    pub(crate) fn reserve(&self, window: u64) -> u64 {
        self.reserve.min(window / 4)
    }

    /// Returns the most tokens of a request whose instructions and tools take `around` tokens. The conversation has at least half of what
    /// these leave, else a compaction could never make room.
    pub(crate) fn limit(&self, window: u64, around: u64) -> u64 {
        let of_conversation = window.saturating_sub(around) / 2;
        window - self.reserve(window).min(of_conversation)
    }

    /// Returns the tokens before the limit at which notes are written: at most a quarter of what the conversation has.
    pub(crate) fn notes_before(&self, limit: u64, around: u64) -> Option<u64> {
        let flush = self.flush.as_ref()?;
        Some(flush.soft_threshold.min(limit.saturating_sub(around) / 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str, agent: Option<&str>) -> Settings {
        let parsed = pincer_config::parse(text, &|_| None).unwrap_or_else(|error| panic!("{error}"));
        Settings::of(&parsed.config, agent)
    }

    #[test]
    fn the_reserve_is_raised_to_its_floor_and_capped_by_the_window() {
        let usual = settings("{}", None);
        assert!(usual.is_enabled && usual.flush.is_some());
        assert_eq!((usual.reserve(200_000), usual.limit(200_000, 9_000)), (20_000, 180_000));
        assert_eq!((usual.reserve(8_000), usual.limit(8_000, 3_000)), (2_000, 6_000));
        let set = settings("{ agents: { defaults: { compaction: { reserveTokens: 30000 } } } }", None);
        assert_eq!(set.reserve(200_000), 30_000);
        let low =
            settings("{ agents: { defaults: { compaction: { reserveTokens: 1000, reserveTokensFloor: 0 } } } }", None);
        assert_eq!(low.reserve(200_000), 1_000);
    }

    #[test]
    fn instructions_and_tools_leave_half_of_what_is_left_to_the_conversation() {
        let usual = settings("{}", None);
        for (around, limit, notes) in [
            (0, 12_000, 3_000),
            (8_000, 12_000, 1_000),
            (12_700, 14_350, 412),
            (15_998, 15_999, 0),
            (20_000, 16_000, 0),
        ] {
            assert_eq!(usual.limit(16_000, around), limit, "{around}");
            assert_eq!(usual.notes_before(limit, around), Some(notes), "{around}");
        }
    }

    #[test]
    fn each_key_is_the_agents_own_or_that_for_all() {
        let text = "{ agents: { defaults: { compaction: { keepRecentTokens: 7, memoryFlush: { prompt: 'note' } } },
                      writer: { compaction: { enabled: false, memoryFlush: { softThresholdTokens: 9 } } } } }";
        let writer = settings(text, Some("writer"));
        let flush = writer.flush.expect("a flush");
        assert!(!writer.is_enabled);
        assert_eq!((writer.keep_recent, flush.soft_threshold, flush.prompt.as_deref()), (7, 9, Some("note")));
        assert!(settings(text, None).is_enabled);
    }
}
