//! The threads that cells run on: never those of the async runtime, and none for a cell that has nothing to run.
//!
//! A turn that takes long goes on at the lowest priority, so that sixty-four endless loops do not keep a short program from its
//! turn. A thread that was put back so far cannot come forward again, and ends with its turn.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pincer_sandbox::{Cell, Error, Turn};
use rustix::thread::Pid;
use tokio::sync::oneshot;

/// What a cell needs, whatever the system's default is.
const STACK_BYTES: usize = 4 << 20;
/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(10);
/// Most turns are over in this time, and waking somebody up who sleeps takes longer than that.
const SHORT_TURN: Duration = Duration::from_micros(40);
/// Within this time a program that calls one tool after the other has mostly got its answer.
const BETWEEN_TURNS: Duration = Duration::from_micros(100);
/// A turn that takes longer gives way to others.
const LONG_TURN: Duration = Duration::from_millis(4);

/// Why there is no turn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ThreadError {
    #[error("no thread can be started for the cell")]
    Start(#[source] std::io::Error),
    #[error("the thread of the cell has gone")]
    Lost,
}

struct Job {
    cell: Cell,
    time: Duration,
    done: oneshot::Sender<(Cell, Result<Turn, Error>)>,
}

/// A thread that has nothing to do.
struct Idle {
    number: u64,
    jobs: Sender<Job>,
    thread: Option<Pid>,
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
    pub async fn run_turn(&self, cell: Cell, time: Duration) -> Result<(Cell, Result<Turn, Error>), ThreadError> {
        let (done, mut answer) = oneshot::channel();
        let Idle { jobs, thread, .. } = self.thread()?;
        jobs.send(Job { cell, time, done }).map_err(|_| ThreadError::Lost)?;
        if let Some(turn) = soon(SHORT_TURN, || answer.try_recv().ok()) {
            return Ok(turn);
        }
        let turn = match tokio::time::timeout(LONG_TURN, &mut answer).await {
            Ok(turn) => turn,
            Err(_) => {
                give_way(thread);
                answer.await
            }
        };
        let turn = turn.map_err(|_| ThreadError::Lost)?;
        Ok(turn)
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
        let (tell, known) = channel();
        let (all, again) = (self.clone(), jobs.clone());
        let run = move || {
            let thread = this_thread();
            let _ = tell.send(thread);
            all.serve(number, thread, &again, &work);
        };
        thread::Builder::new()
            .name("pincer-cell".into())
            .stack_size(STACK_BYTES)
            .spawn(run)
            .map_err(ThreadError::Start)?;
        let thread = known.recv().map_err(|_| ThreadError::Lost)?;
        Ok(Idle { number, jobs, thread })
    }

    /// The life of a thread.
    fn serve(&self, number: u64, thread: Option<Pid>, jobs: &Sender<Job>, work: &Receiver<Job>) {
        loop {
            let next = soon(BETWEEN_TURNS, || work.try_recv().ok());
            match next.map_or_else(|| work.recv_timeout(IDLE), Ok) {
                Ok(Job { mut cell, time, done }) => {
                    let turn = catch_unwind(AssertUnwindSafe(|| cell.run_turn(time)));
                    let Ok(turn) = turn else { return };
                    // Ready for the next before the caller knows, so that it finds this thread again.
                    let tired = has_given_way();
                    if !tired {
                        self.lock().idle.push(Idle { number, jobs: jobs.clone(), thread });
                    }
                    // Nobody waits for it any more: then the cell ends here.
                    let _ = done.send((cell, turn));
                    if tired {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let mut state = self.lock();
                    match state.idle.iter().position(|idle| idle.number == number) {
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

/// Looks for something that is expected soon, while others who have work go first.
fn soon<T>(most: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        match look() {
            None if began.elapsed() < most => thread::yield_now(),
            found => return found,
        }
    }
}

#[cfg(target_os = "linux")]
const LOWEST_PRIORITY: i32 = 19;

#[cfg(target_os = "linux")]
fn this_thread() -> Option<Pid> {
    Some(rustix::thread::gettid())
}

/// Where it fails, it is as fair as the system makes it.
#[cfg(target_os = "linux")]
fn give_way(thread: Option<Pid>) {
    // On Linux the call takes the id of a thread.
    let _ = rustix::process::setpriority_process(thread, LOWEST_PRIORITY);
}

#[cfg(target_os = "linux")]
fn has_given_way() -> bool {
    rustix::process::getpriority_process(None).is_ok_and(|priority| priority == LOWEST_PRIORITY)
}

#[cfg(not(target_os = "linux"))]
fn this_thread() -> Option<Pid> {
    None
}

#[cfg(not(target_os = "linux"))]
fn give_way(_thread: Option<Pid>) {}

#[cfg(not(target_os = "linux"))]
fn has_given_way() -> bool {
    false
}
