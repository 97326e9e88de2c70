//! Makes jobs of what people and agents wish for, and turns them on and off.

use pincer_cron::Schedule;
use pincer_sessions::key_complaint;
use pincer_store::{
    AgentRunId, CronAfter, CronChange, CronClock, CronDefinition, CronJob, CronJobId, CronJobs, CronMissed, NewCronJob,
    Route, SessionKey,
};
use pincer_store_sqlite::SqliteStore;
use uuid::Uuid;

use super::cron_now;
use crate::error::AgentError;

/// The longest name of a job, in bytes.
const LONGEST_NAME: usize = 100;
/// The longest message of a job, in bytes.
const LONGEST_MESSAGE: usize = 256 << 10;
/// The most jobs of a user that agents may have made.
const MOST_BY_AGENTS: u32 = 100;

/// When a job is to run, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Once: `2026-01-31T09:00`, or `20m` from now.
    At(String),
    /// Every so often: `10m`.
    Every(String),
    /// By a cron expression.
    Cron(String),
}

/// The session that a job runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobSession {
    /// One of its own, which begins anew with each run.
    Isolated,
    /// This one, as it is.
    Named(SessionKey),
}

/// A job to be made.
#[derive(Clone, Debug)]
pub struct JobWish {
    /// Its user.
    pub user: String,
    /// Its name.
    pub name: String,
    /// When it is to run.
    pub when: When,
    /// The time zone of `when`. If absent, the system's.
    pub zone: Option<String>,
    /// The text that the agent is sent.
    pub message: String,
    /// The session that it runs in.
    pub session: JobSession,
    /// The agent's id in the config.
    pub agent: Option<String>,
    /// The model, as `provider/model`.
    pub model: Option<String>,
    /// The longest that a run may take.
    pub timeout_seconds: Option<u64>,
    /// The channel that its messages come by, for rules.
    pub channel: Option<String>,
    /// The name under which rules know their sender.
    pub sender: Option<String>,
    /// The place that its answers are sent to.
    pub route: Option<Route>,
    /// The rule for times at which no process ran jobs.
    pub missed: Option<CronMissed>,
    /// The rule for the job when no more times come.
    pub after: CronAfter,
    /// The run of an agent that makes it, if no person does.
    pub made_by: Option<JobMaker>,
}

/// The run of an agent that makes a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMaker {
    /// The run.
    pub run: AgentRunId,
    /// Its session.
    pub session: SessionKey,
}

impl JobWish {
    /// Makes the wish for a job of a person: with a session of its own, in the time zone of the system, under the rules of the config.
    pub fn new(user: &str, name: &str, when: When, message: &str) -> Self {
        Self {
            user: user.to_owned(),
            name: name.to_owned(),
            when,
            zone: None,
            message: message.to_owned(),
            session: JobSession::Isolated,
            agent: None,
            model: None,
            timeout_seconds: None,
            channel: None,
            sender: None,
            route: None,
            missed: None,
            after: CronAfter::Keep,
            made_by: None,
        }
    }
}

impl When {
    /// Returns the schedule that this means at a time.
    pub(crate) fn schedule(&self, zone: Option<&str>, wall: i64) -> Result<Schedule, AgentError> {
        Ok(match self {
            Self::At(text) => Schedule::at(text, zone, wall)?,
            Self::Every(text) => Schedule::every(text)?,
            Self::Cron(text) => Schedule::cron(text, zone)?,
        })
    }
}

/// Returns the clock that a schedule goes by: an hour is an hour, whatever happens to the clock on the wall meanwhile.
pub(crate) fn clock_of(schedule: &Schedule) -> CronClock {
    if schedule.is_elapsed() { CronClock::Store } else { CronClock::Wall }
}

/// Fails if a job cannot have this name, message and session.
pub(crate) fn check_job(name: &str, message: &str, session: Option<&SessionKey>) -> Result<(), AgentError> {
    let refused = |reason| Err(AgentError::Job { name: name.to_owned(), reason });
    if name.trim().is_empty() {
        return refused("it needs a name");
    }
    if name.len() > LONGEST_NAME {
        return refused("its name is longer than 100 bytes");
    }
    if name.chars().any(char::is_control) {
        return refused("its name has control characters in it");
    }
    if message.trim().is_empty() {
        return refused("it has no message for the agent");
    }
    if message.len() > LONGEST_MESSAGE {
        return refused("its message is longer than 256 KiB: put the text into a file of the workspace and name that");
    }
    match session.and_then(|key| Some((key, key_complaint(key.as_str())?))) {
        Some((key, reason)) => Err(AgentError::Key { key: key.to_string(), reason }),
        None => Ok(()),
    }
}

/// Stores a job. Whether its agent and model are there is seen when it runs.
pub async fn add_cron_job(store: &SqliteStore, wish: JobWish) -> Result<CronJob, AgentError> {
    let now = cron_now(store);
    let schedule = wish.when.schedule(wish.zone.as_deref(), now.wall)?;
    let session = match wish.session {
        JobSession::Isolated => None,
        JobSession::Named(key) => Some(key),
    };
    check_job(&wish.name, &wish.message, session.as_ref())?;
    let clock = clock_of(&schedule);
    let next_at = schedule.next(now.store, now.by(clock))?;
    let (made_by, author) = wish.made_by.map(|maker| (maker.run, maker.session)).unzip();
    let definition = CronDefinition {
        name: wish.name,
        schedule: schedule.to_json().into(),
        clock,
        session,
        agent: wish.agent,
        model: wish.model,
        timeout_seconds: wish.timeout_seconds,
        message: wish.message.into(),
        channel: wish.channel,
        sender: wish.sender,
        route: wish.route,
        author,
        missed: wish.missed,
        after: wish.after,
    };
    let (id, user) = (CronJobId::from(format!("cj_{}", Uuid::now_v7())), wish.user);
    let new = NewCronJob { id, user, definition, next_at, made_by, most_by_agents: MOST_BY_AGENTS, now: now.store };
    Ok(store.create_cron_job(new).await?)
}

/// Turns a job on or off. One that is on already keeps its next time.
pub async fn set_cron_job_enabled(store: &SqliteStore, job: &CronJob, is_enabled: bool) -> Result<CronJob, AgentError> {
    if job.is_enabled == is_enabled {
        return Ok(job.clone());
    }
    let next_at = match is_enabled {
        true => Some(next_of(store, job, &job.definition)?),
        false => None,
    };
    let change = CronChange {
        seen: job.version,
        definition: job.definition.clone(),
        is_enabled,
        next_at,
        now: cron_now(store).store,
    };
    Ok(store.change_cron_job(&job.id, change).await?)
}

/// Returns when a job is due next with a definition. One whose only time has gone by never is.
pub(crate) fn next_of(store: &SqliteStore, job: &CronJob, definition: &CronDefinition) -> Result<i64, AgentError> {
    let now = cron_now(store);
    let next = Schedule::parse(&definition.schedule)?.next(job.created_at, now.by(definition.clock))?;
    let name = definition.name.clone();
    next.ok_or(AgentError::Job { name, reason: "its time has gone by: add it again with another one" })
}
