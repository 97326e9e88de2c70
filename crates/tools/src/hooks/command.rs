//! A hook that is a command: the event as JSON on its standard input, a verdict as JSON on its standard output.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{BeforeHook, BeforeToolCall, BeforeVerdict, HookError};
use crate::BoxFuture;

/// What a hook may say; one that says more is broken.
const MOST_OUTPUT: usize = 1 << 20;
const STDERR_CHARS: usize = 500;

/// Runs `command` for each event. Exit code 0 and nothing on standard output is "no opinion"; every other exit code is a
/// failure.
#[derive(Clone, Debug)]
pub struct CommandHook {
    /// Program and arguments. Not a shell: nothing in an event can become a command.
    pub command: Vec<String>,
}

impl BeforeHook for CommandHook {
    fn before_tool_call<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>> {
        Box::pin(self.ask(event))
    }
}

impl CommandHook {
    async fn ask(&self, event: &BeforeToolCall) -> Result<BeforeVerdict, HookError> {
        let start = |error: std::io::Error| HookError::Start(error.to_string());
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| HookError::Start("it has no command".into()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .map_err(start)?;
        let event = serde_json::to_vec(event).map_err(|error| HookError::Start(error.to_string()))?;
        let mut stdin = child.stdin.take();
        // A hook need not read its input to have an opinion, so a closed pipe is no failure.
        let write = async move {
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(&event).await;
            }
            drop(stdin);
        };
        let ((), output) = tokio::join!(write, child.wait_with_output());
        let output = output.map_err(start)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let stderr: String = stderr.trim().chars().take(STDERR_CHARS).collect();
            return Err(HookError::Failed { status: output.status.to_string(), stderr });
        }
        if output.stdout.len() > MOST_OUTPUT {
            return Err(HookError::Answer(format!("it has {} bytes", output.stdout.len())));
        }
        if output.stdout.trim_ascii().is_empty() {
            return Ok(BeforeVerdict::default());
        }
        serde_json::from_slice(&output.stdout).map_err(|error| HookError::Answer(error.to_string()))
    }
}
