//! `pincer bench agent`: the agent loop against a scripted model on loopback.
//!
//! A message until it is accepted and until its request reaches the model, a turn with ten tools in three forms, many sessions at
//! once, and a run that goes on after a kill. Where memory is measured, the model is a process of its own.

mod killed;
mod sessions;
mod tap;
mod world;

use std::time::{Duration, Instant};

use pincer_scripted::{Script, Server};
use serde::Serialize;
use serde_json::Value;

pub(crate) use sessions::run_sessions;

use crate::cells::Outcome;
use crate::measure::{Summary, milliseconds, progress, reported, summary};
use crate::print::{bytes, line, time};
use crate::usage_bench::AgentBenchArguments;
use killed::Continued;
use sessions::AtOnce;
use tap::{Tap, of_model, until_asked};
use world::{Mode, World, scripts};

/// The model's time for each reply where many sessions are at work.
const MODEL_MS: u64 = 50;
/// Messages before the first one that counts.
const WARM_UP: u32 = 10;
const MOST_RUNS: u32 = 8;
/// Our limits. A figure beyond its limit is a defect.
const TO_REQUEST_MS: f64 = 5.0;
const PEAK_BYTES: usize = 300_000_000;
const CONTINUED_MS: f64 = 1000.0;

#[derive(Serialize)]
#[serde(tag = "figure", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Figure {
    /// A message, in milliseconds from the call of `submit`.
    AcceptToRequest {
        /// Until it is stored and acknowledged.
        accept: Summary,
        /// Until the first byte of the request is at the model's socket.
        request: Summary,
        limit_ms: f64,
        is_kept: bool,
    },
    /// Ten calls in one reply.
    TenToolsDirect(TenTools),
    /// Ten replies with a call each.
    TenToolsDirectInARow(TenTools),
    /// One program with ten calls.
    TenToolsProgram(TenTools),
    ConcurrentSessions {
        #[serde(flatten)]
        at_once: AtOnce,
        limit_bytes: usize,
        is_kept: bool,
    },
    /// A run after the kill of its process, in milliseconds from the start of the next one.
    ContinuedAfterKill {
        mode: &'static str,
        kills: u32,
        /// Until the first event in it.
        event: Summary,
        /// Until the first byte of its request to the model.
        request: Summary,
        limit_ms: f64,
        is_kept: bool,
    },
}

/// A turn with ten tools, from its message to its answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TenTools {
    /// In milliseconds, without the time that the model takes.
    ours: Summary,
    /// Requests to the model.
    requests: usize,
    /// Their bodies together.
    request_bytes: usize,
    commits: u64,
    /// Rows that were inserted and stayed.
    rows: i64,
    /// Rows that were inserted, updated or deleted.
    row_changes: u64,
}

pub(crate) fn run(arguments: &AgentBenchArguments) -> u8 {
    let AgentBenchArguments { json, runs, sessions } = *arguments;
    // On a worker of the runtime, as in a server.
    let measuring = async move { tokio::spawn(measure(runs, sessions)).await? };
    reported(false, measuring, |figures: &Vec<Figure>| match json {
        true => figures.iter().for_each(|figure| line(&serde_json::to_string(figure).unwrap_or_default())),
        false => show(figures),
    })
}

async fn measure(runs: u32, sessions: u32) -> Outcome<Vec<Figure>> {
    progress("messages until they are accepted");
    let mut figures = vec![accept(runs).await?];
    progress("ten tools");
    figures.push(Figure::TenToolsDirect(ten_tools(runs, Mode::Direct, &scripts::at_once()?).await?));
    figures.push(Figure::TenToolsDirectInARow(ten_tools(runs, Mode::Direct, &scripts::in_a_row()?).await?));
    figures.push(Figure::TenToolsProgram(ten_tools(runs, Mode::Program, &scripts::program()?).await?));
    progress("many sessions at once");
    let at_once = sessions::measure(sessions).await?;
    let is_kept = at_once.peak_bytes <= PEAK_BYTES && at_once.complete == sessions;
    figures.push(Figure::ConcurrentSessions { at_once, limit_bytes: PEAK_BYTES, is_kept });
    progress("runs after a kill");
    let kills = runs.div_ceil(10).max(3);
    for (name, mode) in [("direct", Mode::Direct), ("program", Mode::Program)] {
        let Continued { to_event, to_request } = killed::measure(mode, kills).await?;
        let (event, request) = (summary(to_event, milliseconds), summary(to_request, milliseconds));
        let is_kept = request.p50 <= CONTINUED_MS;
        figures.push(Figure::ContinuedAfterKill { mode: name, kills, event, request, limit_ms: CONTINUED_MS, is_kept });
    }
    progress("");
    Ok(figures)
}

/// Sends messages to new sessions, one after the other.
async fn accept(runs: u32) -> Outcome<Figure> {
    let server = Server::start(Script::parse(&scripts::plain().to_string())?)?;
    let tap = Tap::start(&server.url())?;
    let world = World::open(&tap.url(), Mode::Direct, MOST_RUNS)?;
    let (mut accepts, mut requests) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + runs {
        tap.take();
        let began = Instant::now();
        let submitted = world.submit(&format!("session-{number}")).await?;
        let accepted = began.elapsed();
        world.answered(&submitted).await?;
        let asked = until_asked(&tap.take(), began).ok_or("the model was not asked")?;
        if number >= WARM_UP {
            accepts.push(accepted);
            requests.push(asked);
        }
    }
    let (accept, request) = (summary(accepts, milliseconds), summary(requests, milliseconds));
    let is_kept = request.p50 <= TO_REQUEST_MS;
    Ok(Figure::AcceptToRequest { accept, request, limit_ms: TO_REQUEST_MS, is_kept })
}

