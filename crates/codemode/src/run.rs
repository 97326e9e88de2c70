//! The stored form of one run over its life: nothing before its first call, a checkpoint before each call that may change something,
//! the whole of it when it is suspended, its result when it ends.

use std::sync::Arc;

use pincer_sandbox::{Answer, Checkpoint as CellCheckpoint, Error};
use pincer_store::{
    CellPart, Checkpoint, Claim, Fence, Millis, NewRun, OwnerId, Park, RunEnd, RunId, RunKey, RunState, Safety,
    StoreError,
};
use pincer_tools::{Context, RunOwner, SyncNext};
use uuid::Uuid;

use crate::aside::{AsideError, Home};
use crate::drive::Driver;
use crate::frontier::{Frontier, StoredAnswer, others};
use crate::held::HeldEnd;
use crate::outcome::{ProgramEnd, RunError, told};
use crate::pending_calls::PendingCalls;
use crate::persisting::Persisting;
use crate::pruning::JournalUse;
use crate::result::{CodeModeResult, ErrorCode, Failed, Waiting};
use crate::settings::Durability;
use crate::telemetry::Counted;

/// The result of driving a program, and what stays of it here.
pub(crate) type Driven = (CodeModeResult, After);

/// The part of a run that stays in this process when it is not driven any more.
pub(crate) enum After {
    /// Nothing.
    Nothing,
    /// It is suspended, and its calls go on.
    Parked(PendingCalls),
    /// It has been given back, and the tools that have begun go on: what they come to is in the journal.
    Left(PendingCalls),
    /// Its end, which the store has not taken.
    Held(Arc<HeldEnd>),
}

/// The key under which a run is begun at most once.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub key: String,
    pub program: [u8; 32],
}

/// A run as its driver knows it.
pub(crate) struct RunRecord {
    pub id: RunId,
    /// The proof of owning it, once it is stored.
    pub fence: Option<Fence>,
    /// The next number of its stored checkpoint, if it has one.
    pub covered: Option<u32>,
    /// Whether the program has run since then.
    pub moved: bool,
    /// A caller was told that it can be continued.
    pub acknowledged: bool,
    /// It has grown too large for checkpoints.
    pub too_large: bool,
    /// It has the right to be suspended.
    pub reserved: bool,
    pub key: Option<Key>,
    pub journal: JournalUse,
    next_seq: u32,
}

impl RunRecord {
    /// Returns a run that is not stored.
    pub(crate) fn fresh(key: Option<Key>) -> Self {
        let id = format!("cm_{}", Uuid::now_v7()).into();
        let (fence, covered) = (None, None);
        Self {
            id,
            fence,
            covered,
            moved: true,
            acknowledged: false,
            too_large: false,
            reserved: false,
            key,
            journal: JournalUse::default(),
            next_seq: 0,
        }
    }

    /// A run that goes on from its checkpoint, or from its beginning if it has none. `next_seq` is the first number that neither
    /// the checkpoint nor the journal has.
    pub(crate) fn claimed(id: RunId, fence: Fence, covered: Option<u32>, next_seq: u32) -> Self {
        let (fence, moved) = (Some(fence), covered.is_none());
        Self {
            id,
            fence,
            covered,
            moved,
            // Its caller knows its id, also if its process died before anything was told.
            acknowledged: true,
            too_large: false,
            reserved: false,
            key: None,
            journal: JournalUse::default(),
            next_seq,
        }
    }

    /// Takes the number of the next call in the journal.
    pub(crate) fn next_seq(&mut self) -> u32 {
        self.next_seq += 1;
        self.next_seq - 1
    }
}

/// A cell as the store wants it.
fn part(cell: CellCheckpoint, image: [u8; 32]) -> CellPart {
    match cell {
        CellCheckpoint::Full(bytes) => CellPart::Full { image: image.into(), bytes },
        CellCheckpoint::Delta { bytes, replaces } => CellPart::Delta { bytes, replaces: replaces as u32 },
    }
}

impl Driver {
    /// Stores that the run is there, and that it is ours.
    pub(crate) async fn record_run(&mut self) -> Result<Fence, RunError> {
        match self.record.fence {
            Some(fence) => Ok(fence),
            None => self.create(None).await.map_err(|error| RunError::of_store(&error)),
        }
    }

