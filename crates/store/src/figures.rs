//! What the tools of runs took of their requests, kept so that it can be summed: small rows beside the runs.
//!
//! A row comes with a commit of its run ([`RunChange::figures`](crate::RunChange::figures)), takes the place of the one before, and goes with
//! its run.

use crate::{AgentRunId, Millis, Reply, SessionId, SessionKey};

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFigures {
    /// The run.
    pub run: AgentRunId,
    /// The key of its session.
    pub session_key: SessionKey,
    /// When they were stored last: when the run ended, or began to wait.
    pub at: Millis,
    /// The figures, as JSON. `None` for a run from before there were any.
    pub figures: Option<String>,
    /// The place of the row among those of its time.
    pub number: i64,
}

/// The figures that are asked for, the earliest first.
#[derive(Clone, Debug, Default)]
pub struct FiguresPage {
    /// The user whose runs these are.
    pub user: String,
    /// Only those of sessions with this key.
    pub key: Option<SessionKey>,
    /// Only those behind this time and number. With a number of -1, those of this time too.
    pub after: (Millis, i64),
    /// How many at most.
    pub limit: u32,
}

/// The figures of runs.
pub trait Figures {
    /// Returns a page of the figures of a user's runs.
    fn run_figures(&self, page: FiguresPage) -> Reply<Vec<RunFigures>>;
    /// Returns the figures of the runs of a session, in the order in which the runs were accepted, at most so many behind this number.
    fn figures_of_session(&self, session: &SessionId, after: i64, limit: u32) -> Reply<Vec<RunFigures>>;
}
