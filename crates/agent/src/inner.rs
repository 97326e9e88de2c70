//! What all parts of an agent share: the sessions that this process works on, the runs that go on here, and the watch over both.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pincer_catalog::nearest;
use pincer_runtime::{ModelSetup, Runtime};
use pincer_sessions::new_session_id;
use pincer_store::{
    Accepted, AgentRun, AgentRunId, AgentRunState, AgentRuns, Changes, Clock, NewAgentRun, RunId, Runs, SessionKey,
    Sessions, Stopped, StoreError,
};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::claimed::{StopReason, StopSign};
use crate::delivering::bare_answer;
use crate::driver::drive;
use crate::error::AgentError;
use crate::feed::Feed;
use crate::hooks::Observing;
use crate::liveness::Liveness;
use crate::outcome::{MAIN, Payload, RunOutcome, Status, Summary};
use crate::request::{QueueMode, Request};
use crate::settings::{SessionSettings, most_in_background, most_runs, queue};
use crate::slots::Slots;
use crate::telemetry::DirectWeights;

/// How often news of other processes are looked for.
pub(crate) const LOOK_FOR_NEWS: Duration = Duration::from_millis(200);
/// How often they are looked for anyway.
pub(crate) const LOOK_ANYWAY: Duration = Duration::from_secs(1);

/// How often old sessions are looked for while messages come.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);

pub(crate) struct Inner {
    pub runtime: Arc<Runtime>,
    pub models: ModelSetup,
    pub store: Arc<SqliteStore>,
    pub leases: Arc<FileLeases>,
    pub slots: Slots,
    pub closing: CancellationToken,
    /// Hooks that observe are told here.
    pub observing: Observing,
    /// The reason why the store takes no steps of runs at the moment.
    pub trouble: watch::Sender<Option<String>>,
    pub liveness: Liveness,
    pub direct_weights: DirectWeights,
    drivers: Mutex<HashMap<(String, SessionKey), Driver>>,
    live: Mutex<HashMap<AgentRunId, (Arc<Feed>, StopSign)>>,
    /// This process works on its own messages, and on those before them, but on none behind them.
    pub ends_with_its_own: AtomicBool,
    /// The last run of a session that this process works on, if not all of them.
    last: Mutex<HashMap<(String, SessionKey), AgentRunId>>,
    /// Sessions whose runs wait, and which this process is to go on with.
    resting: Mutex<HashSet<(String, SessionKey)>>,
    /// The sessions that commands of this process change, each with how many do: no run begins in them meanwhile.
    held: Mutex<HashMap<(String, SessionKey), usize>>,
    /// Commands of one session are obeyed one after the other.
    commands: Mutex<HashMap<(String, SessionKey), CommandTurn>>,
    watching: Mutex<bool>,
    /// When old sessions were last looked for.
    pruned_at: Mutex<Option<Instant>>,
    drivers_made: AtomicU64,
    /// Told when jobs of the schedule have changed in this process.
    pub cron_changed: Notify,
    /// Counts what has happened in this process.
    news: watch::Sender<u64>,
    own: Weak<Inner>,
}

/// The turn of a command, for as long as one has it or waits for it.
type CommandTurn = Weak<tokio::sync::Mutex<()>>;

/// A task of this process that works on a session.
pub(crate) struct Driver {
    wake: Arc<Notify>,
    is_wanted: bool,
    number: u64,
}

/// Removes a driver whose task has ended, however it ended.
struct Driving {
    agent: Arc<Inner>,
    of: (String, SessionKey),
    number: u64,
}

impl Drop for Driving {
    fn drop(&mut self) {
        let mut drivers = self.agent.lock_drivers();
        if drivers.get(&self.of).is_some_and(|driver| driver.number == self.number) {
            drivers.remove(&self.of);
        }
    }
}

impl Inner {
    pub(crate) fn new(runtime: Arc<Runtime>, models: ModelSetup) -> Arc<Self> {
        let slots = Slots::new(most_runs(runtime.config()), most_in_background(runtime.config()));
        Arc::new_cyclic(|own| Self {
            store: Arc::clone(runtime.store()),
            leases: Arc::clone(runtime.leases()),
            runtime,
            models,
            slots,
            closing: CancellationToken::new(),
            observing: Observing::default(),
            trouble: watch::Sender::new(None),
            liveness: Liveness::default(),
            direct_weights: DirectWeights::default(),
            drivers: Mutex::default(),
            live: Mutex::default(),
            ends_with_its_own: AtomicBool::new(false),
            last: Mutex::default(),
            resting: Mutex::default(),
            held: Mutex::default(),
            commands: Mutex::default(),
            watching: Mutex::default(),
            pruned_at: Mutex::default(),
            drivers_made: AtomicU64::new(0),
            cron_changed: Notify::new(),
            news: watch::Sender::new(0),
            own: own.clone(),
        })
    }

