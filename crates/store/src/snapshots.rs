//! Snapshots of runs, and the images they need.

use rusqlite::{Connection, OptionalExtension};

use crate::runs::check_fence;
use crate::sqlite::Refused;
use crate::{Fence, Millis, RunState, Safety, SqliteStore, StoreError};

/// A parked cell and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The hash of the image it was parked against.
    pub image: Vec<u8>,
    /// The cell.
    pub bytes: Vec<u8>,
    /// What the one who parked it must know to go on, as JSON.
    pub detail: String,
}

/// A run that is to wait.
#[derive(Clone, Copy, Debug)]
pub struct Park<'a> {
    /// Its cell.
    pub snapshot: &'a Snapshot,
    /// What its caller is told, as JSON.
    pub result: &'a str,
    /// When it can no longer be continued.
    pub expires_at: Option<Millis>,
    /// How many runs may wait in all.
    pub most: u32,
    /// How many of one session.
    pub most_of_session: u32,
}

/// Snapshots and images.
pub trait Snapshots {
    /// Stores a cell and makes its run wait, in one step.
    fn park(&self, run: &str, fence: Fence, park: &Park<'_>) -> Result<(), StoreError>;
    /// Stores the cell of a run that goes on, so that it could be continued from here. Safe from a power cut together with the
    /// next commit that is.
    fn checkpoint(&self, run: &str, fence: Fence, snapshot: &Snapshot) -> Result<(), StoreError>;
    /// The cell of a run; `None` if it has none (any more).
    fn snapshot(&self, run: &str) -> Result<Option<Snapshot>, StoreError>;
    /// Keeps an image, under its hash.
    fn keep_image(&self, hash: &[u8], bytes: &[u8]) -> Result<(), StoreError>;
    /// An image that was kept.
    fn image(&self, hash: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Forgets the images that no snapshot needs, but for `current`; returns how many.
    fn drop_unused_images(&self, current: &[u8]) -> Result<usize, StoreError>;
}

pub(crate) fn put(connection: &Connection, run: &str, snapshot: &Snapshot) -> rusqlite::Result<()> {
    let Snapshot { image, bytes, detail } = snapshot;
    let mut put = connection
        .prepare_cached("INSERT OR REPLACE INTO snapshot (run, image, bytes, detail) VALUES (?1, ?2, ?3, ?4)")?;
    put.execute((run, image, bytes, detail)).map(drop)
}

/// Refuses if others wait already in all the places there are.
fn check_room(connection: &Connection, run: &str, session: &str, park: &Park<'_>) -> Result<(), Refused> {
    // One that is continued has kept its place.
    let has_one = "SELECT EXISTS (SELECT 1 FROM snapshot WHERE run = ?1)";
    if connection.prepare_cached(has_one)?.query_row([run], |row| row.get(0))? {
        return Ok(());
    }
    let of = |session: Option<&str>| -> rusqlite::Result<u32> {
        let count = "SELECT count(*) FROM snapshot JOIN run ON run.id = snapshot.run WHERE ?1 IS NULL OR session = ?1";
        connection.prepare_cached(count)?.query_row([session], |row| row.get(0))
    };
    let (limit, session) = match () {
        () if of(Some(session))? >= park.most_of_session => (park.most_of_session, Some(session.to_owned())),
        () if of(None)? >= park.most => (park.most, None),
        () => return Ok(()),
    };
    let holders = "SELECT session, count(*) FROM snapshot JOIN run ON run.id = snapshot.run
         GROUP BY session ORDER BY 2 DESC, 1 LIMIT 3";
    let mut holders = connection.prepare_cached(holders)?;
    let holders = holders.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    Err(StoreError::NoRoom { limit, session, holders }.into())
}

impl Snapshots for SqliteStore {
    fn park(&self, run: &str, fence: Fence, park: &Park<'_>) -> Result<(), StoreError> {
        self.transaction(Safety::Power, |connection| {
            let (session, _) = check_fence(connection, run, fence)?;
            check_room(connection, run, &session, park)?;
            put(connection, run, park.snapshot)?;
            let wait = "UPDATE run SET state = ?2, expires_at = ?3, result = ?4 WHERE id = ?1";
            connection.prepare_cached(wait)?.execute((run, RunState::Waiting, park.expires_at, park.result))?;
            Ok(())
        })
    }

    fn checkpoint(&self, run: &str, fence: Fence, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.transaction(Safety::Process, |connection| {
            check_fence(connection, run, fence)?;
            Ok(put(connection, run, snapshot)?)
        })
    }

    fn snapshot(&self, run: &str) -> Result<Option<Snapshot>, StoreError> {
        self.with(|connection| {
            let mut query = connection.prepare_cached("SELECT image, bytes, detail FROM snapshot WHERE run = ?1")?;
            let read =
                |row: &rusqlite::Row<'_>| Ok(Snapshot { image: row.get(0)?, bytes: row.get(1)?, detail: row.get(2)? });
            query.query_row([run], read).optional()
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
