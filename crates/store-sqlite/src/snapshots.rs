//! Snapshots in rows: a whole cell, and deltas that follow it.

use pincer_store::{
    CellPart, Checkpoint, Fence, Park, RecordedPart, Reply, Resumption, Room, RunId, RunState, Safety, Snapshot,
    Snapshots, StoreError,
};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::runs::check_running;
use crate::store::Refused;
use crate::{SqliteStore, journal, recordings, room};

/// Returns the bytes that a checkpoint writes.
pub(crate) fn bytes(checkpoint: &Checkpoint) -> usize {
    let (CellPart::Full { bytes, .. } | CellPart::Delta { bytes, .. }) = &checkpoint.cell;
    bytes.len() + checkpoint.detail.len() + checkpoint.recorded.as_ref().map_or(0, RecordedPart::bytes)
}

/// Refuses a checkpoint from before a call that may have changed something: a process that goes on from there would make it
/// again. Calls that change nothing may be made again.
fn check_latest(connection: &Connection, run: &RunId, next: u32) -> Result<(), Refused> {
    let later = "SELECT EXISTS (SELECT 1 FROM call WHERE run = ?1 AND seq >= ?2 AND repeat <> 'pure')";
    match connection.prepare_cached(later)?.query_row((run.as_str(), next), |row| row.get(0))? {
        true => Err(StoreError::Outdated { run: run.clone() }.into()),
        false => Ok(()),
    }
}

/// Stores a delta, if the run is that of the fence and runs, and the whole cell that the delta belongs to is there. It takes the
/// place of the oldest one that it replaces.
const PUT_DELTA: &str = "
    INSERT INTO delta (run, number, next, detail, bytes)
    SELECT id, 1 + last - ?3, ?4, ?5, ?6 FROM (
        SELECT run.id, coalesce((SELECT max(number) FROM delta WHERE delta.run = run.id), 0) AS last
        FROM run JOIN snapshot ON snapshot.run = run.id
        WHERE run.id = ?1 AND run.fence = ?2 AND run.state = 'running' AND NOT EXISTS (
            SELECT 1 FROM call WHERE call.run = run.id AND call.seq >= ?4 AND call.repeat <> 'pure'))
    WHERE last >= ?3
    ON CONFLICT DO UPDATE SET next = excluded.next, detail = excluded.detail, bytes = excluded.bytes";

/// Stores a checkpoint. A delta needs the whole cell that it belongs to.
pub(crate) fn put(connection: &Connection, run: &RunId, fence: Fence, checkpoint: &Checkpoint) -> Result<(), Refused> {
    let Checkpoint { next, cell, detail, recorded } = checkpoint;
    check_latest(connection, run, *next)?;
    match cell {
        CellPart::Full { image, bytes } => {
            let put = "INSERT OR REPLACE INTO snapshot (run, next, image, detail, bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.prepare_cached(put)?.execute((run.as_str(), next, image, detail, bytes))?;
            connection.prepare_cached("DELETE FROM delta WHERE run = ?1")?.execute([run.as_str()])?;
        }
        CellPart::Delta { bytes, replaces } => {
            let put = (run.as_str(), fence.0, replaces, next, detail, bytes);
            if connection.prepare_cached(PUT_DELTA)?.execute(put)? == 0 {
                return Err(StoreError::Missing { what: "snapshot of the run", id: run.to_string() }.into());
            }
            if *replaces > 1 {
                let drop = "DELETE FROM delta WHERE run = ?1
                    AND number > (SELECT max(number) FROM delta WHERE run = ?1) - ?2 + 1";
                connection.prepare_cached(drop)?.execute((run.as_str(), replaces))?;
            }
        }
    }
    if let Some(part) = recorded {
        recordings::put(connection, run, part)?;
    }
    Ok(())
}

/// Reads the cell of a run. The caller is in a transaction: the parts must belong together.
fn read(connection: &Connection, run: &RunId) -> rusqlite::Result<Option<Snapshot>> {
    let base = "SELECT next, image, detail, bytes FROM snapshot WHERE run = ?1";
    let whole = |row: &rusqlite::Row<'_>| {
        Ok(Snapshot { next: row.get(0)?, image: row.get(1)?, detail: row.get(2)?, parts: vec![row.get(3)?] })
    };
    let Some(mut found) = connection.prepare_cached(base)?.query_row([run.as_str()], whole).optional()? else {
        return Ok(None);
    };
    let mut deltas =
        connection.prepare_cached("SELECT next, detail, bytes FROM delta WHERE run = ?1 ORDER BY number")?;
    let mut rows = deltas.query([run.as_str()])?;
    while let Some(row) = rows.next()? {
        (found.next, found.detail) = (row.get(0)?, row.get(1)?);
        found.parts.push(row.get(2)?);
    }
    Ok(Some(found))
}

