//! Snapshots of runs, and the images they need.

use std::sync::Arc;

use crate::{Call, Fence, Millis, RecordedPart, Reply, Room, RunId, Safety};

/// A point of a run from which it can be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number that the next call of the run gets. Calls with lower ones are part of this checkpoint.
    pub next: u32,
    /// The cell.
    pub cell: CellPart,
    /// The detail that the process that goes on must know, as JSON.
    pub detail: String,
    /// The recording of the run since the checkpoint before.
    pub recorded: Option<RecordedPart>,
}

/// A cell as it is handed to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellPart {
    /// The whole of it.
    Full {
        /// The hash of the image it is the difference to.
        image: Vec<u8>,
        /// The cell.
        bytes: Vec<u8>,
    },
    /// The changes since the checkpoint before.
    Delta {
        /// The changes.
        bytes: Vec<u8>,
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

/// Everything that is needed to go on with a run, as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// The cell of the run, if it has one.
    pub snapshot: Option<Snapshot>,
    /// Its calls, in their order.
    pub calls: Vec<Call>,
    /// The description of the tools it may call, if its owner wrote one down.
    pub tools: Option<String>,
}

/// A run that is to wait.
#[derive(Clone, Debug)]
pub struct Park {
    /// Where it stands.
    pub checkpoint: Checkpoint,
    /// What its caller is told, as JSON.
    pub result: Arc<str>,
    /// When it can no longer be continued.
    pub expires_at: Option<Millis>,
    /// How many runs may wait.
    pub room: Room,
}

/// Snapshots and images.
pub trait Snapshots {
    /// Stores a cell and makes its run wait, in one step. Fails with [`StoreError::Outdated`](crate::StoreError::Outdated) as
    /// [`checkpoint`](Self::checkpoint) does.
    fn park(&self, run: &RunId, fence: Fence, park: Park) -> Reply<()>;
    /// Gives a run the right to be suspended, until it ends. Fails with [`StoreError::NoRoom`](crate::StoreError::NoRoom) if
    /// others have it already.
    fn reserve(&self, run: &RunId, fence: Fence, room: Room, safety: Safety) -> Reply<()>;
    /// Stores the cell of a run that goes on, in place of the one before. Fails with
    /// [`StoreError::Outdated`](crate::StoreError::Outdated) if a call with a possible effect has been dispatched that is not
    /// part of it.
    fn checkpoint(&self, run: &RunId, fence: Fence, checkpoint: Checkpoint, safety: Safety) -> Reply<()>;
    /// Returns the cell of a run; `None` if it has none (any more).
    fn snapshot(&self, run: &RunId) -> Reply<Option<Snapshot>>;
    /// Returns all that is needed to go on with a run, read in one transaction: the parts belong together.
    fn resumption(&self, run: &RunId) -> Reply<Resumption>;
    /// Keeps an image, under its hash.
    fn keep_image(&self, hash: [u8; 32], bytes: Vec<u8>) -> Reply<()>;
    /// Returns an image that was kept.
    fn image(&self, hash: [u8; 32]) -> Reply<Option<Vec<u8>>>;
    /// Forgets the images that no snapshot needs, but for `current`; returns how many.
    fn drop_unused_images(&self, current: [u8; 32]) -> Reply<usize>;
}
