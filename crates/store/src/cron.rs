//! Jobs of the schedule, and their history.
//!
//! A job is run in the commit that accepts the message of its run, and that commit names the time for which it does so. So whatever
//! dies when, and however many processes look at the same job, a time is run for once. The end of a run is part of the history in the
//! commit that ends the run.
//!
//! A store does not read schedules: its caller computes the next time of a job and passes it in.

use std::sync::Arc;

use crate::states::words;
use crate::{AgentRun, AgentRunId, AgentRunState, CronJobId, Millis, NewAgentRun, Reply, Route, SessionKey};

/// The clock by which a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CronClock {
    /// The one on the wall, which people set.
    Wall,
    /// Store time, which never goes back.
    Store,
}

words!(CronClock { Wall = "wall", Store = "store" });

impl CronClock {
    /// Both clocks.
    pub const ALL: [Self; 2] = [Self::Wall, Self::Store];
}

/// The times of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronNow {
    /// The one on the wall.
    pub wall: Millis,
    /// Store time.
    pub store: Millis,
}

impl CronNow {
    /// Returns what a clock shows.
    pub fn by(self, clock: CronClock) -> Millis {
        match clock {
            CronClock::Wall => self.wall,
            CronClock::Store => self.store,
        }
    }
}

/// The rule for times at which no process ran jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CronMissed {
    /// The job runs once for all of them, late.
    Run,
    /// They are skipped.
    Skip,
}

words!(CronMissed { Run = "run", Skip = "skip" });

/// The rule for a job that has run for the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CronAfter {
    /// The job stays, with its history.
    #[default]
    Keep,
    /// The job is removed, unless the run came to nothing.
    Remove,
}

words!(CronAfter { Keep = "keep", Remove = "remove" });

/// The definition of a job: its times, its message, and the agent that gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronDefinition {
    /// Its name, unique among the jobs of its user.
    pub name: String,
    /// Its schedule, as JSON.
    pub schedule: Arc<str>,
    /// The clock that its schedule goes by.
    pub clock: CronClock,
    /// The session that it runs in. `None` is one of its own, which begins anew with each run.
    pub session: Option<SessionKey>,
    /// The agent's id in the config.
    pub agent: Option<String>,
    /// The model, as `provider/model`.
    pub model: Option<String>,
    /// The longest that a run may take, in seconds.
    pub timeout_seconds: Option<u64>,
    /// The text that the agent is sent.
    pub message: Arc<str>,
    /// The channel that the message comes by, for rules.
    pub channel: Option<String>,
    /// The name under which rules know the sender.
    pub sender: Option<String>,
    /// The place that its answers are sent to.
    pub route: Option<Route>,
    /// The session of the run that its message comes from. `None` is a person.
    pub author: Option<SessionKey>,
    /// The rule for times at which no process ran jobs. If absent, that of the config.
    pub missed: Option<CronMissed>,
    /// The rule for the job when no more times come.
    pub after: CronAfter,
}

/// A job to be stored.
#[derive(Clone, Debug)]
pub struct NewCronJob {
    /// Its id.
    pub id: CronJobId,
    /// Its user.
    pub user: String,
    /// Its definition.
    pub definition: CronDefinition,
    /// When it is due for the first time.
    pub next_at: Option<Millis>,
    /// The run of an agent that makes it, if no person does.
    pub made_by: Option<AgentRunId>,
    /// The most jobs of this user that agents may have made, this one included. Only for one that an agent makes.
    pub most_by_agents: u32,
    /// The time.
    pub now: Millis,
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJob {
    /// Its id.
    pub id: CronJobId,
    /// Its user.
    pub user: String,
    /// Its definition.
    pub definition: CronDefinition,
    /// Changes whenever the definition does, or whether it is turned on.
    pub version: u32,
    /// Whether it runs by itself.
    pub is_enabled: bool,
    /// The reason why it was turned off, if no person did it.
    pub disabled_because: Option<String>,
    /// When it is due next, by its clock.
    pub next_at: Option<Millis>,
    /// The run that has not ended.
    pub running: Option<AgentRunId>,
    /// The number of failed runs since the last one that did not fail.
    pub failures: u32,
    /// The run of an agent that made it, if no person did.
    pub made_by: Option<AgentRunId>,
    /// When it was made.
    pub created_at: Millis,
    /// When its definition last changed.
    pub updated_at: Millis,
}

impl CronJob {
    /// Returns the key of the session that belongs to a job.
    pub fn own_session(id: &CronJobId) -> SessionKey {
        format!("cron:{id}").into()
    }

    /// Returns the key of the session that it runs in.
    pub fn session_key(&self) -> SessionKey {
        self.definition.session.clone().unwrap_or_else(|| Self::own_session(&self.id))
    }
}

/// A change of a job.
#[derive(Clone, Debug)]
pub struct CronChange {
    /// The version that the change is made of.
    pub seen: u32,
    /// The new definition.
    pub definition: CronDefinition,
    /// Whether it runs by itself from now on.
    pub is_enabled: bool,
    /// When it is due next. Ignored if it is turned off.
    pub next_at: Option<Millis>,
    /// The time.
    pub now: Millis,
}

/// The jobs that are listed, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct CronPage {
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those that were made after this one.
    pub after: Option<CronJobId>,
    /// The most that are listed.
    pub limit: u32,
}

/// The time for which a job is run, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronDue {
    /// The time at which it was due, by its clock. If the job is due at another one by now, nothing happens.
    pub seen: Millis,
    /// When it is due next.
    pub next_at: Option<Millis>,
}

