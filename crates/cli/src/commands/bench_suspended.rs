//! `pincer bench calls --suspended N`: what suspending, continuing and listing cost with few and with many suspended programs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pincer_codemode::{CodeModeResult, ExecInput, Settings, WaitInput, overviews};
use pincer_store::{Page, Room, RunId};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::bench_calls::{Bench, size};
use crate::WAITING;
use crate::cells::Outcome;
use crate::measure::{Summary, milliseconds, progress, resident_bytes, summary};
use crate::print::{bytes, line, time};

/// The programs that are suspended at first.
const FEW: usize = 100;
/// The programs of one page.
const PAGE: u32 = 50;
/// The writes of another process, and the time from one to the next.
const WRITES: usize = 15;
const BETWEEN_WRITES: Duration = Duration::from_millis(333);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    peer: &'static str,
    few: Level,
    many: Level,
    /// How many times as long with many as with few.
    ratio: Ratio,
    /// Of this process, for each suspended program.
    resident_bytes_each: f64,
    /// In the database, for each.
    stored_bytes_each: usize,
    /// The share of one core that this process used while nothing was asked of it.
    idle_percent: f64,
    /// The same while another process wrote three times a second.
    idle_beside_writer_percent: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Level {
    suspended: usize,
    /// Running a program until it is stored, in milliseconds.
    suspend: Summary,
    /// Continuing one to its end.
    wait: Summary,
    /// Listing the latest 50.
    page: Summary,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ratio {
    suspend: f64,
    wait: f64,
}

pub(super) async fn measure(many: usize, rounds: u32) -> Outcome<Report> {
    let mut bench = Bench::new()?;
    let most = u32::try_from(many + FEW)?;
    bench.scope = bench.scope.renewed().with_settings(|settings| Settings {
        room: Room { all: most, of_user: most, of_session: most },
        // They must outlast the measurement.
        snapshot_lifetime: Duration::from_secs(24 * 3600),
        ..settings
    });
    // Everything has been used once.
    let run_id = bench.suspend().await?;
    bench.resume(run_id).await?;
    bench.fill(0, FEW).await?;
    let few = bench.level(FEW, rounds).await?;
    let before = (resident_bytes(), size(bench.directory.path()));
    bench.fill(FEW, many).await?;
    let added = (many - FEW).max(1);
    let resident = resident_bytes().saturating_sub(before.0);
    let stored_bytes_each = size(bench.directory.path()).saturating_sub(before.1) / added;
    let many = bench.level(many, rounds).await?;
    progress("idling");
    let (idle_percent, ()) = used(tokio::time::sleep(BETWEEN_WRITES * WRITES as u32)).await;
    let (idle_beside_writer_percent, written) = used(bench.written_by_another()).await;
    written?;
    progress("");
    Ok(Report {
        peer: "pincer",
        ratio: Ratio { suspend: many.suspend.p50 / few.suspend.p50, wait: many.wait.p50 / few.wait.p50 },
        few,
        many,
        resident_bytes_each: resident as f64 / added as f64,
        stored_bytes_each,
        idle_percent,
        idle_beside_writer_percent,
    })
}

impl Bench {
    async fn suspend(&self) -> Outcome<RunId> {
        let code = "const a = [1, 2, 3]; await yield_control('x'); return a.length + 2";
        match self.runtime.exec(&self.scope, ExecInput::javascript(code)).await {
            CodeModeResult::Waiting(waiting) => Ok(waiting.run_id),
            other => Err(format!("a program came to {other:?}").into()),
        }
    }

    async fn resume(&self, run_id: RunId) -> Outcome<()> {
        match self.runtime.wait(&self.scope, &WaitInput { run_id }).await {
            CodeModeResult::Completed(done) if done.value.as_str() == "5" => Ok(()),
            other => Err(format!("a program came to {other:?}").into()),
        }
    }

    async fn fill(&self, from: usize, to: usize) -> Outcome<()> {
        for count in from..to {
            if count.is_multiple_of(1000) {
                progress(&format!("{count} of {to} suspended programs"));
            }
            self.suspend().await?;
        }
        // Writes that are still on their way to the disk would slow down the next measurement.
        Ok(self.runtime.store().fold()?)
    }

    /// Suspends a program more, and continues it, again and again.
    async fn level(&self, suspended: usize, rounds: u32) -> Outcome<Level> {
        progress(&format!("with {suspended} suspended programs"));
        let (mut suspend, mut wait, mut page) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let start = Instant::now();
            let run_id = self.suspend().await?;
            suspend.push(start.elapsed());
            let start = Instant::now();
            self.resume(run_id).await?;
            wait.push(start.elapsed());
            let start = Instant::now();
            let listed = overviews(&**self.runtime.store(), Page { limit: PAGE, ..Page::default() }).wait()?;
            page.push(start.elapsed());
            if listed.len() != PAGE as usize {
                return Err(format!("{} programs are listed", listed.len()).into());
            }
        }
        let [suspend, wait, page] = [suspend, wait, page].map(|times| summary(times, milliseconds));
        Ok(Level { suspended, suspend, wait, page })
    }

    /// Lets another process suspend programs in the same store.
    async fn written_by_another(&self) -> Outcome<()> {
        let config = self.directory.path().join("pincer.json5");
        std::fs::write(&config, "{ tools: { codeMode: { maxSuspendedRuns: 1000000 } } }")?;
        for _ in 0..WRITES {
            let start = Instant::now();
            let child = tokio::process::Command::new(std::env::current_exe()?)
                .args(["exec", "-e", "await yield_control('x')", "--state-dir"])
                .arg(self.directory.path())
                .arg("--config")
                .arg(&config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            let ended = child.await?;
            if ended.code() != Some(WAITING.into()) {
                return Err(format!("the other process did not suspend a program: {ended}").into());
            }
            tokio::time::sleep(BETWEEN_WRITES.saturating_sub(start.elapsed())).await;
        }
        Ok(())
    }
}

/// The processor time of this process while something else happens, in percent of one core.
async fn used<T>(meanwhile: impl Future<Output = T>) -> (f64, T) {
    let cpu = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let (start, before) = (Instant::now(), cpu());
    let came = meanwhile.await;
    (100.0 * (cpu() - before) / start.elapsed().as_secs_f64(), came)
}

pub(super) fn show(report: &Report) {
    let shown = |milliseconds: f64| time(Duration::from_secs_f64(milliseconds / 1000.0));
    let columns = |name: &str, few: String, many: String| line(&format!("{name:<42}{few:>12}{many:>12}"));
    let Report { few, many, ratio, .. } = report;
    columns("p50, with so many suspended programs", few.suspended.to_string(), many.suspended.to_string());
    let rows = [
        ("a program until it is stored", few.suspend, many.suspend),
        ("a stored program to its end", few.wait, many.wait),
        ("listing the latest 50", few.page, many.page),
    ];
    rows.into_iter().for_each(|(name, few, many)| columns(name, shown(few.p50), shown(many.p50)));
    let figure = |name: &str, value: String| line(&format!("{name:<42}{value:>12}"));
    figure("how many times as long to suspend", format!("{:.2}", ratio.suspend));
    figure("how many times as long to continue", format!("{:.2}", ratio.wait));
    figure("memory of this process for each", format!("{:.0} B", report.resident_bytes_each));
    figure("in the database for each", bytes(report.stored_bytes_each));
    figure("processor while idle", format!("{:.2} %", report.idle_percent));
    figure("the same while another process writes", format!("{:.2} %", report.idle_beside_writer_percent));
}
