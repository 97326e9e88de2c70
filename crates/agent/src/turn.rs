//! One run, from where its transcript stands to its end or to a point where it must wait.
//!
//! The next step always follows from what is stored, so a run that another process began goes on in the same way. What is different then
//! is only that open calls may have been made already.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pincer_hooks::events::{BeforeAgentFinalize, BeforeAgentRun, Finalize};
use pincer_model::{
    Cache, Choice, ErrorKind, Level, ModelError, Plan, Reply, Request as ModelRequest, Stop as ReplyStop,
};
use pincer_runtime::Scope;
use pincer_sessions::Message as Stored;
use pincer_store::{AgentRun, AgentRunState, AgentRuns, Clock, EntryKind, NewEntry, RunChange, StoreError, Totals};
use serde_json::json;

use crate::claimed::{Claimed, Left, StopReason};
use crate::compaction::Room;
use crate::compaction::settings::Settings;
use crate::driver::{left_out_body, left_out_of, left_out_text};
use crate::error::AgentError;
use crate::frame::frame;
use crate::lane::{Lost, Step};
use crate::preparing::fail;
use crate::prompt::Prompt;
use crate::record;
use crate::replies::{Said, said_in};
use crate::reply::{Asked, Shown, Voice, Void, ask, nothing_said, pause, void};
use crate::request::{QueueMode, Reasoning, Request};
use crate::settings::blocks;
use crate::surface::Surface;
use crate::telemetry::style_name;
use crate::transcript;

/// The kind of the text with which hooks have the model revise its answer.
pub(crate) const REVISION: &str = "pincer.revision";
/// How often a model that says nothing, or whose reply breaks in the middle, is asked again.
const MOST_EMPTY: u32 = 2;

/// A run that goes on in this process, with all that it needs for that.
pub(crate) struct Turn {
    pub claimed: Claimed,
    pub scope: Scope,
    pub surface: Arc<Surface>,
    pub plan: Plan,
    pub thinking: Level,
    pub prompt: Prompt,
    pub compaction: Settings,
    /// The estimated tokens of the instructions and the tools, once they are asked for.
    pub around: OnceLock<u64>,
}

impl Deref for Turn {
    type Target = Claimed;

    fn deref(&self) -> &Claimed {
        &self.claimed
    }
}

enum Next {
    GoOn,
    Ended,
}

impl Turn {
    /// Works on the run until it ends or must wait.
    pub(crate) async fn work(&self) -> Left {
        let worked = Box::pin(self.go()).await;
        match worked {
            Ok(left) => return left,
            Err(Lost::Fenced(error)) => tracing::info!(run = %self.run.id, "given up: {error}"),
            Err(Lost::Unstored(error)) => tracing::warn!(run = %self.run.id, "not stored: {error}"),
            Err(Lost::Refused(error)) => {
                tracing::error!(run = %self.run.id, "refused by the store, so the run ends: {error}");
                let failed = fail(&self.run, &self.request, &self.lane, &AgentError::Store(error), &self.agent).await;
                if failed.is_ok() {
                    return Left::Ended;
                }
            }
        }
        Left::Lost
    }

    async fn go(&self) -> Result<Left, Lost> {
        let (mut is_recovered, mut is_hinted) = (self.is_recovered, false);
        self.lane.feed.activity().prepared(self.lane.now());
        loop {
            if self.stop.token.is_cancelled() {
                return self.stopped(None).await;
            }
            if let Some(instructions) = &self.request.compact {
                return Box::pin(self.compact_as_asked(instructions)).await;
            }
            let next = self.state().transcript.next(&self.run.id);
            match next {
                transcript::Step::Ask => {
                    self.take_steered(None).await?;
                    if !is_hinted {
                        Box::pin(self.hint()).await?;
                        is_hinted = true;
                    }
                    match Box::pin(self.make_room()).await? {
                        Room::Made => {}
                        Room::Changed => continue,
                        Room::Ended => return Ok(Left::Ended),
                    }
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
                    if self.take_steered(None).await? {
                        continue;
                    }
                    if let Some(instruction) = self.revision(None).await {
                        self.revise(None, instruction).await?;
                        continue;
                    }
                    return self.finish(None).await.map(|()| Left::Ended);
                }
            }
            is_recovered = false;
        }
    }

