//! The journal of nested calls: what was meant to happen, what was begun, and what came of it.
//!
//! A call costs two rows written: one before it is dispatched, one when it has settled. That it was delivered is noted for all
//! settled calls of a run at once, with the next commit of that run.

use rusqlite::Row;

use crate::runs::check_fence;
use crate::sqlite::stored_enum;
use crate::{Fence, SqliteStore, StoreError};

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
    /// It was asked for, and nothing has been done: it may still wait for an approval.
    Intent,
    /// It was handed to the tool. What happened since is not known here.
    Dispatched,
    /// The tool has answered, or has been given up.
    Settled,
    /// The program has seen the answer.
    Delivered,
}

stored_enum!(CallState { Intent = "intent", Dispatched = "dispatched", Settled = "settled", Delivered = "delivered" });

/// A call to be noted.
#[derive(Clone, Copy, Debug)]
pub struct NewCall<'a> {
    /// Its number within the run.
    pub seq: u32,
    /// The tool's id.
    pub tool: &'a str,
    /// Its input, as JSON.
    pub input: &'a str,
    /// Whether it may be made again.
    pub repeat: Repeat,
    /// [`CallState::Intent`], or [`CallState::Dispatched`] if nothing stands between.
    pub state: CallState,
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
    /// What came of it, as JSON, once it has settled.
    pub outcome: Option<String>,
}

/// The journal of a run's calls. Every change needs the run's fence.
pub trait Journal {
    /// Notes calls before they are made, all or none.
    fn note_calls(&self, run: &str, fence: Fence, calls: &[NewCall<'_>]) -> Result<(), StoreError>;
    /// Notes that a call is handed to its tool now.
    fn dispatch_call(&self, run: &str, fence: Fence, seq: u32) -> Result<(), StoreError>;
    /// Stores what came of a call. The first outcome stays: `false` if there was one already.
    fn settle_call(&self, run: &str, fence: Fence, seq: u32, outcome: &str) -> Result<bool, StoreError>;
    /// Notes that the program has seen all answers up to now.
    fn deliver_calls(&self, run: &str, fence: Fence) -> Result<(), StoreError>;
    /// All calls of a run, in their order.
    fn calls(&self, run: &str) -> Result<Vec<Call>, StoreError>;
}

fn read(row: &Row<'_>) -> rusqlite::Result<Call> {
    Ok(Call {
        seq: row.get(0)?,
        tool: row.get(1)?,
        input: row.get(2)?,
        repeat: row.get(3)?,
        state: row.get(4)?,
        outcome: row.get(5)?,
    })
}

fn missing(run: &str, seq: u32) -> StoreError {
    StoreError::Missing { what: "call", id: format!("{run}/{seq}") }
}

impl Journal for SqliteStore {
    fn note_calls(&self, run: &str, fence: Fence, calls: &[NewCall<'_>]) -> Result<(), StoreError> {
        self.transaction(|connection| {
            check_fence(connection, run, fence)?;
            let mut note = connection.prepare_cached(
                "INSERT INTO call (run, seq, tool, input, repeat, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT DO NOTHING",
            )?;
            for call in calls {
                if note.execute((run, call.seq, call.tool, call.input, call.repeat, call.state))? == 0 {
                    return Err(StoreError::Exists { what: "call", id: format!("{run}/{}", call.seq) }.into());
                }
            }
            Ok(())
        })
    }

    fn dispatch_call(&self, run: &str, fence: Fence, seq: u32) -> Result<(), StoreError> {
        self.transaction(|connection| {
            check_fence(connection, run, fence)?;
            let dispatch = "UPDATE call SET state = ?3 WHERE run = ?1 AND seq = ?2 AND state = ?4";
            let changed = connection.execute(dispatch, (run, seq, CallState::Dispatched, CallState::Intent))?;
            if changed == 0 { Err(missing(run, seq).into()) } else { Ok(()) }
        })
    }

    fn settle_call(&self, run: &str, fence: Fence, seq: u32, outcome: &str) -> Result<bool, StoreError> {
        self.transaction(|connection| {
            check_fence(connection, run, fence)?;
            let settle = "UPDATE call SET state = ?3, outcome = ?4 WHERE run = ?1 AND seq = ?2 AND outcome IS NULL";
            if connection.execute(settle, (run, seq, CallState::Settled, outcome))? == 1 {
                return Ok(true);
            }
            let known = "SELECT count(*) FROM call WHERE run = ?1 AND seq = ?2";
            match connection.query_row(known, (run, seq), |row| row.get::<_, i64>(0))? {
                0 => Err(missing(run, seq).into()),
                _ => Ok(false),
            }
        })
    }

    fn deliver_calls(&self, run: &str, fence: Fence) -> Result<(), StoreError> {
        self.transaction(|connection| {
            check_fence(connection, run, fence)?;
            let deliver = "UPDATE call SET state = ?2 WHERE run = ?1 AND state = ?3";
            connection.execute(deliver, (run, CallState::Delivered, CallState::Settled))?;
            Ok(())
        })
    }

    fn calls(&self, run: &str) -> Result<Vec<Call>, StoreError> {
        let query = "SELECT seq, tool, input, repeat, state, outcome FROM call WHERE run = ?1 ORDER BY seq";
        self.with(|connection| connection.prepare_cached(query)?.query_map([run], read)?.collect())
    }
}
