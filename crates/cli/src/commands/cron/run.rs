//! `pincer cron run`: one job now, or all that are due.

use std::time::Duration;

use pincer_agent::{Agent, Cron, CronNews, RunOutcome, Status};
use pincer_store::{AgentRun, CronBegun};
use pincer_tools::one_line;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::interrupt::{Interrupted, Interruptions};
use crate::opened::{close, ended, for_agent};
use crate::print::{line, note};
use crate::refused::Refused;
use crate::usage::LocationArguments;
use crate::usage_cron::RunArguments;
use crate::{DONE, FAILED, INTERRUPTED, WAITING, WRONG_USAGE, settings, tokio_runtime};

use super::{named, refused};

/// The time that a run has to end when it is stopped.
const STOPPING: Duration = Duration::from_secs(10);
const MOST_NAME: usize = 60;
const MOST_TEXT: usize = 200;

pub(super) fn run(locations: &LocationArguments, user: &str, wanted: &RunArguments, json: bool) -> u8 {
    let loaded = match settings::ready(locations) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    if wanted.due && !loaded.parsed.config.cron.enabled {
        note("error: `cron.enabled` is false in the config: no job runs by itself. Run one with pincer cron run JOB");
        return WRONG_USAGE;
    }
    let started = if wanted.watch { tokio_runtime::large() } else { tokio_runtime::small() };
    tokio_runtime::attend(started, async {
        let agent = for_agent(locations, loaded).map_err(Refused::tell)?;
        let done = match (&wanted.job, wanted.watch) {
            (Some(job), _) => one(&agent, user, job, json).await,
            (None, true) => watch(&agent, json).await,
            (None, false) => due(&agent, json).await,
        };
        ended(done.map_err(Refused::tell), close(&agent, Duration::ZERO).await)
    })
}

/// Runs one job, and prints its answer.
async fn one(agent: &Agent, user: &str, name: &str, json: bool) -> Result<u8, Refused> {
    let job = named(agent.runtime().store(), user, name).await?;
    agent.end_with_own_messages();
    let shown = one_line(&job.definition.name, MOST_NAME);
    let run = match agent.run_cron_job(&job).await.map_err(|error| refused(&error))? {
        CronBegun::Begun(run) => run,
        CronBegun::Busy(run) => {
            return Err(Refused(FAILED, format!("the job {shown} is running already: {run}")));
        }
        CronBegun::Full => return Err(Refused(FAILED, "the queue of its session is full".into())),
        CronBegun::Gone => {
            return Err(Refused(FAILED, format!("the job {shown} was changed or removed meanwhile: try again")));
        }
    };
    let mut interrupted = Interruptions::listen();
    let outcome = tokio::select! {
        biased;
        by = interrupted.next() => return Ok(leave(agent, &run, by).await),
        outcome = agent.outcome(&run.user, &run.id) => outcome.map_err(|error| refused(&error))?,
    };
    match json {
        true => line(&serde_json::to_string(&outcome).unwrap_or_default()),
        false => show(&outcome),
    }
    Ok(code_of(&outcome))
}

/// Stops a run that a person at the keyboard does not want any more, or leaves it to the next process.
async fn leave(agent: &Agent, run: &AgentRun, by: Interrupted) -> u8 {
    if by == Interrupted::BySystem {
        note("the run is left where it is: pincer cron run --due goes on with it");
        return WAITING;
    }
    let stopped = agent.stop(&run.user, &run.id).await;
    let ended = tokio::time::timeout(STOPPING, agent.outcome(&run.user, &run.id)).await;
    match (stopped, ended) {
        (Ok(_), Ok(Ok(_))) => note("\nstopped"),
        _ => note("\nit is being stopped"),
    }
    INTERRUPTED
}

fn show(outcome: &RunOutcome) {
    match outcome.status {
        Status::Ok => line(&outcome.text()),
        Status::Waiting => note(&waits(outcome)),
        Status::Error | Status::Timeout => note(&format!("error: {}", outcome.error.as_deref().unwrap_or("it failed"))),
    }
}

/// Says what a run waits for, and what to do.
fn waits(outcome: &RunOutcome) -> String {
    let questions = outcome.approvals.iter().map(|question| {
        format!("{} needs an answer: pincer approvals allow {} (or deny)", question.tool, question.approval_id)
    });
    let questions: Vec<String> = questions.collect();
    format!("the run {} waits: {}", outcome.run_id, questions.join("; "))
}

fn code_of(outcome: &RunOutcome) -> u8 {
    match outcome.status {
        Status::Ok => DONE,
        Status::Waiting => WAITING,
        Status::Error | Status::Timeout => FAILED,
    }
}