    /// Asks the model, and stores its reply. A reply without calls ends the run.
    async fn ask(&self) -> Result<Next, Lost> {
        let messages = self.state().transcript.messages();
        let (voice, plan, system) = match self.is_flushing() {
            true => (Voice::Silent, self.flush_plan(), self.flush_system()),
            false => (Voice::Aloud(self.shown()), self.plan.clone(), self.prompt.stable()),
        };
        let request = ModelRequest {
            system,
            suffix: self.prompt.suffix.as_ref().map(|part| part.text.clone()),
            max_tokens: self.most_reply(),
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
        let (provider, model) = self.target();
        self.lane.frame.put(frame(&self.run.id, plan.targets.first(), &request, style_name(self.surface.style)));
        self.hooks.tell_input(&self.agent, &self.request.message, (&provider, &model), &request);
        match ask(models, plan, request, &self.lane, voice, &self.stop.token).await {
            Asked::Reply(reply) => self.take_reply(*reply).await,
            Asked::Failed(error) if error.kind == ErrorKind::Deadline => {
                self.stop.stop(StopReason::TimedOut);
                Ok(Next::GoOn)
            }
            Asked::Failed(error) => self.take_failure(&error).await,
            Asked::Stopped(text) => match self.stopped(Some(text)).await? {
                Left::Ended => Ok(Next::Ended),
                Left::Waiting | Left::Lost => Ok(Next::GoOn),
            },
        }
    }

    /// Returns how much of a reply is told while it comes in.
    fn shown(&self) -> Shown {
        let blocks = blocks(self.agent.runtime.config(), self.request.agent.as_deref());
        Shown { blocks, thinking: self.state().telling.reasoning != Reasoning::Off }
    }

    /// Deals with a request that failed. A reply that broke after a part of it was told is voided, and the model is asked again: nothing
    /// of it is stored, so none of its calls was made.
    async fn take_failure(&self, error: &ModelError) -> Result<Next, Lost> {
        if matches!(error.kind, ErrorKind::ContextOverflow { .. }) && self.compaction.is_enabled {
            return self.overflowed(error).await;
        }
        if self.is_flushing() {
            tracing::info!(run = %self.run.id, "the notes before a compaction were not written: {error}");
            return self.end_flush(None, Totals::default()).await.map(|()| Next::GoOn);
        }
        let count = {
            let mut state = self.state();
            state.empty += 1;
            state.empty
        };
        // Before anything was told, the request has been made again already, as often as it may be.
        if !(error.has_shown && error.retry.is_right() && count <= MOST_EMPTY) {
            return self.failed(error).await.map(|()| Next::Ended);
        }
        tracing::info!(run = %self.run.id, "the reply broke and the model is asked again: {error}");
        void(&self.lane);
        if error.has_broken_call {
            let hint = format!(
                "Your reply was discarded, and no call of it was made: {}. Answer again, with the arguments of each call as one \
                 JSON object.",
                error.message
            );
            self.tell_model(hint, Totals::default()).await?;
        }
        tokio::select! {
            () = self.stop.token.cancelled() => {}
            () = tokio::time::sleep(pause(error, count)) => {}
        }
        Ok(Next::GoOn)
    }

    async fn overflowed(&self, error: &ModelError) -> Result<Next, Lost> {
        Ok(if Box::pin(self.take_overflow(error)).await? { Next::GoOn } else { Next::Ended })
    }

    async fn take_reply(&self, mut reply: Reply) -> Result<Next, Lost> {
        renamed(&mut reply);
        let calls = reply.message.calls().count();
        let text = reply.message.text();
        let refusal = refusal(&reply);
        let is_empty = calls == 0 && text.trim().is_empty() && refusal.is_none() && reply.stop != ReplyStop::Pause;
        let (usage, now) = (reply.usage, self.lane.store.now());
        let is_silent = self.is_flushing();
        let says_nothing = is_empty || calls == 0 && !reply.cut_calls.is_empty();
        if reply.stop == ReplyStop::Window && says_nothing && self.compaction.is_enabled {
            let what = "the reply was cut off because the model's window is full";
            let kind = ErrorKind::ContextOverflow { used: None, limit: None };
            return self.overflowed(&ModelError { has_shown: true, ..ModelError::new(kind, what) }).await;
        }
        let (more, answer) = (self.flush_weight(), self.answer(&reply));
        {
            let mut state = self.state();
            let spent = &mut state.detail.spent;
            spent.model_calls += 1;
            spent.tool_calls += calls as u32;
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut spent.input, usage.input);
            add(&mut spent.output, usage.output);
            add(&mut spent.cache_read, usage.cache_read);
            add(&mut spent.cache_write, usage.cache_write);
            state.answered(more, answer, usage.cache_read);
            if !is_silent {
                state.detail.guard.replied();
            }
            state.stop_reason = Some(record::stop(&reply.stop).to_owned());
            if let Some(origin) = &reply.message.origin {
                state.model = Some(format!("{}/{}", origin.provider, origin.model));
            }
            state.empty = if says_nothing && !is_silent { state.empty + 1 } else { 0 };
        }
        let added = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let totals = Totals {
            input: added(usage.input),
            output: added(usage.output),
            cache_read: added(usage.cache_read),
            cache_write: added(usage.cache_write),
            ..Totals::default()
        };
        if says_nothing {
            return match is_silent {
                true => self.end_flush(None, totals).await.map(|()| Next::GoOn),
                false => self.take_nothing(&reply, totals).await,
            };
        }
        let stored = record::assistant(&reply, now);
        let (provider, model) = self.target();
        self.hooks.tell_output(&self.agent, (&provider, &model), &reply, &stored);
        let stored = self.hooks.written(stored).await;
        if !is_silent {
            let mut state = self.state();
            state.reply_from = state.said.len();
            state.said.extend(said_in(&stored));
        }
        let entry = self.lane.entry(EntryKind::Message, stored.to_body());
        if calls == 0 && reply.stop != ReplyStop::Pause && is_silent {
            return self.end_flush(Some((entry, stored)), totals).await.map(|()| Next::GoOn);
        }
        if calls == 0 && reply.stop != ReplyStop::Pause {
            if self.take_steered(Some((entry.clone(), totals, stored.clone()))).await? {
                return Ok(Next::GoOn);
            }
            if let Some(instruction) = self.revision(Some(&stored)).await {
                return self.revise(Some((entry, totals, stored)), instruction).await.map(|()| Next::GoOn);
            }
            return self.finish(Some((entry, totals))).await.map(|()| Next::Ended);
        }
        // The reply is the note that its calls are about to be made: those that change something need it on the disk.
        let known = reply.message.calls().map(|call| self.known_call(call)).collect();
        self.state().detail.calls = known;
        let deliveries = self.blocks_for_channel().await;
        let detail = Some(self.state().detail.to_json().into());
        let synced = reply.message.calls().any(|call| self.may_change(call));
        let step = Step { entries: vec![entry], totals, detail, deliveries, synced, ..Step::default() };
        let committed = self.lane.commit(step, &self.stop.token).await?;
        self.state().transcript.push(committed.first, stored);
        Ok(Next::GoOn)
    }

