//! A hook that is a command: the event as JSON on its standard input, a verdict as JSON on its standard output.

use std::process::Stdio;

use pincer_process::{Group, Start};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::{BeforeHook, BeforeToolCall, BeforeVerdict, HookError};
use crate::BoxFuture;

/// What a hook may say; one that says more is broken.
const MOST_OUTPUT: u64 = 1 << 20;
const STDERR_CHARS: usize = 500;

/// Where hooks start: no program can put a file there that a hook would take for its own.
const START: &str = "/";

/// Runs `command` for each event, in the root directory. Exit code 0 and nothing on standard output is "no opinion"; every other exit code is a
/// failure.
#[derive(Clone, Debug)]
pub struct CommandHook {
    /// Program and arguments. Not a shell: nothing in an event can become a command.
    pub command: Vec<String>,
    /// Programs can put files beside its script. Then Python does not look for modules there.
    pub is_in_the_open: bool,
}

impl BeforeHook for CommandHook {
    fn before_tool_call<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>> {
        Box::pin(self.ask(event))
    }
}

impl CommandHook {
    async fn ask(&self, event: &BeforeToolCall) -> Result<BeforeVerdict, HookError> {
        let start = |error: std::io::Error| HookError::Start(error.into());
        if self.command.is_empty() {
            return Err(HookError::Start("it has no command".into()));
        }
        // The operator's own command has all of the operator's environment.
        let mut environment: Vec<(String, String)> = std::env::vars().collect();
        if self.is_in_the_open {
            environment.push(("PYTHONSAFEPATH".into(), "1".into()));
        }
        let start_it = Start { words: &self.command, directory: START.into(), environment, stdin: Stdio::piped() };
        // All of it ends when this future is dropped, which is what happens to a hook that is late.
        let mut group = Group::start(start_it).map_err(start)?;
        let event = serde_json::to_vec(event).map_err(|error| HookError::Start(error.into()))?;
        let mut stdin = group.child.stdin.take();
        // A hook need not read its input to have an opinion, so a closed pipe is no failure.
        let write = async move {
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(&event).await;
            }
            drop(stdin);
        };
        let (stdout, stderr) = (group.child.stdout.take(), group.child.stderr.take());
        let ((), stdout, stderr, status) = tokio::join!(write, read(stdout), read(stderr), group.child.wait());
        group.sweep();
        let (status, stdout, stderr) = (status.map_err(start)?, stdout.map_err(start)?, stderr.map_err(start)?);
        if stdout.len() as u64 > MOST_OUTPUT {
            return Err(HookError::Answer(format!("it has more than {MOST_OUTPUT} bytes").into()));
        }
        if !status.success() {
            let stderr = String::from_utf8_lossy(&stderr);
            let stderr: String = stderr.trim().chars().take(STDERR_CHARS).collect();
            return Err(HookError::Failed { status: status.to_string(), stderr });
        }
        if stdout.trim_ascii().is_empty() {
            return Ok(BeforeVerdict::default());
        }
        let verdict: Option<BeforeVerdict> =
            serde_json::from_slice(&stdout).map_err(|error| HookError::Answer(error.into()))?;
        Ok(verdict.unwrap_or_default())
    }
}

/// What a hook says, and one byte more than it may say.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST_OUTPUT + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
