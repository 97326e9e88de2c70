//! The journal of nested calls: what was begun, and what came of it.
//!
//! A call costs two commits: one before it is handed to its tool, one when it has settled. Whether the program has seen the
//! answer is not noted here: that is part of the program's next snapshot.

use rusqlite::Row;

use crate::runs::check_fence;
use crate::sqlite::stored_enum;
use crate::{Commit, Fence, SqliteStore, StoreError};

/// Whether a call may be made again when nobody knows if it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing.
    Pure,
    /// Twice is the same as once.
    Idempotent,
    /// Nobody knows.
    Unknown,
}

stored_enum!(Repeat { Pure = "pure", Idempotent = "idempotent", Unknown = "unknown" });

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// It was handed to the tool. What happened since is not known here.
    Dispatched,
    /// The tool has answered, or has been given up.
    Settled,
}

stored_enum!(CallState { Dispatched = "dispatched", Settled = "settled" });

/// A call to be noted.
#[derive(Clone, Copy, Debug)]
pub struct NewCall<'a> {
    /// Its number within the run.
    pub seq: u32,
    /// The tool's id.
    pub tool: &'a str,
    /// Its input, as JSON.
    pub input: &'a str,
    /// A digest of what was asked for, before anybody changed the input.
    pub asked: &'a [u8],
    /// Whether it may be made again.
    pub repeat: Repeat,
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
    /// A digest of what was asked for, before anybody changed the input.
    pub asked: Vec<u8>,
    /// Whether it may be made again.
    pub repeat: Repeat,
    /// How far it has come.
    pub state: CallState,
    /// The process that makes it. It may be another than the one that has the run by now.
    pub owner: String,
    /// What came of it, as JSON, once it has settled.
    pub outcome: Option<String>,
    /// When it settled: a number that is higher for those that did later.
    pub settled: Option<i64>,
}

/// The journal of a run's calls.
pub trait Journal {
    /// Notes calls that are handed to their tools now, all or none. A call that was noted before and has not settled is taken
    /// over by `owner`: then the one who had it can no longer settle it.
    fn note_calls(
        &self,
        run: &str,
        fence: Fence,
        owner: &str,
        calls: &[NewCall<'_>],
        commit: Commit,
    ) -> Result<(), StoreError>;
    /// Stores what came of a call that `owner` makes, whoever has the run by now. The first outcome stays: `false` if there was
    /// one already.
    fn settle_call(&self, run: &str, owner: &str, seq: u32, outcome: &str, commit: Commit) -> Result<bool, StoreError>;
    /// Gives up the calls of a run that `owner` makes and that have not settled: it can no longer settle them.
    fn disown_calls(&self, run: &str, owner: &str) -> Result<(), StoreError>;
    /// All calls of a run, in their order.
    fn calls(&self, run: &str) -> Result<Vec<Call>, StoreError>;
}

/// Notes a call, if the run is whose fence this is.
const NOTE: &str = "
    INSERT INTO call (run, seq, tool, input, repeat, state, owner, asked)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM run WHERE id = ?1 AND fence = ?9
    ON CONFLICT DO UPDATE SET owner = excluded.owner, input = excluded.input
    WHERE call.state = excluded.state AND call.tool = excluded.tool";
const SETTLE: &str = "
    UPDATE call SET state = ?4, outcome = ?5, settled = ?6
    WHERE run = ?1 AND seq = ?2 AND owner = ?3 AND outcome IS NULL";

fn read(row: &Row<'_>) -> rusqlite::Result<Call> {
    Ok(Call {
        seq: row.get(0)?,
        tool: row.get(1)?,
        input: row.get(2)?,
        repeat: row.get(3)?,
        state: row.get(4)?,
        owner: row.get(5)?,
        outcome: row.get(6)?,
        settled: row.get(7)?,
        asked: row.get(8)?,
    })
}

impl Journal for SqliteStore {
    fn note_calls(
        &self,
        run: &str,
        fence: Fence,
        owner: &str,
        calls: &[NewCall<'_>],
        commit: Commit,
    ) -> Result<(), StoreError> {
        let state = CallState::Dispatched;
        if let [NewCall { seq, tool, input, asked, repeat }] = calls {
            let call = (run, seq, tool, input, repeat, state, owner, asked, fence.0);
            if self.change_as(commit, NOTE, call, |_| Ok(false))? {
                return Ok(());
            }
        }
        // Several at once, or one that could not be noted: here it shows why.
        self.commit_as(commit, |connection| {
            check_fence(connection, run, fence)?;
            let mut note = connection.prepare_cached(NOTE)?;
            for NewCall { seq, tool, input, asked, repeat } in calls {
                if note.execute((run, seq, tool, input, repeat, state, owner, asked, fence.0))? == 0 {
                    return Err(StoreError::Exists { what: "call", id: format!("{run}/{seq}") }.into());
                }
            }
            Ok(())
        })
    }

    fn settle_call(&self, run: &str, owner: &str, seq: u32, outcome: &str, commit: Commit) -> Result<bool, StoreError> {
        let settled = (run, seq, owner, CallState::Settled, outcome, self.next_moment());
        self.change_as(commit, SETTLE, settled, |connection| {
            let known = "SELECT owner = ?3 FROM call WHERE run = ?1 AND seq = ?2";
            let mut known = connection.prepare_cached(known)?;
            match known.query_row((run, seq, owner), |row| row.get::<_, bool>(0)) {
                Ok(true) => Ok(false),
                Ok(false) => Err(StoreError::Fenced { run: run.into() }.into()),
                Err(rusqlite::Error::QueryReturnedNoRows) => {
                    Err(StoreError::Missing { what: "call", id: format!("{run}/{seq}") }.into())
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    fn disown_calls(&self, run: &str, owner: &str) -> Result<(), StoreError> {
        let disown = "UPDATE call SET owner = '' WHERE run = ?1 AND owner = ?2 AND outcome IS NULL";
        self.with(|connection| connection.execute(disown, (run, owner)).map(drop))
    }

    fn calls(&self, run: &str) -> Result<Vec<Call>, StoreError> {
        let query = "SELECT seq, tool, input, repeat, state, owner, outcome, settled, asked FROM call WHERE run = ?1 ORDER BY seq";
        self.with(|connection| connection.prepare_cached(query)?.query_map([run], read)?.collect())
    }
}
