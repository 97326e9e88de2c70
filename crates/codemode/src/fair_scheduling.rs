//! Long turns take turns: as many compute at a time as there are processors, for a few milliseconds each. Users take turns with
//! these slices, see `round_robin.rs`. So sixty-four endless loops of one user are one to everybody else, and a short program is hardly
//! ever behind them.
//!
//! Priorities of the system would do the same with less code and do not: a thread of low priority that is held up while it holds
//! a lock of the kernel, as for growing memory, holds up everybody.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pincer_sandbox::LongTurn;

use crate::inline_turns;
use crate::round_robin::{Party, Rota};

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
    /// Turns that wait, by number.
    queue: Rota<u64>,
    /// Those that have a place and have not noticed.
    granted: HashSet<u64>,
    next: u64,
}

impl State {
    /// Gives free places to those whose turn it is.
    fn grant(&mut self) {
        while self.free > 0 {
            let Some(number) = self.queue.next(|_| true) else { return };
            self.granted.insert(number);
            self.free -= 1;
        }
    }
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
    /// The party of the turn that runs on this thread.
    static PARTY: RefCell<Option<Party>> = const { RefCell::new(None) };
    static STANDING: Cell<Standing> = const { Cell::new(Standing::Short) };
    /// How long the turn on this thread has waited for others.
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// What an engine does to turns that last.
pub fn fair_turns() -> LongTurn {
    LongTurn {
        after: LONG_TURN,
        may_go_on: Arc::new(|| inline_turns::may_go_on(|| SLOTS.may_go_on())),
        // A turn that waits needs no processor. It asks for one again when it goes on.
        stand_still: Arc::new(|wait| {
            inline_turns::stand_still(|| {
                step_back();
                let began = Instant::now();
                wait();
                WAITED.set(WAITED.get() + began.elapsed());
            });
        }),
    }
}

/// Notes that a turn begins on this thread.
pub(crate) fn turn_begins(party: Party) {
    PARTY.set(Some(party));
}

/// Gives up the processor that the turn on this thread has, or waits for.
fn step_back() {
    if !matches!(STANDING.get(), Standing::Short) {
        SLOTS.leave();
    }
}

/// Notes that the turn on this thread is over. Returns how long it has waited for others.
pub(crate) fn turn_is_over() -> Duration {
    step_back();
    WAITED.take()
}

impl Slots {
    fn new(count: usize) -> Self {
        let state = State { free: count, queue: Rota::default(), granted: HashSet::new(), next: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
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
                state.free += usize::from(matches!(standing, Standing::Computing { .. }));
                state.next += 1;
                let number = state.next;
                let party = PARTY.with_borrow(|party| party.clone()).unwrap_or_default();
                state.queue.push(&party, number);
                state.grant();
                self.changed.notify_all();
                number
            }
        };
        let began = Instant::now();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !state.granted.contains(&number));
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        WAITED.set(WAITED.get() + began.elapsed());
        let is_granted = state.granted.remove(&number);
        STANDING.set(match is_granted {
            true => Standing::Computing { since: Instant::now() },
            false => Standing::Waiting(number),
        });
        is_granted
    }

    fn leave(&self) {
        let mut state = self.lock();
        match STANDING.replace(Standing::Short) {
            Standing::Short => {}
            Standing::Waiting(number) if state.granted.remove(&number) => state.free += 1,
            Standing::Waiting(number) => state.queue.retain(|other| *other != number),
            Standing::Computing { .. } => state.free += 1,
        }
        state.grant();
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
        assert_eq!((state.free, state.queue.len(), state.granted.len()), (1, 0, 0));
    }

    #[test]
    fn users_take_turns_with_slices() {
        let slots = Slots::new(1);
        let of = |user: &str| Party { user: user.into(), session: "1".into() };
        assert!(slots.may_go_on());
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (count, user) in ["a", "a", "a", "b"].into_iter().enumerate() {
                let (slots, order) = (&slots, &order);
                scope.spawn(move || {
                    turn_begins(of(user));
                    while !slots.may_go_on() {}
                    order.lock().unwrap_or_else(PoisonError::into_inner).push(user);
                    slots.leave();
                });
                // One after the other, so that it is known who came first.
                while slots.lock().queue.len() <= count {
                    thread::yield_now();
                }
            }
            slots.leave();
        });
        assert_eq!(order.into_inner().unwrap_or_else(PoisonError::into_inner), ["a", "b", "a", "a"]);
    }
}
