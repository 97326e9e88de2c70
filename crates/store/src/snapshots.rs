//! Snapshots of runs, and the images they need.

use rusqlite::{Connection, OptionalExtension};

use crate::room::{self, Room};
use crate::runs::check_running;
use crate::sqlite::Refused;
use crate::{Clock, Commit, Fence, Millis, RunState, Safety, SqliteStore, StoreError};

/// A point of a run from which it can be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint<'a> {
    /// The number that the next call of the run gets. Calls with lower ones are part of this checkpoint.
    pub next: u32,
    /// The cell.
    pub cell: CellPart<'a>,
    /// The detail that the process that goes on must know, as JSON.
    pub detail: &'a str,
}

/// A cell as it is handed to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellPart<'a> {
    /// The whole of it.
    Full {
        /// The hash of the image it is the difference to.
        image: &'a [u8],
        /// The cell.
        bytes: &'a [u8],
    },
    /// The changes since the checkpoint before.
    Delta {
        /// The changes.
        bytes: &'a [u8],
        /// How many of the latest deltas these changes contain.
        replaces: u32,
    },
}

/// A stored cell and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number that the next call of the run gets.
    pub next: u32,
    /// The hash of the image it was parked against.
    pub image: Vec<u8>,
    /// The cell: a whole one, and what has changed since, in order.
    pub parts: Vec<Vec<u8>>,
    /// The detail that the process that goes on must know, as JSON.
    pub detail: String,
}

/// A run that is to wait.
#[derive(Clone, Copy, Debug)]
pub struct Park<'a> {
    /// Where it stands.
    pub checkpoint: Checkpoint<'a>,
    /// What its caller is told, as JSON.
    pub result: &'a str,
    /// When it can no longer be continued.
    pub expires_at: Option<Millis>,
    /// How many runs may wait.
    pub room: Room,
}

