//! Work on a large memory, divided among threads.
//!
//! A cell that makes many calls is hashed once for each of them, and a thread that sleeps takes a good part of the time that it
//! then saves to wake up. So the helpers are kept, and stay awake for a moment: the next call mostly follows within it.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{hint, thread};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The memory that is worth a helper: to hash it takes several times as long as to wake the helper up.
pub(crate) const LARGE: usize = 4 << 20;
/// More threads than this are in each other's way: the speed of memory is the limit.
const MOST_THREADS: usize = 4;
/// How long a helper stays awake after its work, and gives way to every thread that has something to do.
const AWAKE: Duration = Duration::from_micros(300);

/// If to give way takes longer than this, another thread has run.
const SHARED: Duration = Duration::from_micros(10);

/// The threads that help, one less than there are cores. `None` if there is one core, or the system allows no more threads.
static HELPERS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let count = cores.min(MOST_THREADS) - 1;
    let builder = ThreadPoolBuilder::new().num_threads(count).thread_name(|_| "checkpoints".to_owned());
    if count > 0 { builder.build().ok() } else { None }
});

/// Does `work` on each part of a memory and returns the results in order. If the memory is large, threads help as far as there
/// are cores for them and the system allows them.
pub(crate) fn each<P: Send, R: Send>(
    memory: &[u8],
    parts: impl ExactSizeIterator<Item = P> + Send,
    work: impl Fn(P) -> R + Sync,
) -> Vec<R> {
    let wanted = if memory.len() < LARGE { 0 } else { parts.len().saturating_sub(1) };
    let Some(pool) = HELPERS.as_ref().filter(|_| wanted > 0) else { return parts.map(work).collect() };
    let done = Mutex::new(Vec::with_capacity(parts.len()));
    let queue = Mutex::new(parts.enumerate());
    let run = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, part)) = next else { return };
            let result = work(part);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    let helping = AtomicUsize::new(0);
    pool.in_place_scope(|scope| {
        for _ in 0..wanted.min(pool.current_num_threads()) {
            scope.spawn(|_| {
                helping.fetch_add(1, Ordering::Relaxed);
                run();
                helping.fetch_sub(1, Ordering::Release);
            });
        }
        run();
        // Each helper has one part left at most, which takes less time than to fall asleep and wake up. A helper that has not
        // begun may wait for this core.
        let until = Instant::now() + AWAKE;
        while helping.load(Ordering::Acquire) > 0 && Instant::now() < until {
            hint::spin_loop();
        }
    });
    pool.spawn_broadcast(|_| stay_awake());
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Looks for work for a moment. A thread that wants this core is let through; the sleep then has the system look for a core
/// that is free, which it does not for a thread that is ready to run.
fn stay_awake() {
    let until = Instant::now() + AWAKE;
    loop {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            return;
        }
        let before = Instant::now();
        if before > until {
            return;
        }
        thread::yield_now();
        if before.elapsed() > SHARED {
            thread::sleep(Duration::from_nanos(1));
        }
    }
}
