//! Turns on the spot: in the task that drives the program, on a thread of the async runtime.
//!
//! Most turns take less time than waking another thread up does, twice. But guest code is hostile, and the runtime has few
//! threads: a turn that lasts gives its place there away, and goes on as a thread that belongs to nobody.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pincer_sandbox::{Cell, Interrupter};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

use crate::fair_scheduling::{turn_begins, turn_is_over};
use crate::round_robin::Party;
use crate::threads::Ran;

/// How long a turn that lasts waits at most for the runtime to do without its thread, before it goes on and tries again.
const HANDING_OVER: Duration = Duration::from_millis(20);

/// The turn that runs on this thread of the runtime: who may want it to end, and how it is ended.
struct Here {
    abort: CancellationToken,
    interrupter: Interrupter,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// Whether the runtime can go on without this thread, and whether the cell asks when its turn lasts.
pub(crate) fn is_possible(cell: &Cell) -> bool {
    let is_multi = |runtime: Handle| runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    cell.asks_when_it_lasts() && Handle::try_current().is_ok_and(is_multi)
}

/// Runs one turn here and now. `None` if it breaks down, and its cell with it.
pub(crate) fn run_turn(mut cell: Cell, party: Party, time: Duration, abort: &CancellationToken) -> Option<Ran> {
    turn_begins(party);
    HERE.set(Some(Here { abort: abort.clone(), interrupter: cell.interrupter() }));
    let turn = catch_unwind(AssertUnwindSafe(|| cell.run_turn(time)));
    HERE.set(None);
    let waited = turn_is_over();
    turn.ok().map(|turn| Ran { cell, turn, waited })
}

/// Asked every few milliseconds of a turn that lasts. Nobody but itself can tell that it is not wanted any more: the task that
/// would hear of it is busy with it.
pub(crate) fn may_go_on(has_place: impl FnOnce() -> bool) -> bool {
    match is_wanted() {
        // A thread of cells.
        None => has_place(),
        Some(true) => aside(has_place),
        Some(false) => false,
    }
}

/// Does a short wait that a turn needs, while the runtime does without this thread. A turn that is not wanted any more is
/// interrupted instead.
pub(crate) fn stand_still(wait: impl FnOnce()) {
    match is_wanted() {
        None => wait(),
        Some(true) => aside(wait),
        Some(false) => {}
    }
}

/// Whether the turn on this thread of the runtime is still wanted. One that is not is interrupted.
fn is_wanted() -> Option<bool> {
    HERE.with_borrow(|here| {
        here.as_ref().map(|Here { abort, interrupter }| match abort.is_cancelled() {
            true => {
                interrupter.interrupt();
                false
            }
            false => true,
        })
    })
}

/// Does something while the runtime does without this thread, and sees to it that it can: once a task has run that was this
/// thread's, another thread is in its place, or has taken its tasks over.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    let (tell, told) = channel();
    tokio::spawn(async move {
        let _ = tell.send(());
    });
    tokio::task::block_in_place(|| {
        if told.recv_timeout(HANDING_OVER) == Err(RecvTimeoutError::Disconnected) {
            // The runtime takes no tasks any more: it ends, and waits for us.
            HERE.with_borrow(|here| here.iter().for_each(|here| here.interrupter.interrupt()));
        }
        work()
    })
}
