//! The timers of one cell, on the host's clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pincer_sandbox::{Json, RequestId};
use pincer_store::Millis;
use serde::{Deserialize, Serialize};

/// What JavaScript allows, 24 days.
const LONGEST_MS: f64 = 0x7fff_ffff as f64;

/// Requests by the time they are due; equal times fire in the order they were set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<(Instant, RequestId), Millis>,
}

/// A timer of a suspended cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredTimer {
    pub id: RequestId,
    pub left_ms: u64,
    pub since: Millis,
}

impl Timers {
    /// Sets a timer from the arguments of a `sleep` request: `[milliseconds]`, by the guest's word, counted from `at`.
    pub(crate) fn set(&mut self, id: RequestId, args: &Json, at: Instant, since: Millis) {
        let milliseconds = args.to::<(f64,)>().map_or(0.0, |(milliseconds,)| milliseconds).clamp(0.0, LONGEST_MS);
        let delay = Duration::from_micros((milliseconds * 1000.0) as u64);
        self.due.insert((at + delay, id), since);
    }

    pub(crate) fn clear(&mut self, id: RequestId) {
        self.due.retain(|(_, timer), _| *timer != id);
    }

    /// Takes those that are due, each with its time, in their order.
    pub(crate) fn take_due(&mut self) -> Vec<(Instant, RequestId)> {
        let now = Instant::now();
        let later = self.due.split_off(&(now, RequestId(u32::MAX)));
        let due = std::mem::replace(&mut self.due, later);
        due.into_keys().collect()
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((time, _), _)| *time)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// As they are stored: how much is left of each. A clock that is set back in the meantime can make one late, by no more
    /// than that.
    pub(crate) fn store(&self) -> Vec<StoredTimer> {
        let now = Instant::now();
        // Rounded up, so that none is early: moments are stored in whole milliseconds.
        let left = |time: Instant| time.saturating_duration_since(now).as_millis() as u64 + 1;
        self.due
            .iter()
            .map(|((time, id), since)| StoredTimer { id: *id, left_ms: left(*time), since: *since })
            .collect()
    }

    /// Makes them again of what was stored `elapsed` ago. Those that came due meanwhile have the time at which they did.
    pub(crate) fn restore(stored: &[StoredTimer], elapsed: Duration) -> Self {
        let now = Instant::now();
        let stored_at = now.checked_sub(elapsed).unwrap_or(now);
        let due = |timer: &StoredTimer| {
            let left = Duration::from_millis(timer.left_ms.min(LONGEST_MS as u64));
            ((stored_at + left, timer.id), timer.since)
        };
        Self { due: stored.iter().map(due).collect() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// What a guest that has broken the bridge could send. The prelude itself never does.
    #[test]
    fn forged_delays_do_no_harm() {
        let mut timers = Timers::default();
        for (id, args) in ["[1e300]", "[-1e300]", "[]", "[null]", "{}", "[1,2]", "\"x\""].into_iter().enumerate() {
            timers.set(RequestId(id as u32), &Json::parse(args).unwrap(), Instant::now(), 0);
        }
        let last = timers.due.last_key_value().map(|((time, _), _)| *time);
        assert!(last.is_some_and(|time| time <= Instant::now() + Duration::from_millis(0x7fff_ffff)));
        assert_eq!(timers.take_due().len(), 6);
    }

    #[test]
    fn a_stored_timer_has_what_was_left_of_it() {
        let mut timers = Timers::default();
        timers.set(RequestId(1), &Json::parse("[60000]").unwrap(), Instant::now(), 7);
        timers.set(RequestId(2), &Json::parse("[5000]").unwrap(), Instant::now(), 7);
        let stored = timers.store();
        assert_eq!(stored.iter().map(|timer| timer.id.0).collect::<Vec<_>>(), [2, 1]);
        let mut later = Timers::restore(&stored, Duration::from_secs(6));
        assert_eq!(later.take_due().into_iter().map(|(_, id)| id).collect::<Vec<_>>(), [RequestId(2)]);
        let left = later.next().unwrap() - Instant::now();
        assert!(left <= Duration::from_millis(54_001), "{left:?}");
    }
}
