//! Two halves of one command: the front, whose end is what the caller waits for, and the worker, which may stay behind to
//! finish what it has begun.
#![allow(unsafe_code, reason = "there is no other way to become two processes")]

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};

/// Which half this process is.
pub enum Half {
    /// The one that the caller waits for. It has this left to do.
    Front(Front),
    /// The one that works.
    Worker(Worker),
}

/// The half that the caller waits for.
pub struct Front {
    worker: Pid,
    code: PipeReader,
}

/// The half that works.
pub struct Worker {
    code: PipeWriter,
}

/// Becomes two processes. Must be called before this one has started a thread.
pub fn split() -> io::Result<Half> {
    let (read, write) = pipe()?;
    let front = rustix::process::getpid();
    // SAFETY: this process has one thread (the caller's promise), so that no lock can be held and no state be half-changed by
    // another one in the copy; both halves may go on as if nothing had happened.
    let forked = unsafe { libc::fork() };
    match forked {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(read);
            // A front that is killed takes its worker with it, as if they were one.
            #[cfg(target_os = "linux")]
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() != Some(front) {
                return Err(io::Error::other("the front is gone"));
            }
            Ok(Half::Worker(Worker { code: write }))
        }
        pid => {
            let worker = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process"))?;
            Ok(Half::Front(Front { worker, code: read }))
        }
    }
}

impl Front {
    /// Waits until the worker says with which code the command ends, and passes on what others want to tell it. Starts no thread:
    /// the worker may have got the last one that the system gives.
    pub fn wait(self) -> io::Result<u8> {
        let Self { worker, code } = self;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let said = runtime.block_on(async move {
            let mut code = Receiver::from_owned_fd(OwnedFd::from(code))?;
            let said = code.read_u8();
            tokio::pin!(said);
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hangup = signal(SignalKind::hangup())?;
            loop {
                let pass_on = tokio::select! {
                    said = &mut said => return Ok::<_, io::Error>(said.ok()),
                    _ = interrupt.recv() => Signal::INT,
                    _ = terminate.recv() => Signal::TERM,
                    _ = hangup.recv() => Signal::HUP,
                };
                // It may have ended just now.
                let _ = rustix::process::kill_process(worker, pass_on);
            }
        })?;
        match said {
            Some(code) => Ok(code),
            // It ended without a word: it was killed.
            None => Ok(how_it_ended(worker)),
        }
    }
}

fn how_it_ended(worker: Pid) -> u8 {
    const FAILED: u8 = 1;
    let status: Option<WaitStatus> =
        rustix::process::waitpid(Some(worker), WaitOptions::empty()).ok().flatten().map(|(_, status)| status);
    let Some(status) = status else { return FAILED };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128_u8.wrapping_add(signal as u8),
        (None, None) => FAILED,
    }
}

impl Worker {
    /// Lets the front end with this code, and leaves everything that it shares with its caller: from now on this process is on
    /// its own.
    pub fn let_go(self, code: u8) -> io::Result<()> {
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(nothing.as_fd())?;
        rustix::stdio::dup2_stdout(nothing.as_fd())?;
        rustix::stdio::dup2_stderr(nothing.as_fd())?;
        // The caller's terminal must not end it either.
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(None)?;
        self.say(code)
    }

    /// Lets the front end with this code; this process is to end at once too.
    pub fn end(self, code: u8) -> io::Result<()> {
        self.say(code)
    }

    fn say(mut self, code: u8) -> io::Result<()> {
        self.code.write_all(&[code])
    }
}