    /// Stores the run, with its first checkpoint if there is one: a run that is known can then be continued.
    pub(crate) async fn create(&mut self, checkpoint: Option<(CellCheckpoint, String)>) -> Result<Fence, StoreError> {
        let owner = self.shared.leases.hold().await?;
        let Context { session, user, .. } = &self.scope.context;
        let key = &self.record.key;
        let run = NewRun {
            id: self.record.id.clone(),
            session: session.clone(),
            user: user.clone(),
            agent_run: self.scope.agent_run().map(str::to_owned),
            created_at: self.shared.now(),
            key: key.as_ref().map(|key| RunKey { key: key.key.clone(), program: key.program.into() }),
            tools: Some(self.known.stored()),
            recorded: self.recorder.part(),
        };
        let (next, image) = (self.record.next_seq, self.shared.engine.image_hash().0);
        let checkpoint =
            checkpoint.map(|(cell, detail)| Checkpoint { next, cell: part(cell, image), detail, recorded: None });
        let claim = Claim { owner: owner.clone(), safety: self.shared.safety(&self.scope.settings) };
        // A run that a caller can ask for again must be there after a power cut too.
        let safety = if key.is_some() { Safety::Power } else { Safety::Process };
        let made = self.shared.store.create_run(run, claim, checkpoint, safety);
        match made.await {
            Ok(fence) => {
                self.recorder.stored();
                self.own(fence, owner);
                Ok(fence)
            }
            Err(error) => {
                // If it is there after all, it must end with this program: a process that found it later would begin with it.
                self.record.fence = error.may_be_stored().then_some(Fence::FIRST);
                Err(error)
            }
        }
    }

    /// The run is ours under this proof.
    pub(crate) fn own(&mut self, fence: Fence, owner: OwnerId) {
        self.record.fence = Some(fence);
        let run = match self.pending_calls.run() {
            Some(run) => run.clone(),
            None => {
                let safety = self.shared.safety(&self.scope.settings);
                let run = RunOwner::new(self.record.id.clone(), owner, fence, safety);
                self.pending_calls.owned_by(run.clone());
                run
            }
        };
        run.retire_checkpoints(self.retires());
        run.sync_next(if self.record.acknowledged { SyncNext::First } else { SyncNext::Nothing });
        run.cover(self.record.covered.unwrap_or(0));
    }

    /// Returns whether a call that may change something ends the use of the stored checkpoint, instead of needing one.
    fn retires(&self) -> bool {
        self.record.too_large || self.scope.settings.durability == Durability::Parked
    }

    /// Returns whether a call waits that needs a checkpoint first.
    pub(crate) fn is_uncovered(&mut self) -> bool {
        let uncovered = self.pending_calls.any_uncovered(self.record.covered.unwrap_or(0));
        if uncovered && self.retires() {
            self.record.covered = None;
            return false;
        }
        uncovered
    }

    /// Takes the right to be suspended, once: a program that would have to be given up for want of room is given up before it
    /// has changed anything.
    pub(crate) async fn reserve(&mut self) -> Result<(), RunError> {
        if self.record.reserved {
            return Ok(());
        }
        let (fence, room) = (self.record_run().await?, self.scope.settings.room);
        let reserved = self.shared.store.reserve(&self.record.id, fence, room, Safety::Process);
        reserved.await.map_err(|error| RunError::of_store(&error))?;
        self.record.reserved = true;
        Ok(())
    }

    /// Returns the state of the program that is stored beside its cell.
    fn frontier(&mut self) -> Frontier {
        self.collect();
        Frontier::new(
            self.shared.now(),
            self.pending_calls.store(),
            self.timers.store(),
            self.yields.clone(),
            self.answers
                .iter()
                .map(|answer| StoredAnswer::new(answer, self.recorder.has_journaled(answer.id)))
                .collect(),
            self.record.next_seq,
            self.output.clone(),
            self.positions.clone(),
            self.telemetry.clone(),
            self.parent.clone(),
            self.recorder.standing(),
        )
    }

    /// Stores where the program stands while it goes on.
    pub(crate) async fn checkpoint(&mut self) -> Result<(), RunError> {
        let next = self.record.next_seq;
        let is_there = !self.record.moved && self.record.covered == Some(next);
        if !is_there && !self.record.too_large {
            self.store_checkpoint(next).await?;
        }
        if let Some(run) = self.pending_calls.run() {
            run.cover(next);
        }
        self.pending_calls.checkpointed();
        Ok(())
    }

