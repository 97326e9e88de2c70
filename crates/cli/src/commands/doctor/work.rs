//! Checks of open work: sessions that no process works on, and jobs of the schedule.

use std::collections::HashSet;

use pincer_agent::cron_now;
use pincer_config::Config;
use pincer_runtime::Principal;
use pincer_store::{
    AgentRun, AgentRunState, AgentRuns, Clock, CronJob, CronJobs, CronNow, CronPage, CronRun, CronRunState, Leases,
    Millis, SessionKey, Sessions, StoreError,
};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_tools::one_line;
use serde_json::Value;

use super::check::Check;
use super::words::{MOST_REASON, quoted};
use crate::commands::sessions::lasted;
use crate::print::count;

/// How many of one kind are told one by one.
const MOST_TOLD: usize = 20;
/// A job that is due for so long is not about to be run.
const OVERDUE: Millis = 60_000;
/// How long a message may wait for a process if the config does not say so.
const WAITS: Millis = 120_000;
/// How many jobs are read at once.
const PAGE: u32 = 500;

/// Checks the sessions that have work.
pub(super) fn sessions(config: &Config, store: &SqliteStore, leases: &FileLeases) -> Result<Vec<Check>, StoreError> {
    let ready: HashSet<(String, SessionKey)> = store.sessions_to_wake(store.now()).wait()?.into_iter().collect();
    let mut checks = Vec::new();
    for of in store.sessions_with_work().wait()? {
        let is_ready = ready.contains(&of);
        checks.extend(session(config, store, leases, of, is_ready)?);
    }
    Ok(told("sessions", "session", checks, "every open run has a process, or waits for a person"))
}

/// Checks one session, and returns what no process does in it.
fn session(
    config: &Config,
    store: &SqliteStore,
    leases: &FileLeases,
    (user, key): (String, SessionKey),
    is_ready: bool,
) -> Result<Option<Check>, StoreError> {
    let Some(session) = store.current_session(&user, &key).wait()? else { return Ok(None) };
    if let Some(owner) = &session.owner
        && leases.is_alive(owner).wait()?
    {
        return Ok(None);
    }
    let open = store.open_runs(&user, &key).wait()?;
    // A process that has taken the session since may have ended a run.
    if store.current_session(&user, &key).wait()?.is_none_or(|now| now.fence != session.fence) {
        return Ok(None);
    }
    let now = store.now();
    let active = open.iter().find(|run| matches!(run.state, AgentRunState::Running | AgentRunState::Waiting));
    let queued: Vec<&AgentRun> = open.iter().filter(|run| run.state == AgentRunState::Queued).collect();
    let (run, message) = match active {
        Some(run) if run.state == AgentRunState::Running => {
            let since = lasted(now - session.updated_at);
            (run, format!("the run {} is open and its process is gone: nothing has happened in it for {since}", run.id))
        }
        Some(run) if is_ready => {
            let since = lasted(now - session.updated_at);
            (
                run,
                format!(
                    "the run {} began to wait {since} ago, has what it waited for, and no process goes on with it",
                    run.id
                ),
            )
        }
        // A person is asked.
        Some(_) => return Ok(None),
        None => {
            let Some(first) = queued.iter().min_by_key(|run| run.created_at) else { return Ok(None) };
            let limit = config.diagnostics.stuck_session_warn_ms.and_then(|limit| Millis::try_from(limit).ok());
            let waits = now - first.created_at;
            if waits < limit.unwrap_or(WAITS) {
                return Ok(None);
            }
            let messages = count(queued.len(), "message");
            (*first, format!("no process has begun with {messages}, the first accepted {} ago", lasted(waits)))
        }
    };
    let behind = match active.is_some() && !queued.is_empty() {
        true => format!("; behind it: {}", count(queued.len(), "message")),
        false => String::new(),
    };
    let own = Principal::of_this_process();
    let (whose, remedy) = (whose(&user, own.user()), remedy(config, run, user == own.user(), &key));
    let shown = one_line(key.as_str(), MOST_REASON);
    Ok(Some(Check::warn(
        format!("session:{shown}"),
        format!("in the session {shown}{whose}, {message}{behind}"),
        remedy,
    )))
}

fn whose(user: &str, own: &str) -> String {
    if user == own { String::new() } else { format!(" of the user {}", one_line(user, MOST_REASON)) }
}

/// Returns what goes on with a run, and what ends it.
fn remedy(config: &Config, run: &AgentRun, is_own: bool, key: &SessionKey) -> String {
    let request: Value = serde_json::from_str(&run.request).unwrap_or_default();
    let channel = request["channel"].as_str().filter(|name| config.channels.contains_key(*name));
    let goes_on = match channel {
        _ if request["cron"].is_object() => "`pincer cron run --due` goes on with it".to_owned(),
        Some(channel) => format!("`pincer channels start {}` goes on with it", quoted(channel)),
        None if is_own => format!("`pincer agent --session {} --continue` goes on with it", quoted(key.as_str())),
        None => "start the server that this user talks to: it goes on with it".to_owned(),
    };
    match is_own {
        true => format!("{goes_on}; `pincer sessions abort {}` ends it", quoted(key.as_str())),
        false => goes_on,
    }
}