/// The run of a job that is to begin.
#[derive(Clone, Debug)]
pub struct CronBegin {
    /// The job.
    pub job: CronJobId,
    /// The version of it that the message is made of.
    pub version: u32,
    /// The time for which it runs. `None` is by hand: then its next time stays.
    pub due: Option<CronDue>,
    /// The message.
    pub run: NewAgentRun,
    /// The number of failures in a row that turns the job off.
    pub disable_after: Option<u32>,
    /// The number of runs that are kept in its history.
    pub keep: u32,
}

/// The outcome of beginning the run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronBegun {
    /// The run is accepted.
    Begun(Box<AgentRun>),
    /// The run before it has not ended. If the job was due, that is part of its history now.
    Busy(AgentRunId),
    /// The queue of its session is full. If the job was due, that is part of its history now.
    Full,
    /// The job was changed, turned off or removed, or was run for this time by another process.
    Gone,
}

/// A time for which a job does not run.
#[derive(Clone, Debug)]
pub struct CronSkip {
    /// The job.
    pub job: CronJobId,
    /// The version of it that was seen.
    pub version: u32,
    /// The time.
    pub due: CronDue,
    /// The reason as a word: [`Missed`](CronRunState::Missed) or [`Refused`](CronRunState::Refused), which is a failure.
    pub state: CronRunState,
    /// The reason, for people.
    pub reason: String,
    /// Turns the job off: no next time can be told, and the reason says why.
    pub turn_off: bool,
    /// The number of failures in a row that turns the job off.
    pub disable_after: Option<u32>,
    /// The number of runs that are kept in its history.
    pub keep: u32,
    /// The time.
    pub now: Millis,
}

/// The state of a job's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CronRunState {
    /// The run has not ended.
    Open,
    /// The run has its answer.
    Done,
    /// The run failed.
    Failed,
    /// The run was stopped.
    Aborted,
    /// The run took longer than it may.
    TimedOut,
    /// The run gave way in the queue of its session.
    Dropped,
    /// The run did not begin, because the run before it had not ended.
    Skipped,
    /// The run did not begin, because no process ran jobs when it was due.
    Missed,
    /// The run could not begin.
    Refused,
}

words!(CronRunState {
    Open = "open",
    Done = "done",
    Failed = "failed",
    Aborted = "aborted",
    TimedOut = "timed_out",
    Dropped = "dropped",
    Skipped = "skipped",
    Missed = "missed",
    Refused = "refused",
});

/// A run of a job, or times at which it did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronRun {
    /// Its place in the history.
    pub number: i64,
    /// The time for which it ran, by the job's clock. `None` is by hand.
    pub due_at: Option<Millis>,
    /// When that happened.
    pub at: Millis,
    /// Its state.
    pub state: CronRunState,
    /// The number of times in a row that came to this.
    pub count: u32,
    /// The run of its agent.
    pub run: Option<AgentRunId>,
    /// The state of that run, as long as it is kept.
    pub run_state: Option<AgentRunState>,
    /// The result of that run as JSON, as long as it is kept.
    pub result: Option<String>,
    /// The reason why there is no answer.
    pub error: Option<String>,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// A run of a job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCronRun {
    /// The job.
    pub job: CronJobId,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// The session.
    pub session: SessionKey,
    /// The run.
    pub run: AgentRunId,
}

/// Jobs of the schedule.
pub trait CronJobs {
    /// Stores a job. Fails with [`StoreError::Exists`](crate::StoreError::Exists) if its user has one of this name, and with
    /// [`StoreError::TooManyJobs`](crate::StoreError::TooManyJobs) if agents have made as many as they may.
    fn create_cron_job(&self, job: NewCronJob) -> Reply<CronJob>;
    /// Returns the job with this id.
    fn cron_job(&self, id: &CronJobId) -> Reply<CronJob>;
    /// Returns the job of a user with this name, or with this id; its beginning is enough if no other has it.
    fn cron_job_named(&self, user: &str, name: &str) -> Reply<CronJob>;
    /// Returns one page of jobs.
    fn cron_jobs(&self, page: CronPage) -> Reply<Vec<CronJob>>;
    /// Changes a job. Fails with [`StoreError::JobChanged`](crate::StoreError::JobChanged) if it has changed since, and with
    /// [`StoreError::Exists`](crate::StoreError::Exists) if another one has the new name. A run that has not ended goes on as it began.
    fn change_cron_job(&self, id: &CronJobId, change: CronChange) -> Reply<CronJob>;
    /// Removes a job with its history. A run that has not ended goes on.
    fn remove_cron_job(&self, id: &CronJobId) -> Reply<()>;
    /// Returns jobs that are due: of each user the one that is due for longest, in the order of the users' names, beginning behind
    /// `after`.
    fn due_cron_jobs(&self, now: CronNow, after: Option<&str>, limit: u32) -> Reply<Vec<CronJob>>;
    /// Returns when the first job is due, by each clock.
    fn next_cron_times(&self) -> Reply<Vec<(CronClock, Millis)>>;
    /// Stores the message of a run, and that the job runs. All or nothing of it happens.
    fn begin_cron_run(&self, begin: CronBegin) -> Reply<CronBegun>;
    /// Stores that a job does not run for a time. Returns `false` if that time is no longer its next, or it has changed.
    fn skip_cron_run(&self, skip: CronSkip) -> Reply<bool>;
    /// Returns the history of a job, the latest first: the part before this number, if one is given.
    fn cron_runs(&self, id: &CronJobId, before: Option<i64>, limit: u32) -> Reply<Vec<CronRun>>;
    /// Returns the runs of all jobs that have not ended, the oldest first.
    fn open_cron_runs(&self) -> Reply<Vec<OpenCronRun>>;
}
