//! Work on a large memory, divided among threads.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// The pages of one part: 1 MiB.
pub(crate) const PART_PAGES: usize = 256;
/// The parts that are worth a thread: to hash them takes several times as long as to start it.
const WORTH_A_THREAD: usize = 4;
/// More threads than this are in each other's way: the speed of memory is the limit.
const MOST_THREADS: usize = 4;

/// Does `work` on each part and returns the results in order. Threads help as far as there are cores for them and the system
/// allows them.
pub(crate) fn each<P: Send, R: Send>(
    parts: impl ExactSizeIterator<Item = P> + Send,
    work: impl Fn(P) -> R + Sync,
) -> Vec<R> {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get));
    let helpers = (parts.len() / WORTH_A_THREAD).min(cores).min(MOST_THREADS).saturating_sub(1);
    let queue = Mutex::new(parts.enumerate());
    let run = || {
        let mut done = Vec::new();
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            match next {
                Some((index, part)) => done.push((index, work(part))),
                None => return done,
            }
        }
    };
    let mut done = thread::scope(|scope| {
        let helpers = (0..helpers).filter_map(|_| thread::Builder::new().spawn_scoped(scope, run).ok());
        let helpers: Vec<_> = helpers.collect();
        let mut done = run();
        for helper in helpers {
            done.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
