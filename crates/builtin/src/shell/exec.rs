//! `exec`: a shell command in the workspace.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pincer_catalog::Flags;
use pincer_process::{Group, Start, clean_environment};
use pincer_tools::{Site, ToolError, UpdateSink, WorkspaceChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

use super::background::Processes;
use super::capture::Capture;
use super::gate::{Bounds, Gate};
use super::hiding::Hiding;
use crate::define::{CHANGES, Core, Running};
use crate::{Workspace, Workspaces};

/// What a command may be given.
#[derive(Clone, Debug)]
pub struct ExecSettings {
    /// How long a command may take if it does not say.
    pub timeout: Duration,
    /// How much of each stream is kept.
    pub output_bytes: usize,
    /// Variables that commands get beside those of this process.
    pub environment: BTreeMap<String, String>,
    /// Variables of this process that look like secrets and are passed on all the same.
    pub pass: Vec<String>,
    /// Keeps commands in bounds. Without it, no command runs unasked.
    pub confinement: Option<Confinement>,
}

impl Default for ExecSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            output_bytes: 64 << 10,
            environment: BTreeMap::new(),
            pass: Vec::new(),
            confinement: None,
        }
    }
}

/// How commands are kept in bounds: by a program that confines itself and then becomes the command.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// The program and its arguments, up to those that say how.
    pub program: Vec<String>,
    /// The bounds of a command that a person or the settings have allowed. A command that runs unasked only reads.
    pub approved: Approved,
    /// The same in a sandboxed session: those of `approved`, and at least these.
    pub sandboxed: SandboxBounds,
}

/// The bounds of an approved command in a sandboxed session. In any case it writes in the session's workspace only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxBounds {
    /// The command may use the network.
    Network,
    /// The command may not use the network.
    NoNetwork,
}

/// The bounds of an approved command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approved {
    /// None: it may do whatever the user may.
    Everything,
    /// Write in the workspace.
    Workspace {
        /// Whether it may use the network too.
        network: bool,
    },
}

/// Variables for commands that a person is asked about, or would be. Git takes no directory of the workspace for a repository, and runs no
/// program of a repository's config to find out what has changed.
const ASKED_ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_VALUE_1", "false"),
];
/// Variables for commands that run unasked besides: nothing is refreshed or paged, and no person at a terminal is asked.
const UNASKED_ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    // Its file could name programs.
    ("RIPGREP_CONFIG_PATH", ""),
];

/// How long what is left of the output is read after the command has ended.
const DRAIN: Duration = Duration::from_millis(200);
/// The longest time a command can ask for.
const MOST_MS: u64 = 3_600_000;
const UPDATE_CHARS: usize = 2000;

pub(crate) struct Exec {
    pub workspaces: Arc<Workspaces>,
    pub settings: ExecSettings,
    pub gate: Arc<Gate>,
    pub processes: Arc<Processes>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExecInput {
    /// The command, for `sh`.
    #[schemars(length(min = 1, max = 100_000))]
    #[schemars(extend("pattern" = r"\S"))]
    command: String,
    /// The directory to run it in, relative to the workspace. The workspace itself if absent.
    #[serde(default)]
    cwd: Option<String>,
    /// How long it may take, in milliseconds. Two minutes if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = MOST_MS))]
    timeout_ms: Option<u64>,
    /// Start it and return at once: for servers and long builds. See the tool `process`.
    #[serde(default)]
    background: bool,
}

/// What came of a command.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecOutput {
    /// How it ended; 0 is success. Absent if it was ended by a signal, or still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What it wrote; of very much, the beginning and the end.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// How many bytes of both were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out_bytes: u64,
    /// Whether it was ended because its time was up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Its id for the tool `process`, if it runs in the background. No other command ever gets this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// What else there is to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Core for Exec {
    const NAME: &'static str = "exec";
    const LABEL: &'static str = "Run command";
    const DESCRIPTION: &'static str = "Run a shell command in the workspace and return its exit code and output. A person may be asked \
        first: a single plain command is asked about least. Use it for builds, tests, git and other programs; for files prefer read, edit, find and grep. Set `background` for what \
        does not end by itself. Everything the command has started ends with it.";
    const INSTEAD_OF: &'static [&'static str] = &["child_process", "sh"];
    type Input = ExecInput;
    type Output = ExecOutput;

    fn flags() -> Flags {
        CHANGES
    }

    /// It keeps the time itself.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    async fn run(&self, input: ExecInput, running: Running) -> Result<ExecOutput, ToolError> {
        if input.command.contains('\0') {
            return Err(ToolError::before("a command cannot have a NUL in it"));
        }
        let site = &running.context.site;
        let group = self.start(&input, site)?;
        let hiding = Hiding::new(&site.environment);
        if input.background {
            let most = self.settings.output_bytes;
            return self.processes.keep((&running.context).into(), &input.command, group, most, &hiding);
        }
        let limit = input.timeout_ms.map_or(self.settings.timeout, Duration::from_millis);
        self.attend(group, limit, &running, &hiding).await
    }
}

