//! The agent: takes messages, and sees to it that they are answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pincer_hooks::events::MessageReceived;
use pincer_runtime::{ModelSetup, Runtime};
use pincer_sessions::key_complaint;
use pincer_store::{
    Accepted, AgentRun, AgentRunId, AgentRunState, AgentRuns, Changes, ClientCalls, Millis, SessionKey, Stopped,
    StoreError,
};
use pincer_tools::{Answer as Decision, client_result};
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use crate::claimed::StopReason;
use crate::command::{self, Command, Parsed};
use crate::delivering::{SentText, sent_texts};
use crate::error::AgentError;
use crate::fitting::{MOST_PICTURES, complaint};
use crate::hooks::RunHooks;
use crate::inner::{Inner, LOOK_ANYWAY, LOOK_FOR_NEWS};
use crate::liveness::Diagnostic;
use crate::outcome::{RunOutcome, Status, Summary, WaitResult, WaitStatus, of_ended};
use crate::reader::{EventCursor, EventReader};
use crate::request::{Attachment, QueueMode, Request};

/// The most bytes of a message's text.
const MOST_TEXT: usize = 4 << 20;
/// The most bytes of a message's pictures.
const MOST_PICTURE_BYTES: usize = 20 << 20;

/// The longest that hooks that observe may take when the agent is closed.
const LONGEST_OBSERVING: Duration = Duration::from_secs(30);