impl Snapshots for SqliteStore {
    fn park(&self, run: &RunId, fence: Fence, park: Park) -> Reply<()> {
        let (run, core) = (run.clone(), self.core.clone());
        let bytes = bytes(&park.checkpoint) + park.result.len();
        self.transaction(Safety::Power, bytes, move |connection| {
            check_running(connection, &run, fence)?;
            room::reserve(connection, &run, &park.room, core.now())?;
            put(connection, &run, fence, &park.checkpoint)?;
            let wait = "UPDATE run SET state = ?2, expires_at = ?3, result = ?4, acknowledged = 1 WHERE id = ?1";
            let row = (run.as_str(), RunState::Waiting.as_str(), park.expires_at, &*park.result);
            connection.prepare_cached(wait)?.execute(row)?;
            Ok(())
        })
    }

    fn reserve(&self, run: &RunId, fence: Fence, room: Room, safety: Safety) -> Reply<()> {
        let (run, core) = (run.clone(), self.core.clone());
        self.transaction(safety, 0, move |connection| {
            check_running(connection, &run, fence)?;
            room::reserve(connection, &run, &room, core.now())
        })
    }

    fn checkpoint(&self, run: &RunId, fence: Fence, checkpoint: Checkpoint, safety: Safety) -> Reply<()> {
        let run = run.clone();
        self.commit(safety, bytes(&checkpoint), move |connection| {
            let Checkpoint { next, cell, detail, recorded } = &checkpoint;
            let small = match cell {
                CellPart::Delta { bytes, replaces: replaces @ 0..=1 } => {
                    Some((run.as_str(), fence.0, replaces, next, detail, bytes))
                }
                _ => None,
            };
            if let (Some(put), None) = (small, recorded) {
                // One statement is a transaction by itself.
                if connection.prepare_cached(PUT_DELTA)?.execute(put)? > 0 {
                    return Ok(());
                }
            }
            // More than one statement, or one that changed nothing: here it shows why.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if let (Some(put), Some(part)) = (small, recorded)
                && transaction.prepare_cached(PUT_DELTA)?.execute(put)? > 0
            {
                recordings::put(&transaction, &run, part)?;
                return Ok(transaction.commit()?);
            }
            check_running(&transaction, &run, fence)?;
            put(&transaction, &run, fence, &checkpoint)?;
            Ok(transaction.commit()?)
        })
    }

    fn snapshot(&self, run: &RunId) -> Reply<Option<Snapshot>> {
        let run = run.clone();
        self.read(move |connection| {
            let transaction = connection.unchecked_transaction()?;
            Ok(read(&transaction, &run)?)
        })
    }

    fn resumption(&self, run: &RunId) -> Reply<Resumption> {
        let run = run.clone();
        self.read(move |connection| {
            let transaction = connection.unchecked_transaction()?;
            let snapshot = read(&transaction, &run)?;
            let calls = journal::all(&transaction, &run)?;
            let tools = "SELECT tool_set.tools FROM run JOIN tool_set ON tool_set.hash = run.tools WHERE run.id = ?1";
            let mut tools = transaction.prepare_cached(tools)?;
            let tools = tools.query_row([run.as_str()], |row| row.get(0)).optional()?;
            Ok(Resumption { snapshot, calls, tools })
        })
    }

    fn keep_image(&self, hash: [u8; 32], bytes: Vec<u8>) -> Reply<()> {
        self.commit(Safety::Process, bytes.len(), move |connection| {
            let keep = "INSERT INTO image (hash, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            connection.execute(keep, (hash, &bytes))?;
            Ok(())
        })
    }

    fn image(&self, hash: [u8; 32]) -> Reply<Option<Vec<u8>>> {
        self.read(move |connection| {
            let query = "SELECT bytes FROM image WHERE hash = ?1";
            Ok(connection.query_row(query, [hash], |row| row.get(0)).optional()?)
        })
    }

    fn drop_unused_images(&self, current: [u8; 32]) -> Reply<usize> {
        self.commit(Safety::Process, 0, move |connection| {
            let unused = "DELETE FROM image WHERE hash <> ?1 AND hash NOT IN (SELECT image FROM snapshot)";
            Ok(connection.execute(unused, [current])?)
        })
    }
}
