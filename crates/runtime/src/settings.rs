//! The config's keys, as the settings of code mode. No other crate turns the one into the other.

use std::ops::RangeInclusive;
use std::time::Duration;

use pincer_codemode::{Durability, Language, Offer, Settings, TIMEOUT_MS};
use pincer_config::keys::{self, CodeModeFields, ToolSearchFields, ToolSearchMode};
use pincer_sandbox::Limits;
use pincer_store::Room;
use pincer_tool_search::{self as search, CODE_TIMEOUT_MS};

/// Returns how much programs may use: the fields that are set, the defaults for the rest, and everything within its bounds.
pub fn program_settings(fields: &CodeModeFields) -> Settings {
    let within = |said: Option<u64>, usual: u64, bounds: RangeInclusive<u64>| {
        said.filter(|said| *said > 0).unwrap_or(usual).clamp(*bounds.start(), *bounds.end())
    };
    let count = |said, usual: usize, bounds| within(said, usual as u64, bounds) as usize;
    let usual = Settings::default();
    let room = |said, usual: u32| within(said, usual.into(), 1..=1_000_000) as u32;
    let search_most = count(fields.max_search_limit, usual.search_most, 1..=50);
    let settings = Settings {
        languages: fields.languages.as_deref().map_or(usual.languages, |said| said.iter().map(language).collect()),
        guest_time: usual.guest_time,
        timeout: Duration::from_millis(within(fields.timeout_ms, usual.timeout.as_millis() as u64, TIMEOUT_MS)),
        limits: Limits {
            memory_bytes: count(fields.memory_limit_bytes, usual.limits.memory_bytes, 1 << 20..=1 << 30),
            output_bytes: count(fields.max_output_bytes, usual.limits.output_bytes, 1 << 10..=10 << 20),
            snapshot_bytes: count(fields.max_snapshot_bytes, usual.limits.snapshot_bytes, 1 << 10..=256 << 20),
            ..usual.limits
        },
        pending_calls: usual.pending_calls,
        snapshot_lifetime: Duration::from_secs(within(
            fields.snapshot_ttl_seconds,
            usual.snapshot_lifetime.as_secs(),
            1..=86_400,
        )),
        room: Room {
            all: room(fields.max_suspended_runs, usual.room.all),
            of_user: room(fields.max_suspended_runs_per_user, usual.room.of_user),
            of_session: room(fields.max_suspended_runs_per_session, usual.room.of_session),
        },
        journal_bytes: within(fields.max_journal_bytes, usual.journal_bytes, 64 << 10..=1 << 30),
        durability: fields.durability.map_or(usual.durability, durability),
        search_usual: count(fields.search_default_limit, usual.search_usual, 1..=search_most as u64),
        search_most,
    };
    settings.pending_calls(count(fields.max_pending_tool_calls, usual.pending_calls, 1..=128))
}

/// Returns how tools are offered to a model. Nothing but `enabled: true` turns code mode on.
pub(crate) fn offer(fields: &CodeModeFields) -> Offer {
    if fields.enabled == Some(true) { Offer::CodeMode } else { Offer::Direct }
}

/// Returns how a model finds its tools, if it is to search for them. Nothing that was not written turns it on.
pub fn tool_search_settings(fields: &ToolSearchFields) -> Option<search::Settings> {
    if !fields.is_on() {
        return None;
    }
    let mode = match fields.mode.unwrap_or_default() {
        ToolSearchMode::Code => search::Mode::Code,
        ToolSearchMode::Tools => search::Mode::Tools,
        ToolSearchMode::Directory => search::Mode::Directory,
    };
    let usual = search::Settings::new(mode);
    let count =
        |said: Option<u64>, usual: usize| said.map_or(usual, |said| usize::try_from(said).unwrap_or(usize::MAX));
    let most = count(fields.max_search_limit, usual.limits.most);
    let timeout = fields.code_timeout_ms.map_or(usual.code_timeout, |timeout| {
        Duration::from_millis(timeout.clamp(*CODE_TIMEOUT_MS.start(), *CODE_TIMEOUT_MS.end()))
    });
    Some(search::Settings {
        limits: search::Limits::new(count(fields.search_default_limit, usual.limits.usual), most),
        code_timeout: timeout,
        hints: fields.hints.unwrap_or(usual.hints),
        ..usual
    })
}

fn language(said: &keys::Language) -> Language {
    match said {
        keys::Language::Javascript => Language::Javascript,
        keys::Language::Typescript => Language::Typescript,
    }
}

fn durability(said: keys::Durability) -> Durability {
    match said {
        keys::Durability::Calls => Durability::Calls,
        keys::Durability::EveryCall => Durability::EveryCall,
        keys::Durability::Parked => Durability::Parked,
    }
}
