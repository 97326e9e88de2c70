//! The threads that cells run on: never those of the async runtime, and none for a cell that has nothing to run.
//!
//! Long turns take turns, see `slots.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pincer_sandbox::{Cell, Error, Turn};
use tokio::sync::oneshot;

use crate::slots::turn_is_over;

/// What a cell needs, whatever the system's default is.
const STACK_BYTES: usize = 4 << 20;
/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(10);
/// Most turns are over in this time, and waking somebody up who sleeps takes longer than that.
const SHORT_TURN: Duration = Duration::from_micros(40);
/// A program that had its last answer within this time is expected to have the next one so soon too: its tools are in this
/// process. One that waits for other processes leaves the processor to them.
const SOON: Duration = Duration::from_micros(100);
/// So long it is waited for then.
const BETWEEN_TURNS: Duration = Duration::from_micros(250);

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
    /// This is the only one: then it is worth to stay awake for what comes next.
    Alone,
    /// There are others, who need the time.
    Others,
}

struct Job {
    cell: Cell,
    time: Duration,
    company: Company,
    done: oneshot::Sender<(Cell, Result<Turn, Error>)>,
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
    /// Runs one turn of a cell and hands the cell back.
    pub async fn run_turn(
        &self,
        cell: Cell,
        time: Duration,
        company: Company,
    ) -> Result<(Cell, Result<Turn, Error>), ThreadError> {
        let (done, mut answer) = oneshot::channel();
        let Idle { jobs, .. } = self.thread()?;
        jobs.send(Job { cell, time, company, done }).map_err(|_| ThreadError::Lost)?;
        if let Some(turn) = soon(company, SHORT_TURN, || answer.try_recv().ok()) {
            return Ok(turn);
        }
        answer.await.map_err(|_| ThreadError::Lost)
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
        let (mut company, mut gap) = (Company::Others, Duration::ZERO);
        loop {
            let began = Instant::now();
            let most = if gap <= SOON { BETWEEN_TURNS } else { Duration::ZERO };
            let next = soon(company, most, || work.try_recv().ok());
            let next = next.map_or_else(|| work.recv_timeout(IDLE), Ok);
            gap = began.elapsed();
            match next {
                Ok(Job { mut cell, time, company: now, done }) => {
                    company = now;
                    let turn = catch_unwind(AssertUnwindSafe(|| cell.run_turn(time)));
                    turn_is_over();
                    let Ok(turn) = turn else { return };
                    // Ready for the next before the caller knows, so that it finds this thread again.
                    self.lock().idle.push(own.clone());
                    // Nobody waits for it any more: then the cell ends here.
                    let _ = done.send((cell, turn));
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

/// Looks for something that is expected soon.
fn soon<T>(company: Company, most: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    if company == Company::Others {
        return None;
    }
    let began = Instant::now();
    loop {
        match look() {
            // Not by yielding: on a busy machine the turn comes back much later.
            None if began.elapsed() < most => std::hint::spin_loop(),
            found => return found,
        }
    }
}
