//! The state directory that a command works with.

use std::path::PathBuf;

use pincer_runtime::{StateError, open_store, usual_state_directory};
use pincer_store_sqlite::SqliteStore;

use crate::notices;
use crate::usage::LocationArguments;

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("there is no place to keep state: set HOME, or pass --state-dir")]
    NoDirectory,
    #[error(transparent)]
    State(#[from] StateError),
}

/// Returns the state directory, which may not be there yet; `None` if none is named and there is no home.
pub(crate) fn directory(locations: &LocationArguments) -> Option<PathBuf> {
    locations.state_dir.clone().or_else(usual_state_directory)
}

/// Opens the store in the state directory, and makes both if need be.
pub(crate) fn open(locations: &LocationArguments) -> Result<SqliteStore, OpenError> {
    let directory = directory(locations).ok_or(OpenError::NoDirectory)?;
    Ok(open_store(&directory, &notices::observer())?)
}
