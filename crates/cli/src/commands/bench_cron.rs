//! `pincer bench cron`: the cost of jobs while none of them is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use pincer_agent::{Agent, Cron, JobWish, When, add_cron_job, cron_now};
use pincer_config::Loaded;
use pincer_runtime::{BuiltIn, EngineStart, ModelSetup, Runtime, RuntimeOptions};
use pincer_store::CronJobs;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::cells::Outcome;
use crate::measure::{Summary, progress, reported, summary};
use crate::notices;
use crate::print::line;
use crate::usage_bench::CronBenchArguments;

/// The number of jobs that are stored at a time: one sync serves them all.
const AT_ONCE: u32 = 250;
const LOOKS: u32 = 200;
/// Our limit for each thousandth of a processor that jobs may cost beyond none. A figure beyond it is a defect.
const LIMIT_PER_MILLE: f64 = 1.0;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    jobs: u32,
    seconds: u32,
    /// Thousandths of a processor that the process takes while it waits for a job to be due.
    idle_without_jobs_per_mille: f64,
    idle_per_mille: f64,
    limit_per_mille: f64,
    is_kept: bool,
    /// One look for jobs that are due, in microseconds.
    look_micros: Summary,
    /// One look for the time of the next one, in microseconds.
    next_micros: Summary,
}

pub(crate) fn run(arguments: &CronBenchArguments) -> u8 {
    let CronBenchArguments { json, jobs, seconds } = *arguments;
    let measuring = async move { tokio::spawn(measure(jobs, seconds)).await? };
    reported(json, measuring, show)
}

fn show(report: &Report) {
    line(&format!(
        "idle: {:.2} ‰ of a processor with {} jobs, {:.2} ‰ with none (limit: {:.1} ‰ more){}",
        report.idle_per_mille,
        report.jobs,
        report.idle_without_jobs_per_mille,
        report.limit_per_mille,
        if report.is_kept { "" } else { "  BEYOND THE LIMIT" },
    ));
    line(&format!("a look for due jobs: {:.1} µs (p95 {:.1})", report.look_micros.p50, report.look_micros.p95));
    line(&format!("a look for the next time: {:.1} µs (p95 {:.1})", report.next_micros.p50, report.next_micros.p95));
}

async fn measure(jobs: u32, seconds: u32) -> Outcome<Report> {
    let (agent, directory) = agent()?;
    progress("the schedule without jobs");
    let without = idle(&agent, seconds).await;
    progress("jobs being stored");
    let store = agent.runtime().store();
    let mut made = 0;
    while made < jobs {
        let numbers = made..(made + AT_ONCE).min(jobs);
        made = numbers.end;
        try_join_all(numbers.map(|number| add_cron_job(store, job(number)))).await?;
    }
    progress("the schedule with all jobs");
    let with = idle(&agent, seconds).await;
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    let (mut looks, mut nexts) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        let began = Instant::now();
        store.due_cron_jobs(cron_now(store), None, 3).await?;
        looks.push(began.elapsed());
        let began = Instant::now();
        store.next_cron_times().await?;
        nexts.push(began.elapsed());
    }
    agent.close().await;
    agent.runtime().shutdown(Duration::ZERO).await;
    drop(directory);
    progress("");
    Ok(Report {
        jobs,
        seconds,
        idle_without_jobs_per_mille: without,
        idle_per_mille: with,
        limit_per_mille: LIMIT_PER_MILLE,
        is_kept: with - without <= LIMIT_PER_MILLE,
        look_micros: summary(looks, micros),
        next_micros: summary(nexts, micros),
    })
}

/// Returns the share of a processor that this process takes while the schedule waits.
async fn idle(agent: &Agent, seconds: u32) -> f64 {
    let cron = Cron::new(agent.clone(), |_| {});
    let (began, spent) = (Instant::now(), processor_time());
    // It never ends by itself.
    let _ = tokio::time::timeout(Duration::from_secs(seconds.into()), cron.watch()).await;
    let (spent, passed) = (processor_time() - spent, began.elapsed());
    spent.as_secs_f64() / passed.as_secs_f64() * 1e3
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A job that is not due while this runs: one of each kind in turn, of one of a hundred users.
fn job(number: u32) -> JobWish {
    let when = match number % 3 {
        0 => When::Every("5h".into()),
        1 => When::Cron("17 3 29 2 *".into()),
        _ => When::At("100d".into()),
    };
    let (user, name) = (format!("user-{}", number % 100), format!("job-{number}"));
    JobWish { zone: Some("Europe/Berlin".into()), ..JobWish::new(&user, &name, when, "Do the daily work.") }
}

fn agent() -> Outcome<(Agent, tempfile::TempDir)> {
    let directory = tempfile::tempdir()?;
    let config = serde_json::json!({ "workspace": directory.path() });
    let loaded = Loaded { parsed: pincer_config::parse(&config.to_string(), &|_| None)?, ..Loaded::default() };
    let models = ModelSetup::new(&loaded, Some(directory.path()));
    let options = RuntimeOptions {
        built_in: BuiltIn::LeftOut,
        engine: EngineStart::WhenNeeded,
        observer: notices::observer(),
        ..RuntimeOptions::new(loaded, directory.path())
    };
    Ok((Agent::new(Arc::new(Runtime::open(options)?), models), directory))
}