/// The agent. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Agent(pub(crate) Arc<Inner>);

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
        let agent = Self(Inner::new(runtime, models));
        crate::cron::add_tool(&agent.0);
        agent
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
                    self.limit_to(user, key, &run.id);
                    inner.engage(user, key);
                    Ok(repeated)
                }
            };
        }
        let parsed = parsed?;
        parsed.permitted(&request)?;
        // The text after `/new` is the first message of the new conversation, whatever is queued.
        let begins_anew =
            matches!(parsed.command, Some(Command::New | Command::Reset)) && !parsed.rest.trim().is_empty();
        let _held = begins_anew.then(|| inner.hold(user, key));
        let reply = match &parsed.command {
            Some(command) => self.obey(user, key, command, &request).await?,
            None => None,
        };
        let Parsed { rest, .. } = parsed;
        let message = if parsed.command == Some(Command::Compact) { rest } else { request.spoken(rest) };
        let mut sent = Request { message, ..request.clone() };
        match parsed.command {
            Some(Command::Steer) => sent.queue = Some(QueueMode::Steer),
            Some(Command::Compact) => {
                // A compaction comes in its turn: a run that goes on, or waits for a person, keeps its conversation.
                sent.queue = Some(QueueMode::Followup);
                sent.compact = Some(std::mem::replace(&mut sent.message, request.message.clone()));
            }
            _ => {}
        }
        if sent.message.trim().is_empty() && sent.images.is_empty() {
            sent.message = request.message.clone();
            let text = reply.unwrap_or_default();
            return self.answered(user, key, &sent, id, &digest, &text).await;
        }
        sent.is_first = begins_anew;
        let key_of_sender = id.clone();
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
        if !is_repeated {
            self.tell_received(user, key, &request, &run, key_of_sender);
        }
        self.limit_to(user, key, &run.id);
        inner.engage(user, key);
        inner.forget_old_sessions();
        let (run_id, accepted_at) = (run.id, run.created_at);
        Ok(Submitted { run_id, session_key: key.clone(), accepted_at, is_repeated })
    }

    /// Accepts the wish that the conversation of a session be compacted, in its turn: after the runs that were accepted before.
    pub async fn compact(
        &self,
        user: &str,
        key: &SessionKey,
        instructions: Option<&str>,
    ) -> Result<Submitted, AgentError> {
        let message = format!("/compact {}", instructions.unwrap_or_default());
        self.submit(user, key, Request::new(message), None).await
    }

    /// Sees to it that this process works on a session until all its runs have ended.
    pub fn engage(&self, user: &str, key: &SessionKey) {
        self.0.engage(user, key);
    }

    /// Sees to it that this process works on the sessions of a user whose open runs are such. A process that serves a channel begins so:
    /// the one before it may have died.
    pub async fn engage_open(&self, user: &str, which: impl Fn(&Request) -> bool) -> Result<(), AgentError> {
        let store = &self.0.store;
        for (of, key) in store.sessions_with_work().await? {
            if of != user {
                continue;
            }
            let open = store.open_runs(user, &key).await?;
            let is_such = |run: &AgentRun| Request::parse(&run.request).is_ok_and(|request| which(&request));
            if open.iter().any(is_such) {
                self.engage(user, &key);
            }
        }
        Ok(())
    }

    /// Returns the texts that a run has sent by calls of the `message` tool, whichever process made them.
    pub async fn sent_texts(&self, user: &str, id: &AgentRunId) -> Result<Vec<SentText>, AgentError> {
        let run = self.run(user, id).await?;
        Ok(sent_texts(&self.0.store, &run.id).await?)
    }

    /// Has this process work on no message behind those that it accepts itself from now on.
    pub fn end_with_own_messages(&self) {
        self.0.ends_with_its_own.store(true, Ordering::SeqCst);
    }

    /// Tells hooks of a message that was accepted.
    fn tell_received(
        &self,
        user: &str,
        key: &SessionKey,
        request: &Request,
        run: &AgentRun,
        message_id: Option<String>,
    ) {
        let hooks = RunHooks::new(&self.0, user, key, request).of_run(&run.id);
        if hooks.has::<MessageReceived>() {
            let event = MessageReceived {
                context: hooks.context(),
                from: request.sender.clone().unwrap_or_else(|| user.to_owned()),
                content: request.message.clone(),
                message_id,
                timestamp: run.created_at,
            };
            hooks.tell(&self.0, event);
        }
    }

    pub(crate) fn limit_to(&self, user: &str, key: &SessionKey, run: &AgentRunId) {
        if self.0.ends_with_its_own.load(Ordering::SeqCst) {
            self.0.work_until(user, key, run);
        }
    }

    /// Has this process work on a session no further than this run. A process that ends with a run of its own must not begin the next
    /// one: that would be torn off.
    pub fn work_until(&self, user: &str, key: &SessionKey, run: &AgentRunId) {
        self.0.work_until(user, key, run);
    }

    /// Returns the reports about sessions that take long, stand still, or belong to no process, from now on.
    pub fn diagnostics(&self) -> broadcast::Receiver<Diagnostic> {
        self.0.liveness.subscribe()
    }

    /// Returns what keeps the store from taking the steps of runs, whenever that changes. They are tried again until it takes them.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.0.trouble.subscribe()
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

    pub(crate) async fn until(
        &self,
        user: &str,
        id: &AgentRunId,
        is_enough: impl Fn(&AgentRun) -> bool,
    ) -> Result<AgentRun, AgentError> {
        let mut news = self.0.news();
        let mut changes = self.0.store.watch(LOOK_FOR_NEWS);
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

    /// Returns the events of a run from this one on, those that have happened and those that will.
    pub async fn events(
        &self,
        user: &str,
        id: &AgentRunId,
        from: impl Into<EventCursor>,
    ) -> Result<EventReader, AgentError> {
        let run = self.run(user, id).await?;
        Ok(EventReader::new(Arc::clone(&self.0), run, from.into()))
    }

    /// Stops a run: at once if it goes on here, and soon if another process works on it. A message that became part of another run
    /// stops that run.
    pub async fn stop(&self, user: &str, id: &AgentRunId) -> Result<Stopped, AgentError> {
        let run = self.leader(self.run(user, id).await?).await?;
        let stopped = self.0.ask_to_stop(&run).await?;
        if let Some((_, sign)) = self.0.lock_live().get(&run.id) {
            sign.stop(StopReason::Asked);
        }
        self.0.tell_news();
        if stopped == Stopped::Asked {
            self.0.engage(&run.user, &run.session_key);
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

    /// Answers a question to a person. Returns `false` if it was settled before. The run that waits for it goes on. Any operator may
    /// answer, whichever user the question belongs to: a front decides which of its people are operators.
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
        let message_id = id.clone();
        let accepted = self.0.accept(user, key, request, id, digest, Some(text)).await?;
        let run = match accepted {
            Accepted::New { run, .. } | Accepted::Same(run) => run,
            Accepted::Different(run) => return Err(AgentError::Different { session: key.clone(), run }),
            Accepted::Full => return Err(AgentError::Full { session: key.clone(), cap: 0 }),
        };
        self.0.tell_news();
        self.tell_received(user, key, request, &run, message_id);
        let (run_id, accepted_at) = (run.id, run.created_at);
        Ok(Submitted { run_id, session_key: key.clone(), accepted_at, is_repeated: false })
    }

    /// Gives up what this process works on. Runs that go on are continued by the next process that looks.
    pub async fn close(&self) {
        self.0.closing.cancel();
        let mut news = self.0.news();
        while !self.0.lock_drivers().is_empty() {
            let _ = tokio::time::timeout(Duration::from_millis(50), news.changed()).await;
        }
        self.0.observing.drain(LONGEST_OBSERVING).await;
    }

    /// Ends the hooks that observe, and tells them nothing more: [`Agent::close`] does not wait for them then.
    pub fn leave_observers(&self) {
        self.0.observing.leave();
    }
}

/// Fails if a message cannot be accepted.
pub(crate) fn check(key: &SessionKey, request: &Request) -> Result<(), AgentError> {
    if let Some(reason) = key_complaint(key.as_str()) {
        return Err(AgentError::Key { key: key.to_string(), reason });
    }
    if request.message.trim().is_empty() && request.images.is_empty() {
        return Err(AgentError::Empty);
    }
    let pictures: usize = request.images.iter().map(|image| image.data.len()).sum();
    if request.message.len() > MOST_TEXT {
        return Err(AgentError::TooLong { bytes: request.message.len(), limit: MOST_TEXT });
    }
    if request.images.len() > MOST_PICTURES {
        return Err(AgentError::TooManyPictures { count: request.images.len(), limit: MOST_PICTURES });
    }
    // The picture that is too large is named before their sum.
    let refused = |(image, number): (&Attachment, usize)| {
        complaint(&image.mime_type, &image.data).map(|reason| AgentError::Picture { number, reason })
    };
    if let Some(error) = request.images.iter().zip(1..).find_map(refused) {
        return Err(error);
    }
    if pictures > MOST_PICTURE_BYTES {
        return Err(AgentError::TooLong { bytes: pictures, limit: MOST_PICTURE_BYTES });
    }
    Ok(())
}
