//! `pincer bench fair`: the programs of one user beside all kinds of programs of another, on one server.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::cells::Outcome;
use crate::load_client::{LoadClient, Served};
use crate::measure::{Summary, milliseconds, progress, reported, summary};
use crate::print::line;
use crate::usage_bench::LoadArguments;

/// Clients of the user whose programs are good.
const GOOD: usize = 4;
/// Clients of the other one.
const OTHERS: usize = 100;
/// Programs that make short calls, and programs that compute for some milliseconds.
const GOOD_PROGRAMS: [&str; 2] = [
    "let n = 0; for (let i = 0; i < 10; i++) n += (await tools.read({ path: 'small.txt' })).content.length; return 1",
    "let n = 0; for (let i = 0; i < 400000; i++) n += i % 7; return n > 0 ? 1 : 0",
];
/// The programs of the other user. The last one is continued whenever it is suspended.
const KINDS: [(&str, &str); 5] = [
    ("sleepers", "await new Promise((go) => setTimeout(go, 5000)); return 1"),
    ("loops", "for (;;) {}"),
    ("hogs", "const all = []; for (;;) all.push(new Array(10000).fill(all.length))"),
    ("suspenders", "await yield_control('x'); return 1"),
    (CONTINUERS, "for (;;) await yield_control('x')"),
];
const CONTINUERS: &str = "continuers";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    alone: Times,
    beside: Vec<Beside>,
}

/// How long the good programs took, in milliseconds.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    calls: Summary,
    computes: Summary,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Beside {
    others: &'static str,
    ms: Times,
    /// How many times as long the p95 is as alone: that of the programs that suffer more.
    ratio: f64,
    completed: usize,
    failed: usize,
    /// The first failure.
    error: Option<String>,
}

pub(crate) fn run(arguments: &LoadArguments) -> u8 {
    reported(arguments.json, measure(Duration::from_secs(arguments.seconds.into())), show)
}

async fn measure(time: Duration) -> Outcome<Report> {
    let tokens = json!({ "good": "token-of-the-good-user", "other": "token-of-the-other-user" });
    let config = json!({ "tools": { "profile": "full" }, "mcp": { "serve": { "tokens": tokens } } });
    let directory = tempfile::tempdir()?;
    let served = Served::start(directory.path(), &config).await?;
    progress("alone");
    good(&served, Duration::from_secs(1)).await?;
    let alone = good(&served, time).await?.times();
    let mut beside = Vec::new();
    for (others, code) in KINDS {
        progress(others);
        let mut running = JoinSet::new();
        for _ in 0..OTHERS {
            let address = served.address.clone();
            running.spawn(async move {
                while let Ok(mut client) = LoadClient::connect(&address, Some("token-of-the-other-user")).await {
                    while let Ok((mut result, _)) = client.exec(code).await {
                        while others == CONTINUERS
                            && let Some(run) = result["runId"].as_str()
                            && let Ok(next) = client.wait(run).await
                        {
                            result = next;
                        }
                    }
                }
            });
        }
        // By then all of them run.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ran = good(&served, time).await?;
        running.shutdown().await;
        let (completed, failed) = (ran.took.iter().map(Vec::len).sum(), ran.failures.len());
        let (error, ms) = (ran.failures.first().cloned(), ran.times());
        let ratio = (ms.calls.p95 / alone.calls.p95).max(ms.computes.p95 / alone.computes.p95);
        beside.push(Beside { others, ms, ratio, completed, failed, error });
        // Their programs end at their deadlines.
        tokio::time::sleep(Duration::from_secs(11)).await;
    }
    progress("");
    Ok(Report { peer: "pincer", alone, beside })
}

/// The results of the good user's programs.
#[derive(Default)]
struct Ran {
    /// The times of those that completed, by program.
    took: [Vec<Duration>; 2],
    failures: Vec<String>,
}

impl Ran {
    fn times(self) -> Times {
        let [calls, computes] = self.took.map(|took| summary(took, milliseconds));
        Times { calls, computes }
    }
}

/// Runs the good user's programs, one kind after the other.
async fn good(served: &Served, time: Duration) -> Outcome<Ran> {
    let mut running = JoinSet::new();
    for _ in 0..GOOD {
        let mut client = LoadClient::connect(&served.address, Some("token-of-the-good-user")).await?;
        running.spawn(async move {
            let (started, mut ran) = (Instant::now(), Ran::default());
            for (program, took) in GOOD_PROGRAMS.iter().cycle().zip((0..2).cycle()) {
                if started.elapsed() > time {
                    break;
                }
                match client.exec(program).await {
                    Ok((result, time)) if result["value"] == 1 => ran.took[took].push(time),
                    Ok((result, _)) => ran.failures.push(result.to_string()),
                    Err(error) => {
                        ran.failures.push(error.to_string());
                        break;
                    }
                }
            }
            ran
        });
    }
    let mut all = Ran::default();
    while let Some(done) = running.join_next().await {
        let Ran { took, failures } = done?;
        all.took.iter_mut().zip(took).for_each(|(all, took)| all.extend(took));
        all.failures.extend(failures);
    }
    Ok(all)
}

fn show(report: &Report) {
    let head = ["calls p50", "p95", "computes p50", "p95", "ratio", "completed", "failed"];
    line(&format!(
        "{:<12}{:>12}{:>12}{:>14}{:>12}{:>8}{:>11}{:>8}",
        "beside", head[0], head[1], head[2], head[3], head[4], head[5], head[6]
    ));
    let times = |Times { calls, computes }: Times| {
        format!("{:>9.2} ms{:>9.2} ms{:>11.2} ms{:>9.2} ms", calls.p50, calls.p95, computes.p50, computes.p95)
    };
    line(&format!("{:<12}{}", "nothing", times(report.alone)));
    for Beside { others, ms, ratio, completed, failed, error } in &report.beside {
        line(&format!("{others:<12}{}{ratio:>8.1}{completed:>11}{failed:>8}", times(*ms)));
        if let Some(error) = error {
            line(&format!("  {}", error.chars().take(200).collect::<String>()));
        }
    }
}
