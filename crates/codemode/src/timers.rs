//! The timers of one cell, on the host's clock.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use pincer_sandbox::{Json, RequestId};

/// What JavaScript allows, 24 days.
const LONGEST_MS: f64 = 0x7fff_ffff as f64;

/// Requests by the time they are due; equal times fire in the order they were set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Instant, RequestId)>,
}

impl Timers {
    /// Sets a timer from the arguments of a `sleep` request: `[milliseconds]`, by the guest's word, counted from `at`.
    pub fn set(&mut self, id: RequestId, args: &Json, at: Instant) {
        let milliseconds = args.to::<(f64,)>().map_or(0.0, |(milliseconds,)| milliseconds).clamp(0.0, LONGEST_MS);
        let delay = Duration::from_micros((milliseconds * 1000.0) as u64);
        self.due.insert((at + delay, id));
    }

    pub fn clear(&mut self, id: RequestId) {
        self.due.retain(|(_, timer)| *timer != id);
    }

    /// Sleeps until the next timer is due and takes it and all others that are. `None` if `deadline` comes first.
    pub fn wait(&mut self, deadline: Instant) -> Option<Vec<RequestId>> {
        let (next, _) = *self.due.first()?;
        if next > deadline {
            return None;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
        Some(self.take_due())
    }

    /// Takes those that are due, in their order.
    pub fn take_due(&mut self) -> Vec<RequestId> {
        let now = Instant::now();
        let later = self.due.split_off(&(now, RequestId(u32::MAX)));
        let due = std::mem::replace(&mut self.due, later);
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// How long until the next timer is due.
    pub fn next_in(&self) -> Option<Duration> {
        self.due.first().map(|(time, _)| time.saturating_duration_since(Instant::now()))
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
            timers.set(RequestId(id as u32), &Json::parse(args).unwrap(), Instant::now());
        }
        assert!(
            timers.due.last().is_some_and(|(time, _)| *time <= Instant::now() + Duration::from_millis(0x7fff_ffff))
        );
        assert_eq!(timers.take_due().len(), 6);
    }
}
