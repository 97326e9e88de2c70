//! Jobs and their history as JSON, for programs and models.

use pincer_cron::{Schedule, utc};
use pincer_store::{CronAfter, CronClock, CronJob, CronNow, CronRun, Millis};
use serde_json::{Value, json};

use crate::outcome::RunOutcome;

/// Returns a job as JSON.
pub fn cron_job_document(job: &CronJob, now: CronNow) -> Value {
    let definition = &job.definition;
    let next = job.next_at.map(|at| on_the_wall(at, definition.clock, now));
    let state = match (job.is_enabled, job.running.is_some(), job.next_at) {
        (_, true, _) => "running",
        (false, ..) => "off",
        (true, _, Some(_)) => "on",
        (true, _, None) => "over",
    };
    json!({
        "id": job.id,
        "name": definition.name,
        "user": job.user,
        "enabled": job.is_enabled,
        "state": state,
        "schedule": serde_json::from_str::<Value>(&definition.schedule).unwrap_or_default(),
        "nextRunAt": next.map(utc),
        "nextRunAtMs": next,
        "session": job.session_key(),
        "isolated": definition.session.is_none(),
        "agent": definition.agent,
        "model": definition.model,
        "timeoutSeconds": definition.timeout_seconds,
        "message": &*definition.message,
        "missed": definition.missed.map(|missed| missed.as_str()),
        "deleteAfterRun": definition.after == CronAfter::Remove,
        "createdBy": if job.made_by.is_some() { "agent" } else { "person" },
        "createdByRun": job.made_by,
        "channel": definition.channel,
        "sender": definition.sender,
        "route": definition.route,
        "madeIn": definition.author,
        "createdAt": job.created_at,
        "updatedAt": job.updated_at,
        "running": job.running,
        "failures": job.failures,
        "disabledBecause": job.disabled_because,
    })
}

/// Returns a line of the history of a job as JSON.
pub fn cron_run_document(run: &CronRun) -> Value {
    let outcome = run.result.as_deref().and_then(|result| serde_json::from_str::<RunOutcome>(result).ok());
    let text = outcome.map(|outcome| outcome.text()).filter(|text| !text.is_empty());
    json!({
        "number": run.number,
        "state": state_of(run),
        "dueAt": run.due_at,
        "at": run.at,
        "count": run.count,
        "runId": run.run,
        "error": run.error,
        "endedAt": run.ended_at,
        "text": text.filter(|_| run.error.is_none()),
    })
}

/// Returns how a run stands, in a word: of one that has not ended, how far it is.
fn state_of(run: &CronRun) -> &'static str {
    match run.run_state.filter(|_| run.ended_at.is_none()) {
        Some(state) => state.as_str(),
        None => run.state.as_str(),
    }
}

/// Returns the time that the clock on the wall will show.
pub(crate) fn on_the_wall(at: Millis, clock: CronClock, now: CronNow) -> Millis {
    match clock {
        CronClock::Wall => at,
        CronClock::Store => now.wall.saturating_add(at.saturating_sub(now.store)),
    }
}

/// Returns a schedule in a few words, for a table.
pub(crate) fn in_words(schedule: &str) -> String {
    Schedule::parse(schedule).map_or_else(|_| "cannot be read".into(), |schedule| schedule.in_words())
}