impl Exec {
    fn start(&self, input: &ExecInput, site: &Site) -> Result<Group, ToolError> {
        let workspace = self.workspaces.of(site)?;
        let directory = workspace.open_dir(input.cwd.as_deref().unwrap_or("."))?;
        let unasked = self.gate.direct(&input.command);
        let is_reading = unasked.as_ref().is_some_and(|unasked| unasked.bounds == Bounds::Reading);
        let mut words = self.bounds(is_reading, &workspace, &site.workspace)?;
        match unasked {
            Some(unasked) => words.extend(unasked.words),
            None => words.extend(["sh".into(), "-c".into(), input.command.clone()]),
        }
        // In the background it can be written to later.
        let stdin = if input.background { Stdio::piped() } else { Stdio::null() };
        let mut environment = clean_environment(&self.settings.pass);
        environment.extend(site.environment.clone());
        // After those of the site: `PATH` stays the one by which the gate has found the program.
        environment.extend(self.settings.environment.clone());
        let set = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        if self.gate.asks() {
            environment.extend(ASKED_ENVIRONMENT.map(set));
        }
        if is_reading {
            environment.extend(UNASKED_ENVIRONMENT.map(set));
        }
        let started = Group::start(Start {
            words: &words,
            directory: by_handle(&directory, workspace.root().join(input.cwd.as_deref().unwrap_or("."))),
            environment,
            stdin,
        });
        started.map_err(|error| ToolError::before(format!("the command could not be started: {error}")))
    }

    /// Returns the words before a command that keep it in bounds.
    fn bounds(
        &self,
        is_reading: bool,
        workspace: &Workspace,
        choice: &WorkspaceChoice,
    ) -> Result<Vec<String>, ToolError> {
        let is_sandboxed = matches!(choice, WorkspaceChoice::Sandbox { .. });
        let Some(Confinement { program, approved, sandboxed }) = &self.settings.confinement else {
            return match is_sandboxed {
                true => Err(ToolError::before("a sandboxed session runs no commands here: nothing can confine them")),
                false => Ok(Vec::new()),
            };
        };
        let mut words = program.clone();
        let network = match approved {
            _ if is_reading => None,
            Approved::Everything if !is_sandboxed => return Ok(Vec::new()),
            Approved::Everything => Some(*sandboxed == SandboxBounds::Network),
            Approved::Workspace { network } => {
                Some(*network && !(is_sandboxed && *sandboxed == SandboxBounds::NoNetwork))
            }
        };
        if network.is_some() {
            words.extend(["--write".to_owned(), workspace.root().display().to_string()]);
        }
        if network != Some(true) {
            words.push("--no-network".into());
        }
        words.push("--".into());
        Ok(words)
    }

