//! Runs of agents: messages that were accepted, and what came of them.
//!
//! A run is stored before its sender is told that it was accepted, and stays until its session is forgotten. All that happens to it
//! later is stored by the writer of its session ([`RunChange`]).

use std::sync::Arc;

use crate::states::words;
use crate::{AgentRunId, Millis, NewDelivery, Reply, SessionId, SessionKey};

/// The most messages of a session that gave way in a full queue and that the next run is told of.
pub const MOST_SUMMARIZED: u32 = 20;

/// How a run of an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentRunState {
    /// It has not begun.
    Queued,
    /// A process works on it, or did until it died.
    Running,
    /// It waits for a person, or for the caller whose tool it called.
    Waiting,
    /// It has its answer.
    Done,
    /// It failed.
    Failed,
    /// It was stopped.
    Aborted,
    /// It took longer than it may.
    TimedOut,
    /// Its message became part of another run.
    Merged,
    /// It was left out of a queue that was full.
    Dropped,
    /// Like `Dropped`, and the next run is told of it.
    Summarized,
}

words!(AgentRunState {
    Queued = "queued",
    Running = "running",
    Waiting = "waiting",
    Done = "done",
    Failed = "failed",
    Aborted = "aborted",
    TimedOut = "timed_out",
    Merged = "merged",
    Dropped = "dropped",
    Summarized = "summarized",
});

impl AgentRunState {
    /// Returns whether nothing more happens to it.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Waiting)
    }
}

/// A message that is to be accepted.
#[derive(Clone, Debug)]
pub struct NewAgentRun {
    /// Its id.
    pub id: AgentRunId,
    /// The user.
    pub user: String,
    /// The key of its session.
    pub session: SessionKey,
    /// The agent, for a session that does not exist yet.
    pub agent: Option<String>,
    /// The id of its session, if that does not exist yet.
    pub new_session: SessionId,
    /// The sender's word for this message, unique for its user and session.
    pub key: Option<String>,
    /// A digest of the message: another one under the same key is another request.
    pub digest: Vec<u8>,
    /// Its place in the queue: lower ones come first, then older ones.
    pub rank: i64,
    /// The message and how it is to be handled, as JSON.
    pub request: Arc<str>,
    /// Takes the place of the request if the message gives way in a full queue: thousands of those must not take much.
    pub brief: Arc<str>,
    /// The result, as JSON, if no model is needed for it: then it has ended when it is stored.
    pub answer: Option<Arc<str>>,
    /// The answer on its way to a channel, if there is one.
    pub delivery: Option<NewDelivery>,
    /// The queue that it may have to join.
    pub queue: QueueLimit,
    /// The time.
    pub now: Millis,
}

/// How many messages wait for a session, and which one gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// How many, at least one. Runs that have begun do not count, and never give way.
    pub cap: u32,
    /// Which one gives way.
    pub full: WhenFull,
}

/// The message that gives way when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest, whatever its rank.
    DropOldest,
    /// The new one: it is refused.
    RefuseNew,
    /// Like `DropOldest`, and the next run is told of it. Of those that no run was told of, the newest [`MOST_SUMMARIZED`] stay so.
    Summarize,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is stored.
    New {
        /// Its run.
        run: AgentRun,
        /// The runs that gave way to it.
        dropped: Vec<AgentRunId>,
    },
    /// The same message was accepted before.
    Same(AgentRun),
    /// Another message was accepted under its key.
    Different(AgentRunId),
    /// The queue is full.
    Full,
}

/// A run as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRun {
    /// Its id.
    pub id: AgentRunId,
    /// The user.
    pub user: String,
    /// The key of its session.
    pub session_key: SessionKey,
    /// Its session.
    pub session: SessionId,
    /// The sender's word for it.
    pub key: Option<String>,
    /// How it stands.
    pub state: AgentRunState,
    /// Its place in the queue.
    pub rank: i64,
    /// When it was accepted.
    pub created_at: Millis,
    /// When it began.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// How many processes have worked on it, one after the other.
    pub generation: u32,
    /// The number of its last stored event.
    pub last_event: u32,
    /// The position of its first entry.
    pub first_entry: Option<u32>,
    /// Whether it is to be stopped.
    pub is_stopped: bool,
    /// The message and how it is to be handled, as JSON.
    pub request: String,
    /// The detail that its next worker must know, as JSON.
    pub detail: Option<String>,
    /// The result, as JSON.
    pub result: Option<String>,
    /// The run that its message became part of.
    pub merged_into: Option<AgentRunId>,
}

/// A change of a run, as part of a commit of its session. A run that has ended does not change: one that is
/// [`Summarized`](AgentRunState::Summarized) only takes the run that is told of it, once.
#[derive(Clone, Debug)]
pub struct RunChange {
    /// The run.
    pub id: AgentRunId,
    /// How it stands from now on.
    pub state: AgentRunState,
    /// The generation of its events.
    pub generation: Option<u32>,
    /// The number of its last event.
    pub last_event: Option<u32>,
    /// The detail that its next worker must know, as JSON.
    pub detail: Option<Arc<str>>,
    /// The result, as JSON.
    pub result: Option<Arc<str>>,
    /// The figures of its tools up to now, as JSON: they take the place of those before.
    pub figures: Option<Arc<str>>,
    /// The questions and client calls that it waits for, by their ids, if it waits.
    pub awaits: Vec<String>,
    /// The run that its message becomes part of.
    pub merged_into: Option<AgentRunId>,
}

impl RunChange {
    /// Returns a change to this state, and nothing else.
    pub fn new(id: AgentRunId, state: AgentRunState) -> Self {
        Self {
            id,
            state,
            generation: None,
            last_event: None,
            detail: None,
            result: None,
            figures: None,
            awaits: Vec::new(),
            merged_into: None,
        }
    }
}

/// What came of a wish to stop a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It had not begun, and never will.
    Unbegun,
    /// The process that works on it, or the next one, stops it.
    Asked,
    /// It had ended before.
    Ended,
}

/// Runs of agents.
pub trait AgentRuns {
    /// Stores a message, unless it was stored before, and its session if there is none. Fails with
    /// [`StoreError::Exists`](crate::StoreError::Exists) if there is a run with its id.
    fn accept_run(&self, run: NewAgentRun) -> Reply<Accepted>;
    /// Returns the run with this id.
    fn agent_run(&self, id: &AgentRunId) -> Reply<AgentRun>;
    /// Returns the run that was accepted under a sender's word.
    fn agent_run_with_key(&self, user: &str, session: &SessionKey, key: &str) -> Reply<Option<AgentRun>>;
    /// Returns the runs of a session that have not ended, in the order in which they are due: the one that has begun, then by rank
    /// and age. Last come those that were left out of the queue and that no run was told of.
    fn open_runs(&self, user: &str, session: &SessionKey) -> Reply<Vec<AgentRun>>;
    /// Returns the sessions that have runs which have not ended, the oldest first.
    fn sessions_with_work(&self) -> Reply<Vec<(String, SessionKey)>>;
    /// Returns the sessions whose runs wait and can go on: a question is no longer open, a client call has its result, or the run is to
    /// be stopped.
    fn sessions_to_wake(&self, now: Millis) -> Reply<Vec<(String, SessionKey)>>;
    /// Returns the runs of a session, the latest first.
    fn runs_of_session(&self, id: &SessionId, limit: u32) -> Reply<Vec<AgentRun>>;
    /// Asks that a run be stopped. One that has not begun ends here, with this result.
    fn stop_run(&self, id: &AgentRunId, result: Arc<str>, now: Millis) -> Reply<Stopped>;
}
