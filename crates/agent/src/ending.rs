//! The ends of a run: its answer, a failure, a stop; and the point where it waits.

use std::collections::HashSet;

use pincer_hooks::events::PromptAdditions;
use pincer_model::ModelError;
use pincer_sessions::Block;
use pincer_store::{
    AgentRunState, Approvals, Attach, ClientCalls, Clock, EntryKind, EntryPage, NewEntry, Sessions, Totals,
};
use serde_json::{Value, json};

use crate::claimed::{Claimed, Left, StopReason, Waits};
use crate::delivering::sent_texts;
use crate::event::{Happening, Stream};
use crate::hooks::{AFTER_USER, BEFORE_USER, Beginning, NOTE, WITHHELD, delimited};
use crate::lane::{Lost, Step};
use crate::outcome::{
    Answer, OpenClientCall, OpenQuestion, Payload, RunOutcome, RunTelemetry, RunUsage, Status, Summary,
};
use crate::record::{self, CallResult};
use crate::replies::{Said, Shaping, payloads};
use crate::request::{Reasoning, Request};
use crate::telemetry::Exposed;
use crate::transcript;

const TOOK_TOO_LONG: &str = "the run took longer than it may and was stopped: raise `--timeout` for one run, or \
                             `agents.defaults.timeoutSeconds` for all";

/// A failure of a run, as its sender is told.
pub(crate) struct Failure {
    /// Its kind, in a word.
    pub kind: &'static str,
    pub told: String,
}

/// The kind of failure of a run that made no progress.
pub(crate) const STALLED_KIND: &str = "stalled";

const STALLED: &str = "the run made no progress for a long time and was stopped, so that the session goes on. If its model or its tools \
                       are that slow, raise `diagnostics.stuckSessionAbortMs`";

