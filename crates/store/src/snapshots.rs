//! Snapshots of waiting runs, and the images they need.

use rusqlite::OptionalExtension;

use crate::runs::check_fence;
use crate::{Fence, Millis, RunState, SqliteStore, StoreError};

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

/// Snapshots and images.
pub trait Snapshots {
    /// Stores a cell and makes its run wait, in one step. `expires_at` is when it can no longer be continued.
    fn park(&self, run: &str, fence: Fence, snapshot: &Snapshot, expires_at: Option<Millis>) -> Result<(), StoreError>;
    /// The cell of a run; `None` if it has none (any more).
    fn snapshot(&self, run: &str) -> Result<Option<Snapshot>, StoreError>;
    /// Keeps an image, under its hash.
    fn keep_image(&self, hash: &[u8], bytes: &[u8]) -> Result<(), StoreError>;
    /// An image that was kept.
    fn image(&self, hash: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Forgets the images that no snapshot needs, but for `current`; returns how many.
    fn drop_unused_images(&self, current: &[u8]) -> Result<usize, StoreError>;
}

impl Snapshots for SqliteStore {
    fn park(&self, run: &str, fence: Fence, snapshot: &Snapshot, expires_at: Option<Millis>) -> Result<(), StoreError> {
        self.transaction(|connection| {
            check_fence(connection, run, fence)?;
            let Snapshot { image, bytes, detail } = snapshot;
            connection.execute(
                "INSERT OR REPLACE INTO snapshot (run, image, bytes, detail) VALUES (?1, ?2, ?3, ?4)",
                (run, image, bytes, detail),
            )?;
            let wait = "UPDATE run SET state = ?2, expires_at = ?3 WHERE id = ?1";
            connection.execute(wait, (run, RunState::Waiting, expires_at))?;
            Ok(())
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
