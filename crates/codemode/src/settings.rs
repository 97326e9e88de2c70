//! How much a program may use.

use std::ops::RangeInclusive;
use std::time::Duration;

use pincer_sandbox::Limits;
use pincer_store::Room;
use serde::{Deserialize, Serialize};

/// What a timeout is clamped to, in milliseconds.
pub const TIMEOUT_MS: RangeInclusive<u64> = 100..=60_000;
/// Calls that may wait behind those that run.
pub(crate) const MOST_QUEUED: usize = 1024;

/// When a running program is stored, so that it can be continued after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Before each call that may change something. The death of the process loses nothing. After a power cut, a program that
    /// was running ends as `aborted` with what is known of its calls.
    Calls,
    /// Like `Calls`, and synced to the disk each time: a power cut loses nothing either.
    EveryCall,
    /// Only when it is suspended. A crash of a running program ends it as `aborted` with what is known of its calls.
    Parked,
}

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// JavaScript.
    Javascript,
    /// TypeScript.
    Typescript,
}

impl From<Language> for pincer_source::Language {
    fn from(language: Language) -> Self {
        match language {
            Language::Javascript => Self::JavaScript,
            Language::Typescript => Self::TypeScript,
        }
    }
}

/// What programs may use. The default is that of the contract.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What they may be written in.
    pub languages: Vec<Language>,
    /// How long one `exec` or `wait` may take.
    pub timeout: Duration,
    /// The time that a program may compute in all. If absent, it may compute for the whole timeout of each `exec` and `wait`.
    pub guest_time: Option<Duration>,
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
        let limits =
            Limits { memory_bytes: 64 << 20, output_bytes: 64 << 10, snapshot_bytes: 10 << 20, ..Limits::default() };
        let settings = Self {
            languages: vec![Language::Javascript, Language::Typescript],
            timeout: Duration::from_secs(10),
            guest_time: None,
            limits,
            pending_calls: 0,
            snapshot_lifetime: Duration::from_secs(900),
            room: Room { all: 65_536, of_user: 1024, of_session: 1024 },
            journal_bytes: 16 << 20,
            durability: Durability::Calls,
            search_usual: 8,
            search_most: 50,
        };
        settings.pending_calls(16)
    }
}

impl Settings {
    /// Sets how many calls of a program run at a time. Others wait behind them.
    pub fn pending_calls(mut self, count: usize) -> Self {
        self.pending_calls = count;
        self.limits.pending_requests = MOST_QUEUED + count;
        self
    }

    /// Sets the timeout, clamped to [`TIMEOUT_MS`].
    pub fn timeout_ms(mut self, timeout: u64) -> Self {
        self.timeout = Duration::from_millis(timeout.clamp(*TIMEOUT_MS.start(), *TIMEOUT_MS.end()));
        self
    }
}
