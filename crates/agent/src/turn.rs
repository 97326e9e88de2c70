//! One run, from where its transcript stands to its end or to a point where it must wait.
//!
//! The next step always follows from what is stored, so a run that another process began goes on in the same way. What is different then
//! is only that open calls may have been made already.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_model::{
    Cache, Choice, ErrorKind, Level, ModelError, Plan, Reply, Request as ModelRequest, Stop as ReplyStop,
};
use pincer_runtime::Scope;
use pincer_sessions::Message as Stored;
use pincer_store::{
    AgentRun, AgentRunState, AgentRuns, ApprovalId, Approvals, ClientCalls, Clock, EntryKind, RunChange, StoreError,
    Totals,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::detail::{Detail, Parked};
use crate::event::{Happening, Stream};
use crate::inner::Inner;
use crate::lane::{Lane, Lost, Step};
use crate::outcome::{
    Answer, OpenClientCall, OpenQuestion, Payload, RunOutcome, RunTelemetry, RunUsage, Status, Summary,
};
use crate::record::{self, CallResult};
use crate::reply::{Asked, ask};
use crate::request::{QueueMode, Request};
use crate::surface::Surface;
use crate::transcript::{self, Transcript};

/// How often a model that says nothing, or is cut off in the middle of a call, is asked again.
const MOST_EMPTY: u32 = 2;

/// One run in the hands of this process.
pub(crate) struct Turn {
    pub agent: Arc<Inner>,
    pub run: AgentRun,
    pub request: Request,
    pub lane: Lane,
    pub scope: Scope,
    pub surface: Surface,
    pub plan: Plan,
    pub thinking: Level,
    pub system: Vec<String>,
    pub stop: StopSign,
    /// Another process may have begun with the calls that are open.
    pub is_recovered: bool,
    pub state: Mutex<TurnState>,
}

/// The part of a run that changes.
#[derive(Default)]
pub(crate) struct TurnState {
    pub transcript: Transcript,
    pub detail: Detail,
    /// The texts of its replies.
    pub texts: Vec<String>,
    pub model: Option<String>,
    pub stop_reason: Option<String>,
    /// The nested calls that the transcript has.
    pub nested: HashSet<(String, u32)>,
    /// Replies in a row that said nothing.
    pub empty: u32,
}

/// Says that a run is to stop, and why.
#[derive(Clone, Default)]
pub(crate) struct StopSign {
    pub token: CancellationToken,
    reason: Arc<Mutex<Option<StopReason>>>,
}

/// Why a run is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// It was asked for.
    Asked,
    /// It takes too long.
    TimedOut,
    /// Another process has the run, or this one ends: nothing more is stored.
    Lost,
}

impl StopSign {
    /// Stops the run. The first reason counts.
    pub(crate) fn stop(&self, reason: StopReason) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.token.cancel();
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a run was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It has ended.
    Ended,
    /// It waits for a person or for its sender.
    Waiting,
    /// It is no longer in the hands of this process, or the store does not take what it comes to.
    Lost,
}

/// What a run waits for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub approvals: Vec<ApprovalId>,
    pub for_caller: bool,
    pub programs: Vec<Parked>,
}

enum Next {
    GoOn,
    Ended,
}