/// Returns the schedule of an agent, and its news.
fn schedule(agent: &Agent) -> (Cron, mpsc::UnboundedReceiver<CronNews>) {
    let (tell, told) = mpsc::unbounded_channel();
    let cron = Cron::new(agent.clone(), move |news| {
        // The command may be about to end.
        let _ = tell.send(news);
    });
    (cron, told)
}

/// Runs all that is due, and waits for the ends.
async fn due(agent: &Agent, json: bool) -> Result<u8, Refused> {
    agent.end_with_own_messages();
    let (cron, mut told) = schedule(agent);
    let mut interrupted = Interruptions::listen();
    let (mut ran, mut skipped, mut code) = (Vec::new(), Vec::new(), DONE);
    let mut take = |news: CronNews| {
        if !json {
            line(&text(&news));
        }
        match news {
            CronNews::Ended { job, outcome } => {
                code = match (code, code_of(&outcome)) {
                    (FAILED, _) | (_, FAILED) => FAILED,
                    (WAITING, _) | (_, WAITING) => WAITING,
                    _ => DONE,
                };
                ran.push(json!({ "job": job, "outcome": outcome }));
            }
            CronNews::Skipped { job, reason } => skipped.push(json!({ "job": job, "reason": reason })),
            CronNews::Began { .. } => {}
        }
    };
    {
        let running = cron.run_due();
        tokio::pin!(running);
        loop {
            tokio::select! {
                biased;
                by = interrupted.next() => {
                    note("the runs are left where they are: pincer cron run --due goes on with them");
                    return Ok(if by == Interrupted::ByPerson { INTERRUPTED } else { WAITING });
                }
                Some(news) = told.recv() => take(news),
                done = &mut running => {
                    done.map_err(|error| refused(&error))?;
                    break;
                }
            }
        }
    }
    while let Ok(news) = told.try_recv() {
        take(news);
    }
    if json {
        line(&json!({ "ran": ran, "skipped": skipped }).to_string());
    } else if ran.is_empty() && skipped.is_empty() {
        line("nothing is due");
    }
    Ok(code)
}

/// Runs jobs whenever they are due, until the agent is closed, and tells what happens.
pub(crate) async fn keep_running(agent: &Agent, tell: impl Fn(&CronNews)) {
    let (cron, mut told) = schedule(agent);
    let watching = cron.watch();
    tokio::pin!(watching);
    loop {
        tokio::select! {
            biased;
            Some(news) = told.recv() => tell(&news),
            () = &mut watching => return,
        }
    }
}

/// Runs jobs whenever they are due, until this process is to end.
async fn watch(agent: &Agent, json: bool) -> Result<u8, Refused> {
    let mut interrupted = Interruptions::listen();
    note("jobs run when they are due; Ctrl-C ends this, and the next process takes over the runs that go on");
    let tell = |news: &CronNews| match json {
        true => line(&document(news).to_string()),
        false => line(&text(news)),
    };
    tokio::select! {
        biased;
        by = interrupted.next() => Ok(if by == Interrupted::ByPerson { INTERRUPTED } else { DONE }),
        () = keep_running(agent, tell) => Ok(DONE),
    }
}

/// Returns a piece of news as JSON.
pub(crate) fn document(news: &CronNews) -> Value {
    match news {
        CronNews::Began { job, run, session } => {
            json!({ "news": "began", "job": job, "runId": run, "session": session })
        }
        CronNews::Ended { job, outcome } => json!({ "news": "ended", "job": job, "outcome": outcome }),
        CronNews::Skipped { job, reason } => json!({ "news": "skipped", "job": job, "reason": reason }),
    }
}

/// Returns a piece of news as a line for people.
pub(crate) fn text(news: &CronNews) -> String {
    match news {
        CronNews::Began { job, run, .. } => format!("{}: began as {run}", one_line(job, MOST_NAME)),
        CronNews::Skipped { job, reason } => {
            format!("{}: does not run now: {}", one_line(job, MOST_NAME), one_line(reason, MOST_TEXT))
        }
        CronNews::Ended { job, outcome } => {
            let told = match outcome.status {
                Status::Ok => outcome.text(),
                Status::Waiting => waits(outcome),
                Status::Error => format!("failed: {}", outcome.error.as_deref().unwrap_or("it failed")),
                Status::Timeout => format!("timed out: {}", outcome.error.as_deref().unwrap_or_default()),
            };
            format!("{}: {}", one_line(job, MOST_NAME), one_line(&told, MOST_TEXT))
        }
    }
}
