//! Why there is no bundle.

use std::io;
use std::path::PathBuf;

use pincer_store::StoreError;

/// Why a session was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is something in the place of the bundle.
    #[error("{0} is there already, and is not an empty directory: name another one")]
    Taken(PathBuf),
    /// The bundle cannot be written.
    #[error(
        "the bundle cannot be written to {place}: {source}. Nothing is left of it: make room there, or name another directory"
    )]
    Write {
        /// The directory.
        place: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was stopped.
    #[error("interrupted: nothing was exported")]
    Stopped,
}
