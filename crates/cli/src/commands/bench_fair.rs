//! `pincer bench fair`: the programs of one user beside all kinds of programs of another, on one server.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::cells::Outcome;
use crate::load_client::{LoadClient, Served};
use crate::measure::{Summary, milliseconds, progress, reported, summary};
use crate::print::line;
use crate::usage::LoadArguments;

/// Clients of the user whose programs are good.
const GOOD: usize = 4;
/// Clients of the other one.
const OTHERS: usize = 100;
const GOOD_PROGRAM: &str =
    "let n = 0; for (let i = 0; i < 10; i++) n += (await tools.read({ path: 'small.txt' })).content.length; return 1";
/// The programs of the other user.
const KINDS: [(&str, &str); 4] = [
    ("sleepers", "await new Promise((go) => setTimeout(go, 5000)); return 1"),
    ("loops", "for (;;) {}"),
    ("hogs", "const all = []; for (;;) all.push(new Array(10000).fill(all.length))"),
    ("suspenders", "await yield_control('x'); return 1"),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    alone: Summary,
    beside: Vec<Beside>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Beside {
    others: &'static str,
    ms: Summary,
    /// How many times as long the p95 is as alone.
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
    let config = json!({ "mcp": { "serve": { "tokens": tokens } } });
    let directory = tempfile::tempdir()?;
    let served = Served::start(directory.path(), &config).await?;
    progress("alone");
    good(&served, Duration::from_secs(1)).await?;
    let alone = summary(good(&served, time).await?.0, milliseconds);
    let mut beside = Vec::new();
    for (others, code) in KINDS {
        progress(others);
        let mut running = JoinSet::new();
        for _ in 0..OTHERS {
            let address = served.address.clone();
            running.spawn(async move {
                while let Ok(mut client) = LoadClient::connect(&address, Some("token-of-the-other-user")).await {
                    while client.exec(code).await.is_ok() {}
                }
            });
        }
        // By then all of them run.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (times, error, failed) = good(&served, time).await?;
        running.shutdown().await;
        let (completed, ms) = (times.len(), summary(times, milliseconds));
        beside.push(Beside { others, ms, ratio: ms.p95 / alone.p95, completed, failed, error });
        // What they have begun ends at its deadline.
        tokio::time::sleep(Duration::from_secs(11)).await;
    }
    progress("");
    Ok(Report { peer: "pincer", alone, beside })
}

/// The good user's programs: the times of those that completed, the first failure, and how many failed.
async fn good(served: &Served, time: Duration) -> Outcome<(Vec<Duration>, Option<String>, usize)> {
    let mut running = JoinSet::new();
    for _ in 0..GOOD {
        let mut client = LoadClient::connect(&served.address, Some("token-of-the-good-user")).await?;
        running.spawn(async move {
            let (started, mut times, mut failures) = (Instant::now(), Vec::new(), Vec::new());
            while started.elapsed() < time {
                match client.exec(GOOD_PROGRAM).await {
                    Ok((result, took)) if result["value"] == 1 => times.push(took),
                    Ok((result, _)) => failures.push(result.to_string()),
                    Err(error) => {
                        failures.push(error.to_string());
                        break;
                    }
                }
            }
            (times, failures)
        });
    }
    let (mut times, mut failures) = (Vec::new(), Vec::new());
    while let Some(done) = running.join_next().await {
        let (of_client, failed) = done?;
        times.extend(of_client);
        failures.extend(failed);
    }
    Ok((times, failures.first().cloned(), failures.len()))
}

fn show(report: &Report) {
    line(&format!("{:<12}{:>12}{:>12}{:>9}{:>11}{:>8}", "beside", "p50", "p95", "ratio", "completed", "failed"));
    let Summary { p50, p95 } = report.alone;
    line(&format!("{:<12}{p50:>9.2} ms{p95:>9.2} ms", "nothing"));
    for Beside { others, ms, ratio, completed, failed, error } in &report.beside {
        let Summary { p50, p95 } = ms;
        line(&format!("{others:<12}{p50:>9.2} ms{p95:>9.2} ms{ratio:>9.1}{completed:>11}{failed:>8}"));
        if let Some(error) = error {
            line(&format!("  {}", error.chars().take(200).collect::<String>()));
        }
    }
}
