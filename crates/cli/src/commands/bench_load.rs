//! `pincer bench load`: many clients of one server over HTTP, each on a connection that it keeps.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::cells::Outcome;
use crate::load_client::{LoadClient, Served};
use crate::measure::{Summary, milliseconds, progress, reported, summary};
use crate::print::{bytes, line};
use crate::usage_bench::LoadArguments;

/// Each program, and how many clients run it at a time.
const PROGRAMS: [(&str, &[usize], &str); 3] = [
    ("trivial", &[1, 50, 200], "return 1"),
    (
        "ten calls",
        &[1, 50, 200],
        "let n = 0; for (let i = 0; i < 10; i++) n += (await tools.read({ path: 'small.txt' })).content.length; return 1",
    ),
    (
        "55 MB",
        &[20, 100],
        "const held = []; for (let i = 0; i < 55; i++) held.push(new Uint8Array(1e6).fill(1)); return held[54][0]",
    ),
];
/// The server gives memory back when it has had nothing to do for a while. It is waited for so long at most.
const CALM: Duration = Duration::from_secs(20);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    steps: Vec<Step>,
    /// The resident memory of the server: before, at most, and at the end.
    resident_before: usize,
    resident_most: usize,
    resident_after: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    program: &'static str,
    clients: usize,
    per_second: f64,
    ms: Summary,
    failed: usize,
    /// The resident memory of the server at the end of the step.
    resident: usize,
}

pub(crate) fn run(arguments: &LoadArguments) -> u8 {
    reported(arguments.json, measure(Duration::from_secs(arguments.seconds.into())), show)
}

async fn measure(time: Duration) -> Outcome<Report> {
    let directory = tempfile::tempdir()?;
    let served = Served::start(directory.path(), &json!({ "tools": { "profile": "full" } })).await?;
    // Loading code and data for the first time is no growth.
    load(&served, 10, "return 1", Duration::from_secs(1)).await?;
    let resident_before = served.resident_bytes();
    let (mut steps, mut resident_most) = (Vec::new(), resident_before);
    for (program, clients, code) in PROGRAMS {
        for clients in clients.iter().copied() {
            progress(&format!("{program}, {clients} clients"));
            let (times, failed, took) = load(&served, clients, code, time).await?;
            let resident = served.resident_bytes();
            resident_most = resident_most.max(served.most_resident_bytes());
            let per_second = times.len() as f64 / took.as_secs_f64();
            steps.push(Step { program, clients, per_second, ms: summary(times, milliseconds), failed, resident });
        }
    }
    progress("memory that comes back");
    let since = Instant::now();
    while since.elapsed() < CALM && served.resident_bytes() > resident_before + resident_before / 5 {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    progress("");
    let resident_after = served.resident_bytes();
    Ok(Report { peer: "pincer", steps, resident_before, resident_most, resident_after })
}

/// Runs a program again and again on each of some clients: the times, how many failed, and how long it took in all.
async fn load(
    served: &Served,
    clients: usize,
    code: &'static str,
    time: Duration,
) -> Outcome<(Vec<Duration>, usize, Duration)> {
    let mut ready = Vec::new();
    for _ in 0..clients {
        ready.push(LoadClient::connect(&served.address, None).await?);
    }
    let (started, mut running) = (Instant::now(), JoinSet::new());
    for mut client in ready {
        running.spawn(async move {
            let (mut times, mut failed) = (Vec::new(), 0);
            while started.elapsed() < time {
                match client.exec(code).await {
                    Ok((result, took)) if result["value"] == 1 => times.push(took),
                    Ok(_) => failed += 1,
                    Err(_) => {
                        failed += 1;
                        break;
                    }
                }
            }
            // One that cannot leave has lost its connection, and that is counted.
            let _ = client.leave().await;
            (times, failed)
        });
    }
    let (mut times, mut failed) = (Vec::new(), 0);
    while let Some(done) = running.join_next().await {
        let (of_client, failed_of_client) = done?;
        times.extend(of_client);
        failed += failed_of_client;
    }
    Ok((times, failed, started.elapsed()))
}

fn show(report: &Report) {
    let head = ["clients", "per second", "p50", "p95", "failed", "memory"];
    let [clients, rate, p50, p95, failed, memory] = head;
    line(&format!("{:<12}{clients:>9}{rate:>14}{p50:>12}{p95:>12}{failed:>9}{memory:>12}", "program"));
    for Step { program, clients, per_second, ms, failed, resident } in &report.steps {
        let (Summary { p50, p95 }, memory) = (ms, bytes(*resident));
        line(&format!("{program:<12}{clients:>9}{per_second:>14.0}{p50:>9.2} ms{p95:>9.2} ms{failed:>9}{memory:>12}"));
    }
    let Report { resident_before, resident_most, resident_after, .. } = *report;
    let shown = [resident_before, resident_most, resident_after].map(bytes);
    line(&format!("memory of the server: {} before, {} at most, {} after", shown[0], shown[1], shown[2]));
}
