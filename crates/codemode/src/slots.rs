//! Long turns take turns: as many compute at a time as there are processors, for a few milliseconds each, in the order in which
//! they came. So sixty-four endless loops are two to everybody else, and a short program is hardly ever behind them.
//!
//! Priorities of the system would do the same with less code and do not: a thread of low priority that is held up while it holds
//! a lock of the kernel, as for growing memory, holds up everybody.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pincer_sandbox::LongTurn;

use crate::spot;

/// A turn that lasts longer has to take turns.
const LONG_TURN: Duration = Duration::from_millis(2);
/// How long one may compute before the next.
const SLICE: Duration = Duration::from_millis(8);
/// How long a turn waits before it looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(20);

/// The places for long turns, of this process.
struct Slots {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: usize,
    /// Who waits, by number.
    queue: VecDeque<u64>,
    next: u64,
}

static SLOTS: LazyLock<Slots> =
    LazyLock::new(|| Slots::new(thread::available_parallelism().map_or(2, |count| count.get())));

/// How the turn on this thread stands.
#[derive(Clone, Copy)]
enum Standing {
    Short,
    Waiting(u64),
    Computing { since: Instant },
}

thread_local! {
    static STANDING: Cell<Standing> = const { Cell::new(Standing::Short) };
    /// How long the turn on this thread has waited for others.
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// What an engine does to turns that last.
pub fn fair_turns() -> LongTurn {
    LongTurn { after: LONG_TURN, may_go_on: Arc::new(|| spot::may_go_on(|| SLOTS.may_go_on())) }
}

/// Notes that the turn on this thread is over. Returns how long it has waited for others.
pub(crate) fn turn_is_over() -> Duration {
    if !matches!(STANDING.get(), Standing::Short) {
        SLOTS.leave();
    }
    WAITED.take()
}

impl Slots {
    fn new(count: usize) -> Self {
        Self { state: Mutex::new(State { free: count, queue: VecDeque::new(), next: 0 }), changed: Condvar::new() }
    }

    /// Numbers that no panic can leave half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, for a while. `true` if there is one, and as long as nobody else waits for it.
    fn may_go_on(&self) -> bool {
        let mut state = self.lock();
        let number = match STANDING.get() {
            Standing::Computing { since } if since.elapsed() < SLICE || state.queue.is_empty() => return true,
            Standing::Waiting(number) => number,
            standing => {
                if let Standing::Computing { .. } = standing {
                    state.free += 1;
                    self.changed.notify_all();
                }
                state.next += 1;
                let number = state.next;
                state.queue.push_back(number);
                number
            }
        };
        let its_turn = |state: &State| state.free > 0 && state.queue.front() == Some(&number);
        let began = Instant::now();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !its_turn(state));
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        WAITED.set(WAITED.get() + began.elapsed());
        if !its_turn(&state) {
            STANDING.set(Standing::Waiting(number));
            return false;
        }
        state.queue.pop_front();
        state.free -= 1;
        STANDING.set(Standing::Computing { since: Instant::now() });
        // There may be room for the next one too.
        self.changed.notify_all();
        true
    }

    fn leave(&self) {
        let mut state = self.lock();
        match STANDING.replace(Standing::Short) {
            Standing::Short => {}
            Standing::Waiting(number) => state.queue.retain(|other| *other != number),
            Standing::Computing { .. } => state.free += 1,
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_around_and_come_back() {
        let slots = Slots::new(1);
        assert!(slots.may_go_on() && slots.may_go_on());
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                // The first has it, and keeps it for its slice; it is passed on when that is over.
                while !slots.may_go_on() {}
                slots.leave();
            });
            while !second.is_finished() {
                slots.may_go_on();
            }
        });
        assert!(slots.may_go_on());
        slots.leave();
        // Who waits and is not wanted any more leaves no trace.
        assert!(slots.may_go_on());
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!slots.may_go_on());
                slots.leave();
            });
        });
        slots.leave();
        let state = slots.lock();
        assert_eq!((state.free, state.queue.len()), (1, 0));
    }
}
