//! A session of its own for a program: no terminal to take over or to type into.
#![allow(unsafe_code, reason = "the only way to say what a child does before it becomes another program")]

use std::io;

use tokio::process::Command;

/// Lets the program begin as the leader of a new session, and with that of a new process group.
pub(crate) fn begin_session(command: &mut Command) {
    // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe functions may be called.
    // `setsid` is one, it allocates nothing and takes no lock, and turning its error into an `io::Error` only copies a number.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
    }
}
