//! Deadlines without polling: one thread that sleeps until the earliest of them.
//!
//! It never touches a cell. It moves wasmtime's epoch, which makes every running cell look at its own deadline and signal
//! once. A cell that is just looking when the epoch moves can miss it, so whoever should have stopped is told again every few
//! milliseconds until it has.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use wasmtime::Engine;

const AGAIN: Duration = Duration::from_millis(2);

/// Whether a cell is running, and whether somebody wants it to stop.
#[derive(Default)]
pub(crate) struct Signal {
    running: AtomicBool,
    interrupted: AtomicBool,
}

impl Signal {
    /// Asks the cell to stop; `true` if it is running and must be told. If it is not, its next turn will see it: one of the
    /// two sides always sees what the other wrote.
    pub(crate) fn interrupt(&self) -> bool {
        self.interrupted.store(true, Ordering::SeqCst);
        self.running.load(Ordering::SeqCst)
    }

    /// `false` if the cell was asked to stop before.
    pub(crate) fn begin_turn(&self) -> bool {
        self.running.store(true, Ordering::SeqCst);
        !self.interrupted.load(Ordering::SeqCst)
    }

    pub(crate) fn end_turn(&self) {
        self.running.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}

pub(crate) struct Watchdog {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Of the turns that are running. One that has passed stays until its turn has ended.
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
    /// Cells that must stop before their deadline.
    urgent: Vec<Arc<Signal>>,
    /// When the thread will wake by itself. It keeps an appointment even after the cell it was for has ended, so that a cell
    /// of the usual length never has to wake it.
    appointment: Option<Instant>,
    /// Something has been watched since the thread last looked.
    busy: bool,
    closed: bool,
}

/// A deadline under watch until this is dropped.
pub(crate) struct Watch<'a> {
    watchdog: &'a Watchdog,
    key: (Instant, u64),
}

impl Watch<'_> {
    pub(crate) fn deadline(&self) -> Instant {
        self.key.0
    }
}

impl Watchdog {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let (watched, engine) = (Arc::clone(&shared), engine.clone());
        thread::Builder::new().name("pincer-watchdog".into()).spawn(move || watched.run(&engine))?;
        Ok(Self { shared })
    }

    pub(crate) fn watch(&self, deadline: Instant) -> Watch<'_> {
        let mut state = self.shared.lock();
        let key = (deadline, state.next);
        state.next += 1;
        state.deadlines.insert(key);
        state.busy = true;
        let too_late = state.appointment.is_none_or(|time| deadline < time);
        if too_late {
            state.appointment = Some(deadline);
        }
        // Whoever is woken up wants the lock.
        drop(state);
        if too_late {
            self.shared.changed.notify_one();
        }
        Watch { watchdog: self, key }
    }

    /// Stops a running cell that has been interrupted.
    pub(crate) fn urge(&self, signal: &Arc<Signal>) {
        self.shared.lock().urgent.push(Arc::clone(signal));
        self.shared.changed.notify_one();
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
            let (stop, appointment) = state.look(now);
            if stop {
                engine.increment_epoch();
            }
            state.appointment = appointment;
            state = match appointment {
                Some(time) => {
                    let left = time.saturating_duration_since(now);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl State {
    /// Whether some cell must stop now, and when to look again.
    fn look(&mut self, now: Instant) -> (bool, Option<Instant>) {
        self.urgent.retain(|signal| signal.running.load(Ordering::SeqCst));
        let first = self.deadlines.first().map(|(time, _)| *time);
        if !self.urgent.is_empty() || first.is_some_and(|time| time <= now) {
            return (true, Some(now + AGAIN));
        }
        // Between two turns of a program nothing is watched. Looking again costs less than being woken up.
        let again = std::mem::take(&mut self.busy).then(|| now + AGAIN);
        (false, first.or(self.appointment.filter(|time| *time > now)).or(again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_deadline_that_has_passed_is_told_again_until_its_turn_has_ended() {
        let now = Instant::now();
        let mut state = State::default();
        state.deadlines.extend([(now, 0), (now + HOUR, 1)]);
        for _ in 0..3 {
            assert_eq!(state.look(now), (true, Some(now + AGAIN)));
        }
        state.deadlines.remove(&(now, 0));
        assert_eq!(state.look(now), (false, Some(now + HOUR)));
    }

    #[test]
    fn an_interrupted_cell_is_told_again_until_its_turn_has_ended() {
        let now = Instant::now();
        let signal = Arc::new(Signal::default());
        assert!(signal.begin_turn());
        assert!(signal.interrupt());
        let mut state = State { urgent: vec![Arc::clone(&signal)], ..State::default() };
        for _ in 0..3 {
            assert_eq!(state.look(now), (true, Some(now + AGAIN)));
        }
        signal.end_turn();
        assert_eq!(state.look(now), (false, None));
        assert!(!signal.begin_turn());
    }

    #[test]
    fn it_looks_once_more_when_something_was_watched() {
        let now = Instant::now();
        let mut state = State { busy: true, ..State::default() };
        assert_eq!(state.look(now), (false, Some(now + AGAIN)));
        assert_eq!(state.look(now), (false, None));
    }

    #[test]
    fn an_appointment_is_kept_when_its_cell_has_ended() {
        let watchdog = Watchdog::start(&Engine::default()).unwrap();
        let far = Instant::now() + HOUR;
        drop(watchdog.watch(far));
        drop(watchdog.watch(far + HOUR));
        let mut state = watchdog.shared.lock();
        assert!(state.deadlines.is_empty());
        assert_eq!(state.look(Instant::now()), (false, Some(far)));
    }
}
