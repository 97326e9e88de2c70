//! What is stored of one run, and when: nothing before its first call, the whole of it when it is suspended.

use pincer_sandbox::Answer;
use pincer_store::{Fence, Millis, NewRun, Park, RunState, Safety, Snapshot, now};
use pincer_tools::RunOwner;
use uuid::Uuid;

use crate::drive::Driver;
use crate::ending::{Ending, told};
use crate::frontier::{Frontier, StoredAnswer, others};
use crate::result::{CodeModeResult, Completed, ErrorCode, Failed, Waiting};
use crate::telemetry::Counted;

/// A run as its driver knows it.
pub(crate) struct RunRecord {
    pub id: String,
    /// The proof of owning it, once it is stored.
    pub fence: Option<Fence>,
    /// Whether the store has a snapshot of it.
    pub has_frontier: bool,
    /// Whether the program has run since then.
    pub moved: bool,
    next_seq: u32,
    created_at: Millis,
}

impl RunRecord {
    /// A run that nobody knows of.
    pub fn fresh() -> Self {
        let id = format!("cm_{}", Uuid::now_v7());
        Self { id, fence: None, has_frontier: false, moved: true, next_seq: 0, created_at: now() }
    }

    /// A run that goes on, with the first number that the journal does not have.
    pub fn claimed(id: String, fence: Fence, next_seq: u32) -> Self {
        Self { id, fence: Some(fence), has_frontier: true, moved: false, next_seq, created_at: now() }
    }

    /// The number of the next call in the journal.
    pub fn next_seq(&mut self) -> u32 {
        self.next_seq += 1;
        self.next_seq - 1
    }
}

impl Driver {
    /// Stores that the run is there, and that it is ours.
    pub async fn record_run(&mut self) -> Result<Fence, Ending> {
        match self.record.fence {
            Some(fence) => Ok(fence),
            None => self.create(None).await,
        }
    }

    async fn create(&mut self, cell: Option<Snapshot>) -> Result<Fence, Ending> {
        let owner = self.inner.owner.name();
        let owner = owner.map_err(|error| Ending::failed(ErrorCode::RuntimeUnavailable, told(&error)))?;
        let (id, created_at, name) = (self.record.id.clone(), self.record.created_at, owner.clone());
        let (session, caller) = (self.scope.context.session.clone(), self.scope.caller.clone());
        let agent_run = self.scope.agent_run.clone();
        let made = self.inner.stored(move |store| {
            let (id, session, caller, agent_run) = (&*id, &*session, &*caller, agent_run.as_deref());
            store.create_run_at(&NewRun { id, session, caller, agent_run, created_at }, &name, cell.as_ref())
        });
        let fence = made.await.map_err(|error| Ending::of_store(&error))?;
        self.own(fence, owner);
        Ok(fence)
    }

    /// The run is ours under this proof.
    pub fn own(&mut self, fence: Fence, owner: std::sync::Arc<str>) {
        self.record.fence = Some(fence);
        let safety = self.inner.safety(&self.scope.settings);
        self.flights.owned_by(RunOwner { id: self.record.id.clone(), fence, owner, safety });
    }

    /// Where the program stands, as it is stored.
    fn frontier(&mut self) -> Result<(Snapshot, Frontier), Ending> {
        let cell = self.cell.as_mut().ok_or_else(|| Ending::bug("there is no cell to store"))?;
        let bytes = cell.park().map_err(|error| Ending::of_error(&error))?;
        self.telemetry.snapshot_bytes = bytes.len();
        let frontier = Frontier::new(
            now(),
            self.flights.store(),
            self.timers.store(),
            self.yields.clone(),
            self.answers.iter().map(StoredAnswer::from).collect(),
            self.record.next_seq,
            self.output.clone(),
            self.positions.clone(),
            self.telemetry.clone(),
            self.parent.clone(),
        );
        let image = self.inner.engine.image_hash().0.to_vec();
        Ok((Snapshot { image, bytes, detail: String::new() }, frontier))
    }

    /// Stores where the program stands while it goes on, if it has moved since it was last stored.
    pub async fn checkpoint(&mut self) -> Result<(), Ending> {
        if !std::mem::take(&mut self.record.moved) {
            return Ok(());
        }
        let (snapshot, frontier) = self.frontier()?;
        let snapshot = Snapshot { detail: text(&frontier)?, ..snapshot };
        match self.record.fence {
            Some(fence) => {
                let id = self.record.id.clone();
                let stored = self.inner.stored(move |store| store.checkpoint(&id, fence, &snapshot));
                stored.await.map_err(|error| Ending::of_store(&error))?;
            }
            // In one step: a run that is known can be continued.
            None => drop(self.create(Some(snapshot)).await?),
        }
        self.record.has_frontier = true;
        Ok(())
    }

