//! Runs and continues programs for a model. One that waits for a person suspends the run of the agent: the model never hears of it.

use pincer_codemode::{
    CodeModeResult, Completed, ExecInput, Failed, Guest, InputError, Output, PendingState, WaitInput, WaitReason,
    Waiting, result_text,
};
use pincer_json::Json;
use pincer_model::{Content, Image};
use pincer_runtime::Scope;
use pincer_sessions::NestedCall;
use pincer_store::{
    AgentRunId, ApprovalState, Approvals, CallState, ClientCalls, Journal, NewEntry, RunId, RunState, Runs,
};
use pincer_tools::{Event, EventKind, Filter, Subscription, Told, recorded};
use serde_json::{Value, json};

use crate::calls::{CallEnd, LaneParts};
use crate::claimed::Waits;
use crate::detail::Parked;
use crate::driver::TRY_AGAIN;
use crate::event::{Happening, reported, shortened, shown};
use crate::record::CallResult;
use crate::tool_search::code_result;
use crate::transcript::OpenCall;
use crate::turn::Turn;

/// The most bytes of an input or an output of a nested call in the transcript.
pub(crate) const MOST_KEPT: usize = 8 << 10;
/// How often a program of Tool Search is continued when the store or the engine fails.
const MOST_TRIES: u32 = 30;

impl Turn {
    /// Runs a program, or goes on with the one that this call has begun.
    pub(crate) async fn exec(
        &self,
        open: &OpenCall,
        guest: Guest,
        seq: u32,
        reply: u32,
        is_recovered: bool,
    ) -> CallEnd {
        let arguments: Value = open.call.arguments.to().unwrap_or_default();
        let input = match ExecInput::parse(&arguments) {
            Ok(input) => input,
            Err(error) => return CallEnd::unmade(of_input(&error)),
        };
        // Under the same key, a program that was begun before is not begun again.
        let key = format!("{}/{seq}", self.run.id);
        let scope = self.scope.clone().within(open.id.as_str());
        let scope = if guest == Guest::ToolSearch { scope.searching() } else { scope };
        let mut listening = self.listening(open);
        let parked = self.state().detail.programs.iter().find(|parked| parked.seq == seq).cloned();
        let (mut output, first) = match parked {
            Some(Parked { program, output, .. }) => (output, Err(program)),
            None => (Vec::new(), Ok(input.with_key(Some(key.clone())))),
        };
        let driving = async {
            let result = match first {
                Ok(input) => Box::pin(self.agent.runtime.exec(&scope, input)).await,
                Err(run_id) => Box::pin(self.agent.runtime.wait(&scope, &WaitInput { run_id })).await,
            };
            let result = match guest {
                Guest::CodeMode if is_recovered => self.past_closing(&scope, result, &mut output).await,
                Guest::CodeMode => result,
                Guest::ToolSearch => self.to_end(&scope, result, &mut output).await,
            };
            self.past_people(&scope, guest, result, seq, &mut output).await
        };
        let ended = listening.during(driving).await;
        match ended {
            Ended::Waits(waits) => CallEnd::Waits(waits),
            Ended::Result(result) => {
                let (user, session) = (self.run.user.as_str(), &self.run.session_key);
                let run = self.lane.store.run_with_key(user, session, &key).await.ok().flatten();
                self.settled(with_output(*result, output), run.map(|run| run.id), open, guest, reply).await
            }
        }
    }

    /// Continues a program that is suspended, for a model that asks for it.
    pub(crate) async fn wait(&self, open: &OpenCall, reply: u32, is_recovered: bool) -> CallEnd {
        let arguments: Value = open.call.arguments.to().unwrap_or_default();
        let input = match WaitInput::parse(&arguments) {
            Ok(input) => input,
            Err(error) => return CallEnd::unmade(of_input(&error)),
        };
        let seq = self.seq(reply, open);
        let scope = self.scope.clone().within(open.id.as_str());
        let mut listening = self.listening(open);
        let program = input.run_id.clone();
        let parked = self.state().detail.programs.iter().find(|parked| parked.seq == seq).cloned();
        // One that was suspended within this call has told what it had to tell.
        let may_be_untold = is_recovered && parked.is_none();
        let mut output = parked.map(|parked| parked.output).unwrap_or_default();
        let driving = async {
            let untold = if may_be_untold { self.untold(&program).await } else { None };
            let result = match untold {
                Some(result) => self.past_closing(&scope, result, &mut output).await,
                None => self.agent.runtime.wait(&scope, &input).await,
            };
            self.past_people(&scope, Guest::CodeMode, result, seq, &mut output).await
        };
        match listening.during(driving).await {
            Ended::Waits(waits) => CallEnd::Waits(waits),
            Ended::Result(result) => {
                self.settled(with_output(*result, output), Some(program), open, Guest::CodeMode, reply).await
            }
        }
    }