    pub(crate) fn lock_drivers(&self) -> MutexGuard<'_, HashMap<(String, SessionKey), Driver>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_live(&self) -> MutexGuard<'_, HashMap<AgentRunId, (Arc<Feed>, StopSign)>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_resting(&self) -> MutexGuard<'_, HashSet<(String, SessionKey)>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_held(&self) -> MutexGuard<'_, HashMap<(String, SessionKey), usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has no run begin in a session until the guard is dropped.
    pub(crate) fn hold(&self, user: &str, key: &SessionKey) -> Held<'_> {
        let of = (user.to_owned(), key.clone());
        *self.lock_held().entry(of.clone()).or_default() += 1;
        Held { agent: self, of }
    }

    /// Returns whether a command of this process changes a session.
    pub(crate) fn is_held(&self, user: &str, key: &SessionKey) -> bool {
        self.lock_held().contains_key(&(user.to_owned(), key.clone()))
    }

    /// Waits for the commands of a session that came before.
    pub(crate) async fn turn_to_obey(&self, user: &str, key: &SessionKey) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            commands.retain(|_, turn| turn.strong_count() > 0);
            let of = (user.to_owned(), key.clone());
            commands.get(&of).and_then(Weak::upgrade).unwrap_or_else(|| {
                let turn = Arc::default();
                commands.insert(of, Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }

    /// Forgets sessions that are older than the config keeps them, unless that was done a short while ago.
    pub(crate) fn forget_old_sessions(&self) {
        let Some(days) = self.runtime.config().session.maintenance.prune_after_days else { return };
        {
            let mut pruned_at = self.pruned_at.lock().unwrap_or_else(PoisonError::into_inner);
            if pruned_at.is_some_and(|at| at.elapsed() < PRUNE_EVERY) {
                return;
            }
            *pruned_at = Some(Instant::now());
        }
        let age = i64::try_from(days.saturating_mul(24 * 3600 * 1000)).unwrap_or(i64::MAX);
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            // A few at a time: other processes use the store too.
            while store.forget_sessions(store.now().saturating_sub(age)).await.is_ok_and(|count| count > 0) {}
        });
    }

    /// Has this process work on a session until this run has ended, and leave the runs behind it to others.
    pub(crate) fn work_until(&self, user: &str, key: &SessionKey, run: &AgentRunId) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.insert((user.to_owned(), key.clone()), run.clone());
    }

    /// Returns whether the last run that this process was to work on has ended.
    pub(crate) async fn has_done_its_last(&self, user: &str, key: &SessionKey) -> Result<bool, StoreError> {
        let of = (user.to_owned(), key.clone());
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).get(&of).cloned();
        let Some(last) = last else { return Ok(false) };
        let mut run = self.store.agent_run(&last).await?;
        while let (AgentRunState::Merged, Some(into)) = (run.state, &run.merged_into) {
            run = self.store.agent_run(into).await?;
        }
        Ok(run.state.is_final())
    }

    /// Says that something has happened.
    pub(crate) fn tell_news(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    pub(crate) async fn session_queue(
        &self,
        user: &str,
        key: &SessionKey,
        request: &Request,
    ) -> Result<crate::settings::Queue, StoreError> {
        let session = self.store.current_session(user, key).await?;
        let settings = session.map(|session| SessionSettings::parse(&session.settings)).unwrap_or_default();
        Ok(queue(self.runtime.config(), &settings, request.channel.as_deref(), request.queue))
    }

    /// Stores a message, without the commands in it. One that needs no model is stored with its answer.
    pub(crate) async fn accept(
        &self,
        user: &str,
        key: &SessionKey,
        sent: &Request,
        id: Option<String>,
        digest: &[u8],
        answer: Option<&str>,
    ) -> Result<Accepted, AgentError> {
        let run = self.new_run(user, key, sent, id, digest, answer).await?;
        let accepted = self.store.accept_run(run).await?;
        if let Accepted::New { dropped, .. } = &accepted {
            self.tell_left_out(user, sent, dropped).await;
        }
        Ok(accepted)
    }

    /// Returns the run of a message, as it is to be stored.
    pub(crate) async fn new_run(
        &self,
        user: &str,
        key: &SessionKey,
        sent: &Request,
        id: Option<String>,
        digest: &[u8],
        answer: Option<&str>,
    ) -> Result<NewAgentRun, AgentError> {
        let queue = self.session_queue(user, key, sent).await?;
        let is_busy = self.store.open_runs(user, key).await?.iter().any(|run| !run.state.is_final());
        let debounce_ms = (is_busy && queue.mode == QueueMode::Collect).then_some(queue.debounce_ms);
        let stored = Request { queue: Some(queue.mode), debounce_ms, was_queued: is_busy, ..sent.clone() };
        let text = serde_json::to_string(&stored).unwrap_or_default();
        let run_id = AgentRunId::from(format!("ar_{}", Uuid::now_v7()));
        let outcome = answer.map(|text| {
            let (status, summary) = (Status::Ok, Summary::Completed);
            let mut outcome = RunOutcome::new(run_id.clone(), key.clone(), sent.agent.clone(), status, summary);
            outcome.result.payloads.push(Payload { text: text.to_owned(), ..Payload::default() });
            outcome
        });
        let now = self.store.now();
        let sent_for = |outcome| bare_answer(self.runtime.config(), user, sent, outcome, now).pop();
        Ok(NewAgentRun {
            id: run_id,
            delivery: outcome.as_ref().and_then(sent_for),
            answer: outcome.map(|outcome| outcome.to_json().into()),
            user: user.to_owned(),
            session: key.clone(),
            agent: sent.agent.clone(),
            new_session: new_session_id(),
            key: id,
            digest: digest.to_vec(),
            rank: if queue.mode == QueueMode::Interrupt || sent.is_first { -1 } else { 0 },
            request: text.into(),
            brief: serde_json::to_string(&sent.brief()).unwrap_or_default().into(),
            queue: queue.limit,
            now,
        })
    }

    /// Fails if there is no agent of this name in the config.
    pub(crate) fn check_agent(&self, id: Option<&str>) -> Result<(), AgentError> {
        let Some(id) = id else { return Ok(()) };
        let config = self.runtime.config();
        if config.agent(id).is_some() || id == MAIN {
            return Ok(());
        }
        let known = config.agents.keys().filter(|known| *known != pincer_config::Config::DEFAULTS);
        let near = nearest(id, known.map(|known| (known.clone(), known.clone())), 1).pop();
        Err(AgentError::NoAgent { id: id.to_owned(), near })
    }

    /// Sees to it that this process works on a session.
    pub(crate) fn engage(&self, user: &str, key: &SessionKey) {
        if self.closing.is_cancelled() {
            return;
        }
        let mut drivers = self.lock_drivers();
        let of = (user.to_owned(), key.clone());
        if let Some(driver) = drivers.get_mut(&of) {
            driver.is_wanted = true;
            driver.wake.notify_one();
            return;
        }
        let Some(own) = self.own.upgrade() else { return };
        let number = self.drivers_made.fetch_add(1, Ordering::SeqCst);
        drivers.insert(of.clone(), Driver { wake: Arc::new(Notify::new()), is_wanted: false, number });
        drop(drivers);
        self.lock_resting().remove(&of);
        let (user, key) = of.clone();
        let driving = Driving { agent: Arc::clone(&own), of, number };
        tokio::spawn(async move {
            let _driving = driving;
            drive(own, user, key).await;
        });
    }

    pub(crate) fn wake(&self, user: &str, key: &SessionKey) -> Arc<Notify> {
        let of = (user.to_owned(), key.clone());
        let drivers = self.lock_drivers();
        drivers.get(&of).map_or_else(Default::default, |driver| Arc::clone(&driver.wake))
    }

    pub(crate) fn wake_all(&self) {
        self.lock_drivers().values().for_each(|driver| driver.wake.notify_one());
        self.tell_news();
    }

    /// Ends the work on a session, unless there is new work.
    pub(crate) fn leave(&self, user: &str, key: &SessionKey) -> bool {
        let mut drivers = self.lock_drivers();
        let of = (user.to_owned(), key.clone());
        let is_wanted = drivers.get_mut(&of).is_some_and(|driver| std::mem::take(&mut driver.is_wanted));
        if !is_wanted {
            drivers.remove(&of);
            drop(drivers);
            self.tell_news();
        }
        !is_wanted
    }

    /// Ends the work on a session until its run can go on, unless there is new work.
    pub(crate) fn rest(self: &Arc<Self>, user: &str, key: &SessionKey) -> bool {
        let of = (user.to_owned(), key.clone());
        self.lock_resting().insert(of);
        let has_left = self.leave(user, key);
        if has_left {
            self.watch();
        }
        has_left
    }

    /// Ends the work on a session whatever there is to do.
    pub(crate) fn abandon(&self, user: &str, key: &SessionKey) {
        self.lock_drivers().remove(&(user.to_owned(), key.clone()));
        self.tell_news();
    }

    /// Stores that a run is to be stopped. One that has not begun ends with that.
    pub(crate) async fn ask_to_stop(&self, run: &AgentRun) -> Result<Stopped, StoreError> {
        let mut outcome = RunOutcome::bare(run, None, Status::Error, Summary::Aborted);
        outcome.error = Some("it was stopped before it began".into());
        outcome.stop_reason = Some("aborted".into());
        self.store.stop_run(&run.id, outcome.to_json().into(), self.store.now()).await
    }

    /// Returns the programs of a run that have not ended.
    pub(crate) async fn programs(&self, id: &AgentRunId) -> Vec<RunId> {
        self.store.runs_of_agent(id).await.unwrap_or_default()
    }

    /// Ends what goes on here of programs whose run has ended. In the store they ended with it.
    pub(crate) async fn end_programs(&self, programs: &[RunId]) {
        if let Err(error) = self.runtime.abort_programs(programs).await {
            tracing::warn!("programs of a run could not be ended: {error}");
        }
    }

    /// Returns the events of a run that this process works on.
    pub(crate) fn feed(&self, id: &AgentRunId) -> Option<Arc<Feed>> {
        self.lock_live().get(id).map(|(feed, _)| Arc::clone(feed))
    }

    /// Says that this process works on a run, until the guard is dropped.
    pub(crate) fn live(self: &Arc<Self>, id: &AgentRunId, feed: &Arc<Feed>, stop: &StopSign) -> Live {
        feed.activity().begin(self.store.now());
        self.lock_live().insert(id.clone(), (Arc::clone(feed), stop.clone()));
        self.tell_news();
        self.watch();
        self.liveness.watch(self);
        Live { agent: Arc::clone(self), id: id.clone() }
    }

    /// Sees to it that news of other processes are noticed: one task for all runs.
    pub(crate) fn watch(self: &Arc<Self>) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *watching, true) {
            tokio::spawn(watch_others(Arc::clone(self)));
        }
    }

    /// Goes on with sessions whose runs have what they waited for.
    pub(crate) async fn wake_ready(&self) {
        if self.lock_resting().is_empty() && self.lock_drivers().is_empty() {
            return;
        }
        let ready = self.store.sessions_to_wake(self.store.now()).await.unwrap_or_default();
        for of in ready {
            // One that is just about to rest is woken too.
            if self.lock_resting().contains(&of) || self.lock_drivers().contains_key(&of) {
                self.engage(&of.0, &of.1);
            }
        }
    }
}

