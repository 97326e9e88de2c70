//! A run as it is watched: its events are drawn, its questions asked, and Ctrl-C stops it.

use std::time::Duration;

use pincer_agent::{AgentError, AgentEvent, RunOutcome, Status};
use pincer_store::{AgentRunId, AgentRunState, AgentRuns, ApprovalState, Approvals};

use crate::asking::{Asked, ask_by, somebody_is_here};
use crate::interrupt::{Interrupted, Interruptions};
use crate::print::{line, note};
use crate::{DONE, FAILED, INTERRUPTED, WAITING};

use super::drawing::Drawing;
use super::{Form, Here, refused};

/// The time that a run has to end when it is stopped.
const STOPPING: Duration = Duration::from_secs(10);

impl Here {
    /// Stays with a run until it ends or waits for something that cannot be had here.
    pub(super) async fn follow(&self, run: &AgentRunId, form: Form) -> Result<u8, u8> {
        let mut interrupted = Interruptions::listen();
        let following = self.followed(run, form);
        tokio::pin!(following);
        let (outcome, drawing) = tokio::select! {
            biased;
            by = interrupted.next() => match by {
                Interrupted::ByPerson => {
                    return self.stop(run, form).await;
                }
                Interrupted::BySystem => {
                    note(&format!("the run is left where it is: continue it with pincer agent --session {} --continue", self.key));
                    return Ok(WAITING);
                }
            },
            outcome = &mut following => outcome?,
        };
        self.show(&outcome, form, drawing.has_shown());
        if drawing.is_traced() && outcome.status != Status::Waiting {
            note(&made_by(&outcome));
        }
        Ok(code_of(&outcome))
    }

    /// Draws what happens in a run, and asks what a person must be asked. Returns what it came to, and how that was drawn.
    async fn followed(&self, run: &AgentRunId, form: Form) -> Result<(RunOutcome, Drawing), u8> {
        let mut drawing = Drawing::new(form == Form::Text);
        let people = form == Form::Text && somebody_is_here();
        let failed = |error: AgentError| refused(&error);
        // Runs before it in the queue may have to be answered first.
        let mut reader = self.agent.events(&self.user, run, 1).await.map_err(failed)?;
        let (mut trouble, mut last_trouble) = (self.agent.trouble(), None);
        // It may have been told before this.
        trouble.mark_changed();
        loop {
            let outcome = async {
                // Its own outcome, or that of the run it waits behind.
                tokio::select! {
                    outcome = self.agent.outcome(&self.user, run) => outcome,
                    outcome = self.blocked(run) => outcome,
                }
            };
            tokio::pin!(outcome);
            let outcome = loop {
                tokio::select! {
                    biased;
                    event = reader.next() => match event {
                        Ok(Some(event)) => draw(&event, form, &mut drawing),
                        Ok(None) => break outcome.await,
                        Err(error) => return Err(refused(&error.into())),
                    },
                    Ok(()) = trouble.changed() => {
                        let told = trouble.borrow_and_update().clone();
                        if let Some(told) = told.filter(|told| last_trouble.as_ref() != Some(told)) {
                            drawing.rest();
                            note(&format!("the store does not take what is to be stored, and it is tried again: {told}"));
                            last_trouble = Some(told);
                        }
                    }
                    outcome = &mut outcome => break outcome,
                }
            };
            let outcome = outcome.map_err(failed)?;
            if outcome.status != Status::Waiting {
                while let Ok(Some(event)) = reader.next().await {
                    draw(&event, form, &mut drawing);
                }
                return Ok((outcome, drawing));
            }
            // Earlier events are told before the question.
            while let Ok(Ok(Some(event))) = tokio::time::timeout(Duration::from_millis(50), reader.next()).await {
                draw(&event, form, &mut drawing);
            }
            if !people || outcome.approvals.is_empty() {
                return Ok((outcome, drawing));
            }
            drawing.rest();
            for question in &outcome.approvals {
                let runtime = self.agent.runtime();
                if let Ok(approval) = runtime.store().approval(&question.approval_id).await
                    && approval.state == ApprovalState::Pending
                {
                    let asked = ask_by(runtime, &approval, async || self.typed("").await).await;
                    if asked == Asked::Stop {
                        let waits = outcome.waits_behind.as_ref().unwrap_or(run);
                        self.agent.stop(&self.user, waits).await.map_err(failed)?;
                        break;
                    }
                }
            }
            self.agent.engage(&self.user, &self.key);
        }
    }

    /// Waits until a run before this one waits for a person, while this one has not begun.
    async fn blocked(&self, run: &AgentRunId) -> Result<RunOutcome, AgentError> {
        loop {
            let own = self.agent.run(&self.user, run).await?;
            if own.state == AgentRunState::Queued {
                let open = self.agent.runtime().store().open_runs(&self.user, &self.key).await?;
                if let Some(first) = open.iter().find(|other| other.state == AgentRunState::Waiting) {
                    let mut outcome = self.agent.outcome(&self.user, &first.id).await?;
                    if outcome.status == Status::Waiting {
                        outcome.waits_behind = Some(std::mem::replace(&mut outcome.run_id, run.clone()));
                        outcome.result = Default::default();
                        return Ok(outcome);
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Stops a run because the person at the keyboard wants it.
    async fn stop(&self, run: &AgentRunId, form: Form) -> Result<u8, u8> {
        if let Err(error) = self.agent.stop(&self.user, run).await {
            refused(&error);
            note(&format!(
                "the run is left where it is: continue it with pincer agent --session {} --continue",
                self.key
            ));
            return Ok(INTERRUPTED);
        }
        match tokio::time::timeout(STOPPING, self.agent.outcome(&self.user, run)).await {
            Ok(Ok(outcome)) => {
                if form == Form::Text {
                    note("\nstopped");
                } else {
                    self.show(&outcome, form, false);
                }
            }
            Ok(Err(error)) => return Err(refused(&error)),
            Err(_) => note("\nit is being stopped"),
        }
        Ok(INTERRUPTED)
    }
}

/// Says how an answer was made.
fn made_by(outcome: &RunOutcome) -> String {
    let (usage, telemetry) = (&outcome.result.usage, &outcome.result.telemetry);
    format!(
        "{}: {} tokens in, {} out, {} from the cache; {} requests, {} calls, {} calls of programs; {} ms",
        outcome.result.model.as_deref().unwrap_or("no model"),
        usage.input,
        usage.output,
        usage.cache_read,
        telemetry.model_calls,
        telemetry.tool_calls,
        telemetry.nested_calls,
        telemetry.duration_ms,
    )
}

fn draw(event: &AgentEvent, form: Form, drawing: &mut Drawing) {
    match form {
        Form::Text => drawing.event(event),
        Form::Events => line(&serde_json::to_string(event).unwrap_or_default()),
        Form::Json => {}
    }
}

fn code_of(outcome: &RunOutcome) -> u8 {
    match outcome.status {
        Status::Ok => DONE,
        Status::Waiting => WAITING,
        Status::Error | Status::Timeout => FAILED,
    }
}
