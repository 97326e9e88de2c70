//! Where state is kept, and the store in it.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pincer_config::{Distrust, trust};
use pincer_store_sqlite::{SqliteError, SqliteStore};

use crate::places::place;
use crate::print::note;

/// The name of the store in the state directory.
pub(crate) const FILE: &str = "pincer.db";

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// Nobody said where, and there is no home.
    #[error("there is no place to keep state: set HOME, or pass --state-dir")]
    NoPlace,
    /// Another user could change what is in it.
    #[error("the state directory is not used: {0}")]
    Distrusted(#[from] Distrust),
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] SqliteError),
}

/// The state directory. It may not be there yet.
pub(crate) fn directory(said: Option<&Path>) -> Option<PathBuf> {
    said.map(Path::to_owned).or_else(|| place("XDG_STATE_HOME", ".local/state"))
}

/// The store in the state directory, made if need be.
pub(crate) fn open(said: Option<&Path>) -> Result<SqliteStore, StateError> {
    let directory = directory(said).ok_or(StateError::NoPlace)?;
    if let Some(warning) = trust(&directory)? {
        note(&format!("warning: {warning}"));
    }
    Ok(SqliteStore::open(&directory.join(FILE))?)
}

/// Folds the store into its one file. A command ends while threads of it still have the store open, so closing does not do it.
pub(crate) fn fold(store: &SqliteStore) {
    if let Err(error) = store.fold() {
        // Nothing is lost: the log beside the file is read by the next process.
        tracing::debug!("the store could not be folded: {error}");
    }
}

/// Makes the directory of a file, if need be, for its owner only.
pub(crate) fn private_directory(file: &Path) -> io::Result<&Path> {
    let directory = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    Ok(directory)
}

/// Puts a file into the state directory, whole or not at all, that only its owner can read.
pub(crate) fn write_private(file: &Path, text: &[u8]) -> io::Result<()> {
    let directory = private_directory(file)?;
    // Those of tempfile are for their owner only.
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(text)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}
