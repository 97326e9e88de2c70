//! Many sessions at work at once, in a process of its own, so that the model's server does not count for its memory.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::world::{Mode, World, scripts};
use crate::cells::Outcome;
use crate::commands::bench_model::served;
use crate::measure::{milliseconds, peak_bytes_of, resident_bytes};
use crate::print::{chain, line, note};
use crate::usage_bench::AgentSessionsArguments;
use crate::{DONE, FAILED, tokio_runtime};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AtOnce {
    pub sessions: u32,
    /// Sessions whose run ended with its answer, and whose events had no gap.
    pub complete: u32,
    /// From the first message to the last answer.
    pub total_ms: f64,
    pub runs_per_second: f64,
    /// The events of all of them.
    pub events: u64,
    /// Resident before the first message, and at most.
    pub resident_bytes: usize,
    pub peak_bytes: usize,
    /// The first thing that went wrong.
    pub error: Option<String>,
}

/// Starts the model and the process with the sessions. Returns its figures.
pub(super) async fn measure(sessions: u32) -> Outcome<AtOnce> {
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("script.json5");
    std::fs::write(&script, scripts::slow()?.to_string())?;
    let (url, mut server) = served(&script).await?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "agent-sessions", &url, &sessions.to_string()]);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    server.kill().await?;
    let figures = serde_json::from_slice(&output.stdout);
    figures.map_err(|_| format!("the sessions failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

/// Sends a message to each session, waits for all answers, and prints what that took.
pub(crate) fn run_sessions(arguments: &AgentSessionsArguments) -> u8 {
    // As a server of many clients has it: a worker for each processor.
    let measured = tokio_runtime::large().map_err(Into::into).and_then(|tokio| tokio.block_on(at_once(arguments)));
    match measured {
        Ok(figures) => {
            line(&serde_json::to_string(&figures).unwrap_or_default());
            DONE
        }
        Err(error) => {
            note(&format!("error: {}", chain(error.as_ref())));
            FAILED
        }
    }
}

async fn at_once(arguments: &AgentSessionsArguments) -> Outcome<AtOnce> {
    let AgentSessionsArguments { url, sessions } = arguments;
    let world = Arc::new(World::open(url, Mode::Direct, *sessions)?);
    // Code that is loaded for the first time is no cost of a session.
    let first = world.submit("first").await?;
    world.answered(&first).await?;
    let (resident_bytes, began) = (resident_bytes(), Instant::now());
    let mut working = JoinSet::new();
    for number in 0..*sessions {
        let world = Arc::clone(&world);
        working.spawn(async move {
            let submitted = world.submit(&format!("session-{number}")).await?;
            let (events, answered) = tokio::join!(world.gapless(&submitted), world.answered(&submitted));
            answered?;
            events
        });
    }
    let (mut complete, mut events, mut error) = (0, 0, None);
    while let Some(done) = working.join_next().await {
        match done? {
            Ok(count) => (complete, events) = (complete + 1, events + u64::from(count)),
            Err(wrong) => error = error.or_else(|| Some(chain(wrong.as_ref()))),
        }
    }
    let total = began.elapsed();
    Ok(AtOnce {
        sessions: *sessions,
        complete,
        total_ms: milliseconds(total),
        runs_per_second: f64::from(complete) / total.as_secs_f64(),
        events,
        resident_bytes,
        peak_bytes: peak_bytes_of(std::process::id()),
        error,
    })
}
