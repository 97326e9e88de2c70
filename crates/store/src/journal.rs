//! The journal of nested calls: what was dispatched, and what came of it.
//!
//! A call costs two commits: one just before it is handed to its tool, one when it has settled. Calls that have not been
//! dispatched are not here: they are part of a checkpoint. Neither is whether the program has seen an outcome: that is part of
//! its next checkpoint.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::runs::{check_fence, check_running};
use crate::sqlite::{Refused, stored_enum};
use crate::{Commit, Fence, Millis, Permission, RunState, Safety, SqliteStore, StoreError, approvals, grants};

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

stored_enum!(Repeat { Pure = "pure", Idempotent = "idempotent", Unknown = "unknown" });

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

stored_enum!(CallState { Dispatched = "dispatched", Settled = "settled" });

/// A call that is about to be made.
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
    /// Its demand on the run's checkpoint.
    pub cover: Cover,
    /// Its permission.
    pub permission: Permission<'a>,
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
    pub owner: String,
    /// What came of it, as JSON, once it has settled.
    pub outcome: Option<String>,
    /// Its place among the settled calls of the run, given in the commit: the first has the lowest.
    pub settled: Option<i64>,
    /// When it settled.
    pub settled_at: Option<Millis>,
}

/// The journal of a run's calls.
pub trait Journal {
    /// Notes that a call is handed to its tool now, and uses up what allows it, in one step. A call that was dispatched before
    /// and has not settled is taken over by `owner`: the process that had it can no longer settle it.
    ///
    /// Fails with [`StoreError::Fenced`] if the run has ended or has another owner, with [`StoreError::NotCovered`] if the call
    /// is not part of the stored checkpoint and must be, and with [`StoreError::NotPermitted`] if what allows it is gone.
    fn dispatch(
        &self,
        run: &str,
        fence: Fence,
        owner: &str,
        call: &NewCall<'_>,
        commit: Commit,
    ) -> Result<(), StoreError>;
    /// Stores what came of a call that `owner` makes, also when the run has another owner by now. The first outcome stays:
    /// `false` if there was one already.
    fn settle(
        &self,
        run: &str,
        owner: &str,
        seq: u32,
        outcome: &str,
        now: Millis,
        commit: Commit,
    ) -> Result<bool, StoreError>;
    /// Gives up the calls of a run that `owner` makes and that have not settled: it can no longer settle them.
    fn disown_calls(&self, run: &str, owner: &str) -> Result<(), StoreError>;
    /// Returns all calls of a run, in their order, but for those that were [pruned](Self::prune_calls).
    fn calls(&self, run: &str) -> Result<Vec<Call>, StoreError>;
    /// Returns one call of a run, if there is one.
    fn call(&self, run: &str, seq: u32) -> Result<Option<Call>, StoreError>;
    /// Forgets settled calls, the oldest first. A call that is not part of the checkpoint stays without its input and outcome.
    /// Returns the bytes that are left.
    ///
    /// Fails with [`StoreError::Outdated`] if another checkpoint is stored than the one in `prune`: that may wait for other
    /// outcomes.
    fn prune_calls(&self, run: &str, fence: Fence, prune: &Prune<'_>) -> Result<u64, StoreError>;
}

/// The calls of a run that the journal keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune<'a> {
    /// The next number of the stored checkpoint, if there is one.
    pub next: Option<u32>,
    /// The calls whose outcomes that checkpoint waits for.
    pub awaited: &'a [u32],
    /// The bytes that the latest calls may have.
    pub keep: u64,
}

/// The bytes that a call takes in the store beside its input and outcome.
const ROW_BYTES: u64 = 100;

impl Call {
    /// Returns the bytes that it takes in the store, about.
    pub fn stored_bytes(&self) -> u64 {
        ROW_BYTES + (self.input.len() + self.outcome.as_ref().map_or(0, String::len)) as u64
    }
}

/// Notes a call, if the run is that of the fence, has not ended, and the call is covered, need not be, or has nothing to retire.
const DISPATCH: &str = "
    INSERT INTO call (run, seq, tool, input, repeat, state, owner)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM run
    WHERE id = ?1 AND fence = ?8 AND state IN ('running', 'waiting') AND (?9 OR ?2 < coalesce(
        (SELECT next FROM delta WHERE delta.run = run.id ORDER BY number DESC LIMIT 1),
        (SELECT next FROM snapshot WHERE snapshot.run = run.id), 0)
        OR (?10 AND state = 'running' AND NOT EXISTS (SELECT 1 FROM snapshot WHERE snapshot.run = run.id)))
    ON CONFLICT DO UPDATE SET owner = excluded.owner, input = excluded.input
    WHERE call.state = excluded.state AND call.tool = excluded.tool";
/// The place is counted inside the statement: two processes may settle calls of one run at once.
const SETTLE: &str = "
    UPDATE call SET state = ?4, outcome = ?5, settled_at = ?6, settled = 1 + coalesce(
        (SELECT max(other.settled) FROM call AS other WHERE other.run = call.run AND other.settled IS NOT NULL), 0)
    WHERE run = ?1 AND seq = ?2 AND owner = ?3 AND outcome IS NULL";

const COLUMNS: &str = "seq, tool, input, repeat, state, owner, outcome, settled, settled_at";

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
        settled_at: row.get(8)?,
    })
}

