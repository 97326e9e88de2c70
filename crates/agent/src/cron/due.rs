//! Runs what is due: one task and one timer for all jobs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pincer_config::keys;
use pincer_cron::Schedule;
use pincer_store::{
    AgentRunId, AgentRunState, AgentRuns, ChangeWatch, Changes, Clock, CronBegun, CronDue, CronJob, CronJobId,
    CronJobs, CronMissed, CronNow, CronRunState, CronSkip, Leases, Millis, OpenCronRun, SessionKey, Sessions,
    StoreError,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::wall_clock;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::outcome::RunOutcome;

/// The longest that is slept: the clock on the wall may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// The interval at which jobs that other processes have changed are noticed.
const LOOK_FOR_JOBS: Duration = Duration::from_secs(1);
/// The interval at which runs are looked for whose process is gone.
const ADOPT_EVERY: Duration = Duration::from_secs(30);
/// The pause before another attempt when the store does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// A time counts as missed if no process ran jobs for so long after it.
const LATE: Millis = 60_000;
/// The most jobs whose refusals are remembered.
const MOST_REFUSED: usize = 10_000;

/// News of the schedule.
#[derive(Clone, Debug)]
pub enum CronNews {
    /// A job runs.
    Began {
        /// The job's name.
        job: String,
        /// The run.
        run: AgentRunId,
        /// Its session.
        session: SessionKey,
    },
    /// A run has ended, or waits for a person.
    Ended {
        /// The job's name.
        job: String,
        /// Its outcome.
        outcome: Box<RunOutcome>,
    },
    /// A job does not run for a time.
    Skipped {
        /// The job's name.
        job: String,
        /// The reason.
        reason: String,
    },
}

/// Is told news of the schedule.
type Observer = Arc<dyn Fn(CronNews) + Send + Sync>;
/// Tells the time on the wall.
type Wall = Arc<dyn Fn() -> Millis + Send + Sync>;

/// The schedule of a process: it runs the jobs of all users when they are due.
pub struct Cron {
    agent: Agent,
    observer: Observer,
    wall: Wall,
}

/// When the schedule is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// When nothing is due and nothing goes on.
    NothingIsDue,
    /// When the agent is closed.
    Closed,
}

/// Since when jobs are run here. A machine that slept, and a clock that was set forward, were away for as long.
struct Presence {
    since: CronNow,
    last: CronNow,
}

impl Presence {
    fn saw(&mut self, now: CronNow) {
        let longest = Millis::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(Millis::MAX) + LATE;
        let was_away = |now: Millis, last: Millis| now.saturating_sub(last) > longest;
        if was_away(now.wall, self.last.wall) || was_away(now.store, self.last.store) {
            self.since = now;
        }
        self.last = now;
    }
}

/// The work of the schedule in this process.
struct Work {
    open: JoinSet<Option<(String, RunOutcome)>>,
    followed: HashSet<AgentRunId>,
    presence: Presence,
    /// Tells when another process has changed something.
    changes: Box<dyn ChangeWatch>,
    /// The user whose job was run last: those behind come first.
    last_user: Option<String>,
    /// The refusals that were told last, by job. A job of every second would tell the same one for ever.
    refused: HashMap<CronJobId, String>,
}

impl Work {
    /// Notes why a job is refused. Returns whether that is to be told: it is not what was told the last time.
    fn refuses(&mut self, job: &CronJobId, reason: &str) -> bool {
        if self.refused.len() >= MOST_REFUSED {
            self.refused.clear();
        }
        self.refused.insert(job.clone(), reason.to_owned()).as_deref() != Some(reason)
    }
}

impl Cron {
    /// Returns the schedule of an agent. Nothing runs before [`run_due`](Self::run_due) or [`watch`](Self::watch) is called.
    pub fn new(agent: Agent, observer: impl Fn(CronNews) + Send + Sync + 'static) -> Self {
        Self { agent, observer: Arc::new(observer), wall: Arc::new(wall_clock) }
    }

    /// Goes by another clock in place of the one on the wall.
    #[doc(hidden)]
    pub fn with_wall_clock(self, wall: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self { wall: Arc::new(wall), ..self }
    }

