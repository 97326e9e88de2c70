//! Who owns runs: this process, for as long as it holds a lock that the system takes back when it ends, however it ends.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pincer_store::StoreError;
use uuid::Uuid;

use crate::ending::{Ending, told};
use crate::result::ErrorCode;

/// Why this process cannot own runs.
#[derive(Debug, thiserror::Error)]
#[error("the lock {} of this process cannot be made", path.display())]
pub struct OwnerError {
    path: PathBuf,
    source: io::Error,
}

/// Why a run is not this process's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error(transparent)]
    Owner(#[from] OwnerError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ClaimError {
    pub fn ending(&self) -> Ending {
        match self {
            Self::Owner(error) => Ending::failed(ErrorCode::RuntimeUnavailable, told(error)),
            Self::Store(error) => Ending::of_store(error),
        }
    }
}

/// This process as an owner of runs. The lock is made when it is first needed, and goes when this is dropped.
pub struct Owner {
    directory: PathBuf,
    name: Arc<str>,
    lock: Mutex<Option<File>>,
}

impl Owner {
    /// With its lock in this directory, where all who share a store must have theirs.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), name: Uuid::now_v7().to_string().into(), lock: Mutex::new(None) }
    }

    /// What this process is called, its lock held.
    pub fn name(&self) -> Result<Arc<str>, OwnerError> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            self.clear_away();
            let path = self.file(&self.name);
            *lock = Some(take(&self.directory, &path).map_err(|source| OwnerError { path, source })?);
        }
        Ok(Arc::clone(&self.name))
    }

    /// Whether this is the process itself.
    pub fn is(&self, name: &str) -> bool {
        *self.name == *name
    }

    /// Whether the process of this name is alive. If not, its lock is cleared away.
    pub fn is_alive(&self, name: &str) -> bool {
        if self.is(name) {
            return true;
        }
        // A name comes out of the store: it must not lead anywhere else.
        if name.parse::<Uuid>().is_err() {
            return false;
        }
        let path = self.file(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            // Only what is not there is gone. Better to wait in vain than to do something twice.
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        match file.try_lock_shared() {
            // Another one may have cleared it away just now, and its owner have made it again and locked that.
            Ok(()) if !is_at(&file, &path) => path.exists(),
            Ok(()) => {
                let _ = fs::remove_file(path);
                false
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        }
    }

    /// Removes the lock. Others take this process for gone from now on.
    pub fn release(&self) {
        if self.lock.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            let _ = fs::remove_file(self.file(&self.name));
        }
    }

    /// Removes what is left of owners that were killed.
    fn clear_away(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
                self.is_alive(name);
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.lock"))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.release();
    }
}

fn take(directory: &Path, path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        // Whoever clears away may have it for a moment, and may have taken the file away before it was locked.
        file.lock()?;
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// Returns whether this open file is the one at the path.
fn is_at(file: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| file.metadata().is_ok_and(|own| there.ino() == own.ino()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_alive_until_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let one = Owner::new(directory.path().join("owners"));
        let other = Owner::new(directory.path().join("owners"));
        let name = one.name().unwrap();
        assert_eq!(one.name().unwrap(), name);
        assert!(one.is_alive(&name) && other.is_alive(&name) && one.is(&name) && !other.is(&name));
        drop(one);
        assert!(!other.is_alive(&name));
        // What is left of one that was killed.
        let dead = Uuid::now_v7().to_string();
        let file = directory.path().join("owners").join(format!("{dead}.lock"));
        fs::write(&file, "").unwrap();
        assert!(!other.is_alive(&dead) && !file.exists());
        assert!(!other.is_alive("../../etc/passwd") && !other.is_alive(""));
    }
}