/// Snapshots and images.
pub trait Snapshots {
    /// Stores a cell and makes its run wait, in one step. Fails with [`StoreError::Outdated`] as
    /// [`checkpoint`](Self::checkpoint) does.
    fn park(&self, run: &str, fence: Fence, park: &Park<'_>) -> Result<(), StoreError>;
    /// Gives a run the right to be suspended, until it ends. Fails with [`StoreError::NoRoom`] if others have it already.
    fn reserve(&self, run: &str, fence: Fence, room: &Room, commit: Commit) -> Result<(), StoreError>;
    /// Stores the cell of a run that goes on, in place of the one before. Fails with [`StoreError::Outdated`] if a call with a
    /// possible effect has been dispatched that is not part of it.
    fn checkpoint(
        &self,
        run: &str,
        fence: Fence,
        checkpoint: &Checkpoint<'_>,
        commit: Commit,
    ) -> Result<(), StoreError>;
    /// Returns the cell of a run; `None` if it has none (any more).
    fn snapshot(&self, run: &str) -> Result<Option<Snapshot>, StoreError>;
    /// Keeps an image, under its hash.
    fn keep_image(&self, hash: &[u8], bytes: &[u8]) -> Result<(), StoreError>;
    /// Returns an image that was kept.
    fn image(&self, hash: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Forgets the images that no snapshot needs, but for `current`; returns how many.
    fn drop_unused_images(&self, current: &[u8]) -> Result<usize, StoreError>;
}

/// Refuses a checkpoint from before a call that may have changed something: a process that goes on from there would make it
/// again. Calls that change nothing may be made again.
fn check_latest(connection: &Connection, run: &str, next: u32) -> Result<(), Refused> {
    let later = "SELECT EXISTS (SELECT 1 FROM call WHERE run = ?1 AND seq >= ?2 AND repeat <> 'pure')";
    match connection.prepare_cached(later)?.query_row((run, next), |row| row.get(0))? {
        true => Err(StoreError::Outdated { run: run.into() }.into()),
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
pub(crate) fn put(
    connection: &Connection,
    run: &str,
    fence: Fence,
    checkpoint: &Checkpoint<'_>,
) -> Result<(), Refused> {
    let Checkpoint { next, cell, detail } = *checkpoint;
    check_latest(connection, run, next)?;
    match cell {
        CellPart::Full { image, bytes } => {
            let put = "INSERT OR REPLACE INTO snapshot (run, next, image, detail, bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.prepare_cached(put)?.execute((run, next, image, detail, bytes))?;
            connection.prepare_cached("DELETE FROM delta WHERE run = ?1")?.execute([run])?;
        }
        CellPart::Delta { bytes, replaces } => {
            let put = (run, fence.0, replaces, next, detail, bytes);
            if connection.prepare_cached(PUT_DELTA)?.execute(put)? == 0 {
                return Err(StoreError::Missing { what: "snapshot of the run", id: run.into() }.into());
            }
            if replaces > 1 {
                let drop = "DELETE FROM delta WHERE run = ?1
                    AND number > (SELECT max(number) FROM delta WHERE run = ?1) - ?2 + 1";
                connection.prepare_cached(drop)?.execute((run, replaces))?;
            }
        }
    }
    Ok(())
}

impl Snapshots for SqliteStore {
    fn park(&self, run: &str, fence: Fence, park: &Park<'_>) -> Result<(), StoreError> {
        self.transaction(Safety::Power, |connection| {
            check_running(connection, run, fence)?;
            room::reserve(connection, run, &park.room, self.now())?;
            put(connection, run, fence, &park.checkpoint)?;
            let wait = "UPDATE run SET state = ?2, expires_at = ?3, result = ?4, acknowledged = 1 WHERE id = ?1";
            connection.prepare_cached(wait)?.execute((run, RunState::Waiting, park.expires_at, park.result))?;
            Ok(())
        })
    }

    fn reserve(&self, run: &str, fence: Fence, room: &Room, commit: Commit) -> Result<(), StoreError> {
        self.commit_as(commit, |connection| {
            check_running(connection, run, fence)?;
            room::reserve(connection, run, room, self.now())
        })
    }

    fn checkpoint(
        &self,
        run: &str,
        fence: Fence,
        checkpoint: &Checkpoint<'_>,
        commit: Commit,
    ) -> Result<(), StoreError> {
        let Checkpoint { next, cell, detail } = *checkpoint;
        if let CellPart::Delta { bytes, replaces: replaces @ 0..=1 } = cell {
            let put = (run, fence.0, replaces, next, detail, bytes);
            if self.change_as(commit, PUT_DELTA, put, |_| Ok(false))? {
                return Ok(());
            }
        }
        // More than one statement, or one that changed nothing: here it shows why.
        self.commit_as(commit, |connection| {
            check_running(connection, run, fence)?;
            put(connection, run, fence, checkpoint)
        })
    }

    fn snapshot(&self, run: &str) -> Result<Option<Snapshot>, StoreError> {
        self.look(|connection| {
            // In one read transaction: the parts must belong together.
            let transaction = connection.unchecked_transaction()?;
            let base = "SELECT next, image, detail, bytes FROM snapshot WHERE run = ?1";
            let read = |row: &rusqlite::Row<'_>| {
                Ok(Snapshot { next: row.get(0)?, image: row.get(1)?, detail: row.get(2)?, parts: vec![row.get(3)?] })
            };
            let Some(mut found) = transaction.prepare_cached(base)?.query_row([run], read).optional()? else {
                return Ok(None);
            };
            let deltas = "SELECT next, detail, bytes FROM delta WHERE run = ?1 ORDER BY number";
            let mut deltas = transaction.prepare_cached(deltas)?;
            let mut rows = deltas.query([run])?;
            while let Some(row) = rows.next()? {
                (found.next, found.detail) = (row.get(0)?, row.get(1)?);
                found.parts.push(row.get(2)?);
            }
            Ok(Some(found))
        })
    }

    fn keep_image(&self, hash: &[u8], bytes: &[u8]) -> Result<(), StoreError> {
        let keep = "INSERT INTO image (hash, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        self.with(|connection| connection.execute(keep, (hash, bytes)).map(drop))
    }

    fn image(&self, hash: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let query = "SELECT bytes FROM image WHERE hash = ?1";
        self.with(|connection| connection.query_row(query, [hash], |row| row.get(0)).optional())
    }

    fn drop_unused_images(&self, current: &[u8]) -> Result<usize, StoreError> {
        let unused = "DELETE FROM image WHERE hash <> ?1 AND hash NOT IN (SELECT image FROM snapshot)";
        self.with(|connection| connection.execute(unused, [current]))
    }
}