    /// Stays with a command until it is over.
    async fn attend(
        &self,
        mut group: Group,
        limit: Duration,
        running: &Running,
        hiding: &Hiding,
    ) -> Result<ExecOutput, ToolError> {
        let started = Instant::now();
        let most = self.settings.output_bytes;
        let stdout =
            Stream::follow(group.child.stdout.take(), most, "stdout", Some(Arc::clone(&running.updates)), hiding);
        let stderr =
            Stream::follow(group.child.stderr.take(), most, "stderr", Some(Arc::clone(&running.updates)), hiding);
        let mut output = ExecOutput::default();
        tokio::select! {
            biased;
            () = running.abort.cancelled() => {
                group.end().await;
                return Err(ToolError::unknown("the command was ended because the call was aborted"));
            }
            status = group.child.wait() => {
                let status = status.map_err(|error| ToolError::unknown(format!("the command was lost: {error}")))?;
                ended(&mut output, status);
            }
            () = tokio::time::sleep(limit) => {
                group.end().await;
                output.timed_out = true;
                output.note = Some(format!("ended after {} ms; set timeoutMs or background for longer ones", limit.as_millis()));
            }
        }
        output.duration_ms = started.elapsed().as_millis() as u64;
        // Children that still hold the pipes are not waited for.
        let _ = tokio::time::timeout(DRAIN, async { tokio::join!(stdout.done(), stderr.done()) }).await;
        let left_behind = group.sweep();
        if left_behind > 0 && !output.timed_out {
            output.note =
                Some("processes that the command left behind were ended; use `background` to keep one".into());
        }
        for (stream, text) in [(&stdout, &mut output.stdout), (&stderr, &mut output.stderr)] {
            let (said, left_out) = stream.take();
            *text = said;
            output.left_out_bytes += left_out;
        }
        Ok(output)
    }
}

/// A directory by its handle, so that nothing can be put in its place between looking and running.
fn by_handle(directory: &cap_std::fs::Dir, path: PathBuf) -> PathBuf {
    use std::os::fd::AsRawFd;
    match cfg!(target_os = "linux") {
        true => PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())),
        false => path,
    }
}

pub(super) fn ended(output: &mut ExecOutput, status: ExitStatus) {
    use std::os::unix::process::ExitStatusExt;
    output.exit_code = status.code();
    output.signal = status.signal();
}

/// One of the two streams of a command, read as it comes.
pub(super) struct Stream {
    capture: Arc<Mutex<Capture>>,
    reader: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Stream {
    pub(super) fn follow<R: AsyncRead + Unpin + Send + 'static>(
        source: Option<R>,
        most: usize,
        name: &'static str,
        updates: Option<Arc<dyn UpdateSink>>,
        hiding: &Hiding,
    ) -> Self {
        let capture = Arc::new(Mutex::new(Capture::new(most)));
        let (into, mut hiding) = (Arc::clone(&capture), hiding.clone());
        let reader = source.map(|mut source| {
            tokio::spawn(async move {
                let mut buffer = vec![0; 16 << 10];
                let tell = |bytes: &[u8]| {
                    if bytes.is_empty() {
                        return;
                    }
                    into.lock().unwrap_or_else(PoisonError::into_inner).add(bytes);
                    if let Some(updates) = &updates {
                        let text: String = String::from_utf8_lossy(bytes).chars().take(UPDATE_CHARS).collect();
                        updates.update(json!({ "stream": name, "text": text }));
                    }
                };
                while let Ok(count @ 1..) = source.read(&mut buffer).await {
                    tell(&hiding.push(&buffer[..count]));
                }
                tell(&hiding.finish());
            })
        });
        Self { capture, reader: tokio::sync::Mutex::new(reader) }
    }

    /// Waits until everybody who could write to it is gone.
    pub(super) async fn done(&self) {
        if let Some(reader) = self.reader.lock().await.as_mut() {
            let _ = reader.await;
        }
    }

    /// What came since the last time, and how much of it was left out.
    pub(super) fn take(&self) -> (String, u64) {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.get_mut() {
            reader.abort();
        }
    }
}
