//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for thousands of connections.
const WANTED: u64 = 8192;

/// Raises the limit of open files as far as it is needed and the system lets us, and returns it. The usual 1,024 are for
/// programs that wait with `select`.
pub fn raise_open_files() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Without a limit there is nothing to raise.
    let Some(now) = current.filter(|now| *now < WANTED) else { return WANTED as usize };
    let raised = maximum.map_or(WANTED, |most| most.min(WANTED));
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).is_ok();
    (if is_raised { raised } else { now }) as usize
}
