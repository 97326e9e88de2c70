//! The limit on file sizes (`ulimit -f`): a write beyond it fails instead of ending the process.
#![allow(unsafe_code, reason = "the only way to say what a signal does to this process")]

use std::{io, mem, ptr};

/// Lets a write beyond the limit for file sizes fail with an error. Without this the system ends the process by `SIGXFSZ`, and
/// nothing is said. A handler that does nothing, and not `SIG_IGN`, because programs that are started here would inherit that:
/// with a handler they begin with the system's default.
pub fn outlive_file_size_limit() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}

    // SAFETY: `sigaction` is a plain structure for which zeros are a valid value: no flags, and an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // Work of other files that the signal meets in a system call goes on.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is valid for the call, and the earlier action is not asked for. The handler has the signature that belongs
    // to a mask without `SA_SIGINFO`, and does nothing, so that it may run between any two instructions of any thread.
    match unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