    /// Returns the provider and the model that are asked first.
    fn target(&self) -> (String, String) {
        let target = self.plan.targets.first();
        target.map_or_else(Default::default, |target| (target.provider.id.clone(), target.model.id.clone()))
    }

    /// Asks hooks whether the run may end with its last reply. Returns an instruction for the model if it may not.
    async fn revision(&self, last: Option<&Stored>) -> Option<String> {
        if !self.hooks.has::<BeforeAgentFinalize>() {
            return None;
        }
        let (messages, text, detail) = {
            let state = self.state();
            let mut messages = crate::hooks::messages(&state.transcript);
            messages.extend(last.map(crate::hooks::of_stored));
            let text = state.said.iter().rev().find_map(|said| match said {
                Said::Text(text) => Some(text.clone()),
                Said::Thinking(_) | Said::Tool(_) => None,
            });
            (messages, text.unwrap_or_default(), state.detail.clone())
        };
        let (provider, model) = self.target();
        let revised = |matter: &str| detail.revised(matter);
        match self.hooks.finalize((&provider, &model), &text, messages, revised).await {
            Finalize::End => None,
            Finalize::Revise { instruction, key } => {
                *self.state().detail.revisions.entry(key).or_default() += 1;
                Some(instruction)
            }
        }
    }

    /// Has the model go on with an instruction, after its last reply if that is not stored yet.
    async fn revise(&self, last: Option<(NewEntry, Totals, Stored)>, instruction: String) -> Result<(), Lost> {
        let body = json!({ "customType": REVISION, "content": instruction, "display": false }).to_string();
        let (mut entries, mut totals, mut reply) = (Vec::new(), Totals::default(), None);
        if let Some((entry, used, stored)) = last {
            entries.push(entry);
            (totals, reply) = (used, Some(stored));
        }
        entries.push(self.lane.entry(EntryKind::CustomMessage, body));
        let detail = Some(self.state().detail.to_json().into());
        // The part of the reply that was shown is void.
        let happenings = vec![nothing_said(Void::Revised)];
        let step = Step { entries, totals, detail, happenings, ..Step::default() };
        let committed = self.lane.commit(step, &self.stop.token).await?;
        let mut state = self.state();
        let reply_from = state.reply_from;
        state.said.truncate(reply_from);
        if let Some(reply) = reply {
            state.transcript.push(committed.first, reply);
        }
        state.transcript.push_text(instruction);
        Ok(())
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
        self.tell_model(hint, totals).await?;
        Ok(Next::GoOn)
    }

