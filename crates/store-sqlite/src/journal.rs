//! The journal in rows.

use std::sync::Arc;

use pincer_store::{
    CALL_BYTES, Call, CallState, Cover, Fence, Journal, Millis, NewCall, OwnerId, Permission, Prune, Reply, RunId,
    RunState, Safety, StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};

use crate::rows::{id, state};
use crate::runs::{check_fence, check_running};
use crate::store::Refused;
use crate::{SqliteStore, approvals, grants};

/// Notes a call, if the run is that of the fence, has not ended, and the call is covered, need not be, or has nothing to retire.
const DISPATCH: &str = "
    INSERT INTO call (run, seq, tool, input, repeat, state, owner, line, dispatched_at)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?11, ?12 FROM run
    WHERE id = ?1 AND fence = ?8 AND state IN ('running', 'waiting') AND (?9 OR ?2 < coalesce(
        (SELECT next FROM delta WHERE delta.run = run.id ORDER BY number DESC LIMIT 1),
        (SELECT next FROM snapshot WHERE snapshot.run = run.id), 0)
        OR (?10 AND state = 'running' AND NOT EXISTS (SELECT 1 FROM snapshot WHERE snapshot.run = run.id)))
    ON CONFLICT DO UPDATE SET owner = excluded.owner, input = excluded.input, dispatched_at = excluded.dispatched_at
    WHERE call.state = excluded.state AND call.tool = excluded.tool";
/// The place is counted inside the statement: two processes may settle calls of one run at once.
const SETTLE: &str = "
    UPDATE call SET state = ?4, outcome = ?5, settled_at = ?6, settled = 1 + coalesce(
        (SELECT max(other.settled) FROM call AS other WHERE other.run = call.run AND other.settled IS NOT NULL), 0)
    WHERE run = ?1 AND seq = ?2 AND owner = ?3 AND outcome IS NULL";

const COLUMNS: &str = "seq, tool, input, repeat, state, owner, outcome, settled, settled_at, line, dispatched_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Call> {
    Ok(Call {
        seq: row.get(0)?,
        tool: row.get(1)?,
        input: row.get(2)?,
        repeat: state(row, 3)?,
        state: state(row, 4)?,
        owner: id(row, 5)?,
        outcome: row.get(6)?,
        settled: row.get(7)?,
        settled_at: row.get(8)?,
        line: row.get(9)?,
        dispatched_at: row.get(10)?,
    })
}

/// Returns the next number of the stored checkpoint of a run, if there is one.
fn stored_next(connection: &Connection, run: &RunId) -> rusqlite::Result<Option<u32>> {
    let next = "SELECT coalesce((SELECT next FROM delta WHERE run = ?1 ORDER BY number DESC LIMIT 1),
        (SELECT next FROM snapshot WHERE run = ?1))";
    connection.prepare_cached(next)?.query_row([run.as_str()], |row| row.get(0))
}

/// Whether a call is part of the stored checkpoint of its run.
fn is_covered(connection: &Connection, run: &RunId, seq: u32) -> rusqlite::Result<bool> {
    Ok(stored_next(connection, run)?.is_some_and(|next| seq < next))
}

fn retire(connection: &Connection, run: &RunId) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM snapshot WHERE run = ?1")?.execute([run.as_str()])?;
    connection.prepare_cached("DELETE FROM delta WHERE run = ?1")?.execute([run.as_str()])?;
    Ok(())
}

/// Uses up what allows a call.
fn permit(connection: &Connection, run: &RunId, call: &NewCall) -> Result<(), Refused> {
    let refused = || StoreError::NotPermitted { tool: call.tool.clone() };
    if spend(connection, run, call.seq, &call.permission)? { Ok(()) } else { Err(refused().into()) }
}

/// Uses up a permission; `false` if it is gone.
pub(crate) fn spend(connection: &Connection, run: &RunId, seq: u32, permission: &Permission) -> Result<bool, Refused> {
    Ok(match permission {
        Permission::Free => true,
        Permission::Answer(approval) => approvals::use_for(connection, approval, run, seq)?,
        Permission::Counted(grant) => grants::count_down(connection, grant, run)?,
        Permission::Standing(grants) => grants::are_there(connection, grants)?,
    })
}

/// Reads the calls of a run, in their order.
pub(crate) fn all(connection: &Connection, run: &RunId) -> rusqlite::Result<Vec<Call>> {
    let query = format!("SELECT {COLUMNS} FROM call WHERE run = ?1 ORDER BY seq");
    connection.prepare_cached(&query)?.query_map([run.as_str()], read)?.collect()
}