    /// Runs all jobs that are due, and goes on with runs of jobs whose process is gone, until each has ended or waits for a person.
    pub async fn run_due(&self) -> Result<(), AgentError> {
        let mut work = self.begin();
        loop {
            match self.step(&mut work, Until::NothingIsDue).await? {
                Some(pause) => self.rest(&mut work, pause).await,
                None => return Ok(()),
            }
            if self.agent.0.closing.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Runs jobs whenever they are due, until the agent is closed.
    pub async fn watch(&self) {
        let mut work = self.begin();
        while !self.agent.0.closing.is_cancelled() {
            let pause = match self.step(&mut work, Until::Closed).await {
                Ok(pause) => pause.unwrap_or(LONGEST_SLEEP),
                Err(error) => {
                    tracing::warn!("the schedule cannot look at its jobs and tries again: {error}");
                    TRY_AGAIN
                }
            };
            self.rest(&mut work, pause).await;
        }
    }

    fn begin(&self) -> Work {
        let now = self.now();
        let presence = Presence { since: now, last: now };
        let changes = self.agent.0.store.watch(LOOK_FOR_JOBS);
        Work {
            open: JoinSet::new(),
            followed: HashSet::new(),
            presence,
            changes,
            last_user: None,
            refused: HashMap::new(),
        }
    }

    fn now(&self) -> CronNow {
        CronNow { wall: (self.wall)(), store: self.agent.0.store.now() }
    }

    fn tell(&self, news: CronNews) {
        (self.observer)(news);
    }

    /// Begins what is due. Returns how long there is nothing to do, or nothing if all is done.
    async fn step(&self, work: &mut Work, until: Until) -> Result<Option<Duration>, AgentError> {
        let now = self.now();
        work.presence.saw(now);
        self.adopt(work).await?;
        let most = self.agent.0.runtime.config().cron.max_concurrent_runs.max(1) as usize;
        self.begin_due(work, now, most).await?;
        let has_room = work.open.len() < most;
        if until == Until::NothingIsDue && work.open.is_empty() {
            return Ok(None);
        }
        let next = self.agent.0.store.next_cron_times().await?;
        let left = next.into_iter().map(|(clock, at)| at.saturating_sub(now.by(clock)).max(10)).min();
        let left = left.and_then(|left| u64::try_from(left).ok()).map(Duration::from_millis);
        Ok(Some(left.filter(|_| has_room).unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)))
    }

    /// Waits until there may be something to do.
    async fn rest(&self, work: &mut Work, pause: Duration) {
        let inner = &self.agent.0;
        let until = Instant::now() + pause.min(ADOPT_EVERY);
        tokio::select! {
            biased;
            () = inner.closing.cancelled() => {}
            Some(ended) = work.open.join_next(), if !work.open.is_empty() => {
                if let Ok(Some((job, outcome))) = ended {
                    work.followed.remove(&outcome.run_id);
                    self.tell(CronNews::Ended { job, outcome: Box::new(outcome) });
                }
            }
            () = inner.cron_changed.notified() => {}
            () = work.changes.changed() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    /// Goes on with runs of jobs that no living process works on.
    async fn adopt(&self, work: &mut Work) -> Result<(), AgentError> {
        let inner = &self.agent.0;
        for open in inner.store.open_cron_runs().await? {
            let of = (open.user.clone(), open.session.clone());
            if work.followed.contains(&open.run) || inner.lock_resting().contains(&of) {
                continue;
            }
            let session = inner.store.current_session(&open.user, &open.session).await?;
            if let Some(owner) = session.and_then(|session| session.owner)
                && owner != *inner.leases.own()
                && inner.leases.is_alive(&owner).await?
            {
                continue;
            }
            let run = match inner.store.agent_run(&open.run).await {
                Ok(run) => run,
                Err(StoreError::Missing { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            self.agent.limit_to(&open.user, &open.session, &open.run);
            inner.engage(&open.user, &open.session);
            if run.state != AgentRunState::Waiting || crate::driver::is_answered(inner, &run).await? {
                self.follow(work, open);
            }
        }
        Ok(())
    }

    /// Waits for the end of a run, in a task of its own.
    fn follow(&self, work: &mut Work, open: OpenCronRun) {
        if !work.followed.insert(open.run.clone()) {
            return;
        }
        let agent = self.agent.clone();
        work.open.spawn(async move {
            let OpenCronRun { name, user, run, .. } = open;
            // Its session may be removed meanwhile.
            Some((name, agent.outcome(&user, &run).await.ok()?))
        });
    }

    /// Begins jobs that are due, as many as may run: one of each user, then the next of each.
    async fn begin_due(&self, work: &mut Work, now: CronNow, most: usize) -> Result<(), AgentError> {
        let inner = &self.agent.0;
        let mut is_second_round = work.last_user.is_none();
        while work.open.len() < most && !inner.closing.is_cancelled() {
            let room = u32::try_from(most - work.open.len()).unwrap_or(u32::MAX);
            let jobs = inner.store.due_cron_jobs(now, work.last_user.as_deref(), room).await?;
            if jobs.is_empty() {
                if is_second_round && work.last_user.is_none() {
                    return Ok(());
                }
                (is_second_round, work.last_user) = (true, None);
                continue;
            }
            is_second_round = false;
            for job in jobs {
                work.last_user = Some(job.user.clone());
                self.begin_job(work, &job, now).await?;
            }
        }
        Ok(())
    }

    /// Begins one job, or stores why it does not run for this time.
    async fn begin_job(&self, work: &mut Work, job: &CronJob, now: CronNow) -> Result<(), AgentError> {
        let clock = job.definition.clock;
        let Some(seen) = job.next_at else { return Ok(()) };
        let schedule = Schedule::parse(&job.definition.schedule);
        let due = match schedule.and_then(|schedule| schedule.next(job.created_at, now.by(clock))) {
            Ok(next_at) => CronDue { seen, next_at },
            Err(error) => {
                let due = CronDue { seen, next_at: None };
                return self.skip(work, job, due, CronRunState::Refused, error.to_string(), true).await;
            }
        };
        let is_missed = seen.saturating_add(LATE) < work.presence.since.by(clock);
        if is_missed && self.missed(job) == CronMissed::Skip {
            let reason = "no process ran jobs when it was due".to_owned();
            return self.skip(work, job, due, CronRunState::Missed, reason, false).await;
        }
        let name = job.definition.name.clone();
        match self.agent.0.begin_cron(job, Some(due)).await {
            Ok(CronBegun::Begun(run)) => {
                work.refused.remove(&job.id);
                self.agent.0.work_on_cron(&run);
                let session = run.session_key.clone();
                self.tell(CronNews::Began { job: name.clone(), run: run.id.clone(), session: session.clone() });
                self.follow(work, OpenCronRun { job: job.id.clone(), name, user: run.user, session, run: run.id });
            }
            Ok(CronBegun::Busy(run)) => {
                self.tell(CronNews::Skipped { job: name, reason: format!("the run before it ({run}) has not ended") });
            }
            Ok(CronBegun::Full) => {
                self.tell(CronNews::Skipped { job: name, reason: "the queue of its session is full".into() });
            }
            Ok(CronBegun::Gone) => {}
            // One that the store will never take must not hold up the others.
            Err(AgentError::Store(error)) if !error.is_final() => return Err(error.into()),
            Err(error) => return self.skip(work, job, due, CronRunState::Refused, error.to_string(), false).await,
        }
        Ok(())
    }

    fn missed(&self, job: &CronJob) -> CronMissed {
        job.definition.missed.unwrap_or(match self.agent.0.runtime.config().cron.missed {
            keys::CronMissed::Run => CronMissed::Run,
            keys::CronMissed::Skip => CronMissed::Skip,
        })
    }

    /// Stores that a job does not run for a time, and tells it once it is stored. The same refusal again is told no more.
    async fn skip(
        &self,
        work: &mut Work,
        job: &CronJob,
        due: CronDue,
        state: CronRunState,
        reason: String,
        turn_off: bool,
    ) -> Result<(), AgentError> {
        let inner = &self.agent.0;
        let keys = &inner.runtime.config().cron;
        let skip = CronSkip {
            job: job.id.clone(),
            version: job.version,
            due,
            state,
            reason: reason.clone(),
            turn_off,
            disable_after: keys.disable_after_failures,
            keep: keys.keep_runs,
            now: inner.store.now(),
        };
        if !inner.store.skip_cron_run(skip).await? {
            return Ok(());
        }
        let name = job.definition.name.clone();
        if state == CronRunState::Refused {
            if !work.refuses(&job.id, &reason) {
                return Ok(());
            }
            tracing::warn!(job = %job.id, "the job {name:?} cannot run: {reason}");
        }
        self.tell(CronNews::Skipped { job: name, reason });
        Ok(())
    }
}
