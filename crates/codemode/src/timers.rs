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
    /// Sets a timer from the arguments of a `sleep` request: `[milliseconds]`, by the guest's word.
    pub fn set(&mut self, id: RequestId, args: &Json) {
        let milliseconds = args.to::<(f64,)>().map_or(0.0, |(milliseconds,)| milliseconds).clamp(0.0, LONGEST_MS);
        let delay = Duration::from_micros((milliseconds * 1000.0) as u64);
        self.due.insert((Instant::now() + delay, id));
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
        let now = Instant::now();
        let later = self.due.split_off(&(now, RequestId(u32::MAX)));
        let due = std::mem::replace(&mut self.due, later);
        Some(due.into_iter().map(|(_, id)| id).collect())
    }

    /// How long until the next timer is due.
    pub fn next_in(&self) -> Option<Duration> {
        self.due.first().map(|(time, _)| time.saturating_duration_since(Instant::now()))
    }
}
