//! Recoveries that are under way: each is asked for once in a generation, and ends with what came of it.

use std::collections::HashMap;
use std::hash::Hash;

use pincer_store::Millis;

/// The time that a run has to end after it was told to stop.
const DRAIN: Millis = 15_000;

/// The recoveries under way.
pub(crate) struct Recoveries<K>(HashMap<K, UnderWay>);

struct UnderWay {
    generation: u64,
    since: Millis,
    is_late: bool,
}

/// The progress of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The work has ended.
    Ended,
    /// The run should have ended by now. Told once.
    Late,
}

impl<K> Default for Recoveries<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Recoveries<K> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins one. Returns `false` if this generation has one already.
    pub(crate) fn begin(&mut self, session: &K, generation: u64, now: Millis) -> bool {
        if self.0.get(session).is_some_and(|under_way| under_way.generation == generation) {
            return false;
        }
        self.0.insert(session.clone(), UnderWay { generation, since: now, is_late: false });
        true
    }

    /// Ends one at once.
    pub(crate) fn end(&mut self, session: &K) {
        self.0.remove(session);
    }

    /// Returns those that have ended, or should have, each with its generation. `current` is the generation of the work that goes on.
    pub(crate) fn look(&mut self, now: Millis, current: impl Fn(&K) -> Option<u64>) -> Vec<(K, u64, Progress)> {
        let mut told = Vec::new();
        self.0.retain(|session, under_way| {
            let generation = under_way.generation;
            if current(session) != Some(generation) {
                told.push((session.clone(), generation, Progress::Ended));
                return false;
            }
            if now - under_way.since >= DRAIN && !std::mem::replace(&mut under_way.is_late, true) {
                told.push((session.clone(), generation, Progress::Late));
            }
            true
        });
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_asked_for_once_and_ends_with_its_generation() {
        let mut recoveries = Recoveries::default();
        assert!(recoveries.begin(&"main", 1, 0));
        assert!(!recoveries.begin(&"main", 1, 10));
        assert_eq!(recoveries.look(10, |_| Some(1)), []);
        assert_eq!(recoveries.look(15_000, |_| Some(1)), [("main", 1, Progress::Late)]);
        assert_eq!(recoveries.look(16_000, |_| Some(1)), []);
        assert_eq!(recoveries.look(17_000, |_| Some(2)), [("main", 1, Progress::Ended)]);
        assert!(recoveries.is_empty());
        assert!(recoveries.begin(&"main", 2, 18_000));
        assert_eq!(recoveries.look(18_001, |_| None), [("main", 2, Progress::Ended)]);
    }
}
