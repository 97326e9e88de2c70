//! `process`: what became of the commands that `exec` put in the background.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Flags;
use pincer_tools::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::background::{Background, Party, Processes};
use crate::define::{CHANGES, Core, Running};

const MOST_WAIT_MS: u64 = 60_000;
/// How long writing to a command may take that does not read.
const WRITE_TIME: Duration = Duration::from_secs(5);

pub(crate) struct Process(pub Arc<Processes>);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProcessInput {
    /// `list` shows all of this session; `poll` gives what one has said since the last time; `write` sends text to its input; `end`
    /// ends it and everything it has started.
    action: Action,
    /// The whole id that `exec` gave, like `p1-3f9a2c41`. Not for `list`.
    #[serde(default)]
    id: Option<String>,
    /// For `write`: the text. Give a line break where the program expects one.
    #[serde(default)]
    text: Option<String>,
    /// For `write`: close its input afterwards.
    #[serde(default)]
    close: bool,
    /// For `poll`: wait so long for its end, in milliseconds.
    #[serde(default)]
    #[schemars(range(min = 0, max = MOST_WAIT_MS))]
    wait_ms: u64,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    List,
    Poll,
    Write,
    End,
}

/// How the commands stand.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessOutput {
    /// The command in question, or all of this session.
    processes: Vec<Shown>,
    /// What it has written since the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    /// What it has written to standard error since the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// How many bytes of both were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out_bytes: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: String,
    command: String,
    /// Its process id.
    pid: i32,
    /// Whether it still runs.
    running: bool,
    /// How it ended; 0 is success.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// How long it ran or has been running, in milliseconds.
    duration_ms: u64,
}

impl Core for Process {
    const NAME: &'static str = "process";
    const LABEL: &'static str = "Background commands";
    const DESCRIPTION: &'static str = "Look after commands that `exec` started with `background`: list them, read what they have written, \
        write to their input, end them. They end with the session, and with the Pincer process that started them: a program that is \
        continued by another process must start its commands again. An id never names another command.";
    type Input = ProcessInput;
    type Output = ProcessOutput;

    fn flags() -> Flags {
        CHANGES
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_millis(MOST_WAIT_MS) + Duration::from_secs(10))
    }

    async fn run(&self, input: ProcessInput, running: Running) -> Result<ProcessOutput, ToolError> {
        let party = &Party::from(&running.context);
        let one = || {
            let id = input.id.as_deref().ok_or_else(|| ToolError::before("`id` is missing: which command?"))?;
            self.0.find(party, id)
        };
        match input.action {
            Action::List => {
                let processes = self.0.of(party).iter().map(|process| shown(process)).collect();
                Ok(ProcessOutput { processes, stdout: None, stderr: None, left_out_bytes: None })
            }
            Action::Poll => {
                let process = one()?;
                if input.wait_ms > 0 {
                    tokio::select! {
                        () = running.abort.cancelled() => {}
                        _ = process.ended(Some(Duration::from_millis(input.wait_ms))) => {}
                    }
                }
                Ok(self.report(&process).await)
            }
            Action::Write => {
                let process = one()?;
                let text = input.text.as_deref().unwrap_or_default();
                let written = tokio::time::timeout(WRITE_TIME, process.write(text, input.close)).await;
                match written {
                    Ok(Ok(())) => Ok(self.report(&process).await),
                    Ok(Err(error)) => {
                        Err(ToolError::unknown(format!("{} does not take input any more: {error}", process.id)))
                    }
                    Err(_) => Err(ToolError::unknown(format!("{} does not read its input", process.id))),
                }
            }
            Action::End => {
                let process = one()?;
                process.end().await;
                Ok(self.report(&process).await)
            }
        }
    }
}

impl Process {
    async fn report(&self, process: &Background) -> ProcessOutput {
        let is_over = process.state().is_some();
        let (stdout, stderr, left_out) = process.said().await;
        if is_over {
            self.0.forget(process.id);
        }
        ProcessOutput {
            processes: vec![shown(process)],
            stdout: Some(stdout),
            stderr: Some(stderr),
            left_out_bytes: (left_out > 0).then_some(left_out),
        }
    }
}

fn shown(process: &Background) -> Shown {
    let ended = process.state();
    let after = ended.as_ref().map_or_else(|| process.started.elapsed(), |ended| ended.after);
    Shown {
        id: process.id.to_string(),
        command: process.command.clone(),
        pid: process.pid,
        running: ended.is_none(),
        exit_code: ended.as_ref().and_then(|ended| ended.exit_code),
        signal: ended.as_ref().and_then(|ended| ended.signal),
        duration_ms: after.as_millis() as u64,
    }
}
