//! Recordings of runs: what another process needs to let the program of a run take the same way again.
//!
//! They are written in the commits that begin a run, store its checkpoints and end it, so they say no more than the checkpoint beside
//! them: after a crash, both go on from the same point.

use std::sync::Arc;

use crate::{AgentRunId, Call, Reply, Run, RunId, SessionKey};

/// A part of the recording of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedPart {
    /// Its number. The first is 0, and begins the recording anew. A part takes the place of one with its number.
    pub number: u32,
    /// The part, as JSON.
    pub text: Arc<str>,
    /// The texts that it names by their hash, and that other runs may have too.
    pub texts: Vec<SharedText>,
}

/// A text that the recordings of several runs may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedText {
    /// Its hash.
    pub hash: [u8; 32],
    /// The text.
    pub text: Arc<str>,
}

impl RecordedPart {
    /// Returns the bytes that it writes.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.texts.iter().map(|shared| shared.text.len()).sum::<usize>()
    }
}

/// The recording of a run as it is stored, with all that belongs to it, as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecording {
    /// The run.
    pub run: Run,
    /// Its parts, in their order. None if the run was not recorded.
    pub parts: Vec<String>,
    /// The texts that these name.
    pub texts: Vec<SharedText>,
    /// The calls of the run, in their order.
    pub calls: Vec<Call>,
    /// The last result that the caller of the run was told, as JSON.
    pub result: Option<String>,
}

/// The runs whose recordings are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedRuns {
    /// Those that are part of a run of an agent.
    OfAgentRun(AgentRunId),
    /// Those of a session of a user.
    OfSession {
        /// The session.
        session: SessionKey,
        /// The user.
        user: String,
    },
}

/// Recordings of runs. They are forgotten with their runs.
pub trait Recordings {
    /// Returns the recording of a run, read in one transaction.
    fn recording(&self, run: &RunId) -> Reply<StoredRecording>;
    /// Returns the runs that have a recording, oldest first.
    fn recorded_runs(&self, of: RecordedRuns) -> Reply<Vec<RunId>>;
}
