//! A hook that is a command: the event as JSON on its standard input, an answer as JSON on its standard output.

use std::process::Stdio;

use pincer_process::{Group, Start};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::{Ask, BoxFuture, HookError, HookName};

/// The most bytes of an answer.
const MOST_OUTPUT: u64 = 1 << 20;
const STDERR_CHARS: usize = 500;

/// The directory in which hooks start: no program can put a file there that a hook would take for its own.
const START: &str = "/";

/// Runs `command` for each event, in the root directory. Exit code 0 with an empty standard output is "no opinion"; every other exit
/// code is a failure. The variable `PINCER_HOOK` has the name of the hook.
#[derive(Clone, Debug)]
pub struct CommandHook {
    /// Program and arguments. Not a shell: nothing in an event can become a command.
    pub command: Vec<String>,
    /// Programs can put files beside its script. Then Python does not look for modules there.
    pub is_in_the_open: bool,
}

impl Ask for CommandHook {
    fn ask<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<Option<Value>, HookError>> {
        Box::pin(async move {
            let stdout = self.run(hook, &event).await?;
            if stdout.trim_ascii().is_empty() {
                return Ok(None);
            }
            serde_json::from_slice(&stdout).map(Some).map_err(|error| HookError::Answer(error.into()))
        })
    }

    fn tell<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move { self.run(hook, &event).await.map(drop) })
    }
}

impl CommandHook {
    /// Runs the command. Returns what it printed.
    async fn run(&self, hook: HookName, event: &Value) -> Result<Vec<u8>, HookError> {
        let Some(program) = self.command.first() else {
            return Err(HookError::Start("it has no command".into()));
        };
        let start = |error: std::io::Error| HookError::Start(format!("{program:?}: {error}").into());
        // The operator's own command has all of the operator's environment.
        let mut environment: Vec<(String, String)> = std::env::vars().collect();
        environment.push(("PINCER_HOOK".into(), hook.as_str().into()));
        if self.is_in_the_open {
            environment.push(("PYTHONSAFEPATH".into(), "1".into()));
        }
        let start_it = Start { words: &self.command, directory: START.into(), environment, stdin: Stdio::piped() };
        // All of it ends when this future is dropped, as it is if the hook is late.
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
        Ok(stdout)
    }
}

/// Reads the output of a hook, up to one byte more than it may have.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST_OUTPUT + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
