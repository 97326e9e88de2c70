//! Commands that go on while the session does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pincer_process::Group;
use pincer_store::SessionKey;
use pincer_tools::{Context, ToolError};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio_util::sync::CancellationToken;

use super::exec::{ExecOutput, Stream, ended};
use super::hiding::Hiding;
use super::id::{Id, Life};

/// How many a user of a session may have at a time, ended ones that nobody has looked at included.
const MOST: usize = 32;

/// All commands in the background, by session. They end with their session, and all of them with this.
pub struct Processes {
    all: Mutex<BTreeMap<u64, Arc<Background>>>,
    made: std::sync::atomic::AtomicU64,
    life: Life,
}

impl Default for Processes {
    fn default() -> Self {
        Self { all: Mutex::default(), made: Default::default(), life: Life::new() }
    }
}

/// The user of a session. No other user of the same session has a say in their commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Party {
    session: SessionKey,
    user: String,
}

impl From<&Context> for Party {
    fn from(context: &Context) -> Self {
        Self { session: context.session.clone(), user: context.user.clone() }
    }
}

/// One command in the background.
pub(super) struct Background {
    pub id: Id,
    pub of: Party,
    pub command: String,
    pub pid: i32,
    pub started: Instant,
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    stdout: Stream,
    stderr: Stream,
    /// How it ended, once it has.
    state: tokio::sync::watch::Receiver<Option<Ended>>,
    end: CancellationToken,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub after: Duration,
}

impl Processes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Background>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a command that has just started.
    pub(super) fn keep(
        &self,
        of: Party,
        command: &str,
        mut group: Group,
        most: usize,
        hiding: &Hiding,
    ) -> Result<ExecOutput, ToolError> {
        let mut all = self.all();
        let held = all.values().filter(|process| process.of == of).count();
        if held >= MOST {
            let message =
                format!("this session has {held} commands in the background already: end some with the tool `process`");
            return Err(ToolError::before(message));
        }
        let number = self.made.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let id = Id { number, life: self.life };
        let (pid, started) = (group.pid(), Instant::now());
        let stdout = Stream::follow(group.child.stdout.take(), most, "stdout", None, hiding);
        let stderr = Stream::follow(group.child.stderr.take(), most, "stderr", None, hiding);
        let stdin = tokio::sync::Mutex::new(group.child.stdin.take());
        let (tell, state) = tokio::sync::watch::channel(None);
        let end = CancellationToken::new();
        let asked = end.clone();
        tokio::spawn(async move {
            let status = tokio::select! {
                biased;
                () = asked.cancelled() => {
                    group.end().await;
                    group.child.wait().await
                }
                status = group.child.wait() => status,
            };
            group.sweep();
            let mut output = ExecOutput::default();
            if let Ok(status) = status {
                ended(&mut output, status);
            }
            let ended = Ended { exit_code: output.exit_code, signal: output.signal, after: started.elapsed() };
            let _ = tell.send(Some(ended));
        });
        let command = command.to_owned();
        let process = Background { id, of, command, pid, started, stdin, stdout, stderr, state, end };
        all.insert(number, Arc::new(process));
        let note = Some(format!("runs in the background; poll it with the tool `process` and the id {id}"));
        Ok(ExecOutput { process_id: Some(id.to_string()), note, ..ExecOutput::default() })
    }

    pub(super) fn of(&self, party: &Party) -> Vec<Arc<Background>> {
        self.all().values().filter(|process| process.of == *party).cloned().collect()
    }

    /// Finds a command of this user in this session. An id of another Pincer process is refused with what has become of its command, as far
    /// as this process can know.
    pub(super) fn find(&self, party: &Party, asked: &str) -> Result<Arc<Background>, ToolError> {
        let id = asked.parse::<Id>().ok();
        let found = id.filter(|id| id.life == self.life).and_then(|id| self.all().get(&id.number).cloned());
        if let Some(process) = found.filter(|process| process.of == *party) {
            return Ok(process);
        }
        let ids: Vec<String> = self.of(party).iter().map(|process| process.id.to_string()).collect();
        let known = if ids.is_empty() { "there are none".into() } else { format!("there are {}", ids.join(", ")) };
        let elsewhere = match id {
            Some(id) if id.life != self.life => format!(
                ". Ids of this Pincer process end in `-{}`; another one started `{asked}`. If that process has ended, its commands \
                 ended with it, except after SIGKILL; if it still runs, only that process can reach them. If you need the \
                 command, start it again with `exec` and use the id that `exec` returns",
                self.life
            ),
            _ => String::new(),
        };
        Err(ToolError::before(format!("this session has no command `{asked}` in the background: {known}{elsewhere}")))
    }

    /// Forgets one that has ended and been looked at.
    pub(super) fn forget(&self, id: Id) {
        self.all().remove(&id.number);
    }

    /// Ends all commands of a session, and waits until they are gone.
    pub async fn end_session(&self, session: &SessionKey) {
        let of_session = self.all().values().filter(|process| process.of.session == *session).cloned().collect();
        self.end_all(of_session).await;
    }

    /// Ends everything.
    pub async fn end(&self) {
        let all = self.all().values().cloned().collect();
        self.end_all(all).await;
    }

    async fn end_all(&self, processes: Vec<Arc<Background>>) {
        processes.iter().for_each(|process| process.end.cancel());
        for process in processes {
            process.ended(None).await;
            self.forget(process.id);
        }
    }
}

impl Background {
    pub(super) fn state(&self) -> Option<Ended> {
        self.state.borrow().clone()
    }

    /// Waits for its end, at most so long.
    pub(super) async fn ended(&self, most: Option<Duration>) -> Option<Ended> {
        let mut state = self.state.clone();
        let end = async { state.wait_for(Option::is_some).await.ok().and_then(|state| state.clone()) };
        match most {
            Some(most) => tokio::time::timeout(most, end).await.ok().flatten(),
            None => end.await,
        }
    }

    pub(super) async fn end(&self) -> Option<Ended> {
        self.end.cancel();
        self.ended(None).await
    }

    /// What it has said since the last time.
    pub(super) async fn said(&self) -> (String, String, u64) {
        if self.state().is_some() {
            // All of it has been written; it may not have been read yet.
            let read = async { tokio::join!(self.stdout.done(), self.stderr.done()) };
            let _ = tokio::time::timeout(Duration::from_millis(200), read).await;
        }
        let (stdout, out_left) = self.stdout.take();
        let (stderr, err_left) = self.stderr.take();
        (stdout, stderr, out_left + err_left)
    }

    pub(super) async fn write(&self, text: &str, close: bool) -> std::io::Result<()> {
        let mut stdin = self.stdin.lock().await;
        let pipe = stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        pipe.write_all(text.as_bytes()).await?;
        pipe.flush().await?;
        if close {
            *stdin = None;
        }
        Ok(())
    }
}
