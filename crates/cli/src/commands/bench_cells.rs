//! `pincer bench cells`: the figures of BENCHMARKS.md, in the shape that the peers' scripts print too.

use std::thread;
use std::time::{Duration, Instant};

use pincer_runtime::load_engine;
use pincer_sandbox::Engine;
use serde::Serialize;

use crate::cells::{self, CALLS, Outcome};
use crate::measure::{Summary, milliseconds, progress, resident_bytes, summary};
use crate::print::{bytes, chain, line, note, time};
use crate::usage_bench::BenchArguments;
use crate::{DONE, FAILED, notices};

/// One line of the report. Times are milliseconds unless the name says otherwise.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    /// Loading the engine and the first cell.
    first_ms: f64,
    /// A fresh cell to its result.
    fresh: Summary,
    /// A fresh cell until it is bytes.
    suspend: Summary,
    /// The part of it that turns the waiting cell into bytes.
    park: Summary,
    /// From bytes to the result.
    resume: Summary,
    suspended_bytes: usize,
    rss_bytes: usize,
    /// One host request and its answer, in microseconds, p50.
    per_call: f64,
    /// Fresh cells, on all cores.
    cells_per_second: f64,
    /// Resident bytes for 1,000 suspended cells.
    held_per_1000: usize,
}

pub(crate) fn run(arguments: &BenchArguments) -> u8 {
    match measure(arguments.rounds) {
        Ok(report) if arguments.json => {
            line(&serde_json::to_string(&report).unwrap_or_default());
            DONE
        }
        Ok(report) => {
            show(&report);
            DONE
        }
        Err(error) => {
            note(&format!("error: the benchmark did not run: {}", chain(error.as_ref())));
            FAILED
        }
    }
}

fn measure(rounds: u32) -> Outcome<Report> {
    let cores = thread::available_parallelism()?.get();
    let start = Instant::now();
    let engine = load_engine(64.max(cores as u32), &notices::observer())?;
    cells::fresh(&engine)?;
    let first_ms = milliseconds(start.elapsed());

    progress("fresh cells");
    let fresh = samples(rounds, || cells::fresh(&engine))?;
    progress("suspending and continuing");
    let (mut park, mut suspend, mut resume, mut suspended_bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        let start = Instant::now();
        let mut cell = cells::waiting(&engine)?;
        let waiting = Instant::now();
        let snapshot = cell.park()?;
        park.push(waiting.elapsed());
        drop(cell);
        suspend.push(start.elapsed());
        let start = Instant::now();
        cells::resume(&engine, &snapshot)?;
        resume.push(start.elapsed());
        suspended_bytes = snapshot.len();
    }
    progress("host requests");
    let per_call = samples(rounds.div_ceil(20), || cells::calls(&engine))?;
    let per_call = per_call.into_iter().map(|all| all / CALLS).collect();
    progress("all cores");
    let cells_per_second = throughput(&engine, cores, rounds * 4)?;
    progress("1,000 suspended cells");
    let held_per_1000 = held(&engine)?;
    let rss_bytes = resident_bytes();
    progress("");
    Ok(Report {
        peer: "pincer",
        first_ms,
        fresh: summary(fresh, milliseconds),
        suspend: summary(suspend, milliseconds),
        park: summary(park, milliseconds),
        resume: summary(resume, milliseconds),
        suspended_bytes,
        rss_bytes,
        per_call: summary(per_call, milliseconds).p50 * 1000.0,
        cells_per_second,
        held_per_1000,
    })
}

fn samples(rounds: u32, work: impl Fn() -> Outcome<()>) -> Outcome<Vec<Duration>> {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work()?;
            Ok(start.elapsed())
        })
        .collect()
}

fn throughput(engine: &Engine, cores: usize, rounds: u32) -> Outcome<f64> {
    let start = Instant::now();
    let done = thread::scope(|scope| {
        let work = || (0..rounds).all(|_| cells::fresh(engine).is_ok());
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().all(|thread| thread.join().unwrap_or(false))
    });
    if !done {
        return Err("a cell failed while all cores were busy".into());
    }
    Ok(f64::from(rounds) * cores as f64 / start.elapsed().as_secs_f64())
}

fn held(engine: &Engine) -> Outcome<usize> {
    let before = resident_bytes();
    let mut snapshots = Vec::with_capacity(1000);
    for _ in 0..1000 {
        snapshots.push(cells::waiting(engine)?.park()?.into_boxed_slice());
    }
    let held = resident_bytes().saturating_sub(before);
    // What the allocator had free before does not show up as growth.
    Ok(held.max(snapshots.iter().map(|snapshot| snapshot.len()).sum()))
}

fn show(report: &Report) {
    let row = |name: &str, summary: Summary| {
        let shown = |milliseconds: f64| time(Duration::from_secs_f64(milliseconds / 1000.0));
        line(&format!("{name:<34}{:>12}{:>12}", shown(summary.p50), shown(summary.p95)));
    };
    line(&format!("{:<34}{:>12}{:>12}", "", "p50", "p95"));
    row("fresh cell to result", report.fresh);
    row("suspend: run, then to bytes", report.suspend);
    row("  of which to bytes (park)", report.park);
    row("restore and continue to result", report.resume);
    let figure = |name: &str, value: String| line(&format!("{name:<34}{value:>12}"));
    figure("one host request and its answer", format!("{:.1} µs", report.per_call));
    figure("engine load and first cell", time(Duration::from_secs_f64(report.first_ms / 1000.0)));
    figure("a suspended cell", bytes(report.suspended_bytes));
    figure("1,000 suspended cells, resident", bytes(report.held_per_1000));
    figure("resident in all", bytes(report.rss_bytes));
    figure("fresh cells per second, all cores", format!("{:.0}", report.cells_per_second));
}
