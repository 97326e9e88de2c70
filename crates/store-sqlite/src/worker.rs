//! Threads for work that blocks: started when there is work, gone when there has been none for a while.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a thread without work stays.
const STAY: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// A queue of jobs, done in their order by so many threads at most.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    name: &'static str,
    most: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is work.
    work: Condvar,
    /// All work is done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
    /// Jobs that are queued or being done.
    open: usize,
    is_closed: bool,
}

impl Worker {
    /// Returns a queue without a thread.
    pub(crate) fn new(name: &'static str, most: usize) -> Self {
        Self { shared: Arc::default(), name, most }
    }

    /// Returns whether jobs are queued or being done.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.lock().open > 0
    }

    /// Queues a job. If no thread can be had for it, the job is done here.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.shared.lock();
        state.jobs.push_back(job);
        state.open += 1;
        if state.idle >= state.jobs.len() || state.threads == self.most {
            self.shared.work.notify_one();
            return;
        }
        state.threads += 1;
        let is_first = state.threads == 1;
        drop(state);
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new().name(self.name.into()).spawn(move || shared.serve());
        if spawned.is_err() {
            self.shared.lock().threads -= 1;
            if is_first {
                self.shared.clone().do_all();
            }
        }
    }

    /// Waits until every job is done.
    pub(crate) fn drain(&self) {
        let state = self.shared.lock();
        drop(self.shared.done.wait_while(state, |state| state.open > 0).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does jobs for as long as some come.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                state = self.done(job);
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let (woken, waited) = self.work.wait_timeout(state, STAY).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    fn do_all(&self) {
        loop {
            let Some(job) = self.lock().jobs.pop_front() else { return };
            drop(self.done(job));
        }
    }

    fn done(&self, job: Job) -> MutexGuard<'_, State> {
        // The job's caller finds that its answer never came.
        let _ = catch_unwind(AssertUnwindSafe(job));
        let mut state = self.lock();
        state.open -= 1;
        if state.open == 0 {
            self.done.notify_all();
        }
        state
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_are_done_in_their_order_and_one_that_panics_harms_no_other() {
        let worker = Worker::new("test", 1);
        let (tell, told) = channel();
        for number in 0..10 {
            let tell = tell.clone();
            worker.push(Box::new(move || {
                assert_ne!(number, 3, "a panic");
                tell.send(number).unwrap();
            }));
        }
        worker.drain();
        assert!(!worker.is_busy());
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_job_that_blocks_leaves_the_other_thread_to_the_others() {
        let worker = Worker::new("test", 2);
        let (block, blocked) = channel::<()>();
        worker.push(Box::new(move || {
            let _ = blocked.recv();
        }));
        let (tell, told) = channel();
        worker.push(Box::new(move || tell.send(()).unwrap()));
        told.recv().unwrap();
        assert!(worker.is_busy());
        drop(block);
        worker.drain();
    }
}