    /// Returns the result of a program that is suspended, if the model was not told of it: the process that had it died before.
    async fn untold(&self, program: &RunId) -> Option<CodeModeResult> {
        let run = self.lane.store.run(program).await.ok()?;
        let is_own = run.agent_run.as_deref() == Some(self.run.id.as_str());
        if run.state != RunState::Waiting || !is_own {
            return None;
        }
        let result = CodeModeResult::parse(&self.lane.store.run_result(program).await.ok()??).ok()?;
        let text = result_text(&result);
        let is_told = self.state().transcript.was_told(&text);
        (!is_told).then_some(result)
    }

    /// Goes on with a program that was suspended in the middle of its calls when its process ended: the model is not told of that.
    async fn past_closing(&self, scope: &Scope, result: CodeModeResult, output: &mut Vec<Output>) -> CodeModeResult {
        match result {
            CodeModeResult::Waiting(waiting)
                if waiting.reason == WaitReason::PendingTools
                    && !waiting.pending_tool_calls.iter().any(|call| is_outside(call.state)) =>
            {
                output.extend(waiting.output);
                Box::pin(self.agent.runtime.wait(scope, &WaitInput { run_id: waiting.run_id })).await
            }
            result => result,
        }
    }

    /// Goes on with a program for as long as a person is asked and something else goes on beside that. When nothing is left but
    /// questions, the run waits.
    async fn past_people(
        &self,
        scope: &Scope,
        guest: Guest,
        mut result: CodeModeResult,
        seq: u32,
        output: &mut Vec<Output>,
    ) -> Ended {
        loop {
            let CodeModeResult::Waiting(waiting) = result else { return Ended::Result(Box::new(result)) };
            let asks = waiting.pending_tool_calls.iter().any(|call| is_outside(call.state));
            if !asks || self.stop.token.is_cancelled() {
                return Ended::Result(Box::new(CodeModeResult::Waiting(waiting)));
            }
            let goes_on = waiting.pending_tool_calls.iter().any(|call| call.state == PendingState::Running);
            let Waiting { run_id, pending_tool_calls, output: printed, .. } = waiting;
            output.extend(printed);
            let approvals: Vec<_> = pending_tool_calls.iter().filter_map(|call| call.approval_id.clone()).collect();
            let for_caller = pending_tool_calls.iter().any(|call| call.state == PendingState::Client);
            // A result of an earlier process may tell of a call that has been answered since.
            let is_answered = self.is_answered(&approvals).await || for_caller && !self.has_open_client_call().await;
            if self.is_flushing() {
                self.ask_nobody(&approvals).await;
            } else if !goes_on && !is_answered {
                let programs = vec![Parked { seq, program: run_id, output: std::mem::take(output) }];
                return Ended::Waits(Waits { approvals, for_caller, programs });
            }
            result = Box::pin(self.agent.runtime.wait(scope, &WaitInput { run_id })).await;
            if guest == Guest::ToolSearch {
                result = self.to_end(scope, result, output).await;
            }
        }
    }

    /// Goes on with a program of Tool Search until it ends, or until only people can help: its model has no tool to wait with.
    async fn to_end(&self, scope: &Scope, mut result: CodeModeResult, output: &mut Vec<Output>) -> CodeModeResult {
        let mut tries = 0;
        loop {
            let run_id = match &mut result {
                _ if self.stop.token.is_cancelled() => return result,
                CodeModeResult::Waiting(waiting) => {
                    if waiting.pending_tool_calls.iter().any(|call| is_outside(call.state)) {
                        return result;
                    }
                    tries = 0;
                    output.append(&mut waiting.output);
                    waiting.run_id.clone()
                }
                // The store or the engine failed, not the program.
                CodeModeResult::Failed(Failed { run_id: Some(run_id), .. }) if tries < MOST_TRIES => {
                    tries += 1;
                    tokio::time::sleep(TRY_AGAIN).await;
                    run_id.clone()
                }
                _ => return result,
            };
            result = Box::pin(self.agent.runtime.wait(scope, &WaitInput { run_id })).await;
        }
    }

