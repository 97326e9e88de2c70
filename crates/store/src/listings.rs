//! Runs as they are listed: a page at a time, however many there are.
//!
//! Their ids begin with the time, so the order of the ids is that in which they began.

use crate::{Millis, OwnerId, Reply, Run, RunId, RunState, SessionKey};

/// The runs that are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Only those of this session.
    pub session: Option<SessionKey>,
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those whose ids come before this one. It need not be there any more.
    pub before: Option<RunId>,
    /// How many at most: the latest.
    pub limit: u32,
}

/// A run with what waits in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOverview {
    /// The run.
    pub run: Run,
    /// The size of its snapshot, if it has one.
    pub snapshot_bytes: Option<u32>,
    /// The detail that the process that parked it wrote down, as JSON.
    pub detail: Option<String>,
}

/// How a run stands, and which process last claimed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The run.
    pub id: RunId,
    /// How it stands.
    pub state: RunState,
    /// The process.
    pub owner: OwnerId,
}

/// The runs of a session, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCount {
    /// The session.
    pub session: SessionKey,
    /// All of them.
    pub runs: u32,
    /// Those that have not ended.
    pub open: u32,
    /// When the last one began.
    pub last: Millis,
}

/// Questions about many runs at once.
pub trait Listings {
    /// Returns one page of runs, the oldest first.
    fn run_overviews(&self, page: Page) -> Reply<Vec<RunOverview>>;
    /// Returns one run with what waits in it.
    fn run_overview(&self, id: &RunId) -> Reply<RunOverview>;
    /// Returns the ids that begin so, a hundred at most.
    fn runs_named(&self, beginning: &str) -> Reply<Vec<RunId>>;
    /// Returns how many runs of a session stand how: those of one user, or all.
    fn run_counts(&self, session: &SessionKey, user: Option<&str>) -> Reply<Vec<(RunState, u32)>>;
    /// Returns the sessions that have runs, of one user or of all, the one with the latest run first.
    fn sessions(&self, user: Option<&str>) -> Reply<Vec<SessionCount>>;
    /// Returns how these runs stand, in no order, as far as there are any.
    fn standings(&self, ids: Vec<RunId>) -> Reply<Vec<Standing>>;
}
