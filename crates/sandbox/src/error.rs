//! What can go wrong for the host. What goes wrong for the guest is a [`TurnEnd`](crate::TurnEnd).

use pincer_snapshot::{ContentHash, TooLarge, Unreadable};

use crate::{ImageError, RequestId};

/// Why the host's own call did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine cannot be used on this machine.
    #[error("the JavaScript engine cannot be loaded")]
    Load(#[from] ImageError),
    /// This machine does not give what a sandbox needs: address space for its cells, a thread for their deadlines.
    #[error("the sandbox cannot be set up: {0:#}")]
    Setup(wasmtime::Error),
    /// All places for live cells are taken. Park some, or give the engine more.
    #[error("all {live_cells} places for live cells are taken: park or end some, or raise `live_cells`")]
    Busy {
        /// How many the engine has.
        live_cells: u32,
    },
    /// The cell's [`Allotment`](crate::Allotment) does not have the memory it needs. Grow it first.
    #[error("the cell needs {needed} bytes of memory, which its memory budget does not have now")]
    NoMemory {
        /// How much memory the cell needs.
        needed: usize,
    },
    /// The cell's memory limit is larger than the engine can give.
    #[error("a memory limit of {asked} bytes is more than an engine can give: set `memory_bytes` to at most {most}")]
    MemoryLimit {
        /// What was asked for.
        asked: usize,
        /// The most there is.
        most: usize,
    },
    /// The program is longer than allowed.
    #[error(
        "the program has {bytes} bytes, {limit} are allowed: pass data through host functions instead of the source"
    )]
    SourceTooLong {
        /// Its length.
        bytes: usize,
        /// The cap.
        limit: usize,
    },
    /// An answer names a request that is not pending: never made, answered before, or cancelled.
    #[error("no request {0} is pending in this cell")]
    UnknownRequest(RequestId),
    /// The cell has ended; nothing more can be done with it.
    #[error("the cell has ended")]
    Ended,
    /// The cell has not come to a point where it can be parked: it has not run yet, or has answers it has not seen.
    #[error("the cell is not waiting: run a turn first")]
    NotWaiting,
    /// The snapshot would be larger than allowed.
    #[error(transparent)]
    SnapshotTooLarge(#[from] TooLarge),
    /// A snapshot cannot be continued.
    #[error("the snapshot cannot be continued")]
    Restore(#[from] RestoreError),
}

impl Error {
    /// The code-mode error code that this is reported under.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Load(_) | Self::Setup(_) | Self::Busy { .. } | Self::NoMemory { .. } => "runtime_unavailable",
            Self::MemoryLimit { .. } => "invalid_config",
            Self::SourceTooLong { .. } => "invalid_input",
            Self::SnapshotTooLarge(_) => "snapshot_limit_exceeded",
            Self::Restore(_) => "snapshot_restore_failed",
            Self::UnknownRequest(_) | Self::Ended | Self::NotWaiting => "internal_error",
        }
    }
}

/// Why a snapshot cannot be continued. None of it has reached a VM.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are not a snapshot of this format, or not any more.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It belongs to another build of the JavaScript engine.
    #[error("the snapshot needs engine {needed}, this build has {present}: continue it with the build that made it")]
    WrongEngine {
        /// The snapshot's.
        needed: ContentHash,
        /// Ours.
        present: ContentHash,
    },
    /// The image it was parked against is not there (any more).
    #[error(
        "the snapshot needs image {needed}, which is neither this build's nor in the cache: continue it with the build that made it"
    )]
    UnknownImage {
        /// The snapshot's.
        needed: ContentHash,
    },
    /// The image it was parked against is stored, but cannot be used.
    #[error("the snapshot needs image {needed}, which is stored but cannot be used")]
    UnusableImage {
        /// The snapshot's.
        needed: ContentHash,
        /// Why not.
        #[source]
        source: ImageError,
    },
    /// It is sound, but needs more than the limits now allow.
    #[error("the snapshot needs {needed} {what}, {limit} are allowed")]
    OverLimit {
        /// Of what.
        what: &'static str,
        /// How much.
        needed: usize,
        /// The cap.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_does_not_start_makes_the_runtime_unavailable() {
        let error = Error::from(ImageError::Prelude("a bug".into()));
        assert_eq!(error.code(), "runtime_unavailable");
        assert_eq!(error.to_string(), "the JavaScript engine cannot be loaded");
    }

    #[test]
    fn misuse_by_the_host_is_a_bug() {
        assert_eq!(Error::Ended.code(), "internal_error");
        assert_eq!(Error::MemoryLimit { asked: 2, most: 1 }.code(), "invalid_config");
    }
}
