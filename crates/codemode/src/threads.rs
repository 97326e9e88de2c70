//! Where turns run: on the spot, or on threads that only cells have.
//!
//! The turn of a program that is alone runs on the spot, see `inline_turns.rs`. When there are several they have threads of their own,
//! so that the async runtime is left in peace; a cell that has nothing to run has none. Long turns take turns, see `fair_scheduling.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pincer_sandbox::{Cell, Error, Turn};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::fair_scheduling::{turn_begins, turn_is_over};
use crate::inline_turns;
use crate::round_robin::Party;

/// What a cell needs, whatever the system's default is.
const STACK_BYTES: usize = 4 << 20;
/// A thread without work ends after this time.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// Why there is no turn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ThreadError {
    #[error("no thread can be started for the cell")]
    Start(#[source] std::io::Error),
    #[error("the thread of the cell has gone")]
    Lost,
}

/// Whether other programs run too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// This is the only one.
    Alone,
    /// There are others, who need the time.
    Others,
}

/// What a turn has brought, with its cell.
pub(crate) struct Ran {
    pub cell: Cell,
    pub turn: Result<Turn, Error>,
    /// How long it has waited for the turns of other programs.
    pub waited: Duration,
}

struct Job {
    cell: Cell,
    party: Party,
    time: Duration,
    done: oneshot::Sender<Ran>,
}

/// A thread, for when it has nothing to do.
#[derive(Clone)]
struct Idle {
    number: u64,
    jobs: Sender<Job>,
}

#[derive(Default)]
struct State {
    idle: Vec<Idle>,
    next: u64,
}

/// All threads of cells. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<Mutex<State>>);

impl Threads {
    /// Runs one turn of a cell of this party and hands the cell back. When `abort` is cancelled the turn is cut short.
    pub(crate) async fn run_turn(
        &self,
        cell: Cell,
        party: Party,
        time: Duration,
        company: Company,
        abort: &CancellationToken,
    ) -> Result<Ran, ThreadError> {
        if company == Company::Alone && inline_turns::is_possible(&cell) {
            return inline_turns::run_turn(cell, party, time, abort).ok_or(ThreadError::Lost);
        }
        let interrupter = cell.interrupter();
        let (done, mut answer) = oneshot::channel();
        let Idle { jobs, .. } = self.thread()?;
        jobs.send(Job { cell, party, time, done }).map_err(|_| ThreadError::Lost)?;
        let ran = tokio::select! {
            biased;
            ran = &mut answer => ran,
            () = abort.cancelled() => {
                interrupter.interrupt();
                answer.await
            }
        };
        ran.map_err(|_| ThreadError::Lost)
    }

    fn thread(&self) -> Result<Idle, ThreadError> {
        let number = {
            let mut state = self.lock();
            if let Some(idle) = state.idle.pop() {
                return Ok(idle);
            }
            state.next += 1;
            state.next
        };
        let (jobs, work) = channel();
        let (all, again) = (self.clone(), jobs.clone());
        let run = move || all.serve(&Idle { number, jobs: again }, &work);
        thread::Builder::new()
            .name("pincer-cell".into())
            .stack_size(STACK_BYTES)
            .spawn(run)
            .map_err(ThreadError::Start)?;
        Ok(Idle { number, jobs })
    }

    /// The life of a thread.
    fn serve(&self, own: &Idle, work: &Receiver<Job>) {
        loop {
            match work.recv_timeout(IDLE) {
                Ok(Job { mut cell, party, time, done }) => {
                    turn_begins(party);
                    let turn = catch_unwind(AssertUnwindSafe(|| cell.run_turn(time)));
                    let waited = turn_is_over();
                    let Ok(turn) = turn else { return };
                    // Ready for the next before the caller knows, so that it finds this thread again.
                    self.lock().idle.push(own.clone());
                    // Nobody waits for it any more: then the cell ends here.
                    let _ = done.send(Ran { cell, turn, waited });
                }
                Err(RecvTimeoutError::Timeout) => {
                    let mut state = self.lock();
                    match state.idle.iter().position(|idle| idle.number == own.number) {
                        Some(place) => {
                            state.idle.swap_remove(place);
                            return;
                        }
                        // Somebody has just taken it, and sends a job.
                        None => continue,
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// A list that no panic can leave half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
