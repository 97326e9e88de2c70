//! The agent: takes messages, and sees to it that they are answered.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pincer_catalog::nearest;
use pincer_runtime::{ModelSetup, Runtime};
use pincer_sessions::{AcquireError, Reentry, Writer, new_session_id};
use pincer_store::{
    Accepted, AgentRun, AgentRunId, AgentRunState, AgentRuns, Changes, ClientCalls, Clock, Millis, NewAgentRun,
    Session, SessionKey, Sessions, Stopped, StoreError,
};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_tools::{Answer as Decision, client_result};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::command::{self, Command, Parsed};
use crate::driver::drive;
use crate::error::AgentError;
use crate::feed::Feed;
use crate::outcome::{Payload, RunOutcome, Status, Summary, WaitResult, WaitStatus, of_ended};
use crate::reader::EventReader;
use crate::request::{QueueMode, Request};
use crate::settings::{SessionSettings, most_runs, queue, write_wait};
use crate::slots::Slots;
use crate::turn::{StopReason, StopSign};

/// How often runs are looked for that another process wants stopped.
const LOOK_FOR_STOPS: Duration = Duration::from_millis(200);
/// How often they are looked for anyway.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);
/// How soon a session that is to begin anew is looked at again for a run that has begun since.
const STOP_AGAIN: Duration = Duration::from_millis(200);
/// The most bytes of a message's text.
const MOST_TEXT: usize = 4 << 20;
/// The most bytes of a message's pictures.
const MOST_PICTURES: usize = 32 << 20;
/// The most bytes of a session's key.
const MOST_KEY: usize = 512;

/// The agent. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Agent(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub runtime: Arc<Runtime>,
    pub models: ModelSetup,
    pub store: Arc<SqliteStore>,
    pub leases: Arc<FileLeases>,
    pub slots: Slots,
    pub closing: CancellationToken,
    drivers: Mutex<HashMap<(String, SessionKey), Driver>>,
    live: Mutex<HashMap<AgentRunId, (Arc<Feed>, StopSign)>>,
    /// Sessions whose runs wait, and which this process is to go on with.
    resting: Mutex<HashSet<(String, SessionKey)>>,
    /// The sessions that commands of this process change, each with how many do: no run begins in them meanwhile.
    held: Mutex<HashMap<(String, SessionKey), usize>>,
    /// Commands of one session are obeyed one after the other.
    commands: Mutex<HashMap<(String, SessionKey), CommandTurn>>,
    watching: Mutex<bool>,
    has_pruned: AtomicBool,
    drivers_made: AtomicU64,
    /// Counts what has happened in this process.
    news: watch::Sender<u64>,
    own: Weak<Inner>,
}

/// The turn of a command, for as long as one has it or waits for it.
type CommandTurn = Weak<tokio::sync::Mutex<()>>;

/// A task of this process that works on a session.
struct Driver {
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

/// A message that was accepted.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// Its run.
    pub run_id: AgentRunId,
    /// Its session.
    pub session_key: SessionKey,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// Whether the same message had been accepted before.
    pub is_repeated: bool,
}

/// What came of stopping a session.
#[derive(Clone, Debug, Default)]
pub struct StoppedRuns {
    /// The run that was going on or waiting.
    pub active: Option<AgentRunId>,
    /// The runs that had not begun.
    pub queued: Vec<AgentRunId>,
}

impl Agent {
    /// Returns an agent on this runtime, which asks these models.
    pub fn new(runtime: Arc<Runtime>, models: ModelSetup) -> Self {
        let slots = Slots::new(most_runs(runtime.config()));
        Self(Arc::new_cyclic(|own| Inner {
            store: Arc::clone(runtime.store()),
            leases: Arc::clone(runtime.leases()),
            runtime,
            models,
            slots,
            closing: CancellationToken::new(),
            drivers: Mutex::default(),
            live: Mutex::default(),
            resting: Mutex::default(),
            held: Mutex::default(),
            commands: Mutex::default(),
            watching: Mutex::default(),
            has_pruned: AtomicBool::new(false),
            drivers_made: AtomicU64::new(0),
            news: watch::Sender::new(0),
            own: own.clone(),
        }))
    }

