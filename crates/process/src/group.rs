//! A program and everything it starts, and how all of it ends.
//!
//! A program gets a session of its own, and a mark in its environment. Children that leave the session still carry the mark; on
//! Linux they are found by it.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::descendants::{MARK, forget_leader, is_extinct, kill_all, of_mark, start_leader};
use crate::session::begin_session;

/// How long a program has to end by itself when it is told to.
const GRACE: Duration = Duration::from_millis(300);

/// Tells an operator the remedy when the system starts no more processes and threads.
pub const PROCESS_LIMIT: &str = "a limit on processes is probably reached (`ulimit -u`, or `pids.max` of a container): raise it, \
     or end other processes of this user";

/// A running program, and what it has started. All of it ends when this is dropped.
pub struct Group {
    /// The program itself.
    pub child: Child,
    leader: Pid,
    mark: String,
    over: bool,
}

/// How to start a program.
pub struct Start<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// Where it runs.
    pub directory: PathBuf,
    /// All of its environment, but for a mark of ours.
    pub environment: Vec<(String, String)>,
    /// Where its input comes from.
    pub stdin: Stdio,
}

impl Group {
    /// Starts a program. Its output comes through pipes.
    pub fn start(start: Start<'_>) -> io::Result<Self> {
        let (program, arguments) = start.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mark = Uuid::now_v7().simple().to_string();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&start.directory)
            .env_clear()
            .envs(start.environment)
            .env(MARK, &mark)
            .stdin(start.stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        begin_session(&mut command);
        let (child, leader) = start_leader(|| {
            let child = command.spawn().map_err(explained)?;
            let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or(io::ErrorKind::NotFound)?;
            Ok(((child, leader), leader.as_raw_nonzero().get()))
        })?;
        Ok(Self { child, leader, mark, over: false })
    }

    /// The process id of the program.
    pub fn pid(&self) -> i32 {
        self.leader.as_raw_nonzero().get()
    }

    /// Ends everything: asks first, then insists.
    pub async fn end(&mut self) {
        let _ = kill_process_group(self.leader, Signal::TERM);
        for pid in of_mark(&self.mark) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
        self.kill();
        let _ = self.child.wait().await;
    }

    /// Ends what a program that is over has left behind; how many processes that were, as far as can be told.
    pub fn sweep(&mut self) -> usize {
        let group = test_kill_process_group(self.leader).is_ok();
        let is_over = matches!(self.child.try_wait(), Ok(Some(_)));
        if is_over && !group && is_extinct(&self.mark) {
            self.over = true;
            return 0;
        }
        self.kill().max(usize::from(group))
    }

    fn kill(&mut self) -> usize {
        let _ = kill_process_group(self.leader, Signal::KILL);
        let found = kill_all(&self.mark);
        self.over = true;
        found
    }
}

/// Says what probably keeps a program from starting, where the system only says "try again".
fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(error.kind(), format!("{error}: {PROCESS_LIMIT}")),
        _ => error,
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            self.kill();
        }
        forget_leader(self.pid());
    }
}
