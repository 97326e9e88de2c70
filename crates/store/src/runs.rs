//! Runs: which there are, how they stand, and which process owns each.

use std::sync::Arc;

use crate::states::words;
use crate::{AgentRunId, Checkpoint, Millis, OwnerId, RecordedPart, Reply, RunId, Safety, SessionKey};

/// Proves that its holder owns a run. Each claim gets a higher one; with an old one nothing can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

impl Fence {
    /// The fence of the process that creates a run.
    pub const FIRST: Self = Self(1);
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    /// Its program runs, or calls of it are in flight.
    Running,
    /// It has a snapshot and can be continued.
    Waiting,
    /// It has returned.
    Completed,
    /// It has failed.
    Failed,
    /// It waited for too long.
    Expired,
    /// It was cancelled.
    Aborted,
}

words!(RunState {
    Running = "running",
    Waiting = "waiting",
    Completed = "completed",
    Failed = "failed",
    Expired = "expired",
    Aborted = "aborted",
});

impl RunState {
    /// Returns whether it will never run again.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// A key under which a run is begun at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    /// The caller's word, unique for this user and session.
    pub key: String,
    /// A digest of the program: another one under the same key is another request.
    pub program: Vec<u8>,
}

/// The tools that a program may call, as they were when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    /// The hash of `tools`.
    pub hash: Vec<u8>,
    /// The description that the run's owner wrote down.
    pub tools: Arc<str>,
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// The session it belongs to.
    pub session: SessionKey,
    /// The user who may continue it.
    pub user: String,
    /// The run of an agent it is part of, if it is: then only that may continue it.
    pub agent_run: Option<String>,
    /// When it began.
    pub created_at: Millis,
    /// The key of the request, if it has one.
    pub key: Option<RunKey>,
    /// The tools it may call.
    pub tools: Option<ToolSet>,
    /// The beginning of its recording.
    pub recorded: Option<RecordedPart>,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// A final state.
    pub state: RunState,
    /// The result that its caller is told, as JSON.
    pub result: Arc<str>,
    /// The end of its recording.
    pub recorded: Option<RecordedPart>,
}

impl RunEnd {
    /// An end that adds nothing to the recording of the run.
    pub fn new(state: RunState, result: impl Into<Arc<str>>) -> Self {
        Self { state, result: result.into(), recorded: None }
    }
}

/// A process that takes a run, with its promise about checkpoints.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The process.
    pub owner: OwnerId,
    /// The safety of the run's checkpoints. After a power cut, a run whose checkpoints were not synced cannot be continued: its
    /// last calls may not be stored.
    pub safety: Safety,
}

/// A run as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The session it belongs to.
    pub session: SessionKey,
    /// The user who may continue it.
    pub user: String,
    /// The run of an agent it is part of.
    pub agent_run: Option<String>,
    /// How it stands.
    pub state: RunState,
    /// The process that last claimed it.
    pub owner: OwnerId,
    /// That process's proof.
    pub fence: Fence,
    /// When it began.
    pub created_at: Millis,
    /// When it can no longer be continued, if it waits.
    pub expires_at: Option<Millis>,
    /// A suspension of it was acknowledged.
    pub acknowledged: bool,
    /// It ran, with checkpoints that were not synced, when the machine went down: what it did last may be unknown.
    pub power_cut: bool,
    /// The key of its request.
    pub key: Option<RunKey>,
    /// The hash of the tools it may call.
    pub tools: Option<Vec<u8>>,
}

/// Runs and their owners.
pub trait Runs {
    /// Stores a run that has begun, with its first checkpoint if it has one. Fails with
    /// [`StoreError::Exists`](crate::StoreError::Exists) if there is a run with this id, or one with this key for the same user
    /// and session.
    fn create_run(&self, run: NewRun, claim: Claim, checkpoint: Option<Checkpoint>, safety: Safety) -> Reply<Fence>;
    /// Returns the run with this id.
    fn run(&self, id: &RunId) -> Reply<Run>;
    /// Returns the run that was begun with this key.
    fn run_with_key(&self, user: &str, session: &SessionKey, key: &str) -> Reply<Option<Run>>;
    /// Returns all runs of a session, or of all sessions, oldest first. There may be many: see [`Listings`](crate::Listings).
    fn runs(&self, session: Option<&SessionKey>) -> Reply<Vec<Run>>;
    /// Returns the runs that are part of an agent's run and have not ended.
    fn runs_of_agent(&self, agent_run: &AgentRunId) -> Reply<Vec<RunId>>;
    /// Returns all runs that are driven, or were when their process died.
    fn running(&self) -> Reply<Vec<Run>>;
    /// Lets a running run wait whose owner is gone or gives it up, if it has a snapshot; `false` if it has none.
    fn let_wait(&self, id: &RunId, seen: Fence, expires_at: Millis) -> Reply<bool>;
    /// Takes a run over, to let it run. `seen` is the state and the proof that the claimant saw: if either has changed, this
    /// fails with [`StoreError::Fenced`](crate::StoreError::Fenced). Every claim gets a new proof, also one by the owner itself.
    fn claim_run(&self, id: &RunId, seen: (RunState, Fence), claim: Claim) -> Reply<Fence>;
    /// Notes which tools a run may call from now on.
    fn set_tools(&self, id: &RunId, fence: Fence, tools: ToolSet) -> Reply<()>;
    /// Ends a run. Its snapshot, its open questions and what was granted to it go with it.
    fn finish_run(&self, id: &RunId, fence: Fence, end: RunEnd, now: Millis, safety: Safety) -> Reply<()>;
    /// Returns what the caller of a run was last told, as JSON.
    fn run_result(&self, id: &RunId) -> Reply<Option<String>>;
    /// Ends a run regardless of its owner, and returns whether this ended it, with the state in which it is now. Its owner can
    /// store nothing from now on.
    fn abort_run(&self, id: &RunId, now: Millis) -> Reply<(bool, RunState)>;
}
