//! The state directory, and the store in it.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pincer_config::{Distrust, trust};
use pincer_store_sqlite::{SqliteError, SqliteStore};

use crate::notice::{Notice, Observer};
use crate::user_directories::user_directory;

/// The name of the store in the state directory.
pub const STORE_FILE: &str = "pincer.db";

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another user could change what is in it.
    #[error("the state directory is not used: {0}")]
    Distrusted(#[from] Distrust),
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] SqliteError),
}

/// Returns the state directory of this user; `None` without a home. It may not be there yet.
pub fn usual_state_directory() -> Option<PathBuf> {
    user_directory("XDG_STATE_HOME", ".local/state")
}

/// Opens the store in a state directory, and makes both if need be.
pub fn open_store(directory: &Path, observer: &Observer) -> Result<SqliteStore, StateError> {
    if let Some(warning) = trust(directory)? {
        observer.tell(Notice::SharedPath(warning));
    }
    Ok(SqliteStore::open(&directory.join(STORE_FILE))?)
}

/// Folds the store into its one file. A command ends while threads of it still have the store open, so closing does not do it.
pub(crate) fn fold(store: &SqliteStore) {
    if let Err(error) = store.fold() {
        // Nothing is lost: the log beside the file is read by the next process.
        tracing::debug!("the store could not be folded: {error}");
    }
}

/// Makes the directory of a file, if need be, for its owner only. Returns it.
pub(crate) fn private_directory(file: &Path) -> io::Result<&Path> {
    let directory = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    Ok(directory)
}

/// Writes a file, whole or not at all, that only its owner can read.
pub fn write_private(file: &Path, text: &[u8]) -> io::Result<()> {
    let directory = private_directory(file)?;
    // Those of tempfile are for their owner only.
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(text)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}
