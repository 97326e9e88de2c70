//! How much a program may use, out of what the config says.

use std::ops::RangeInclusive;
use std::time::Duration;

use pincer_config::keys::{CodeModeFields, Durability, Language};
use pincer_sandbox::Limits;
use pincer_store::Room;

/// What a timeout is clamped to, in milliseconds.
pub const TIMEOUT_MS: RangeInclusive<u64> = 100..=60_000;
/// Calls that may wait behind those that run.
pub(crate) const MOST_QUEUED: usize = 1024;

/// What programs may use. The default is that of the contract.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What they may be written in.
    pub languages: Vec<Language>,
    /// How long one `exec` or `wait` may take.
    pub timeout: Duration,
    /// What a cell may use.
    pub limits: Limits,
    /// How many calls of a program run at a time.
    pub pending_calls: usize,
    /// How long a suspended program can be continued.
    pub snapshot_lifetime: Duration,
    /// How many programs may be suspended at a time, or have the right to be.
    pub room: Room,
    /// The bytes of its calls that the journal keeps, about.
    pub journal_bytes: u64,
    /// When a program is stored.
    pub durability: Durability,
    /// How many tools a search finds if it does not say.
    pub search_usual: usize,
    /// How many it can find.
    pub search_most: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(&CodeModeFields::default())
    }
}

impl Settings {
    /// What the config says, the defaults where it says nothing, and everything within its bounds.
    pub fn new(fields: &CodeModeFields) -> Self {
        let within = |said: Option<u64>, usual: u64, bounds: RangeInclusive<u64>| {
            said.filter(|said| *said > 0).unwrap_or(usual).clamp(*bounds.start(), *bounds.end())
        };
        let count = |said, usual, bounds| within(said, usual, bounds) as usize;
        let pending_calls = count(fields.max_pending_tool_calls, 16, 1..=128);
        let search_most = count(fields.max_search_limit, 50, 1..=50);
        Self {
            languages: fields.languages.clone().unwrap_or_else(|| vec![Language::Javascript, Language::Typescript]),
            timeout: Duration::from_millis(within(fields.timeout_ms, 10_000, TIMEOUT_MS)),
            limits: Limits {
                memory_bytes: count(fields.memory_limit_bytes, 64 << 20, 1 << 20..=1 << 30),
                output_bytes: count(fields.max_output_bytes, 64 << 10, 1 << 10..=10 << 20),
                snapshot_bytes: count(fields.max_snapshot_bytes, 10 << 20, 1 << 10..=256 << 20),
                pending_requests: MOST_QUEUED + pending_calls,
                ..Limits::default()
            },
            pending_calls,
            snapshot_lifetime: Duration::from_secs(within(fields.snapshot_ttl_seconds, 900, 1..=86_400)),
            room: Room {
                all: within(fields.max_suspended_runs, 65_536, 1..=1_000_000) as u32,
                of_user: within(fields.max_suspended_runs_per_user, 1024, 1..=1_000_000) as u32,
                of_session: within(fields.max_suspended_runs_per_session, 1024, 1..=1_000_000) as u32,
            },
            journal_bytes: within(fields.max_journal_bytes, 16 << 20, 64 << 10..=1 << 30),
            durability: fields.durability.unwrap_or(Durability::Calls),
            search_usual: count(fields.search_default_limit, 8, 1..=search_most as u64),
            search_most,
        }
    }

    /// With another timeout, clamped to [`TIMEOUT_MS`].
    pub fn timeout_ms(mut self, timeout: u64) -> Self {
        self.timeout = Duration::from_millis(timeout.clamp(*TIMEOUT_MS.start(), *TIMEOUT_MS.end()));
        self
    }
}