/// Checks the jobs of the schedule.
pub(super) fn cron(config: &Config, store: &SqliteStore) -> Result<Vec<Check>, StoreError> {
    let (now, own) = (cron_now(store), Principal::of_this_process());
    let (mut checks, mut after) = (Vec::new(), None);
    loop {
        let jobs = store.cron_jobs(CronPage { user: None, after, limit: PAGE }).wait()?;
        for found in &jobs {
            checks.extend(job(config, store, found, now, own.user())?);
        }
        after = jobs.last().map(|job| job.id.clone());
        if jobs.len() < PAGE as usize {
            break;
        }
    }
    Ok(told("cron", "job", checks, "no job is overdue, and none failed when it last ran"))
}

/// Checks one job: whether it was turned off for its failures, is overdue, or failed when it last ran.
fn job(
    config: &Config,
    store: &SqliteStore,
    job: &CronJob,
    now: CronNow,
    own: &str,
) -> Result<Option<Check>, StoreError> {
    let CronJob { definition, .. } = job;
    let shown = one_line(&definition.name, MOST_REASON);
    let of = format!("the job {shown}{}", whose(&job.user, own));
    let user = if job.user == own { String::new() } else { format!(" --user {}", quoted(&job.user)) };
    let command = |what: &str| format!("`pincer cron {what} {}{user}`", quoted(&definition.name));
    let mut findings = Vec::new();
    if let Some(reason) = job.disabled_because.as_deref().filter(|_| !job.is_enabled) {
        let message = format!("{of} was turned off: {}", one_line(reason, MOST_REASON));
        findings.push((
            message,
            format!("{} tells what its runs came to; {} turns it on again", command("runs"), command("enable")),
        ));
    }
    let late = job.next_at.map_or(0, |at| now.by(definition.clock) - at);
    if job.is_enabled && job.running.is_none() && late > OVERDUE {
        let remedy = match config.cron.enabled {
            true => "`pincer cron run --due` runs what is due, and with `--watch` whatever comes to be due".to_owned(),
            false => format!("set `cron.enabled` to true, or run it by hand with {}", command("run")),
        };
        let reason = if config.cron.enabled { "no process runs jobs" } else { "`cron.enabled` is false in the config" };
        findings.push((format!("{of} is due since {}: {reason}", lasted(late)), remedy));
    }
    if job.failures > 0 && job.disabled_because.is_none() {
        let runs = store.cron_runs(&job.id, None, 5).wait()?;
        let is_failure =
            |run: &&CronRun| matches!(run.state, CronRunState::Failed | CronRunState::TimedOut | CronRunState::Refused);
        let last = runs.iter().find(is_failure);
        let reason =
            last.and_then(|run| run.error.as_deref()).map(|error| format!(": {}", one_line(error, MOST_REASON)));
        let since = last.and_then(|run| run.ended_at).map(|at| format!(" {} ago", lasted(now.store - at)));
        let again = if job.failures > 1 { format!(", {} times in a row", job.failures) } else { String::new() };
        let (since, reason) = (since.unwrap_or_default(), reason.unwrap_or_default());
        findings.push(match last.map(|run| run.state) {
            // Run by hand, it would be refused again.
            Some(CronRunState::Refused) => (
                format!("{of} was refused when it was last due{since}{again}{reason}"),
                format!(
                    "allow it in the config: {} shows its agent, session and sender; or remove it with {}",
                    command("show"),
                    command("remove")
                ),
            ),
            _ => (
                format!("{of} failed when it last ran{since}{again}{reason}"),
                format!("{} tells more; {} runs it now", command("runs"), command("run")),
            ),
        });
    }
    if findings.is_empty() {
        return Ok(None);
    }
    let (messages, remedies): (Vec<String>, Vec<String>) = findings.into_iter().unzip();
    Ok(Some(Check::warn(format!("job:{shown}"), messages.join("\n"), remedies.join("\n"))))
}

/// Returns some findings one by one, and how many more there are. Without any, that is one finding too.
fn told(name: &str, what: &str, mut checks: Vec<Check>, fine: &str) -> Vec<Check> {
    let more = checks.len().saturating_sub(MOST_TOLD);
    checks.truncate(MOST_TOLD);
    if more > 0 {
        let remedy = "follow the remedies above, and run `pincer doctor` again";
        checks.push(Check::warn(name, format!("{} more like these", count(more, what)), remedy));
    }
    if checks.is_empty() {
        checks.push(Check::ok(name, fine));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_told_than_a_person_reads() {
        let many =
            |count: usize| (0..count).map(|number| Check::warn(format!("job:{number}"), "late", "run it")).collect();
        assert_eq!(told("cron", "job", Vec::new(), "fine"), [Check::ok("cron", "fine")]);
        assert_eq!(told("cron", "job", many(20), "fine").len(), 20);
        let told = told("cron", "job", many(23), "fine");
        assert_eq!((told.len(), told[20].message.as_str()), (21, "3 jobs more like these"));
    }
}