/// Sends messages to new sessions, each of which is answered with ten calls.
async fn ten_tools(runs: u32, mode: Mode, script: &Value) -> Outcome<TenTools> {
    let server = Server::start(Script::parse(&script.to_string())?)?;
    let tap = Tap::start(&server.url())?;
    let world = World::open(&tap.url(), mode, MOST_RUNS)?;
    let store = world.agent.runtime().store();
    let mut ours = Vec::new();
    let (mut requests, mut request_bytes, mut commits, mut rows, mut row_changes) = (0, 0, 0, 0, 0);
    for number in 0..WARM_UP + runs {
        let before = (world.commits(), store.row_count()?, store.row_changes(), server.requests().len());
        tap.take();
        let began = Instant::now();
        let submitted = world.submit(&format!("session-{number}")).await?;
        world.answered(&submitted).await?;
        let took = began.elapsed();
        if number >= WARM_UP {
            ours.push(took.saturating_sub(of_model(&tap.take())));
        }
        // The same in each run, but for the digits of ids.
        let sent = server.requests().split_off(before.3);
        (requests, request_bytes) = (sent.len(), sent.iter().map(|request| request.text.len()).sum());
        (commits, row_changes) = (world.commits() - before.0, store.row_changes() - before.2);
        rows = store.row_count()? - before.1;
    }
    Ok(TenTools { ours: summary(ours, milliseconds), requests, request_bytes, commits, rows, row_changes })
}

fn show(figures: &[Figure]) {
    let shown = |milliseconds: f64| time(Duration::from_secs_f64(milliseconds / 1000.0));
    let row = |name: &str, Summary { p50, p95 }: Summary, end: &str| {
        line(&format!("{name:<48}{:>12}{:>12}{end}", shown(p50), shown(p95)));
    };
    let kept = |limit: &str, is_kept: bool| format!("   limit {limit}: {}", if is_kept { "kept" } else { "NOT KEPT" });
    line(&format!("{:<48}{:>12}{:>12}", "", "p50", "p95"));
    for figure in figures {
        match figure {
            Figure::AcceptToRequest { accept, request, limit_ms, is_kept } => {
                row("a message until it is accepted", *accept, "");
                let end = kept(&format!("{limit_ms} ms"), *is_kept);
                row("  until its request is at the model's socket", *request, &end);
            }
            Figure::ContinuedAfterKill { mode, kills, event, request, limit_ms, is_kept } => {
                row(&format!("killed in a tool, {mode}, {kills} times: first event"), *event, "");
                row(
                    "  until its request is at the model's socket",
                    *request,
                    &kept(&format!("{limit_ms} ms"), *is_kept),
                );
            }
            _ => {}
        }
    }
    let (names, turns): (Vec<&str>, Vec<&TenTools>) = figures.iter().filter_map(of_ten_tools).unzip();
    let cells =
        |of: &dyn Fn(&TenTools) -> String| turns.iter().map(|turn| format!("{:>24}", of(turn))).collect::<String>();
    let head: String = names.iter().map(|name| format!("{name:>24}")).collect();
    line(&format!("\n{:<24}{head}", "a turn with ten tools"));
    line(&format!(
        "{:<24}{}",
        "our time, p50 (p95)",
        cells(&|turn| { format!("{} ({})", shown(turn.ours.p50), shown(turn.ours.p95)) })
    ));
    line(&format!("{:<24}{}", "requests to the model", cells(&|turn| turn.requests.to_string())));
    line(&format!("{:<24}{}", "bytes of all of them", cells(&|turn| bytes(turn.request_bytes))));
    line(&format!("{:<24}{}", "commits", cells(&|turn| turn.commits.to_string())));
    line(&format!("{:<24}{}", "rows that stay", cells(&|turn| turn.rows.to_string())));
    line(&format!("{:<24}{}", "rows written", cells(&|turn| turn.row_changes.to_string())));
    for figure in figures {
        let Figure::ConcurrentSessions { at_once, limit_bytes, is_kept } = figure else { continue };
        line(&format!(
            "\n{} of {} sessions at once complete, with {} events and no gap, in {}: {:.0} runs per second.\n\
             The model takes {MODEL_MS} ms for each of two replies. Memory {}, at most {}.{}",
            at_once.complete,
            at_once.sessions,
            at_once.events,
            shown(at_once.total_ms),
            at_once.runs_per_second,
            bytes(at_once.resident_bytes),
            bytes(at_once.peak_bytes),
            kept(&bytes(*limit_bytes), *is_kept),
        ));
        if let Some(error) = &at_once.error {
            line(&format!("The first thing that went wrong: {error}"));
        }
    }
}

fn of_ten_tools(figure: &Figure) -> Option<(&'static str, &TenTools)> {
    match figure {
        Figure::TenToolsDirect(turn) => Some(("one reply", turn)),
        Figure::TenToolsDirectInARow(turn) => Some(("ten replies", turn)),
        Figure::TenToolsProgram(turn) => Some(("a program", turn)),
        _ => None,
    }
}
