//! The journal of nested calls: what was dispatched, and what came of it.
//!
//! A call costs two commits: one just before it is handed to its tool, one when it has settled. Calls that have not been
//! dispatched are not here: they are part of a checkpoint. Neither is whether the program has seen an outcome: that is part of
//! its next checkpoint.

use std::sync::Arc;

use crate::states::words;
use crate::{Fence, Millis, OwnerId, Permission, Reply, RunId, Safety};

/// Whether a call may be made again when it is not known if it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing.
    Pure,
    /// Twice is the same as once.
    Idempotent,
    /// It may not.
    Unknown,
}

words!(Repeat { Pure = "pure", Idempotent = "idempotent", Unknown = "unknown" });

/// The demand of a call on the checkpoint of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Nothing: the call changes nothing.
    None,
    /// It must be part of the stored checkpoint.
    Checkpoint,
    /// If it is not part of the stored checkpoint, that checkpoint is removed in the same commit: the run can no longer be
    /// continued from a point before this call. Of a run that waits it must be part.
    Retire,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// It was handed to the tool. What happened since is not known here.
    Dispatched,
    /// The tool has answered, or has been given up.
    Settled,
}

words!(CallState { Dispatched = "dispatched", Settled = "settled" });

/// A call that is about to be made.
#[derive(Clone, Debug)]
pub struct NewCall {
    /// Its number within the run.
    pub seq: u32,
    /// The tool's id.
    pub tool: String,
    /// Its input, as JSON. Not `Arc<str>`: a text of megabytes would be copied to become one.
    pub input: Arc<String>,
    /// Whether it may be made again.
    pub repeat: Repeat,
    /// Its demand on the run's checkpoint.
    pub cover: Cover,
    /// Its permission.
    pub permission: Permission,
    /// The line of the program that asks for it.
    pub line: Option<u32>,
    /// The time.
    pub at: Millis,
}

/// A call as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number within the run.
    pub seq: u32,
    /// The tool's id.
    pub tool: String,
    /// Its input, as JSON.
    pub input: String,
    /// Whether it may be made again.
    pub repeat: Repeat,
    /// How far it has come.
    pub state: CallState,
    /// The process that makes it. It may be another than the one that has the run by now.
    pub owner: OwnerId,
    /// What came of it, as JSON, once it has settled.
    pub outcome: Option<String>,
    /// Its place among the settled calls of the run, given in the commit: the first has the lowest.
    pub settled: Option<i64>,
    /// When it settled.
    pub settled_at: Option<Millis>,
    /// The line of the program that asked for it. Calls of earlier versions have none.
    pub line: Option<u32>,
    /// When it was last handed to its tool.
    pub dispatched_at: Option<Millis>,
}

/// The bytes that a call takes in a store beside its input and outcome.
pub const CALL_BYTES: u64 = 100;

impl Call {
    /// Returns the bytes that it takes in the store, about.
    pub fn stored_bytes(&self) -> u64 {
        CALL_BYTES + (self.input.len() + self.outcome.as_ref().map_or(0, String::len)) as u64
    }
}

/// The calls of a run that the journal keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// The next number of the stored checkpoint, if there is one.
    pub next: Option<u32>,
    /// The calls whose outcomes that checkpoint waits for.
    pub awaited: Vec<u32>,
    /// The bytes that the latest calls may have.
    pub keep: u64,
}

/// The journal of a run's calls.
pub trait Journal {
    /// Notes that a call is handed to its tool now, and uses up what allows it, in one step. A call that was dispatched before
    /// and has not settled is taken over by `owner`: the process that had it can no longer settle it.
    ///
    /// Fails with [`StoreError::Fenced`](crate::StoreError::Fenced) if the run has ended or has another owner, with
    /// [`StoreError::NotCovered`](crate::StoreError::NotCovered) if the call is not part of the stored checkpoint and must be,
    /// and with [`StoreError::NotPermitted`](crate::StoreError::NotPermitted) if what allows it is gone.
    fn dispatch(&self, run: &RunId, fence: Fence, owner: &OwnerId, call: NewCall, safety: Safety) -> Reply<()>;
    /// Stores what came of a call that `owner` makes, also when the run has another owner by now. The first outcome stays:
    /// `false` if there was one already.
    fn settle(
        &self,
        run: &RunId,
        owner: &OwnerId,
        seq: u32,
        outcome: Arc<String>,
        now: Millis,
        safety: Safety,
    ) -> Reply<bool>;
    /// Gives up the calls of a run that `owner` makes and that have not settled: it can no longer settle them.
    fn disown_calls(&self, run: &RunId, owner: &OwnerId) -> Reply<()>;
    /// Returns all calls of a run, in their order, but for those that were [pruned](Self::prune_calls).
    fn calls(&self, run: &RunId) -> Reply<Vec<Call>>;
    /// Returns one call of a run, if there is one.
    fn call(&self, run: &RunId, seq: u32) -> Reply<Option<Call>>;
    /// Forgets settled calls, the oldest first. A call that is not part of the checkpoint stays without its input and outcome.
    /// Returns the bytes that are left.
    ///
    /// Fails with [`StoreError::Outdated`](crate::StoreError::Outdated) if another checkpoint is stored than the one in `prune`:
    /// that may wait for other outcomes.
    fn prune_calls(&self, run: &RunId, fence: Fence, prune: Prune) -> Reply<u64>;
}
