//! `pincer agent`: a message to an agent and its answer, or a conversation line by line.

mod drawing;
mod following;
pub(crate) mod message;
mod showing;
mod typing;

use std::path::PathBuf;
use std::time::Duration;

use pincer_agent::{Agent, AgentError, QueueMode, Request, RunOutcome, Status, WaitStatus};
use pincer_runtime::Principal;
use pincer_store::{AgentRun, AgentRunId, AgentRuns, ClientCalls, Leases, SessionKey, Sessions};

use crate::asking::{next_line, somebody_is_here};
use crate::opened::{close, ended, for_agent};
use crate::print::{chain, line, note, streamed};
use crate::refused::Refused;
use crate::usage::LocationArguments;
use crate::usage_agent::AgentArguments;
use crate::{DONE, FAILED, INTERRUPTED, WRONG_USAGE, settings, state, tokio_runtime};

use typing::Typing;

/// Longer than any run takes.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// A session that this command works in.
struct Here {
    agent: Agent,
    user: String,
    key: SessionKey,
    /// The line that a person types in a conversation.
    typing: Option<Typing>,
}

/// How the command draws what happens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Events,
}

pub(crate) fn run(locations: &LocationArguments, arguments: &AgentArguments) -> u8 {
    let form = match (arguments.json, arguments.events) {
        (true, _) => Form::Json,
        (_, true) => Form::Events,
        _ => Form::Text,
    };
    let loaded = match settings::ready(locations) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    tokio_runtime::attend(tokio_runtime::small(), async {
        let agent = for_agent(locations, loaded).map_err(Refused::tell)?;
        if let Some(moved) = agent.runtime().moved_workspace().filter(|_| somebody_is_here()) {
            note(&format!("note: {moved}"));
        }
        let mut here = Here {
            agent,
            user: Principal::of_this_process().user().to_owned(),
            key: arguments.session.as_str().into(),
            typing: None,
        };
        let history = state::directory(locations).map(|state| state.join("agent-history"));
        let code = here.attend(arguments, form, history).await;
        ended(code, close(&here.agent, Duration::ZERO).await)
    })
}

impl Here {
    async fn attend(&mut self, arguments: &AgentArguments, form: Form, history: Option<PathBuf>) -> Result<u8, u8> {
        if arguments.show_prompt {
            let request = message::with_settings(Request::new(""), arguments);
            return self.show_prompt(request, form).await;
        }
        if arguments.goes_on {
            return self.go_on(arguments, form).await;
        }
        let is_conversation = arguments.message.is_none() && arguments.files.is_empty() && somebody_is_here();
        if is_conversation && form == Form::Text {
            self.typing = Typing::new(history);
            return self.converse(arguments).await;
        }
        let request = message::request(arguments).map_err(|error| {
            note(&format!("error: {error}"));
            WRONG_USAGE
        })?;
        let request = self.behind_what_waits(request).await;
        self.agent.end_with_own_messages();
        let run = self.submit(request, arguments.key.clone()).await?;
        // A message that is a command alone, or that is sent again, may have its answer already.
        if form == Form::Text && !self.is_over(&run).await {
            let open = self.open_runs().await?;
            if let Some(code) = self.follow_all(&open, &run).await? {
                self.leave_behind(&run, code).await;
                return Ok(code);
            }
        }
        self.follow(&run, form).await
    }

    /// Says what becomes of a message whose command ends before its run has begun.
    async fn leave_behind(&self, run: &AgentRunId, code: u8) {
        if code == INTERRUPTED {
            let stopped = self.agent.stop(&self.user, run).await;
            note(if stopped.is_ok() { "your message was taken back" } else { "your message stays in the queue" });
            return;
        }
        note(&format!(
            "your message is accepted as {run} and stays queued: pincer agent --session {} --continue answers it",
            self.key
        ));
    }

    /// Returns whether a run, or the run that its message joined, has ended.
    async fn is_over(&self, run: &AgentRunId) -> bool {
        let waited = self.agent.wait(&self.user, run, Duration::ZERO).await;
        waited.is_ok_and(|waited| matches!(waited.status, WaitStatus::Ok | WaitStatus::Error))
    }