    /// Returns whether one of these questions has its answer.
    async fn is_answered(&self, approvals: &[pincer_store::ApprovalId]) -> bool {
        for id in approvals {
            if self.lane.store.approval(id).await.is_ok_and(|approval| approval.state != ApprovalState::Pending) {
                return true;
            }
        }
        false
    }

    /// Returns whether the sender of the run has a call to make.
    async fn has_open_client_call(&self) -> bool {
        let calls = self.lane.store.client_calls(&self.run.id).await;
        // If that cannot be read, the run waits: its next worker looks again.
        calls.map_or(true, |calls| calls.iter().any(|call| call.result.is_none()))
    }

    /// Returns what the model is told of a program, with the calls that it made.
    async fn settled(
        &self,
        result: CodeModeResult,
        program: Option<RunId>,
        open: &OpenCall,
        guest: Guest,
        reply: u32,
    ) -> CallEnd {
        let text = match guest {
            Guest::CodeMode => result_text(&result),
            Guest::ToolSearch => code_result(&result),
        };
        let mut content = vec![Content::Text(text)];
        match self.agent.runtime.attachments(&self.scope, &result).await {
            Ok(blocks) => content.extend(blocks.iter().filter_map(image)),
            Err(error) => tracing::warn!(run = %self.run.id, "attachments of a program cannot be read: {error}"),
        }
        let status = match &result {
            CodeModeResult::Completed(_) => "completed",
            CodeModeResult::Waiting(_) => "waiting",
            CodeModeResult::Failed(_) => "failed",
        };
        let details = json!({ "status": status, "program": program, "telemetry": result.telemetry() });
        let is_error = matches!(result, CodeModeResult::Failed(_));
        let children = match &program {
            Some(program) => self.children(program, open, reply).await,
            None => Vec::new(),
        };
        CallEnd::Settled(CallResult { content, is_error, details: Some(details) }, children)
    }

    /// Returns the calls of the program that a call has begun, as entries, if it has begun one.
    pub(crate) async fn begun(&self, open: &OpenCall, seq: u32, reply: u32) -> Option<Vec<NewEntry>> {
        let key = format!("{}/{seq}", self.run.id);
        let found = self.lane.store.run_with_key(self.run.user.as_str(), &self.run.session_key, &key).await;
        let program = found.ok().flatten()?;
        Some(self.children(&program.id, open, reply).await)
    }

    /// Returns the calls of a program that the transcript does not have, as entries.
    async fn children(&self, program: &RunId, open: &OpenCall, reply: u32) -> Vec<NewEntry> {
        let calls = match self.lane.store.calls(program).await {
            Ok(calls) => calls,
            Err(error) => {
                tracing::warn!(run = %self.run.id, "calls of a program cannot be read: {error}");
                return Vec::new();
            }
        };
        let mut children = Vec::new();
        for call in calls.into_iter().filter(|call| call.state == CallState::Settled) {
            if !self.state().nested.insert((program.to_string(), call.seq)) {
                continue;
            }
            let (output, error, effect) = match call.outcome.as_deref().map(recorded) {
                Some(Ok((Ok(value), effect))) => (Some(kept(value.as_str())), None, Some(effect)),
                Some(Ok((Err(error), effect))) => (None, Some(shortened(&error.message, MOST_KEPT)), Some(effect)),
                Some(Err(_)) | None => (None, None, None),
            };
            let duration_ms = call.settled_at.zip(call.dispatched_at).map(|(end, start)| (end - start).max(0));
            let nested = NestedCall {
                program: program.to_string(),
                seq: call.seq,
                tool: call.tool,
                line: call.line,
                input: kept(&call.input),
                output,
                error,
                duration_ms,
                started_at: call.dispatched_at,
                effect: effect.map(|effect| effect.as_str().to_owned()),
            };
            children.push(self.child(reply, open, serde_json::to_string(&nested).unwrap_or_default()));
        }
        children
    }