    async fn store_checkpoint(&mut self, next: u32) -> Result<(), RunError> {
        let stored = match self.home.checkpoint() {
            Ok(stored) => stored,
            // Not the program's fault as long as it is not suspended: it goes on without checkpoints.
            Err(AsideError::Cell(Error::SnapshotTooLarge(_))) => {
                self.record.too_large = true;
                self.telemetry.durability = Some(Durability::Parked);
                if let Some(run) = self.pending_calls.run() {
                    run.retire_checkpoints(true);
                }
                tracing::debug!(run = %self.record.id, "too large for checkpoints");
                return Ok(());
            }
            Err(error) => return Err(error.run_error()),
        };
        let (CellCheckpoint::Full(bytes) | CellCheckpoint::Delta { bytes, .. }) = &stored;
        self.telemetry.snapshot_bytes = bytes.len();
        self.telemetry.checkpoint_count += 1;
        let frontier = self.frontier();
        let (detail, awaited) = (text(&frontier)?, frontier.awaited());
        match self.record.fence {
            Some(fence) => {
                let cell = part(stored, self.shared.engine.image_hash().0);
                // A dispatch that must be synced syncs this too.
                let checkpoint = Checkpoint { next, cell, detail, recorded: self.recorder.part() };
                let stored = self.shared.store.checkpoint(&self.record.id, fence, checkpoint, Safety::Process);
                stored.await.map_err(|error| RunError::of_store(&error))?;
                self.recorder.stored();
            }
            None => {
                let created = self.create(Some((stored, detail))).await;
                created.map_err(|error| RunError::of_store(&error))?;
            }
        }
        (self.record.covered, self.record.moved) = (Some(next), false);
        self.record.journal.awaited = awaited;
        Ok(())
    }

    /// Suspends the program: it is in the store before its caller is told.
    pub(crate) async fn suspend(mut self) -> Driven {
        match self.park().await {
            Ok(result) => (result, After::Parked(self.pending_calls)),
            Err(error) => self.end(error.into()).await,
        }
    }

    async fn park(&mut self) -> Result<CodeModeResult, RunError> {
        self.pending_calls.send_off();
        let fence = self.record_run().await?;
        let bytes = self.home.park().map_err(|error| error.run_error())?;
        self.telemetry.snapshot_bytes = bytes.len();
        self.telemetry.park_count += 1;
        let mut pending = self.pending_calls.pending();
        pending.extend(others(&self.timers.store(), &self.yields));
        self.recorder.parked(&pending, self.shared.now());
        let mut frontier = self.frontier();
        frontier.output = Vec::new();
        let result = CodeModeResult::Waiting(Waiting {
            run_id: self.record.id.clone(),
            reason: frontier.reason(),
            pending_tool_calls: pending,
            output: std::mem::take(&mut self.output),
            telemetry: self.telemetry.clone(),
        });
        let result = self.persisting().changed(result).await;
        if let Some(run) = self.pending_calls.run() {
            // Before it is stored as suspended: a call may be dispatched right after.
            run.sync_next(SyncNext::All);
        }
        let (detail, told) = (text(&frontier)?, text(&result)?.into());
        let (next, image) = (self.record.next_seq, self.shared.engine.image_hash().0.into());
        let settings = &self.scope.settings;
        let room = settings.room;
        // A person may take days to answer, and the agent whose program it is ends it with its own run.
        let is_kept = self.scope.agent_run().is_some() && self.pending_calls.only_people_can_help();
        let lifetime = settings.snapshot_lifetime.as_millis() as Millis;
        let expires_at = (!is_kept).then_some(frontier.at + lifetime);
        let size = bytes.len();
        let cell = CellPart::Full { image, bytes };
        let checkpoint = Checkpoint { next, cell, detail, recorded: self.recorder.part() };
        let park = Park { checkpoint, result: told, expires_at, room };
        let turn = self.shared.turn_to_write(&self.scope).await;
        let parked = self.shared.store.park(&self.record.id, fence, park).await;
        drop(turn);
        if let Err(error) = parked {
            self.recorder.not_parked();
            // The output is for the caller who is told that it failed.
            if let CodeModeResult::Waiting(Waiting { output, .. }) = result {
                self.output = output;
            }
            return Err(RunError::of_store(&error));
        }
        self.recorder.stored();
        if let Some(run) = self.pending_calls.run() {
            run.cover(next);
        }
        self.shared.counting.add(Counted::Park, 1);
        tracing::debug!(run = %self.record.id, bytes = size, calls = frontier.calls.len(), "parked");
        (self.home, self.place) = (Home::Nowhere, None);
        Ok(result)
    }

    /// Ends the program, or stops it at its checkpoint if only the store has failed.
    pub(crate) async fn end(mut self, end: ProgramEnd) -> Driven {
        match (end, self.record.fence, self.record.covered) {
            (ProgramEnd::Failed(RunError::Unstored { error }), Some(fence), Some(_)) => self.stop(&error, fence),
            (ProgramEnd::Failed(RunError::Unstored { error }), ..) => {
                let error = format!("{error}.{}", self.calls_made());
                self.finish(RunError::failed(ErrorCode::RuntimeUnavailable, error).into()).await
            }
            (end, ..) => self.finish(end).await,
        }
    }