    /// Returns the runtime.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.0.runtime
    }

    /// Accepts a message: it is in the store when this returns, and will be answered by this process or another. `id` is the sender's word
    /// for it: sent again, it is the same run.
    pub async fn submit(
        &self,
        user: &str,
        key: &SessionKey,
        request: Request,
        id: Option<String>,
    ) -> Result<Submitted, AgentError> {
        check(key, &request)?;
        let inner = &self.0;
        if let Some(agent) = &request.agent {
            inner.check_agent(Some(agent))?;
        }
        let digest = request.digest();
        let parsed = command::parse(&request.message).map_err(AgentError::Command);
        let _turn = match &parsed {
            // A plain stop waits for nothing.
            Ok(Parsed { command: Some(Command::Stop | Command::Status), .. }) if id.is_none() => None,
            Ok(Parsed { command: Some(_), .. }) => Some(inner.turn_to_obey(user, key).await),
            _ => None,
        };
        if let Some(known) = id.as_deref()
            && let Some(run) = inner.store.agent_run_with_key(user, key, known).await?
        {
            // Commands in it are not obeyed twice.
            let repeated = Submitted {
                run_id: run.id.clone(),
                session_key: key.clone(),
                accepted_at: run.created_at,
                is_repeated: true,
            };
            let accepted = inner.accept(user, key, &request, Some(known.to_owned()), &digest, None).await?;
            return match accepted {
                Accepted::Different(run) => Err(AgentError::Different { session: key.clone(), run }),
                _ => {
                    inner.engage(user, key);
                    Ok(repeated)
                }
            };
        }
        let parsed = parsed?;
        let reply = match &parsed.command {
            Some(command) => self.obey(user, key, command, &request).await?,
            None => None,
        };
        let Parsed { rest, .. } = parsed;
        let mut sent = Request { message: rest, ..request.clone() };
        if let Some(Command::Steer) = parsed.command {
            sent.queue = Some(QueueMode::Steer);
        }
        if sent.message.trim().is_empty() && sent.images.is_empty() {
            sent.message = request.message.clone();
            let text = reply.unwrap_or_default();
            return self.answered(user, key, &sent, id, &digest, &text).await;
        }
        let accepted = inner.accept(user, key, &sent, id, &digest, None).await?;
        let (run, is_repeated) = match accepted {
            Accepted::New { run, .. } => (run, false),
            Accepted::Same(run) => (run, true),
            Accepted::Different(run) => return Err(AgentError::Different { session: key.clone(), run }),
            Accepted::Full => {
                let cap = inner.session_queue(user, key, &sent).await?.limit.cap;
                return Err(AgentError::Full { session: key.clone(), cap });
            }
        };
        let stored = Request::parse(&run.request).unwrap_or_default();
        if !is_repeated
            && stored.queue == Some(QueueMode::Interrupt)
            && let Err(error) = self.interrupt(user, key, &run.id).await
        {
            // The message is accepted all the same.
            tracing::warn!(run = %run.id, "the run before it could not be stopped: {error}");
        }
        inner.engage(user, key);
        inner.forget_old_sessions();
        let (run_id, accepted_at) = (run.id, run.created_at);
        Ok(Submitted { run_id, session_key: key.clone(), accepted_at, is_repeated })
    }

    /// Sees to it that this process works on a session until all its runs have ended.
    pub fn engage(&self, user: &str, key: &SessionKey) {
        self.0.engage(user, key);
    }

    /// Returns a run of a user.
    pub async fn run(&self, user: &str, id: &AgentRunId) -> Result<AgentRun, AgentError> {
        match self.0.store.agent_run(id).await {
            Ok(run) if run.user == user => Ok(run),
            Ok(_) | Err(StoreError::Missing { .. }) => Err(AgentError::NoRun(id.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a run has ended, for as long as `timeout`. The run goes on however long that is.
    pub async fn wait(&self, user: &str, id: &AgentRunId, timeout: Duration) -> Result<WaitResult, AgentError> {
        let waiting = self.until(user, id, |run| run.state.is_final());
        let run = match tokio::time::timeout(timeout, waiting).await {
            Ok(run) => run?,
            Err(_) => self.leader(self.run(user, id).await?).await?,
        };
        let outcome = of_ended(&run).filter(|_| run.state.is_final());
        let status = match &outcome {
            Some(outcome) if outcome.status == Status::Ok => WaitStatus::Ok,
            Some(_) => WaitStatus::Error,
            None if run.state == AgentRunState::Queued => WaitStatus::Pending,
            None => WaitStatus::Timeout,
        };
        let is_final = outcome.is_some();
        Ok(WaitResult {
            run_id: id.clone(),
            status,
            started_at: run.started_at.filter(|_| is_final),
            ended_at: run.ended_at,
            error: outcome.as_ref().and_then(|outcome| outcome.error.clone()),
            stop_reason: outcome.and_then(|outcome| outcome.stop_reason),
            liveness_state: match run.state {
                AgentRunState::Waiting => Some("paused"),
                AgentRunState::Running => Some("working"),
                _ => None,
            },
            timeout_phase: (run.state == AgentRunState::Queued).then_some("queue"),
        })
    }

    /// Waits until a run has ended or waits for a person or its sender, and returns what it has come to.
    pub async fn outcome(&self, user: &str, id: &AgentRunId) -> Result<RunOutcome, AgentError> {
        let stands =
            |run: &AgentRun| run.state.is_final() || run.state == AgentRunState::Waiting && run.result.is_some();
        let run = self.until(user, id, stands).await?;
        let parsed = run.result.as_deref().and_then(|result| serde_json::from_str(result).ok());
        let mut outcome: RunOutcome = parsed
            .or_else(|| of_ended(&run))
            .unwrap_or_else(|| RunOutcome::bare(&run, None, Status::Error, Summary::Failed));
        outcome.run_id = id.clone();
        Ok(outcome)
    }

    async fn until(
        &self,
        user: &str,
        id: &AgentRunId,
        is_enough: impl Fn(&AgentRun) -> bool,
    ) -> Result<AgentRun, AgentError> {
        let mut news = self.0.news.subscribe();
        let mut changes = self.0.store.watch(LOOK_FOR_STOPS);
        loop {
            news.mark_unchanged();
            let run = self.leader(self.run(user, id).await?).await?;
            if is_enough(&run) && self.is_settled(&run).await? {
                return Ok(run);
            }
            tokio::select! {
                _ = news.changed() => {}
                () = changes.changed() => {}
                () = tokio::time::sleep(LOOK_ANYWAY) => {}
            }
        }
    }

    /// Returns whether a run that waits does so for something that has not come: if it has, the run is about to go on.
    async fn is_settled(&self, run: &AgentRun) -> Result<bool, AgentError> {
        if run.state != AgentRunState::Waiting {
            return Ok(true);
        }
        Ok(!run.is_stopped && !crate::driver::is_answered(&self.0, run).await?)
    }

    /// Returns the run that a run's message became part of, or the run itself.
    async fn leader(&self, mut run: AgentRun) -> Result<AgentRun, AgentError> {
        while let (AgentRunState::Merged, Some(into)) = (run.state, run.merged_into.clone()) {
            run = self.0.store.agent_run(&into).await?;
        }
        Ok(run)
    }

    /// Returns the events of a run from this number on, those that have happened and those that will.
    pub async fn events(&self, user: &str, id: &AgentRunId, from: u32) -> Result<EventReader, AgentError> {
        let run = self.run(user, id).await?;
        Ok(EventReader::new(Arc::clone(&self.0), run, from))
    }

    /// Stops a run: at once if it goes on here, and soon if another process works on it.
    pub async fn stop(&self, user: &str, id: &AgentRunId) -> Result<Stopped, AgentError> {
        let run = self.run(user, id).await?;
        let stopped = self.0.ask_to_stop(&run).await?;
        if let Some((_, sign)) = self.0.lock_live().get(id) {
            sign.stop(StopReason::Asked);
        }
        self.0.tell_news();
        if stopped == Stopped::Asked {
            self.0.engage(&run.user, &run.session_key);
        }
        Ok(stopped)
    }

    /// Stops all runs of a session: first those that wait for their turn, then the one that goes on.
    pub async fn stop_session(&self, user: &str, key: &SessionKey) -> Result<StoppedRuns, AgentError> {
        let mut stopped = StoppedRuns::default();
        let open = self.0.store.open_runs(user, key).await?;
        let (queued, active): (Vec<AgentRun>, Vec<AgentRun>) =
            open.into_iter().partition(|run| run.state == AgentRunState::Queued);
        for run in queued {
            if self.stop(user, &run.id).await? != Stopped::Ended {
                stopped.queued.push(run.id);
            }
        }
        for run in active.into_iter().filter(|run| !run.state.is_final()) {
            if self.stop(user, &run.id).await? != Stopped::Ended {
                stopped.active = Some(run.id);
            }
        }
        Ok(stopped)
    }

    async fn interrupt(&self, user: &str, key: &SessionKey, by: &AgentRunId) -> Result<(), AgentError> {
        let open = self.0.store.open_runs(user, key).await?;
        for run in open.into_iter().filter(|run| run.id != *by && !run.state.is_final()) {
            if run.state != AgentRunState::Queued {
                self.stop(user, &run.id).await?;
            }
        }
        Ok(())
    }

    /// Answers a question to a person. Returns `false` if it was settled before. The run that waits for it goes on.
    pub async fn answer(
        &self,
        approval: &pincer_store::ApprovalId,
        decision: Decision,
        by: &str,
    ) -> Result<bool, AgentError> {
        let applied = self.0.runtime.answer(approval, decision, by).await?;
        self.0.wake_ready().await;
        Ok(applied)
    }

    /// Gives the result of a call that the sender of a run makes. Returns `false` if it had one.
    pub async fn answer_client(
        &self,
        user: &str,
        run: &AgentRunId,
        call: &str,
        result: Result<Value, String>,
    ) -> Result<bool, AgentError> {
        let run = self.leader(self.run(user, run).await?).await?;
        let applied = self.0.store.answer_client(&run.id, call, client_result(result).into()).await?;
        self.0.runtime.door().client_answered();
        self.0.wake_all();
        self.0.engage(&run.user, &run.session_key);
        Ok(applied)
    }

    /// Begins another session under the same key. What went on in the session before is stopped; what has not begun is part of the
    /// new one.
    pub async fn reset(&self, user: &str, key: &SessionKey, reason: &str) -> Result<Session, AgentError> {
        let _held = self.0.hold(user, key);
        let (began, wait) = (Instant::now(), write_wait(self.0.runtime.config()));
        let mut writer = loop {
            let left = wait.saturating_sub(began.elapsed());
            if let Some(run) = self.stop_active(user, key).await? {
                let ended = self.until(user, &run, |run| run.state.is_final());
                let _ = tokio::time::timeout(left, ended).await;
            }
            // A run may have begun after it was looked for one: then that is stopped too.
            match self.writer_within(user, key, left.min(STOP_AGAIN)).await {
                Err(AcquireError::Busy { .. }) if left > STOP_AGAIN => {}
                acquired => break acquired?,
            }
        };
        let reset = writer.reset(new_session_id(), reason).await;
        let session = writer.session().clone();
        let released = writer.release().await;
        reset?;
        released?;
        Ok(session)
    }

    async fn stop_active(&self, user: &str, key: &SessionKey) -> Result<Option<AgentRunId>, AgentError> {
        let open = self.0.store.open_runs(user, key).await?;
        let active = open.into_iter().find(|run| !run.state.is_final() && run.state != AgentRunState::Queued);
        match active {
            Some(run) if self.stop(user, &run.id).await? != Stopped::Ended => Ok(Some(run.id)),
            _ => Ok(None),
        }
    }

    /// Takes a session to write to it. Waits for another writer for as long as the config says.
    pub async fn writer(&self, user: &str, key: &SessionKey) -> Result<Writer, AcquireError> {
        self.writer_within(user, key, write_wait(self.0.runtime.config())).await
    }

    async fn writer_within(&self, user: &str, key: &SessionKey, wait: Duration) -> Result<Writer, AcquireError> {
        let store = Arc::clone(&self.0.store);
        Writer::acquire(store, &*self.0.leases, user, key, wait, Reentry::Refused).await
    }

    /// Obeys a command in a message. Returns what is told if the message is nothing else.
    async fn obey(
        &self,
        user: &str,
        key: &SessionKey,
        command: &Command,
        request: &Request,
    ) -> Result<Option<String>, AgentError> {
        let session = self.0.store.current_session(user, key).await?;
        Ok(Some(match command {
            Command::Stop => {
                let stopped = self.stop_session(user, key).await?;
                match (stopped.active, stopped.queued.len()) {
                    (None, 0) => "Nothing was going on.".into(),
                    (_, 0) => "Stopped.".into(),
                    (_, queued) => format!("Stopped, and {queued} messages that waited were taken back."),
                }
            }
            Command::New | Command::Reset => {
                let reason = if *command == Command::New { "new" } else { "reset" };
                if session.is_some() {
                    self.reset(user, key, reason).await?;
                }
                "A new conversation begins.".into()
            }
            Command::Status => crate::status::text(&self.0, user, key, session.as_ref(), request).await?,
            Command::Steer => return Ok(None),
            change => {
                let mut settings =
                    session.as_ref().map(|session| SessionSettings::parse(&session.settings)).unwrap_or_default();
                let told = command::change(change, &mut settings, &self.0.models).map_err(AgentError::Command)?;
                self.set(user, key, request, &settings).await?;
                told
            }
        }))
    }

    /// Stores settings of a session, also while a run goes on in it: they hold from the next run on.
    async fn set(
        &self,
        user: &str,
        key: &SessionKey,
        request: &Request,
        settings: &SessionSettings,
    ) -> Result<(), AgentError> {
        if self.0.store.current_session(user, key).await?.is_none() {
            let new = pincer_store::NewSession {
                id: new_session_id(),
                user: user.to_owned(),
                key: key.clone(),
                agent: request.agent.clone(),
                label: None,
                parent: None,
                created_at: self.0.store.now(),
            };
            match self.0.store.create_session(new).await {
                Ok(_) | Err(StoreError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.0.store.set_session_settings(user, key, settings.to_json().into(), self.0.store.now()).await?)
    }

    /// Stores a run that is answered already, without a model.
    async fn answered(
        &self,
        user: &str,
        key: &SessionKey,
        request: &Request,
        id: Option<String>,
        digest: &[u8],
        text: &str,
    ) -> Result<Submitted, AgentError> {
        let accepted = self.0.accept(user, key, request, id, digest, Some(text)).await?;
        let run = match accepted {
            Accepted::New { run, .. } | Accepted::Same(run) => run,
            Accepted::Different(run) => return Err(AgentError::Different { session: key.clone(), run }),
            Accepted::Full => return Err(AgentError::Full { session: key.clone(), cap: 0 }),
        };
        self.0.tell_news();
        let (run_id, accepted_at) = (run.id, run.created_at);
        Ok(Submitted { run_id, session_key: key.clone(), accepted_at, is_repeated: false })
    }

    /// Gives up what this process works on. Runs that go on are continued by the next process that looks.
    pub async fn close(&self) {
        self.0.closing.cancel();
        let mut news = self.0.news.subscribe();
        while !self.0.lock_drivers().is_empty() {
            let _ = tokio::time::timeout(Duration::from_millis(50), news.changed()).await;
        }
    }
}

impl Inner {
    fn lock_drivers(&self) -> MutexGuard<'_, HashMap<(String, SessionKey), Driver>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_live(&self) -> MutexGuard<'_, HashMap<AgentRunId, (Arc<Feed>, StopSign)>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_resting(&self) -> MutexGuard<'_, HashSet<(String, SessionKey)>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_held(&self) -> MutexGuard<'_, HashMap<(String, SessionKey), usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has no run begin in a session until the guard is dropped.
    fn hold(&self, user: &str, key: &SessionKey) -> Held<'_> {
        let of = (user.to_owned(), key.clone());
        *self.lock_held().entry(of.clone()).or_default() += 1;
        Held { agent: self, of }
    }

    /// Returns whether a command of this process changes a session.
    pub(crate) fn is_held(&self, user: &str, key: &SessionKey) -> bool {
        self.lock_held().contains_key(&(user.to_owned(), key.clone()))
    }

    /// Waits for the commands of a session that came before.
    async fn turn_to_obey(&self, user: &str, key: &SessionKey) -> tokio::sync::OwnedMutexGuard<()> {
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

    /// Forgets sessions that are older than the config keeps them, once for each process.
    fn forget_old_sessions(&self) {
        let days = self.runtime.config().session.maintenance.prune_after_days;
        if let (Some(days), false) = (days, self.has_pruned.swap(true, Ordering::SeqCst)) {
            let age = i64::try_from(days.saturating_mul(24 * 3600 * 1000)).unwrap_or(i64::MAX);
            let store = Arc::clone(&self.store);
            tokio::spawn(async move {
                // A hundred at a time: others use the store too.
                while store.forget_sessions(store.now().saturating_sub(age)).await.is_ok_and(|count| count > 0) {}
            });
        }
    }

    /// Says that something has happened.
    pub(crate) fn tell_news(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    async fn session_queue(
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
    async fn accept(
        &self,
        user: &str,
        key: &SessionKey,
        sent: &Request,
        id: Option<String>,
        digest: &[u8],
        answer: Option<&str>,
    ) -> Result<Accepted, AgentError> {
        let queue = self.session_queue(user, key, sent).await?;
        let is_busy = !self.store.open_runs(user, key).await?.is_empty();
        let debounce_ms = (is_busy && queue.mode == QueueMode::Collect).then_some(queue.debounce_ms);
        let stored = Request { queue: Some(queue.mode), debounce_ms, ..sent.clone() };
        let text = serde_json::to_string(&stored).unwrap_or_default();
        let run_id = AgentRunId::from(format!("ar_{}", Uuid::now_v7()));
        let answer = answer.map(|text| {
            let (status, summary) = (Status::Ok, Summary::Completed);
            let mut outcome = RunOutcome::new(run_id.clone(), key.clone(), sent.agent.clone(), status, summary);
            outcome.result.payloads.push(Payload { text: text.to_owned(), is_error: false });
            outcome.to_json().into()
        });
        let run = NewAgentRun {
            id: run_id,
            answer,
            user: user.to_owned(),
            session: key.clone(),
            agent: sent.agent.clone(),
            new_session: new_session_id(),
            key: id,
            digest: digest.to_vec(),
            rank: if queue.mode == QueueMode::Interrupt { -1 } else { 0 },
            request: text.into(),
            queue: queue.limit,
            now: self.store.now(),
        };
        Ok(self.store.accept_run(run).await?)
    }

    /// Fails if there is no agent of this name in the config.
    pub(crate) fn check_agent(&self, id: Option<&str>) -> Result<(), AgentError> {
        let Some(id) = id else { return Ok(()) };
        let config = self.runtime.config();
        if config.agent(id).is_some() || id == "main" {
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

    fn wake_all(&self) {
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

    /// Ends the programs that a run leaves behind.
    pub(crate) async fn end_programs(&self, id: &AgentRunId) {
        if let Err(error) = self.runtime.abort_agent_run(id).await {
            tracing::warn!(run = %id, "programs of the run could not be ended: {error}");
        }
    }

    /// Returns the events of a run that this process works on.
    pub(crate) fn feed(&self, id: &AgentRunId) -> Option<Arc<Feed>> {
        self.lock_live().get(id).map(|(feed, _)| Arc::clone(feed))
    }

    /// Says that this process works on a run, until the guard is dropped.
    pub(crate) fn live(self: &Arc<Self>, id: &AgentRunId, feed: &Arc<Feed>, stop: &StopSign) -> Live {
        self.lock_live().insert(id.clone(), (Arc::clone(feed), stop.clone()));
        self.tell_news();
        self.watch();
        Live { agent: Arc::clone(self), id: id.clone() }
    }

    /// Sees to it that news of other processes are noticed: one task for all runs.
    fn watch(self: &Arc<Self>) {
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
struct Held<'a> {
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
    let mut changes = agent.store.watch(LOOK_FOR_STOPS);
    loop {
        tokio::select! {
            () = changes.changed() => {}
            () = tokio::time::sleep(LOOK_ANYWAY) => {}
            () = agent.closing.cancelled() => return,
        }
        let live: Vec<(AgentRunId, StopSign)> =
            agent.lock_live().iter().map(|(id, (_, stop))| (id.clone(), stop.clone())).collect();
        if live.is_empty() {
            let mut watching = agent.watching.lock().unwrap_or_else(PoisonError::into_inner);
            if agent.lock_live().is_empty() && agent.lock_resting().is_empty() {
                *watching = false;
                return;
            }
        }
        agent.wake_ready().await;
        for (id, stop) in live {
            match agent.store.agent_run(&id).await {
                Ok(run) if run.is_stopped => stop.stop(StopReason::Asked),
                // Its session was deleted.
                Err(StoreError::Missing { .. }) => stop.stop(StopReason::Lost),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

fn check(key: &SessionKey, request: &Request) -> Result<(), AgentError> {
    let wrong = |reason| AgentError::Key { key: key.to_string(), reason };
    match key.as_str() {
        "" => return Err(wrong("is empty: name the session")),
        key if key.len() > MOST_KEY => return Err(wrong("is longer than 512 bytes")),
        key if key.chars().any(char::is_control) => {
            return Err(wrong("has control characters in it, which no terminal could show"));
        }
        _ => {}
    }
    if request.message.trim().is_empty() && request.images.is_empty() {
        return Err(AgentError::Empty);
    }
    let pictures: usize = request.images.iter().map(|image| image.data.len()).sum();
    if request.message.len() > MOST_TEXT {
        return Err(AgentError::TooLong { bytes: request.message.len(), limit: MOST_TEXT });
    }
    if pictures > MOST_PICTURES {
        return Err(AgentError::TooLong { bytes: pictures, limit: MOST_PICTURES });
    }
    Ok(())
}