    /// Listens to the calls that a program makes.
    fn listening(&self, open: &OpenCall) -> Listening {
        let events = self.agent.runtime.events().subscribe(Filter::of_call(&open.id.as_str().into()).with_values());
        Listening { events, parts: self.lane_parts(), run: self.run.id.clone(), parent: open.id.clone() }
    }
}

/// Returns whether a call waits for a person or for the sender of the run.
fn is_outside(state: PendingState) -> bool {
    matches!(state, PendingState::Approval | PendingState::Client)
}

enum Ended {
    Result(Box<CodeModeResult>),
    Waits(Waits),
}

/// Tells of the calls that a program makes while it runs.
struct Listening {
    events: Subscription,
    parts: LaneParts,
    run: AgentRunId,
    parent: String,
}

impl Listening {
    /// Waits for `work`, and tells what happens meanwhile.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                told = self.events.next() => self.tell(told),
                done = &mut work => break done,
            }
        };
        while let Some(told) = self.events.try_next() {
            self.tell(told);
        }
        done
    }

    fn tell(&self, told: Told) {
        let Told::Event(event) = told else { return };
        // A call of another session may have the same id.
        if event.call.as_str() == self.parent || event.agent_run.as_ref() != Some(&self.run) {
            return;
        }
        if let EventKind::Update { update } = &event.what {
            self.parts.tell(reported(event.call.as_str(), &event.tool, Some(&self.parent), update));
        }
        if let Some(data) = self.data(&event) {
            self.parts.tell(Happening::tool(data));
        }
    }

    fn data(&self, event: &Event) -> Option<Value> {
        let (name, call, parent) = (&event.tool, &event.call, &self.parent);
        Some(match &event.what {
            EventKind::Start { input } => json!({
                "phase": "start",
                "name": name,
                "toolCallId": call,
                "parentToolCallId": parent,
                "line": event.line,
                "args": shown(input),
            }),
            EventKind::End { output, error, duration_ms, .. } => json!({
                "phase": "result",
                "name": name,
                "toolCallId": call,
                "parentToolCallId": parent,
                "line": event.line,
                "isError": error.is_some(),
                "result": output.as_ref().map(shown).or_else(|| error.as_ref().map(|error| json!(error.message))),
                "durationMs": duration_ms,
            }),
            EventKind::Update { .. } | EventKind::ApprovalRequested { .. } | EventKind::ApprovalResolved { .. } => {
                return None;
            }
        })
    }
}

/// Puts what a program printed before in front of what it printed since.
fn with_output(result: CodeModeResult, mut before: Vec<Output>) -> CodeModeResult {
    if before.is_empty() {
        return result;
    }
    let mut add = |output: Vec<Output>| {
        before.extend(output);
        std::mem::take(&mut before)
    };
    match result {
        CodeModeResult::Completed(done) => {
            let output = add(done.output);
            CodeModeResult::Completed(Completed { output, ..done })
        }
        CodeModeResult::Waiting(waiting) => {
            let output = add(waiting.output);
            CodeModeResult::Waiting(Waiting { output, ..waiting })
        }
        CodeModeResult::Failed(failed) => {
            let output = add(failed.output);
            CodeModeResult::Failed(Failed { output, ..failed })
        }
    }
}

fn of_input(error: &InputError) -> String {
    format!("failed (invalid_input): {error}")
}

fn image(block: &Value) -> Option<Content> {
    let text = |name: &str| block.get(name).and_then(Value::as_str).map(str::to_owned);
    if text("type")? != "image" {
        return None;
    }
    Some(Content::Image(Image::Data { media_type: text("mimeType")?, base64: text("data")? }))
}

/// Returns a value as it is kept in the transcript.
pub(crate) fn kept(json: &str) -> Json {
    let whole = (json.len() <= MOST_KEPT).then(|| Json::parse(json).ok()).flatten();
    whole.unwrap_or_else(|| Json::of(&shortened(json, MOST_KEPT)).unwrap_or_else(|_| Json::null()))
}
