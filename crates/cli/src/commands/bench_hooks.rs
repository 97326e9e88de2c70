//! `pincer bench hooks`: the cost of a hook besides its own work.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_hooks::events::{BeforeAgentReply, BeforeAgentRun, RunAnswer, RunContext};
use pincer_hooks::{Ask, CommandHook, External, FnHook, Hook, Table};
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::cells::Outcome;
use crate::measure::{Summary, milliseconds, progress, reported, summary};
use crate::print::line;
use crate::usage_bench::BenchArguments;

/// A closure takes less time than the clock can tell, so so many are asked for each sample.
const AT_ONCE: u32 = 1000;
/// Processes are started so much less often than closures are asked.
const FEWER: u32 = 5;
/// A program that does nothing.
const NOTHING: &str = "/bin/true";

/// The report: microseconds for a closure, milliseconds for commands.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// One closure, asked as a gate, in microseconds.
    closure_us: Summary,
    /// The start and the end of a process that does nothing.
    process_ms: Summary,
    /// The same process as a hook.
    command_ms: Summary,
    /// The time of a command hook beyond that of its process, p50.
    beyond_ms: f64,
}

pub(crate) fn run(arguments: &BenchArguments) -> u8 {
    reported(arguments.json, measure(arguments.rounds), |report| {
        line(&format!("a closure as a hook     {:.2} µs (p95 {:.2})", report.closure_us.p50, report.closure_us.p95));
        line(&format!("a process               {:.2} ms (p95 {:.2})", report.process_ms.p50, report.process_ms.p95));
        line(&format!("a command as a hook     {:.2} ms (p95 {:.2})", report.command_ms.p50, report.command_ms.p95));
        line(&format!("beyond the process      {:.2} ms", report.beyond_ms));
    })
}

async fn measure(rounds: u32) -> Outcome<Report> {
    progress("closures");
    let mut table = Table::default();
    table.add(Hook::new("of the benchmark", FnHook(|_: &BeforeAgentRun| Ok(RunAnswer::default()))).into());
    let event = BeforeAgentRun {
        context: RunContext::default(),
        prompt: "Hello".into(),
        messages: Vec::new(),
        system_prompt: String::new(),
    };
    let mut closures = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        for _ in 0..AT_ONCE {
            table.before_agent_run(&event).await.map_err(std::io::Error::other)?;
        }
        closures.push(began.elapsed() / AT_ONCE);
    }

    progress("commands");
    let program: Arc<dyn Ask> = Arc::new(CommandHook { command: vec![NOTHING.into()], is_in_the_open: false });
    let mut table = Table::default();
    table.add(Hook::new("of the benchmark", External::<BeforeAgentReply>::new(program)).into());
    let event = BeforeAgentReply { context: RunContext::default(), cleaned_body: "Hello".into() };
    let (mut processes, mut commands) = (Vec::new(), Vec::new());
    for _ in 0..rounds.div_ceil(FEWER) {
        // In turns, so that both see the same machine.
        let began = Instant::now();
        let mut child = Command::new(NOTHING)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(b"{}").await;
        }
        child.wait_with_output().await?;
        processes.push(began.elapsed());
        let began = Instant::now();
        table.before_agent_reply(&event).await;
        commands.push(began.elapsed());
    }
    progress("");
    let (process_ms, command_ms) = (summary(processes, milliseconds), summary(commands, milliseconds));
    let microseconds = |time: Duration| time.as_nanos() as f64 / 1e3;
    Ok(Report {
        closure_us: summary(closures, microseconds),
        beyond_ms: command_ms.p50 - process_ms.p50,
        process_ms,
        command_ms,
    })
}