    /// Follows the runs before the last one, of which a person wants to see the answers too. Returns a code if one of them waits or
    /// was stopped.
    async fn follow_all(&self, runs: &[AgentRun], last: &AgentRunId) -> Result<Option<u8>, u8> {
        for run in runs.iter().take_while(|run| run.id != *last) {
            if self.is_worked_on_elsewhere().await {
                return Ok(None);
            }
            tokio::select! {
                biased;
                code = self.follow(&run.id, Form::Text) => match code? {
                    DONE | FAILED => {}
                    code => return Ok(Some(code)),
                },
                // With its end this process stops working on the session.
                _ = self.agent.wait(&self.user, last, FOREVER) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns whether another process works on the session.
    async fn is_worked_on_elsewhere(&self) -> bool {
        let runtime = self.agent.runtime();
        let session = runtime.store().current_session(&self.user, &self.key).await.ok().flatten();
        match session.and_then(|session| session.owner) {
            Some(owner) => owner != *runtime.leases().own() && runtime.leases().is_alive(&owner).await.unwrap_or(true),
            None => false,
        }
    }

    async fn submit(&self, request: Request, id: Option<String>) -> Result<AgentRunId, u8> {
        let submitted = self.agent.submit(&self.user, &self.key, request, id).await;
        submitted.map(|submitted| submitted.run_id).map_err(|error| refused(&error))
    }

    /// A run that was interrupted, or waits, goes on first: the message does not become part of it.
    async fn behind_what_waits(&self, request: Request) -> Request {
        let session = self.agent.runtime().store().current_session(&self.user, &self.key).await.ok().flatten();
        let is_open = session.is_some_and(|session| session.active.is_some()) && request.queue.is_none();
        if !is_open || self.is_worked_on_elsewhere().await {
            return request;
        }
        Request { queue: Some(QueueMode::Followup), ..request }
    }

    /// Continues what was interrupted or waits.
    async fn go_on(&self, arguments: &AgentArguments, form: Form) -> Result<u8, u8> {
        let open = self.open_runs().await?;
        let Some(run) = open.first() else {
            note(&format!("error: nothing was interrupted or waits in the session {}", self.key));
            return Err(FAILED);
        };
        for result in &arguments.results {
            let (call, value) = message::result(result).map_err(|error| {
                note(&format!("error: {error}"));
                WRONG_USAGE
            })?;
            let calls = self.agent.runtime().store().client_calls(&run.id).await.unwrap_or_default();
            if !calls.iter().any(|known| known.id == call) {
                let open: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
                let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
                note(&format!("error: the run {} has no call {call} for you. It has: {open}", run.id));
                return Err(WRONG_USAGE);
            }
            let given = self.agent.answer_client(&self.user, &run.id, &call, Ok(value)).await;
            match given {
                Ok(true) => {}
                Ok(false) => note(&format!("note: the call {call} had a result before, which stays")),
                Err(error) => return Err(refused(&error)),
            }
        }
        let last = match form {
            Form::Text => open.last().unwrap_or(run),
            // One command prints one object: that of the run that it continues.
            Form::Json | Form::Events => run,
        };
        self.agent.work_until(&self.user, &self.key, &last.id);
        self.agent.engage(&self.user, &self.key);
        if form == Form::Text
            && let Some(code) = self.follow_all(&open, &last.id).await?
        {
            return Ok(code);
        }
        let code = self.follow(&last.id, form).await?;
        let left = self.open_runs().await?.len();
        if code == DONE && left > 0 && form != Form::Text {
            note(&format!("{left} more in the queue of {}: continue again to have them answered", self.key));
        }
        Ok(code)
    }

    async fn open_runs(&self) -> Result<Vec<AgentRun>, u8> {
        let open = self.agent.runtime().store().open_runs(&self.user, &self.key).await;
        let open = open.map_err(|error| {
            note(&format!("error: {}", chain(&error)));
            FAILED
        })?;
        Ok(open.into_iter().filter(|run| !run.state.is_final()).collect())
    }

    /// A conversation: each line is a message.
    async fn converse(&self, arguments: &AgentArguments) -> Result<u8, u8> {
        note(&format!("session {}: write a message, or /status, /new, /stop, /model, /think. Ctrl-D ends.", self.key));
        let open = self.open_runs().await?;
        if let Some(last) = open.last() {
            note("something was interrupted or waits here: it goes on first");
            self.agent.engage(&self.user, &self.key);
            if let Ok(None) = self.follow_all(&open, &last.id).await {
                self.follow(&last.id, Form::Text).await.ok();
            }
        }
        loop {
            let Some(text) = self.typed("> ").await else {
                note("");
                return Ok(DONE);
            };
            if text.trim().is_empty() {
                continue;
            }
            let request = message::with_settings(Request::new(text), arguments);
            if let Ok(run) = self.submit(request, None).await {
                self.follow(&run, Form::Text).await.ok();
            }
        }
    }

    /// Returns the next line that is typed.
    async fn typed(&self, prompt: &'static str) -> Option<String> {
        match &self.typing {
            Some(typing) => typing.line(prompt).await,
            None => {
                streamed(prompt);
                next_line().await
            }
        }
    }

    fn show(&self, outcome: &RunOutcome, form: Form, has_shown: bool) {
        if form != Form::Text {
            line(&serde_json::to_string(outcome).unwrap_or_default());
            return;
        }
        match outcome.status {
            Status::Ok => {
                if !has_shown {
                    line(&outcome.text());
                }
                if outcome.stop_reason.as_deref() == Some("length") {
                    note(
                        "the reply ends here because it is as long as the model may write: raise `maxTokens`, or ask it to go on",
                    );
                }
            }
            Status::Waiting => {
                match &outcome.waits_behind {
                    Some(first) => note(&format!(
                        "the message is accepted as {} and queued behind the run {first}, which waits:",
                        outcome.run_id
                    )),
                    None => note(&format!("the run {} waits:", outcome.run_id)),
                }
                for question in &outcome.approvals {
                    note(&format!(
                        "  {} needs an answer: pincer approvals allow {} (or deny)",
                        question.tool, question.approval_id
                    ));
                }
                let mut results = String::new();
                for call in &outcome.client_calls {
                    note(&format!("  {} {} needs the result of {}", call.name, call.arguments, call.call_id));
                    results.push_str(&format!(" --result {}=JSON", call.call_id));
                }
                note(&format!("continue with: pincer agent --session {} --continue{results}", self.key));
            }
            Status::Error | Status::Timeout => {
                note(&format!("error: {}", outcome.error.as_deref().unwrap_or("it failed")));
            }
        }
    }
}

fn refused(error: &AgentError) -> u8 {
    note(&format!("error: {}", chain(error)));
    match error {
        AgentError::Empty
        | AgentError::TooLong { .. }
        | AgentError::TooManyPictures { .. }
        | AgentError::Picture { .. }
        | AgentError::Key { .. }
        | AgentError::NoAgent { .. }
        | AgentError::Different { .. }
        | AgentError::Command(_) => WRONG_USAGE,
        _ => FAILED,
    }
}