/// Returns the next number of the stored checkpoint of a run, if there is one.
fn stored_next(connection: &Connection, run: &str) -> rusqlite::Result<Option<u32>> {
    let next = "SELECT coalesce((SELECT next FROM delta WHERE run = ?1 ORDER BY number DESC LIMIT 1),
        (SELECT next FROM snapshot WHERE run = ?1))";
    connection.prepare_cached(next)?.query_row([run], |row| row.get(0))
}

/// Whether a call is part of the stored checkpoint of its run.
fn is_covered(connection: &Connection, run: &str, seq: u32) -> rusqlite::Result<bool> {
    Ok(stored_next(connection, run)?.is_some_and(|next| seq < next))
}

fn retire(connection: &Connection, run: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM snapshot WHERE run = ?1")?.execute([run])?;
    connection.prepare_cached("DELETE FROM delta WHERE run = ?1")?.execute([run])?;
    Ok(())
}

/// Uses up what allows a call.
fn permit(connection: &Connection, run: &str, call: &NewCall<'_>) -> Result<(), Refused> {
    let permitted = match call.permission {
        Permission::Free => true,
        Permission::Answer { approval } => approvals::use_for(connection, approval, run, call.seq)?,
        Permission::Counted { grant } => grants::count_down(connection, grant, run)?,
        Permission::Standing { grants } => grants::are_there(connection, grants)?,
    };
    let refused = || StoreError::NotPermitted { tool: call.tool.into() };
    if permitted { Ok(()) } else { Err(refused().into()) }
}

impl Journal for SqliteStore {
    fn dispatch(
        &self,
        run: &str,
        fence: Fence,
        owner: &str,
        call: &NewCall<'_>,
        commit: Commit,
    ) -> Result<(), StoreError> {
        let state = CallState::Dispatched;
        let NewCall { seq, tool, input, repeat, cover, permission } = *call;
        let row = |uncovered, retire| (run, seq, tool, input, repeat, state, owner, fence.0, uncovered, retire);
        if permission == Permission::Free {
            let row = row(cover == Cover::None, cover == Cover::Retire);
            if self.change_as(commit, DISPATCH, row, |_| Ok(false))? {
                return Ok(());
            }
        }
        // More than one statement, or one that changed nothing: here it shows why.
        self.commit_as(commit, |connection| {
            let (_, stands) = check_fence(connection, run, fence)?;
            if cover != Cover::None && !is_covered(connection, run, seq)? {
                match (cover, stands) {
                    // A run that waits keeps its checkpoint: its caller was told that it can be continued.
                    (Cover::Retire, RunState::Running) => retire(connection, run)?,
                    _ => return Err(StoreError::NotCovered { run: run.into(), seq }.into()),
                }
            }
            permit(connection, run, call)?;
            if connection.prepare_cached(DISPATCH)?.execute(row(true, false))? == 0 {
                return Err(StoreError::Exists { what: "call", id: format!("{run}/{seq}") }.into());
            }
            Ok(())
        })
    }

    fn settle(
        &self,
        run: &str,
        owner: &str,
        seq: u32,
        outcome: &str,
        now: Millis,
        commit: Commit,
    ) -> Result<bool, StoreError> {
        let settled = (run, seq, owner, CallState::Settled, outcome, now);
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
        let query = format!("SELECT {COLUMNS} FROM call WHERE run = ?1 ORDER BY seq");
        self.with(|connection| connection.prepare_cached(&query)?.query_map([run], read)?.collect())
    }

    fn call(&self, run: &str, seq: u32) -> Result<Option<Call>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM call WHERE run = ?1 AND seq = ?2");
        self.with(|connection| connection.prepare_cached(&query)?.query_row((run, seq), read).optional())
    }

    fn prune_calls(&self, run: &str, fence: Fence, prune: &Prune<'_>) -> Result<u64, StoreError> {
        let Prune { next, awaited, keep } = *prune;
        self.transaction(Safety::Process, |connection| {
            check_running(connection, run, fence)?;
            let stored = stored_next(connection, run)?;
            if stored.is_some() && stored != next {
                return Err(StoreError::Outdated { run: run.into() }.into());
            }
            let sizes =
                "SELECT seq, octet_length(input) + coalesce(octet_length(outcome), 0), state = 'settled' FROM call
                         WHERE run = ?1 ORDER BY seq DESC";
            let mut sizes = connection.prepare_cached(sizes)?;
            let sizes = sizes.query_map([run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let sizes: Vec<(u32, u32, bool)> = sizes.collect::<rusqlite::Result<_>>()?;
            let mut drop = connection.prepare_cached("DELETE FROM call WHERE run = ?1 AND seq = ?2")?;
            let mut empty =
                connection.prepare_cached("UPDATE call SET input = '', outcome = '' WHERE run = ?1 AND seq = ?2")?;
            let (mut left, mut is_enough) = (0, false);
            for (seq, bytes, is_settled) in sizes {
                let bytes = ROW_BYTES + u64::from(bytes);
                is_enough |= left + bytes > keep;
                if !is_enough || !is_settled || awaited.contains(&seq) {
                    left += bytes;
                } else if stored.is_some_and(|next| seq < next) {
                    drop.execute((run, seq))?;
                } else {
                    empty.execute((run, seq))?;
                    left += ROW_BYTES;
                }
            }
            Ok(left)
        })
    }
}
