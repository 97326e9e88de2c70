//! Deadlines without polling: one thread that sleeps until the earliest of them.
//!
//! It never touches a cell. It moves wasmtime's epoch, which makes every running cell look at its own deadline once.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use wasmtime::Engine;

pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    engine: Engine,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
    /// When the thread will wake by itself. It keeps an appointment even after the cell it was for has ended, so that a cell
    /// of the usual length never has to wake it.
    appointment: Option<Instant>,
    closed: bool,
}

/// A deadline under watch until this is dropped.
pub(crate) struct Watch<'a> {
    watchdog: &'a Watchdog,
    key: (Instant, u64),
}

impl Watchdog {
    pub fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let (watched, epoch) = (Arc::clone(&shared), engine.clone());
        thread::Builder::new().name("pincer-watchdog".into()).spawn(move || watched.run(&epoch))?;
        Ok(Self { shared, engine: engine.clone() })
    }

    pub fn watch(&self, deadline: Instant) -> Watch<'_> {
        let mut state = self.shared.lock();
        let key = (deadline, state.next);
        state.next += 1;
        state.deadlines.insert(key);
        if state.appointment.is_none_or(|time| deadline < time) {
            state.appointment = Some(deadline);
            self.shared.changed.notify_one();
        }
        Watch { watchdog: self, key }
    }

    /// Makes every running cell look at its deadline and its interrupt flag.
    pub fn nudge(&self) {
        self.engine.increment_epoch();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.watchdog.shared.lock().deadlines.remove(&self.key);
    }
}

impl Shared {
    /// The state is plain data that no panic can leave half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, engine: &Engine) {
        let mut state = self.lock();
        while !state.closed {
            let now = Instant::now();
            let waiting = state.deadlines.split_off(&(now, u64::MAX));
            let expired = !state.deadlines.is_empty();
            state.deadlines = waiting;
            if expired {
                engine.increment_epoch();
            }
            let kept = state.appointment.filter(|time| *time > now);
            state.appointment = state.deadlines.first().map(|(time, _)| *time).or(kept);
            state = match state.appointment {
                Some(time) => {
                    let (state, _) = self
                        .changed
                        .wait_timeout(state, time.saturating_duration_since(now))
                        .unwrap_or_else(PoisonError::into_inner);
                    state
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_what_is_due_is_taken_off_and_the_rest_keeps_its_appointment() {
        let watchdog = Watchdog::start(&Engine::default()).unwrap();
        let far = Instant::now() + Duration::from_secs(3600);
        let kept = watchdog.watch(far);
        drop(watchdog.watch(far + Duration::from_secs(1)));
        let state = watchdog.shared.lock();
        assert_eq!(state.deadlines.len(), 1);
        assert_eq!(state.appointment, Some(far));
        drop(state);
        drop(kept);
        assert!(watchdog.shared.lock().deadlines.is_empty());
    }
}