    /// Adds a text for the model to the conversation that no person has written.
    async fn tell_model(&self, hint: String, totals: Totals) -> Result<(), Lost> {
        let body = json!({ "customType": "pincer.hint", "content": hint, "display": false }).to_string();
        let entry = self.lane.entry(EntryKind::CustomMessage, body);
        let detail = Some(self.state().detail.to_json().into());
        self.lane.commit(Step { entries: vec![entry], totals, detail, ..Step::default() }, &self.stop.token).await?;
        self.state().transcript.push_text(hint);
        Ok(())
    }

    /// Takes the messages that are to join this run, after a reply if there is one. Returns whether there were any: without, nothing is
    /// stored.
    async fn take_steered(&self, after: Option<(NewEntry, Totals, Stored)>) -> Result<bool, Lost> {
        loop {
            match self.join_steered(after.clone()).await {
                // One of them was taken back, or gave way to another, a moment ago.
                Err(Lost::Fenced(StoreError::Missing { what: "open agent run", id })) if id != self.run.id.as_str() => {
                }
                joined => return joined,
            }
        }
    }

    async fn join_steered(&self, after: Option<(NewEntry, Totals, Stored)>) -> Result<bool, Lost> {
        let open = self.lane.store.open_runs(&self.run.user, &self.run.session_key).await;
        let mut open = open.map_err(Lost::Unstored)?;
        let left_out = left_out_of(&mut open, &self.request);
        let steers = |run: &AgentRun| self.steers(run);
        let steered: Vec<(AgentRun, Request)> = open
            .into_iter()
            .filter(steers)
            .filter_map(|run| Request::parse(&run.request).ok().map(|request| (run, request)))
            .collect();
        if steered.is_empty() {
            return Ok(false);
        }
        let now = self.lane.store.now();
        let (mut entries, mut messages, mut totals) = (Vec::new(), Vec::new(), Totals::default());
        let is_after_reply = after.is_some();
        if let Some((entry, used, stored)) = after {
            entries.push(entry);
            messages.push(stored);
            totals = used;
        }
        let mut others: Vec<RunChange> = left_out.iter().map(|run| self.joined(run, run.state)).collect();
        if !left_out.is_empty() {
            let text = left_out_text(&left_out, &self.hooks).await;
            entries.push(self.lane.entry(EntryKind::CustomMessage, left_out_body(&text)));
            let message = Request::new(text);
            messages.push(record::user(&message, now));
        }
        for (run, request) in steered {
            let message = self.hooks.written(record::user(&request, now)).await;
            entries.push(self.lane.entry(EntryKind::Message, message.to_body()));
            messages.push(message);
            others.push(self.joined(&run, AgentRunState::Merged));
        }
        let told_before = self.state().detail.told;
        let deliveries = self.blocks_for_channel().await;
        // The reply is counted in there.
        let is_changed = is_after_reply || !deliveries.is_empty();
        let detail = is_changed.then(|| self.state().detail.to_json().into());
        let step = Step { entries, others, totals, detail, deliveries, ..Step::default() };
        let committed = self.lane.commit(step, &self.stop.token).await;
        let mut state = self.state();
        let committed = committed.inspect_err(|_| state.detail.told = told_before)?;
        for (message, position) in messages.into_iter().zip(committed.first..) {
            state.transcript.push(position, message);
        }
        Ok(true)
    }

    fn joined(&self, run: &AgentRun, state: AgentRunState) -> RunChange {
        RunChange { merged_into: Some(self.run.id.clone()), ..RunChange::new(run.id.clone(), state) }
    }

    /// Returns whether messages wait to join this run.
    pub(crate) async fn is_steered(&self) -> bool {
        let open = self.lane.store.open_runs(&self.run.user, &self.run.session_key).await.unwrap_or_default();
        open.iter().any(|run| self.steers(run))
    }

    /// Returns whether a message waits to join this run. With a gate before runs, each message begins a run of its own: the gate is asked
    /// about all that a model is sent.
    fn steers(&self, run: &AgentRun) -> bool {
        let joins =
            |request: Request| request.queue == Some(QueueMode::Steer) && self.request.may_be_joined_by(&request);
        run.state == AgentRunState::Queued
            && !self.hooks.has::<BeforeAgentRun>()
            && Request::parse(&run.request).is_ok_and(joins)
    }
}

/// Gives calls of one reply ids that differ. Every provider takes letters, digits and `_` in an id.
fn renamed(reply: &mut Reply) {
    let mut seen = HashSet::new();
    for (part, number) in reply.message.parts.iter_mut().zip(2..) {
        if let pincer_model::Part::Call(call) = part
            && !seen.insert(call.id.clone())
        {
            let numbered = (number..).map(|number| format!("{}_{number}", call.id));
            call.id = numbered.into_iter().find(|id| !seen.contains(id)).unwrap_or_default();
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