/// A session in which no run begins.
pub(crate) struct Held<'a> {
    agent: &'a Inner,
    of: (String, SessionKey),
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.agent.lock_held();
        if let Some(count) = held.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.of);
            }
        }
        drop(held);
        self.agent.wake_all();
    }
}

/// A run that this process works on.
pub(crate) struct Live {
    agent: Arc<Inner>,
    id: AgentRunId,
}

impl Drop for Live {
    fn drop(&mut self) {
        let live = self.agent.lock_live().remove(&self.id);
        if let Some((feed, _)) = live {
            feed.close();
        }
        self.agent.tell_news();
    }
}

/// Stops runs of this process that another one wants stopped, and goes on with those that have what they waited for. One task for all,
/// and none if there is nothing to watch.
async fn watch_others(agent: Arc<Inner>) {
    let mut changes = agent.store.watch(LOOK_FOR_NEWS);
    loop {
        tokio::select! {
            () = changes.changed() => {}
            () = tokio::time::sleep(LOOK_ANYWAY) => {}
            () = agent.closing.cancelled() => return,
        }
        let live: Vec<(AgentRunId, u32, StopSign)> =
            agent.lock_live().iter().map(|(id, (feed, stop))| (id.clone(), feed.generation(), stop.clone())).collect();
        if live.is_empty() {
            let mut watching = agent.watching.lock().unwrap_or_else(PoisonError::into_inner);
            if agent.lock_live().is_empty() && agent.lock_resting().is_empty() {
                *watching = false;
                return;
            }
        }
        agent.wake_ready().await;
        for (id, generation, stop) in live {
            match agent.store.agent_run(&id).await {
                // Another process has taken it over.
                Ok(run) if run.generation != generation => stop.stop(StopReason::Lost),
                Ok(run) if run.is_stopped => stop.stop(StopReason::Asked),
                // Its session was deleted.
                Err(StoreError::Missing { .. }) => stop.stop(StopReason::Lost),
                Ok(_) | Err(_) => {}
            }
        }
    }
}
