//! How many files this process may have open, and which of them others get.
#![allow(unsafe_code, reason = "the standard library marks no files that it has not opened")]

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

/// Keeps the files that this process was started with, beyond its standard ones, from the programs that it starts: a terminal, a
/// lock or a log of the process before it is none of theirs, and a confined command could write to it. To be called before any other
/// thread runs.
pub fn keep_inherited_files() {
    // SAFETY: marks file descriptors and touches no memory. Files that this process opens are marked by the standard library.
    #[cfg(target_os = "linux")]
    let is_done = unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) } == 0;
    #[cfg(not(target_os = "linux"))]
    let is_done = false;
    if !is_done {
        for file in std::fs::read_dir("/dev/fd").into_iter().flatten().flatten() {
            let number = file.file_name().to_str().and_then(|name| name.parse::<libc::c_int>().ok());
            if let Some(number) = number.filter(|number| *number > 2) {
                // SAFETY: as above; a number that is no file any more is an error that changes nothing.
                unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
            }
        }
    }
}
