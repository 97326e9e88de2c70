//! Finds the meaning of a session's state. Pure: the state goes in with the time, a finding comes out.

use pincer_config::Config;
use pincer_store::Millis;

use super::diagnostic::{DiagnosticKind, Reason, Recovery};

const WARN: Millis = 120_000;
const LEAST_ABORT: Millis = 300_000;
/// So many requests to the model without a word of it are a repetition.
const REPEATED: u32 = 3;

/// The times for which nothing may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Until it is reported.
    pub warn: Millis,
    /// Until the run is stopped.
    pub abort: Millis,
    /// Whether `abort` is the user's own. A silent tool is stopped only then: a build may be silent for an hour.
    pub is_abort_set: bool,
}

impl Thresholds {
    /// Reads the config. `None` if diagnostics are turned off.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let keys = &config.diagnostics;
        if keys.enabled == Some(false) {
            return None;
        }
        let millis = |value: u64| Millis::try_from(value).unwrap_or(Millis::MAX);
        let warn = keys.stuck_session_warn_ms.map_or(WARN, millis).max(1);
        let set = keys.stuck_session_abort_ms.map(millis);
        let abort = set.unwrap_or_else(|| LEAST_ABORT.max(warn.saturating_mul(3))).max(warn);
        Some(Self { warn, abort, is_abort_set: set.is_some() })
    }
}

/// The state of a session as a look finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether a living process works on it.
    pub is_owned: bool,
    /// The run that has it.
    pub active: Active,
    /// The thing that the run waits for.
    pub waits: Waits,
    /// Since when it is worked on, or waits to be.
    pub since: Millis,
    /// When something was last seen of it.
    pub progressed_at: Millis,
    /// Whether the model is asked at the moment.
    pub asks_model: bool,
    /// The requests to the model since something was last seen.
    pub requests: u32,
    /// Whether a tool is called at the moment.
    pub calls_tool: bool,
    /// The messages that wait.
    pub queued: u32,
}

/// The run that has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Active {
    None,
    Open,
    /// The run has ended.
    Terminal,
}

/// The thing that a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Nothing,
    /// A person, or the sender of the message.
    Person,
    /// The provider has asked for a pause until then.
    Provider(Millis),
    /// Its turn, its tools or its place.
    Runtime,
}

/// The meaning of a session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub kind: DiagnosticKind,
    pub reason: Reason,
    pub action: Option<Recovery>,
}

/// Returns what the state of a session means, if it is to be told.
pub(crate) fn classify(seen: &Seen, thresholds: Thresholds, now: Millis) -> Option<Finding> {
    // It may wait for days, and costs nothing.
    if seen.waits == Waits::Person || now - seen.since < thresholds.warn {
        return None;
    }
    let quiet = now - seen.progressed_at;
    if !seen.is_owned {
        return (quiet >= thresholds.warn).then(|| ownerless(seen)).flatten();
    }
    let long = |reason| Some(Finding { kind: DiagnosticKind::LongRunning, reason, action: None });
    let stalled = |reason, may_abort: bool| {
        let action = (may_abort && quiet >= thresholds.abort).then_some(Recovery::Abort);
        Some(Finding { kind: DiagnosticKind::Stalled, reason, action })
    };
    match (seen.active, seen.waits) {
        (Active::None, _) if seen.queued == 0 => None,
        (Active::None, _) | (_, Waits::Runtime) => long(Reason::RuntimeOwnedWait),
        (_, Waits::Provider(until)) if until > now => long(Reason::ProviderRetryWait),
        _ if quiet < thresholds.warn => {
            long(if seen.queued > 0 { Reason::QueuedBehindActiveWork } else { Reason::ActiveWork })
        }
        (Active::Terminal, _) if seen.queued > 0 => stalled(Reason::QueuedBehindTerminalActiveWork, true),
        _ if seen.asks_model && seen.requests >= REPEATED => {
            stalled(Reason::RepeatedModelRequestsWithoutProgress, true)
        }
        // A slow model, or one that tells its reply as a whole, is silent for long.
        _ if seen.asks_model && quiet < thresholds.abort => long(Reason::ActiveModelCallWithoutProgress),
        _ if seen.asks_model => stalled(Reason::ActiveModelCallWithoutProgress, true),
        _ if seen.calls_tool => stalled(Reason::BlockedToolCall, thresholds.is_abort_set),
        _ => stalled(Reason::ActiveWorkWithoutProgress, true),
    }
}