    /// Suspends the program: it is in the store before anybody is told.
    pub async fn park(&mut self) -> Result<CodeModeResult, Ending> {
        self.flights.send_off();
        let fence = self.record_run().await?;
        self.telemetry.park_count += 1;
        let (snapshot, mut frontier) = self.frontier()?;
        frontier.output = Vec::new();
        let mut pending = self.flights.pending();
        pending.extend(others(&frontier.timers, &frontier.yields));
        let result = CodeModeResult::Waiting(Waiting {
            run_id: self.record.id.clone(),
            reason: frontier.reason(),
            pending_tool_calls: pending,
            output: std::mem::take(&mut self.output),
            telemetry: self.telemetry.clone(),
        });
        let snapshot = Snapshot { detail: text(&frontier)?, ..snapshot };
        let (id, told) = (self.record.id.clone(), text(&result)?);
        let settings = &self.scope.settings;
        let (most, most_of_session) = (settings.suspended, settings.suspended_of_session);
        let expires_at = Some(frontier.at + settings.snapshot_lifetime.as_millis() as Millis);
        let bytes = snapshot.bytes.len();
        let parked = self.inner.stored(move |store| {
            store.park(&id, fence, &Park { snapshot: &snapshot, result: &told, expires_at, most, most_of_session })
        });
        if let Err(error) = parked.await {
            // What was printed is for the one who is told that it failed.
            if let CodeModeResult::Waiting(Waiting { output, .. }) = result {
                self.output = output;
            }
            return Err(Ending::of_store(&error));
        }
        self.inner.counting.add(Counted::Park, 1);
        tracing::debug!(run = %self.record.id, bytes, calls = frontier.calls.len(), "parked");
        self.cell = None;
        self.permit = None;
        Ok(result)
    }

    /// It could not be stored. If it was before and that is the store's fault, it can be continued from there; otherwise this is
    /// its end.
    pub async fn not_parked(&mut self, ending: Ending) -> CodeModeResult {
        match (self.record.has_frontier, self.record.fence, &ending) {
            (true, Some(fence), Ending::Failed { code: Some(ErrorCode::RuntimeUnavailable), .. }) => {
                self.end_calls().await;
                self.inner.give_back(&self.record.id, fence, self.scope.settings.snapshot_lifetime).await;
                let output = std::mem::take(&mut self.output);
                match crate::codemode::failed(ending, std::mem::take(&mut self.telemetry)) {
                    CodeModeResult::Failed(failed) => CodeModeResult::Failed(Failed { output, ..failed }),
                    other => other,
                }
            }
            _ => self.finish(ending).await,
        }
    }

    /// Ends the cell and the calls of the program.
    async fn end_calls(&mut self) {
        self.cell = None;
        self.permit = None;
        // On its own it ends as it should even if that takes longer than is waited here.
        self.flights.send_off();
        self.flights.abort();
        // Tools have half a second to end by themselves; their calls are in the journal before the run is over.
        let grace = std::time::Duration::from_secs(2);
        let _ = tokio::time::timeout(grace, self.flights.ended()).await;
    }

    /// Ends the program, and what it has not waited for.
    pub async fn finish(&mut self, ending: Ending) -> CodeModeResult {
        self.end_calls().await;
        let output = std::mem::take(&mut self.output);
        let mut telemetry = std::mem::take(&mut self.telemetry);
        let (result, state) = match ending {
            Ending::Value(value) => {
                (CodeModeResult::Completed(Completed { value, output, telemetry }), RunState::Completed)
            }
            Ending::Failed { code, error, caps } => {
                telemetry.cap_failures = caps;
                self.inner.counting.add_caps(caps);
                let state = if code == Some(ErrorCode::Aborted) { RunState::Aborted } else { RunState::Failed };
                (CodeModeResult::Failed(Failed { error, code, output, telemetry }), state)
            }
        };
        tracing::debug!(run = %self.record.id, state = state.as_str(), "ended");
        if state == RunState::Aborted {
            self.inner.counting.add(Counted::Aborted, 1);
        }
        let Some(fence) = self.record.fence else { return result };
        let told = text(&result).unwrap_or_else(|_| "null".into());
        let id = self.record.id.clone();
        // What somebody may try to continue must be known to be over, whatever happens.
        let safety = if self.record.has_frontier { Safety::Power } else { Safety::Process };
        let finished = self.inner.stored(move |store| store.finish_run(&id, fence, state, &told, now(), safety)).await;
        match finished {
            Ok(()) => result,
            // It was aborted or taken over meanwhile: nobody may go by what was done since.
            Err(error @ pincer_store::StoreError::Fenced { .. }) => {
                let output = result.output().to_vec();
                let (code, telemetry) = (Some(ErrorCode::Aborted), result.telemetry().clone());
                CodeModeResult::Failed(Failed { error: told_aborted(&error), code, output, telemetry })
            }
            Err(error) => {
                tracing::error!("the end of the run {} could not be stored: {error}", self.record.id);
                result
            }
        }
    }

    /// Answers the pending yields: whoever continues the program has been told.
    pub fn answer_yields(&mut self) {
        for pending in std::mem::take(&mut self.yields) {
            self.answers.push(Answer::value(pending.id, crate::bridge::yielded(pending.reason.as_deref())));
        }
    }
}

fn told_aborted(error: &dyn std::error::Error) -> String {
    format!("code mode execution aborted: {}", told(error))
}

fn text(value: &impl serde::Serialize) -> Result<String, Ending> {
    serde_json::to_string(value).map_err(|error| Ending::bug(format!("it cannot be written as JSON: {error}")))
}