    /// Gives up the live program: it can be continued from its last checkpoint, as after a crash.
    fn stop(mut self, error: &str, fence: Fence) -> Driven {
        (self.home, self.place) = (Home::Nowhere, None);
        self.pending_calls.send_off();
        self.pending_calls.drop_unbegun();
        self.shared.give_back(&self.record.id, fence, self.scope.settings.snapshot_lifetime);
        let error = format!(
            "{error}. The program was stopped at its last checkpoint; continue it with wait when the store works again. No call \
             that has settled is made again.{}",
            self.calls_made()
        );
        let (code, run_id) = (Some(ErrorCode::RuntimeUnavailable), Some(self.record.id.clone()));
        let (output, telemetry) = (std::mem::take(&mut self.output), std::mem::take(&mut self.telemetry));
        (
            CodeModeResult::Failed(Failed { error, code, run_id, retry_after_ms: None, output, telemetry }),
            After::Left(self.pending_calls),
        )
    }

    /// Returns a sentence about the calls that the program has made.
    fn calls_made(&self) -> String {
        match self.telemetry.call_count {
            0 => " It has made no calls.".into(),
            count => {
                let tools = self.telemetry.nested_tool_ids.join(", ");
                let calls = if count == 1 { "call" } else { "calls" };
                format!(
                    " It has asked for {count} {calls} so far ({tools}): `pincer runs show` lists what became of them."
                )
            }
        }
    }

    /// Ends the cell and the calls of the program.
    async fn end_calls(&mut self) {
        (self.home, self.place) = (Home::Nowhere, None);
        // On its own it ends as it should even if that takes longer than is waited here.
        self.pending_calls.send_off();
        self.pending_calls.abort();
        // Tools have half a second to end by themselves; their calls are in the journal before the run is over.
        let grace = std::time::Duration::from_secs(2);
        let _ = tokio::time::timeout(grace, self.pending_calls.ended()).await;
    }

    fn persisting(&self) -> Persisting<'_> {
        Persisting {
            door: &self.shared.door,
            tool: self.scope.guest.tool(),
            call: &self.parent,
            context: &self.scope.context,
        }
    }

    /// Ends the program, and what it has not waited for.
    async fn finish(&mut self, end: ProgramEnd) -> Driven {
        self.end_calls().await;
        let output = std::mem::take(&mut self.output);
        if let ProgramEnd::Failed(RunError::Failed { caps, .. }) = &end {
            self.shared.counting.add_caps(*caps);
        }
        let state = end.state();
        let result = end.result(output, std::mem::take(&mut self.telemetry));
        let result = self.persisting().changed(result).await;
        tracing::debug!(run = %self.record.id, state = state.as_str(), "ended");
        if state == RunState::Aborted {
            self.shared.counting.add(Counted::Aborted, 1);
        }
        let Some(fence) = self.record.fence else { return (result, After::Nothing) };
        let text: Arc<str> = text(&result).unwrap_or_else(|_| "null".into()).into();
        // A run that a caller may ask for again must be known to be over, whatever happens.
        let is_known = self.record.acknowledged || self.record.key.is_some();
        let safety = if is_known { Safety::Power } else { Safety::Process };
        let store = &self.shared.store;
        let end = RunEnd { state, result: text, recorded: self.recorder.part() };
        match store.finish_run(&self.record.id, fence, end.clone(), store.now(), safety).await {
            // Without a run there is nothing to end.
            Ok(()) | Err(StoreError::Missing { .. }) => (result, After::Nothing),
            // It was aborted or taken over meanwhile: what was done since does not count.
            Err(error @ StoreError::Fenced { .. }) => {
                let (output, telemetry) = (result.output().to_vec(), result.telemetry().clone());
                let error = format!("code mode execution aborted: {}", told(&error));
                let (code, caps) = (Some(ErrorCode::Aborted), telemetry.cap_failures);
                (RunError::Failed { code, error, caps, retry: None }.result(output, telemetry), After::Nothing)
            }
            Err(error) => {
                let held = Arc::new(HeldEnd { id: self.record.id.clone(), fence, end, result });
                (held.not_stored(&error), After::Held(held))
            }
        }
    }

    /// Answers the pending yields: the caller that continues the program has been told of them.
    pub(crate) fn answer_yields(&mut self) {
        for pending in std::mem::take(&mut self.yields) {
            self.answers.push(Answer::value(pending.id, crate::bridge::yielded(pending.reason.as_deref())));
        }
    }
}

fn text(value: &impl serde::Serialize) -> Result<String, RunError> {
    serde_json::to_string(value).map_err(|error| RunError::bug(format!("it cannot be written as JSON: {error}")))
}