/// Returns what it means that no process works on a session, whatever the run was in the middle of.
fn ownerless(seen: &Seen) -> Option<Finding> {
    let reason = match seen.active {
        Active::None if seen.queued == 0 => return None,
        Active::None => Reason::QueuedWorkWithoutActiveRun,
        Active::Terminal if seen.queued > 0 => Reason::QueuedBehindTerminalActiveWork,
        Active::Terminal | Active::Open => Reason::StaleSessionState,
    };
    Some(Finding { kind: DiagnosticKind::Stuck, reason, action: Some(Recovery::Release) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Thresholds = Thresholds { warn: 120_000, abort: 360_000, is_abort_set: false };
    const BEGAN: Millis = 1_000_000;

    /// A run that began a while ago. The clock of a test is a number.
    fn run() -> Seen {
        Seen {
            is_owned: true,
            active: Active::Open,
            waits: Waits::Nothing,
            since: BEGAN,
            progressed_at: BEGAN,
            asks_model: false,
            requests: 0,
            calls_tool: false,
            queued: 0,
        }
    }

    /// Returns the finding so many milliseconds after the run began.
    fn after(seen: Seen, millis: Millis) -> Option<(&'static str, Reason, bool)> {
        with(seen, millis, USUAL)
    }

    fn with(seen: Seen, millis: Millis, thresholds: Thresholds) -> Option<(&'static str, Reason, bool)> {
        let found = classify(&seen, thresholds, BEGAN + millis)?;
        let kind = match found.kind {
            DiagnosticKind::LongRunning => "long_running",
            DiagnosticKind::Stalled => "stalled",
            DiagnosticKind::Stuck => "stuck",
            DiagnosticKind::RecoveryRequested | DiagnosticKind::RecoveryCompleted => "recovery",
        };
        Some((kind, found.reason, found.action.is_some()))
    }

    #[test]
    fn nothing_is_said_of_work_that_is_younger_than_the_warning() {
        assert_eq!(after(Seen { asks_model: true, ..run() }, 119_999), None);
        assert!(after(Seen { asks_model: true, ..run() }, 120_000).is_some());
    }

    #[test]
    fn work_with_progress_is_long_running() {
        let seen = Seen { progressed_at: BEGAN + 590_000, ..run() };
        assert_eq!(after(seen, 600_000), Some(("long_running", Reason::ActiveWork, false)));
        let queued = Seen { queued: 2, ..seen };
        assert_eq!(after(queued, 600_000), Some(("long_running", Reason::QueuedBehindActiveWork, false)));
    }

    #[test]
    fn a_silent_model_is_long_running_until_the_abort_threshold() {
        let seen = Seen { asks_model: true, requests: 1, ..run() };
        let silent = Reason::ActiveModelCallWithoutProgress;
        assert_eq!(after(seen, 120_000), Some(("long_running", silent, false)));
        assert_eq!(after(seen, 359_999), Some(("long_running", silent, false)));
        assert_eq!(after(seen, 360_000), Some(("stalled", silent, true)));
    }

    #[test]
    fn work_without_progress_is_stalled_and_stopped_only_at_the_abort_threshold() {
        let reason = Reason::ActiveWorkWithoutProgress;
        assert_eq!(after(run(), 120_000), Some(("stalled", reason, false)));
        assert_eq!(after(run(), 359_999), Some(("stalled", reason, false)));
        assert_eq!(after(run(), 360_000), Some(("stalled", reason, true)));
        let repeated = Seen { asks_model: true, requests: 3, ..run() };
        assert_eq!(after(repeated, 120_000), Some(("stalled", Reason::RepeatedModelRequestsWithoutProgress, false)));
    }

    #[test]
    fn a_silent_tool_is_stalled_and_stopped_only_if_the_user_has_set_when() {
        let seen = Seen { calls_tool: true, ..run() };
        assert_eq!(after(seen, 120_000), Some(("stalled", Reason::BlockedToolCall, false)));
        assert_eq!(after(seen, 3_600_000), Some(("stalled", Reason::BlockedToolCall, false)));
        let set = Thresholds { abort: 300_000, is_abort_set: true, ..USUAL };
        assert_eq!(with(seen, 299_999, set), Some(("stalled", Reason::BlockedToolCall, false)));
        assert_eq!(with(seen, 300_000, set), Some(("stalled", Reason::BlockedToolCall, true)));
    }

    #[test]
    fn activity_without_an_owner_is_stuck_and_not_hidden_as_long_running() {
        for seen in [
            run(),
            Seen { asks_model: true, ..run() },
            Seen { calls_tool: true, ..run() },
            Seen { waits: Waits::Runtime, queued: 1, ..run() },
        ] {
            let seen = Seen { is_owned: false, ..seen };
            assert_eq!(after(seen, 120_000), Some(("stuck", Reason::StaleSessionState, true)), "{seen:?}");
            assert_eq!(after(seen, 119_999), None);
            assert_eq!(after(Seen { progressed_at: BEGAN + 60_000, ..seen }, 120_000), None, "it was just left");
        }
    }

    #[test]
    fn queued_messages_that_no_process_works_on_are_stuck() {
        let seen = Seen { is_owned: false, active: Active::None, queued: 1, ..run() };
        assert_eq!(after(seen, 120_000), Some(("stuck", Reason::QueuedWorkWithoutActiveRun, true)));
        let terminal = Seen { active: Active::Terminal, ..seen };
        assert_eq!(after(terminal, 120_000), Some(("stuck", Reason::QueuedBehindTerminalActiveWork, true)));
        assert_eq!(after(Seen { queued: 0, ..seen }, 900_000), None, "an idle session");
    }

    #[test]
    fn messages_behind_a_run_that_has_ended_are_stalled() {
        let seen = Seen { active: Active::Terminal, queued: 1, ..run() };
        assert_eq!(after(seen, 120_000), Some(("stalled", Reason::QueuedBehindTerminalActiveWork, false)));
    }

    #[test]
    fn a_run_that_waits_for_a_person_is_never_told_of() {
        for is_owned in [true, false] {
            let seen = Seen { waits: Waits::Person, is_owned, queued: 3, ..run() };
            assert_eq!(after(seen, 30 * 24 * 3_600_000), None);
        }
    }

    #[test]
    fn waits_that_are_known_to_end_are_long_running() {
        let provider = Seen { asks_model: true, waits: Waits::Provider(BEGAN + 700_000), ..run() };
        assert_eq!(after(provider, 699_999), Some(("long_running", Reason::ProviderRetryWait, false)));
        assert_eq!(
            after(provider, 700_000),
            Some(("stalled", Reason::ActiveModelCallWithoutProgress, true)),
            "the pause is over"
        );
        let runtime = Seen { waits: Waits::Runtime, ..run() };
        assert_eq!(after(runtime, 3_600_000), Some(("long_running", Reason::RuntimeOwnedWait, false)));
        let turn = Seen { active: Active::None, queued: 1, ..run() };
        assert_eq!(after(turn, 3_600_000), Some(("long_running", Reason::RuntimeOwnedWait, false)));
    }

    #[test]
    fn thresholds_are_as_the_config_says() {
        let of = |text: &str| {
            let parsed = pincer_config::parse(text, &|_| None).unwrap_or_else(|error| panic!("{error}"));
            Thresholds::of(&parsed.config)
        };
        let thresholds = |warn, abort, is_abort_set| Some(Thresholds { warn, abort, is_abort_set });
        assert_eq!(of("{}"), thresholds(120_000, 360_000, false));
        assert_eq!(of("{ diagnostics: { stuckSessionWarnMs: 60000 } }"), thresholds(60_000, 300_000, false));
        assert_eq!(of("{ diagnostics: { stuckSessionAbortMs: 200000 } }"), thresholds(120_000, 200_000, true));
        assert_eq!(of("{ diagnostics: { stuckSessionAbortMs: 5 } }"), thresholds(120_000, 120_000, true));
        assert_eq!(of("{ diagnostics: { enabled: false } }"), None);
    }
}