impl Claimed {
    pub(crate) fn outcome(&self, status: Status, summary: Summary) -> RunOutcome {
        let state = self.state();
        let spent = state.detail.spent;
        let started = self.run.started_at.unwrap_or_else(|| self.lane.store.now());
        let duration = self.lane.store.now() - started - state.detail.paused_ms;
        let shaping = Shaping {
            said: &state.said,
            sent: &state.detail.sent,
            failure: state.failure.as_ref(),
            shows_thinking: state.telling.reasoning == Reasoning::On,
        };
        RunOutcome {
            stop_reason: state.stop_reason.clone(),
            result: Answer {
                payloads: payloads(&shaping),
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
                    code_mode: state.exposed.as_ref().is_some_and(Exposed::is_code_mode),
                    duration_ms: u64::try_from(duration).unwrap_or(0),
                    tools: state.detail.tools.telemetry(state.exposed.as_ref()),
                },
            },
            ..RunOutcome::bare(&self.run, self.request.agent.clone(), status, summary)
        }
    }

    /// Finds out which texts the run has sent to its own conversation: they are no part of its answer. A text that was sent elsewhere is.
    pub(crate) async fn know_sent(&self) {
        match sent_texts(&self.lane.store, &self.run.id).await {
            Ok(sent) => {
                let own = sent.into_iter().filter(|sent| self.request.route.as_ref() == Some(&sent.route));
                self.state().detail.sent = own.map(|sent| sent.text).collect();
            }
            // Better a text twice than an end that is not stored.
            Err(error) => tracing::warn!(run = %self.run.id, "the texts that the run has sent are not known: {error}"),
        }
    }

    /// Ends the run with its answer.
    pub(crate) async fn finish(&self, last: Option<(NewEntry, Totals)>) -> Result<(), Lost> {
        self.know_sent().await;
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

    /// Ends the run with the answer of a hook, or with silence.
    pub(crate) async fn answered_by_hook(&self, reply: Option<String>) -> Result<(), Lost> {
        let reply = reply.filter(|text| !text.trim().is_empty());
        let stop_reason = if reply.is_some() { "hook" } else { "silent" };
        self.state().stop_reason = Some(stop_reason.to_owned());
        let Some(text) = reply else { return self.finish(None).await };
        let message = self.hooks.written(record::given_reply(&text, self.lane.store.now())).await;
        self.state().said.push(Said::Text(message.text()));
        let entry = self.lane.entry(EntryKind::Message, message.to_body());
        self.finish(Some((entry, Totals::default()))).await
    }

    /// Ends the run because a hook does not let it ask its model.
    pub(crate) async fn blocked(&self, message: String) -> Result<(), Lost> {
        let mut outcome = self.outcome(Status::Error, Summary::Failed);
        outcome.result.payloads.push(Payload { text: message.clone(), is_error: true, ..Payload::default() });
        (outcome.error, outcome.error_kind) = (Some(message.clone()), Some("blocked".into()));
        outcome.stop_reason = Some("blocked".into());
        let note = self.lane.note("pincer.error", &json!({ "kind": "blocked", "message": message }));
        let mut entries = vec![note];
        // `/compact` is no part of the conversation, so nothing of it must be kept from later runs.
        if self.request.compact.is_none() {
            entries.insert(0, self.withheld().await?);
        }
        let end =
            json!({ "phase": "error", "error": message, "endedAt": self.lane.store.now(), "errorKind": "blocked" });
        self.end(entries, Totals::default(), AgentRunState::Failed, outcome, end).await
    }

    /// Returns an entry in place of what the user said: later runs are not sent it either. The text stays on a branch of its own.
    async fn withheld(&self) -> Result<NewEntry, Lost> {
        let (store, session) = (&self.lane.store, &self.lane.session);
        let first = self.run.first_entry.unwrap_or(1);
        let page = EntryPage { after: first.saturating_sub(1), limit: 1 };
        let entries = store.entries(session, page).await.map_err(Lost::Unstored)?;
        let message = record::user(&Request::new(WITHHELD), self.lane.now());
        let parent = entries.first().and_then(|entry| entry.parent);
        Ok(NewEntry { attach: Attach::Under(parent), ..self.lane.entry(EntryKind::Message, message.to_body()) })
    }

    /// Stores the answers of hooks to the beginning of the run: whichever process goes on with it asks the model the same.
    pub(crate) async fn keep(&self, beginning: &Beginning) -> Result<(), Lost> {
        if *beginning == Beginning::default() {
            return Ok(());
        }
        let added = [(BEFORE_USER, &beginning.prompt.prepend_context), (AFTER_USER, &beginning.prompt.append_context)];
        let added: Vec<(&str, String)> =
            added.into_iter().filter_map(|(kind, text)| Some((kind, delimited(text.as_deref()?)))).collect();
        let kept = Beginning {
            prompt: PromptAdditions { prepend_context: None, append_context: None, ..beginning.prompt.clone() },
            ..beginning.clone()
        };
        let mut entries = vec![self.lane.note(NOTE, &serde_json::to_value(&kept).unwrap_or_default())];
        entries.extend(added.iter().map(|(kind, text)| {
            let body = json!({ "customType": kind, "content": text, "display": false });
            self.lane.entry(EntryKind::CustomMessage, body.to_string())
        }));
        self.lane.commit(Step { entries, ..Step::default() }, &self.stop.token).await?;
        let mut state = self.state();
        for (kind, text) in added {
            state.transcript.add_context(kind, vec![Block::text(text)]);
        }
        Ok(())
    }

    /// Ends the run with a failure of the model.
    pub(crate) async fn failed(&self, error: &ModelError) -> Result<(), Lost> {
        self.know_sent().await;
        let said = error.to_string();
        let told = format!("{}. To go on: {}", said.trim_end_matches('.'), error.kind.remedy());
        self.failed_as(Failure { kind: error.kind.name(), told }).await
    }

    /// Ends the run with a failure.
    pub(crate) async fn failed_as(&self, failure: Failure) -> Result<(), Lost> {
        let Failure { kind, told } = failure;
        let mut outcome = self.outcome(Status::Error, Summary::Failed);
        outcome.result.payloads.push(Payload { text: told.clone(), is_error: true, ..Payload::default() });
        (outcome.error, outcome.error_kind) = (Some(told.clone()), Some(kind.to_owned()));
        outcome.stop_reason = Some("error".into());
        let note = self.lane.note("pincer.error", &json!({ "kind": kind, "message": told }));
        let end = json!({ "phase": "error", "error": told, "endedAt": self.lane.store.now(), "errorKind": kind });
        self.end(vec![note], Totals::default(), AgentRunState::Failed, outcome, end).await
    }

    /// Ends the run because it was stopped. The transcript is left as a model can read it: every call has a result.
    pub(crate) async fn stopped(&self, partial: Option<String>) -> Result<Left, Lost> {
        let reason = self.stop.reason().unwrap_or(StopReason::Asked);
        if reason == StopReason::Lost {
            return Ok(Left::Lost);
        }
        let now = self.lane.store.now();
        let mut entries = Vec::new();
        if let Some(text) = partial.filter(|text| !text.trim().is_empty()) {
            let message = self.hooks.written(record::stopped_reply(&text, now)).await;
            entries.push(self.lane.entry(EntryKind::Message, message.to_body()));
            self.state().said.push(Said::Text(message.text()));
        }
        let next = self.state().transcript.next(&self.run.id);
        if let transcript::Step::Calls(open) = next {
            for call in open.calls {
                let result =
                    CallResult::error("The run was stopped before this call had a result. It may or may not have run.");
                let message = record::result(&call.call.id, &call.call.name, &result, now);
                let message = self.hooks.persisted(&self.agent, &call.call.name, message).await;
                let message = self.hooks.written(message).await;
                let mut entry = self.lane.entry(EntryKind::Message, message.to_body());
                entry.call = Some(call.id);
                entries.push(entry);
            }
        }
        let (state, status, told, word) = match reason {
            StopReason::TimedOut => (AgentRunState::TimedOut, Status::Timeout, TOOK_TOO_LONG, "timeout"),
            StopReason::Stalled => (AgentRunState::Failed, Status::Error, STALLED, STALLED_KIND),
            StopReason::Asked | StopReason::Lost => {
                (AgentRunState::Aborted, Status::Error, "the run was stopped", "aborted")
            }
        };
        entries.push(self.lane.note("pincer.stopped", &json!({ "reason": word })));
        let mut outcome = self.outcome(status, Summary::Aborted);
        (outcome.error, outcome.stop_reason) = (Some(told.to_owned()), Some(word.to_owned()));
        outcome.error_kind = (reason == StopReason::Stalled).then(|| word.to_owned());
        let end = match reason {
            StopReason::TimedOut => json!({ "phase": "error", "error": told, "endedAt": now, "timeoutPhase": "run" }),
            StopReason::Stalled => json!({ "phase": "error", "error": told, "endedAt": now, "errorKind": word }),
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

    pub(crate) async fn end(
        &self,
        entries: Vec<NewEntry>,
        totals: Totals,
        state: AgentRunState,
        outcome: RunOutcome,
        last: Value,
    ) -> Result<(), Lost> {
        let programs = self.agent.programs(&self.run.id).await;
        let (error, duration) = (outcome.error.clone(), outcome.result.telemetry.duration_ms);
        let entries = match entries.is_empty() {
            true => vec![self.lane.note("pincer.end", &json!({}))],
            false => entries,
        };
        let deliveries = self.rest_for_channel(state, &outcome);
        let step = Step {
            entries,
            totals,
            deliveries,
            happenings: vec![outcome.last_event(last)],
            state: Some(state),
            figures: outcome.figures(),
            result: Some(outcome.to_json().into()),
            begun: if state == AgentRunState::Done { self.state().begins.clone() } else { None },
            release: true,
            synced: true,
            ..Step::default()
        };
        // The end is stored, however often that is tried: only the end of the process stops this. The programs end with the run.
        self.lane.commit(step, &self.agent.closing).await?;
        let transcript = std::mem::take(&mut self.state().transcript);
        self.hooks.tell_end(&self.agent, &transcript, error, duration);
        self.agent.end_programs(&programs).await;
        Ok(())
    }

    /// Returns the calls that the sender of the run has made.
    pub(crate) async fn answered_calls(&self) -> Result<HashSet<String>, Lost> {
        if self.request.client_tools.is_empty() {
            return Ok(HashSet::new());
        }
        let calls = self.lane.store.client_calls(&self.run.id).await.map_err(Lost::Unstored)?;
        Ok(calls.into_iter().filter(|call| call.result.is_some()).map(|call| call.id).collect())
    }

    /// Leaves the run until a person has answered, or its sender has made a call. If the sender has made one since `answered` was
    /// read, the run goes on: that call may be the one that it waits for.
    pub(crate) async fn suspend(&self, waits: Waits, answered: &HashSet<String>) -> Result<Option<Left>, Lost> {
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
        if approvals.is_empty() && calls.is_empty() {
            // Nothing could ever wake it.
            return Ok(None);
        }
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
            figures: outcome.figures(),
            result: Some(outcome.to_json().into()),
            release: true,
            synced: true,
            ..Step::default()
        };
        self.lane.commit(step, &self.stop.token).await?;
        Ok(Some(Left::Waiting))
    }
}