/// Notes a call and uses up its permission.
fn dispatch(
    connection: &mut Connection,
    run: &RunId,
    fence: Fence,
    owner: &OwnerId,
    call: &NewCall,
) -> Result<(), Refused> {
    let NewCall { seq, tool, input, repeat, cover, permission, line, at } = call;
    let (state, repeat) = (CallState::Dispatched.as_str(), repeat.as_str());
    let row = |uncovered: bool, retire: bool| {
        (run.as_str(), *seq, tool, &**input, repeat, state, owner.as_str(), fence.0, uncovered, retire, line, at)
    };
    if *permission == Permission::Free {
        let row = row(*cover == Cover::None, *cover == Cover::Retire);
        // One statement is a transaction by itself.
        if connection.prepare_cached(DISPATCH)?.execute(row)? > 0 {
            return Ok(());
        }
    }
    // More than one statement, or one that changed nothing: here it shows why.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let stands = check_fence(&transaction, run, fence)?;
    if *cover != Cover::None && !is_covered(&transaction, run, *seq)? {
        match (cover, stands) {
            // A run that waits keeps its checkpoint: its caller was told that it can be continued.
            (Cover::Retire, RunState::Running) => retire(&transaction, run)?,
            _ => return Err(StoreError::NotCovered { run: run.clone(), seq: *seq }.into()),
        }
    }
    permit(&transaction, run, call)?;
    if transaction.prepare_cached(DISPATCH)?.execute(row(true, false))? == 0 {
        return Err(StoreError::Exists { what: "call", id: format!("{run}/{seq}") }.into());
    }
    Ok(transaction.commit()?)
}

impl Journal for SqliteStore {
    fn dispatch(&self, run: &RunId, fence: Fence, owner: &OwnerId, call: NewCall, safety: Safety) -> Reply<()> {
        let (run, owner) = (run.clone(), owner.clone());
        self.commit(safety, call.input.len(), move |connection| dispatch(connection, &run, fence, &owner, &call))
    }

    fn settle(
        &self,
        run: &RunId,
        owner: &OwnerId,
        seq: u32,
        outcome: Arc<String>,
        now: Millis,
        safety: Safety,
    ) -> Reply<bool> {
        let (run, owner) = (run.clone(), owner.clone());
        self.commit(safety, outcome.len(), move |connection| {
            let settled = (run.as_str(), seq, owner.as_str(), CallState::Settled.as_str(), &*outcome, now);
            if connection.prepare_cached(SETTLE)?.execute(settled)? > 0 {
                return Ok(true);
            }
            let known = "SELECT owner = ?3 FROM call WHERE run = ?1 AND seq = ?2";
            let mut known = connection.prepare_cached(known)?;
            let known = known.query_row((run.as_str(), seq, owner.as_str()), |row| row.get::<_, bool>(0));
            match known.optional()? {
                Some(true) => Ok(false),
                Some(false) => Err(StoreError::Fenced { run: run.clone() }.into()),
                None => Err(StoreError::Missing { what: "call", id: format!("{run}/{seq}") }.into()),
            }
        })
    }

    fn disown_calls(&self, run: &RunId, owner: &OwnerId) -> Reply<()> {
        let (run, owner) = (run.clone(), owner.clone());
        self.commit(Safety::Process, 0, move |connection| {
            let disown = "UPDATE call SET owner = '' WHERE run = ?1 AND owner = ?2 AND outcome IS NULL";
            connection.execute(disown, (run.as_str(), owner.as_str()))?;
            Ok(())
        })
    }

    fn calls(&self, run: &RunId) -> Reply<Vec<Call>> {
        let run = run.clone();
        self.read(move |connection| Ok(all(connection, &run)?))
    }

    fn call(&self, run: &RunId, seq: u32) -> Reply<Option<Call>> {
        let run = run.clone();
        self.read(move |connection| {
            let query = format!("SELECT {COLUMNS} FROM call WHERE run = ?1 AND seq = ?2");
            Ok(connection.prepare_cached(&query)?.query_row((run.as_str(), seq), read).optional()?)
        })
    }

    fn prune_calls(&self, run: &RunId, fence: Fence, prune: Prune) -> Reply<u64> {
        let run = run.clone();
        // Much may be deleted.
        self.transaction(Safety::Process, usize::MAX, move |connection| {
            let Prune { next, awaited, keep } = &prune;
            check_running(connection, &run, fence)?;
            let stored = stored_next(connection, &run)?;
            if stored.is_some() && stored != *next {
                return Err(StoreError::Outdated { run: run.clone() }.into());
            }
            let sizes =
                "SELECT seq, octet_length(input) + coalesce(octet_length(outcome), 0), state = 'settled' FROM call
                         WHERE run = ?1 ORDER BY seq DESC";
            let mut sizes = connection.prepare_cached(sizes)?;
            let sizes = sizes.query_map([run.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let sizes: Vec<(u32, u32, bool)> = sizes.collect::<rusqlite::Result<_>>()?;
            let mut drop = connection.prepare_cached("DELETE FROM call WHERE run = ?1 AND seq = ?2")?;
            let mut empty =
                connection.prepare_cached("UPDATE call SET input = '', outcome = '' WHERE run = ?1 AND seq = ?2")?;
            let (mut left, mut is_enough) = (0, false);
            for (seq, bytes, is_settled) in sizes {
                let bytes = CALL_BYTES + u64::from(bytes);
                is_enough |= left + bytes > *keep;
                if !is_enough || !is_settled || awaited.contains(&seq) {
                    left += bytes;
                } else if stored.is_some_and(|next| seq < next) {
                    drop.execute((run.as_str(), seq))?;
                } else {
                    empty.execute((run.as_str(), seq))?;
                    left += CALL_BYTES;
                }
            }
            Ok(left)
        })
    }
}
