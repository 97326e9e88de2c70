//! Jobs and their runs as a person reads them. Texts of other origin are one line each, with control characters as escapes.

use pincer_agent::RunOutcome;
use pincer_cron::{Schedule, local};
use pincer_store::{CronAfter, CronClock, CronJob, CronNow, CronRun, CronRunState, Millis};
use pincer_tools::one_line;

use crate::commands::sessions::{lasted, table};

/// The most characters of a name, an answer or an error in a line.
const MOST_NAME: usize = 40;
const MOST_TEXT: usize = 100;

pub(super) fn name(job: &CronJob) -> String {
    one_line(&job.definition.name, MOST_NAME)
}

/// Adds that a run goes on.
pub(super) fn with_running(told: String, job: &CronJob) -> String {
    match &job.running {
        Some(run) => {
            format!(
                "{told}; {run} goes on to its end (pincer sessions abort {} stops it)",
                one_line(job.session_key().as_str(), MOST_TEXT)
            )
        }
        None => told,
    }
}

fn on_the_wall(at: Millis, clock: CronClock, now: CronNow) -> Millis {
    at.saturating_sub(now.by(clock)).saturating_add(now.wall)
}

fn schedule(job: &CronJob) -> String {
    Schedule::parse(&job.definition.schedule).map_or_else(|_| "cannot be read".into(), |schedule| schedule.in_words())
}

/// Returns when a job is due next: in its own zone, and how long that is from now.
pub(super) fn next(job: &CronJob, now: CronNow) -> String {
    let Some(at) = job.next_at else {
        return if job.is_enabled { "no more times come".into() } else { "it is off".into() };
    };
    let at = on_the_wall(at, job.definition.clock, now);
    let read = Schedule::parse(&job.definition.schedule).ok();
    let zone = read.as_ref().and_then(Schedule::zone);
    let left = at - now.wall;
    match left > 0 {
        true => format!("next at {} (in {})", local(at, zone), lasted(left)),
        false => format!("due since {} ({} ago)", local(at, zone), lasted(-left)),
    }
}

fn state(job: &CronJob) -> String {
    match (job.is_enabled, &job.running, job.next_at) {
        (true, Some(_), _) => "running".into(),
        (false, Some(_), _) => "off, running".into(),
        (false, None, _) => "off".into(),
        (true, None, Some(_)) => "on".into(),
        (true, None, None) => "over".into(),
    }
}

/// Returns the place that the answers of a job are sent to.
fn place(job: &CronJob) -> Option<String> {
    let route = job.definition.route.as_ref()?;
    let thread =
        route.thread.as_deref().map(|thread| format!(" ({})", one_line(thread, MOST_NAME))).unwrap_or_default();
    Some(format!("{} {}{thread}", route.channel, one_line(&route.to, MOST_NAME)))
}

/// Returns a line of the list.
pub(super) fn row(job: &CronJob, last: Option<&CronRun>, now: CronNow, with_user: bool) -> Vec<String> {
    let last = last.map_or_else(
        || "has not run".into(),
        |run| format!("last {} {} ago", word(run), lasted(now.store - run.ended_at.unwrap_or(run.at))),
    );
    let maker = if job.made_by.is_some() { "by an agent" } else { "" };
    let to = place(job).map_or_else(String::new, |place| format!("to {place}"));
    let mut row = vec![name(job), state(job), one_line(&schedule(job), 60), next(job, now), last, to, maker.into()];
    if with_user {
        row.push(one_line(&job.user, MOST_NAME));
    }
    row
}

/// Returns all that there is to know of a job.
pub(super) fn job(job: &CronJob, now: CronNow) -> String {
    let definition = &job.definition;
    let session = match &definition.session {
        Some(key) => one_line(key.as_str(), MOST_TEXT),
        None => format!("{}, which begins anew with each run", job.session_key()),
    };
    let mut lines = vec![
        format!("{}  {}  {}", name(job), state(job), job.id),
        format!("schedule  {}", one_line(&schedule(job), MOST_TEXT)),
        format!("next      {}", next(job, now)),
        format!("session   {session}"),
    ];
    let mut add = |what: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{what:<9} {}", one_line(&value, MOST_TEXT))));
    };
    add("agent", definition.agent.clone());
    add("model", definition.model.clone());
    add("channel", definition.channel.clone());
    add("sender", definition.sender.clone());
    add("answers", place(job).map(|place| format!("go to {place}")));
    add("timeout", definition.timeout_seconds.map(|seconds| format!("{seconds} s")));
    add("missed", definition.missed.map(|missed| missed.as_str().to_owned()));
    add(
        "then",
        (definition.after == CronAfter::Remove).then(|| "removed when it has run for the last time".to_owned()),
    );
    add("made by", job.made_by.as_ref().map(|run| format!("an agent, in the run {run}")));
    add("failures", (job.failures > 0).then(|| format!("{} in a row", job.failures)));
    add("off", job.disabled_because.clone());
    lines.push("message".into());
    // A line at a time: the message may be long, and all of it counts.
    lines.extend(definition.message.lines().map(|line| format!("  {}", one_line(line, usize::MAX))));
    lines.join("\n")
}

/// Returns how a run stands, in a word.
fn word(run: &CronRun) -> String {
    let word = match run.run_state.filter(|_| run.state == CronRunState::Open) {
        Some(state) => state.as_str(),
        None => run.state.as_str(),
    };
    word.replace('_', " ")
}

/// Returns the history of a job, the latest first.
pub(super) fn runs(job: &CronJob, runs: &[CronRun], now: CronNow) -> String {
    if runs.is_empty() {
        return format!("{} has not run", name(job));
    }
    let row = |run: &CronRun| {
        let times = if run.count > 1 { format!("{} times", run.count) } else { String::new() };
        let answer = || {
            let outcome: RunOutcome = serde_json::from_str(run.result.as_deref()?).ok()?;
            Some(outcome.text())
        };
        let text = run.error.clone().or_else(answer).unwrap_or_default();
        vec![
            local(on_the_wall(run.at, CronClock::Store, now), None),
            word(run),
            times,
            run.ended_at.filter(|_| run.run.is_some()).map_or_else(String::new, |ended| lasted(ended - run.at)),
            run.run.as_ref().map_or_else(String::new, ToString::to_string),
            one_line(&text, MOST_TEXT),
        ]
    };
    table(&runs.iter().map(row).collect::<Vec<_>>())
}