impl Turn {
    pub(crate) fn state(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the run until it ends or must wait.
    pub(crate) async fn work(&self) -> Left {
        let worked = Box::pin(self.go()).await;
        worked.unwrap_or_else(|lost| {
            match lost {
                Lost::Fenced(error) => tracing::info!(run = %self.run.id, "given up: {error}"),
                Lost::Unstored(error) => tracing::warn!(run = %self.run.id, "not stored: {error}"),
            }
            Left::Lost
        })
    }

    async fn go(&self) -> Result<Left, Lost> {
        let mut is_recovered = self.is_recovered;
        loop {
            if self.stop.token.is_cancelled() {
                return self.stopped(None).await;
            }
            let next = self.state().transcript.next();
            match next {
                transcript::Step::Ask => {
                    self.take_steered(None).await?;
                    match Box::pin(self.ask()).await? {
                        Next::GoOn => {}
                        Next::Ended => return Ok(Left::Ended),
                    }
                }
                transcript::Step::Calls(open) => {
                    let answered = self.answered_calls().await?;
                    let waits = Box::pin(self.make_calls(open, is_recovered)).await?;
                    if self.stop.token.is_cancelled() {
                        continue;
                    }
                    if let Some(waits) = waits
                        && let Some(left) = self.suspend(waits, &answered).await?
                    {
                        return Ok(left);
                    }
                }
                transcript::Step::End => {
                    if !self.take_steered(None).await? {
                        return self.finish(None).await.map(|()| Left::Ended);
                    }
                }
            }
            is_recovered = false;
        }
    }

    /// Asks the model, and stores its reply. A reply without calls ends the run.
    async fn ask(&self) -> Result<Next, Lost> {
        let messages = self.state().transcript.messages();
        let request = ModelRequest {
            system: self.system.clone(),
            cache: Cache {
                after_system: true,
                after_messages: messages.len().checked_sub(1).into_iter().collect(),
                is_long: false,
                key: Some(self.lane.session.to_string()),
            },
            messages,
            tools: self.surface.tools.clone(),
            choice: Choice::Auto,
            surface: self.surface.shown(),
            thinking: self.thinking,
            ..ModelRequest::default()
        };
        let models = self.agent.models.models();
        match ask(models, self.plan.clone(), request, &self.lane, &self.stop.token).await {
            Asked::Reply(reply) => self.take_reply(*reply).await,
            Asked::Failed(error) if error.kind == ErrorKind::Deadline => {
                self.stop.stop(StopReason::TimedOut);
                Ok(Next::GoOn)
            }
            Asked::Failed(error) => self.failed(&error).await.map(|()| Next::Ended),
            Asked::Stopped(text) => match self.stopped(Some(text)).await? {
                Left::Ended => Ok(Next::Ended),
                Left::Waiting | Left::Lost => Ok(Next::GoOn),
            },
        }
    }

    async fn take_reply(&self, mut reply: Reply) -> Result<Next, Lost> {
        renamed(&mut reply);
        let calls = reply.message.calls().count();
        let text = reply.message.text();
        let refusal = refusal(&reply);
        let is_empty = calls == 0 && text.trim().is_empty() && refusal.is_none() && reply.stop != ReplyStop::Pause;
        let (usage, now) = (reply.usage, self.lane.store.now());
        {
            let mut state = self.state();
            let spent = &mut state.detail.spent;
            spent.model_calls += 1;
            spent.tool_calls += calls as u32;
            spent.input += usage.input;
            spent.output += usage.output;
            spent.cache_read += usage.cache_read;
            spent.cache_write += usage.cache_write;
            state.stop_reason = Some(record::stop(&reply.stop).to_owned());
            if let Some(origin) = &reply.message.origin {
                state.model = Some(format!("{}/{}", origin.provider, origin.model));
            }
            state.empty = if is_empty || !reply.cut_calls.is_empty() && calls == 0 { state.empty + 1 } else { 0 };
        }
        let added = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let totals = Totals {
            input: added(usage.input),
            output: added(usage.output),
            cache_read: added(usage.cache_read),
            cache_write: added(usage.cache_write),
            ..Totals::default()
        };
        if is_empty || calls == 0 && !reply.cut_calls.is_empty() {
            return self.take_nothing(&reply, totals).await;
        }
        let stored = record::assistant(&reply, now);
        let shown = if text.trim().is_empty() { refusal.unwrap_or_default() } else { text };
        if !shown.trim().is_empty() {
            self.state().texts.push(shown);
        }
        let entry = self.lane.entry(EntryKind::Message, stored.to_body());
        if calls == 0 && reply.stop != ReplyStop::Pause {
            if self.take_steered(Some((entry.clone(), totals, stored.clone()))).await? {
                return Ok(Next::GoOn);
            }
            return self.finish(Some((entry, totals))).await.map(|()| Next::Ended);
        }
        // The reply is the note that its calls are about to be made: those that change something need it on the disk.
        let detail = Some(self.state().detail.to_json().into());
        let synced = reply.message.calls().any(|call| self.may_change(&call.name));
        let step = Step { entries: vec![entry], totals, detail, synced, ..Step::default() };
        let committed = self.lane.commit(step, &self.stop.token).await?;
        self.state().transcript.push(committed.first, stored);
        Ok(Next::GoOn)
    }

    /// Deals with a reply that has neither text nor a whole call.
    async fn take_nothing(&self, reply: &Reply, totals: Totals) -> Result<Next, Lost> {
        let count = self.state().empty;
        if count > MOST_EMPTY {
            let what = match reply.cut_calls.first() {
                Some(name) => {
                    format!("the model's reply was cut off in the middle of a call of {name}, {count} times in a row")
                }
                None => format!("the model gave no answer, {count} times in a row"),
            };
            let error = ModelError::new(ErrorKind::Malformed, what);
            return self.failed(&error).await.map(|()| Next::Ended);
        }
        let hint = match reply.cut_calls.first() {
            Some(name) => format!(
                "Your reply was cut off in the middle of a call of {name}, so the call was not made. Write it shorter."
            ),
            None => "Your reply was empty. Answer the user, or call a tool.".to_owned(),
        };
        let body = json!({ "customType": "pincer.hint", "content": hint, "display": false }).to_string();
        let entry = self.lane.entry(EntryKind::CustomMessage, body);
        self.lane.commit(Step { entries: vec![entry], totals, ..Step::default() }, &self.stop.token).await?;
        self.state().transcript.push_text(hint);
        Ok(Next::GoOn)
    }

    /// Takes the messages that are to join this run, after a reply if there is one. Returns whether there were any: without, nothing is
    /// stored.
    async fn take_steered(&self, after: Option<(pincer_store::NewEntry, Totals, Stored)>) -> Result<bool, Lost> {
        loop {
            match self.join_steered(after.clone()).await {
                // One of them was taken back, or gave way to another, a moment ago.
                Err(Lost::Fenced(StoreError::Missing { what: "open agent run", id })) if id != self.run.id.as_str() => {
                }
                joined => return joined,
            }
        }
    }

    async fn join_steered(&self, after: Option<(pincer_store::NewEntry, Totals, Stored)>) -> Result<bool, Lost> {
        let open = self.lane.store.open_runs(&self.run.user, &self.run.session_key).await;
        let open = open.map_err(Lost::Unstored)?;
        let steered: Vec<(AgentRun, Request)> = open
            .into_iter()
            .filter(|run| run.state == AgentRunState::Queued)
            .filter_map(|run| Request::parse(&run.request).ok().map(|request| (run, request)))
            .filter(|(_, request)| request.queue == Some(QueueMode::Steer))
            .collect();
        if steered.is_empty() {
            return Ok(false);
        }
        let now = self.lane.store.now();
        let (mut entries, mut messages, mut totals) = (Vec::new(), Vec::new(), Totals::default());
        if let Some((entry, used, stored)) = after {
            entries.push(entry);
            messages.push(stored);
            totals = used;
        }
        let mut others = Vec::new();
        for (run, request) in steered {
            let message = record::user(&request, now);
            let mut entry = self.lane.entry(EntryKind::Message, message.to_body());
            entry.run = Some(run.id.clone());
            entries.push(entry);
            messages.push(message);
            others.push(RunChange {
                merged_into: Some(self.run.id.clone()),
                ..RunChange::new(run.id, AgentRunState::Merged)
            });
        }
        let committed = self.lane.commit(Step { entries, others, totals, ..Step::default() }, &self.stop.token).await?;
        let mut state = self.state();
        for (message, position) in messages.into_iter().zip(committed.first..) {
            state.transcript.push(position, message);
        }
        Ok(true)
    }

    /// Returns whether messages wait to join this run.
    pub(crate) async fn is_steered(&self) -> bool {
        let open = self.lane.store.open_runs(&self.run.user, &self.run.session_key).await.unwrap_or_default();
        let steers =
            |run: &AgentRun| Request::parse(&run.request).is_ok_and(|request| request.queue == Some(QueueMode::Steer));
        open.iter().any(|run| run.state == AgentRunState::Queued && steers(run))
    }

    fn outcome(&self, status: Status, summary: Summary) -> RunOutcome {
        let state = self.state();
        let spent = state.detail.spent;
        let started = self.run.started_at.unwrap_or_else(|| self.lane.store.now());
        let duration = self.lane.store.now() - started - state.detail.paused_ms;
        let payloads = state.texts.iter().map(|text| Payload { text: text.clone(), is_error: false });
        RunOutcome {
            stop_reason: state.stop_reason.clone(),
            result: Answer {
                payloads: payloads.collect(),
                usage: RunUsage {
                    input: spent.input,
                    output: spent.output,
                    cache_read: spent.cache_read,
                    cache_write: spent.cache_write,
                },
                model: state.model.clone(),
                telemetry: RunTelemetry {
                    model_calls: spent.model_calls,
                    tool_calls: spent.tool_calls,
                    nested_calls: spent.nested_calls,
                    code_mode: self.surface.is_code_mode,
                    duration_ms: u64::try_from(duration).unwrap_or(0),
                },
            },
            ..RunOutcome::bare(&self.run, self.request.agent.clone(), status, summary)
        }
    }

    /// Ends the run with its answer.
    async fn finish(&self, last: Option<(pincer_store::NewEntry, Totals)>) -> Result<(), Lost> {
        let outcome = self.outcome(Status::Ok, Summary::Completed);
        let end = json!({
            "phase": "end",
            "startedAt": self.run.started_at,
            "endedAt": self.lane.store.now(),
            "stopReason": outcome.stop_reason,
        });
        let (entries, totals) = last.map_or_else(Default::default, |(entry, totals)| (vec![entry], totals));
        self.end(entries, totals, AgentRunState::Done, outcome, end).await
    }

    /// Ends the run with a failure of the model.
    async fn failed(&self, error: &ModelError) -> Result<(), Lost> {
        let told = format!("{error}. To go on: {}", error.kind.remedy());
        let mut outcome = self.outcome(Status::Error, Summary::Failed);
        outcome.result.payloads.push(Payload { text: told.clone(), is_error: true });
        (outcome.error, outcome.error_kind) = (Some(told.clone()), Some(error.kind.name().to_owned()));
        outcome.stop_reason = Some("error".into());
        let note = self.lane.note("pincer.error", &json!({ "kind": error.kind.name(), "message": told }));
        let end = json!({ "phase": "error", "error": told, "endedAt": self.lane.store.now(), "errorKind": error.kind.name() });
        self.end(vec![note], Totals::default(), AgentRunState::Failed, outcome, end).await
    }

    /// Ends the run because it was stopped. The transcript is left as a model can read it: every call has a result.
    async fn stopped(&self, partial: Option<String>) -> Result<Left, Lost> {
        let reason = self.stop.reason().unwrap_or(StopReason::Asked);
        if reason == StopReason::Lost {
            return Ok(Left::Lost);
        }
        let now = self.lane.store.now();
        let mut entries = Vec::new();
        if let Some(text) = partial.filter(|text| !text.trim().is_empty()) {
            entries.push(self.lane.entry(EntryKind::Message, record::stopped_reply(&text, now).to_body()));
            self.state().texts.push(text);
        }
        let next = self.state().transcript.next();
        if let transcript::Step::Calls(open) = next {
            for call in open.calls {
                let result =
                    CallResult::error("The run was stopped before this call had a result. It may or may not have run.");
                let message = record::result(&call.call.id, &call.call.name, &result, now);
                let mut entry = self.lane.entry(EntryKind::Message, message.to_body());
                entry.call = Some(call.id);
                entries.push(entry);
            }
        }
        let (state, status, told, word) = match reason {
            StopReason::TimedOut => {
                (AgentRunState::TimedOut, Status::Timeout, "the run took longer than it may and was stopped", "timeout")
            }
            StopReason::Asked | StopReason::Lost => {
                (AgentRunState::Aborted, Status::Error, "the run was stopped", "aborted")
            }
        };
        entries.push(self.lane.note("pincer.stopped", &json!({ "reason": word })));
        let mut outcome = self.outcome(status, Summary::Aborted);
        (outcome.error, outcome.stop_reason) = (Some(told.to_owned()), Some(word.to_owned()));
        let end = match reason {
            StopReason::TimedOut => json!({ "phase": "error", "error": told, "endedAt": now, "timeoutPhase": "run" }),
            StopReason::Asked | StopReason::Lost => json!({
                "phase": "end",
                "startedAt": self.run.started_at,
                "endedAt": now,
                "aborted": true,
                "stopReason": word,
            }),
        };
        self.end(entries, Totals::default(), state, outcome, end).await?;
        Ok(Left::Ended)
    }

    async fn end(
        &self,
        entries: Vec<pincer_store::NewEntry>,
        totals: Totals,
        state: AgentRunState,
        outcome: RunOutcome,
        last: Value,
    ) -> Result<(), Lost> {
        self.agent.end_programs(&self.run.id).await;
        let entries = match entries.is_empty() {
            true => vec![self.lane.note("pincer.end", &json!({}))],
            false => entries,
        };
        let step = Step {
            entries,
            totals,
            happenings: vec![Happening::lifecycle(last)],
            state: Some(state),
            result: Some(outcome.to_json().into()),
            release: true,
            synced: true,
            ..Step::default()
        };
        // What has ended is stored, however often that is tried: only the process can end this.
        self.lane.commit(step, &self.agent.closing).await.map(drop)
    }

    /// Returns the calls that the sender of the run has made.
    async fn answered_calls(&self) -> Result<HashSet<String>, Lost> {
        if self.request.client_tools.is_empty() {
            return Ok(HashSet::new());
        }
        let calls = self.lane.store.client_calls(&self.run.id).await.map_err(Lost::Unstored)?;
        Ok(calls.into_iter().filter(|call| call.result.is_some()).map(|call| call.id).collect())
    }

    /// Leaves the run until a person has answered, or its sender has made a call. If the sender has made one since `answered` was
    /// read, the run goes on: that call may be the one that it waits for.
    async fn suspend(&self, waits: Waits, answered: &HashSet<String>) -> Result<Option<Left>, Lost> {
        let now = self.lane.store.now();
        let Waits { approvals, for_caller, programs } = waits;
        self.state().detail.programs = programs;
        let (mut happenings, mut questions) = (Vec::new(), Vec::new());
        for id in &approvals {
            let approval = self.lane.store.approval(id).await.map_err(Lost::Unstored)?;
            happenings.push(Happening::new(
                Stream::Approval,
                json!({ "phase": "requested", "kind": "tool", "status": "pending", "approvalId": id, "tool": approval.tool }),
            ));
            questions.push(OpenQuestion { approval_id: id.clone(), tool: approval.tool, tool_call_id: None });
        }
        let calls = match for_caller {
            true => self.lane.store.client_calls(&self.run.id).await.map_err(Lost::Unstored)?,
            false => Vec::new(),
        };
        if calls.iter().any(|call| call.result.is_some() && !answered.contains(&call.id)) {
            return Ok(None);
        }
        let calls: Vec<_> = calls.into_iter().filter(|call| call.result.is_none()).collect();
        let phase = if questions.is_empty() { "waiting-client" } else { "waiting-approval" };
        let open_calls: Vec<OpenClientCall> = calls
            .iter()
            .map(|call| OpenClientCall {
                call_id: call.id.clone(),
                name: call.name.clone(),
                arguments: serde_json::from_str(&call.arguments).unwrap_or_default(),
            })
            .collect();
        let data =
            json!({ "phase": phase, "approvals": questions, "clientCalls": open_calls, "livenessState": "paused" });
        happenings.push(Happening::lifecycle(data.clone()));
        let mut outcome = self.outcome(Status::Waiting, Summary::Waiting);
        (outcome.approvals, outcome.client_calls, outcome.stop_reason) = (questions, open_calls, None);
        let detail = {
            let mut state = self.state();
            state.detail.approvals = approvals;
            state.detail.client_calls = calls.into_iter().map(|call| call.id).collect();
            state.detail.waiting_since = Some(now);
            state.detail.to_json()
        };
        let awaits = {
            let state = self.state();
            let approvals = state.detail.approvals.iter().map(ToString::to_string);
            approvals.chain(state.detail.client_calls.iter().cloned()).collect()
        };
        let step = Step {
            awaits,
            entries: vec![self.lane.note("pincer.waiting", &data)],
            happenings,
            state: Some(AgentRunState::Waiting),
            detail: Some(detail.into()),
            result: Some(outcome.to_json().into()),
            release: true,
            synced: true,
            ..Step::default()
        };
        self.lane.commit(step, &self.stop.token).await?;
        Ok(Some(Left::Waiting))
    }
}

/// Gives calls of one reply ids that differ.
fn renamed(reply: &mut Reply) {
    let mut seen = HashSet::new();
    for (part, number) in reply.message.parts.iter_mut().zip(2..) {
        if let pincer_model::Part::Call(call) = part
            && !seen.insert(call.id.clone())
        {
            call.id = format!("{}~{number}", call.id);
            seen.insert(call.id.clone());
        }
    }
}

fn refusal(reply: &Reply) -> Option<String> {
    reply.message.parts.iter().find_map(|part| match part {
        pincer_model::Part::Refusal { text, .. } => Some(text.clone()),
        _ => None,
    })
}
