//! Repeated reports of one finding: at once, then less and less often while it stays the same.

use std::collections::HashMap;
use std::hash::Hash;

use pincer_store::Millis;

use super::classify::Finding;
use super::diagnostic::{DiagnosticKind, Reason};

/// The longest time between two reports of the same.
const LONGEST: Millis = 3_600_000;

/// The last report of each session.
pub(crate) struct Reports<K>(HashMap<K, Told>);

struct Told {
    what: What,
    next_at: Millis,
    pause: Millis,
}

/// A state of a session. Another one is told at once.
#[derive(Clone, Copy, PartialEq, Eq)]
struct What {
    kind: DiagnosticKind,
    reason: Reason,
    generation: u64,
    /// When it was last seen to go on. Work that takes long goes on all the time.
    progressed_at: Option<Millis>,
}

impl<K> Default for Reports<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Reports<K> {
    /// Returns whether a finding is to be told now.
    pub(crate) fn is_due(
        &mut self,
        session: &K,
        finding: &Finding,
        generation: u64,
        progressed_at: Millis,
        first_pause: Millis,
        now: Millis,
    ) -> bool {
        let Finding { kind, reason, .. } = *finding;
        let progressed_at = (kind != DiagnosticKind::LongRunning).then_some(progressed_at);
        let what = What { kind, reason, generation, progressed_at };
        match self.0.get_mut(session) {
            Some(told) if told.what == what => {
                let is_due = now >= told.next_at;
                if is_due {
                    told.pause = told.pause.saturating_mul(2).min(LONGEST);
                    told.next_at = now.saturating_add(told.pause);
                }
                is_due
            }
            _ => {
                let told = Told { what, next_at: now.saturating_add(first_pause), pause: first_pause };
                self.0.insert(session.clone(), told);
                true
            }
        }
    }

    /// Forgets a session, if nothing was told of a later generation.
    pub(crate) fn settled(&mut self, session: &K, generation: u64) {
        if self.0.get(session).is_some_and(|told| told.what.generation == generation) {
            self.0.remove(session);
        }
    }

    /// Forgets all sessions of which nothing is to be told any more.
    pub(crate) fn keep(&mut self, is_open: impl Fn(&K) -> bool) {
        self.0.retain(|session, _| is_open(session));
    }
}

#[cfg(test)]
mod tests {
    use super::super::diagnostic::Recovery;
    use super::*;

    fn finding(kind: DiagnosticKind) -> Finding {
        Finding { kind, reason: Reason::StaleSessionState, action: Some(Recovery::Release) }
    }

    #[test]
    fn repeated_reports_back_off_while_the_session_is_unchanged() {
        let mut reports = Reports::default();
        let stuck = finding(DiagnosticKind::Stuck);
        // A clock that ticks every ten seconds, for ten hours.
        let ticks = (0..3_600).map(|tick| tick * 10_000);
        let told: Vec<Millis> =
            ticks.filter(|now| reports.is_due(&"main", &stuck, 1, 0, 120_000, *now)).map(|now| now / 1_000).collect();
        assert_eq!(told[..5], [0, 120, 360, 840, 1_800]);
        let pauses: Vec<Millis> = told.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert_eq!(pauses.iter().max(), Some(&3_600));
        let now = 36_000_000;
        assert!(reports.is_due(&"main", &stuck, 2, 0, 120_000, now), "another generation");
        assert!(reports.is_due(&"main", &stuck, 2, 5, 120_000, now), "it has gone on since");
        assert!(!reports.is_due(&"main", &stuck, 2, 5, 120_000, now));
        assert!(reports.is_due(&"other", &stuck, 2, 5, 120_000, now));
    }

    #[test]
    fn progress_of_work_that_takes_long_is_no_news() {
        let mut reports = Reports::default();
        let long = finding(DiagnosticKind::LongRunning);
        assert!(reports.is_due(&"main", &long, 1, 0, 100, 0));
        assert!(!reports.is_due(&"main", &long, 1, 50, 100, 50));
        assert!(reports.is_due(&"main", &finding(DiagnosticKind::Stalled), 1, 50, 100, 50));
    }

    #[test]
    fn a_recovery_settles_only_the_generation_that_it_was_for() {
        let mut reports = Reports::default();
        let stuck = finding(DiagnosticKind::Stuck);
        reports.is_due(&"main", &stuck, 2, 0, 100, 0);
        reports.settled(&"main", 1);
        assert!(!reports.is_due(&"main", &stuck, 2, 0, 100, 1), "a later generation is current");
        reports.settled(&"main", 2);
        assert!(reports.is_due(&"main", &stuck, 2, 0, 100, 2));
        reports.keep(|_| false);
        assert!(reports.is_due(&"main", &stuck, 2, 0, 100, 3));
    }
}
