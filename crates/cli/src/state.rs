//! Where state is kept, and the store in it.

use std::env;
use std::path::{Path, PathBuf};

use pincer_store::{SqliteStore, StoreError};

/// What was said, else `$XDG_STATE_HOME/pincer`, by default `~/.local/state/pincer`; `None` without a home.
fn directory(said: Option<&Path>) -> Option<PathBuf> {
    if let Some(directory) = said {
        return Some(directory.to_owned());
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join("pincer"))
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// Nobody said where, and there is no home.
    #[error("there is no place to keep state: set HOME, or pass --state-dir")]
    NoPlace,
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The store in the state directory, made if need be.
pub(crate) fn open(said: Option<&Path>) -> Result<SqliteStore, StateError> {
    let directory = directory(said).ok_or(StateError::NoPlace)?;
    Ok(SqliteStore::open(&directory.join("pincer.db"))?)
}
