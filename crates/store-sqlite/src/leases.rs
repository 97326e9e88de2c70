//! This process as an owner of runs, for as long as it holds a lock that the system takes back when it ends, however it ends.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pincer_store::{Leases, OwnerId, Reply};
use uuid::Uuid;

use crate::SqliteError;

/// The leases of the processes that share a directory. The lock of this one is made when it is first needed, and goes when this is
/// dropped.
pub struct FileLeases {
    directory: PathBuf,
    own: OwnerId,
    lock: Mutex<Option<File>>,
}

impl FileLeases {
    /// Returns leases in this directory, where all processes that share a store must have theirs.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), own: Uuid::now_v7().to_string().into(), lock: Mutex::new(None) }
    }

    fn taken(&self) -> Result<(), SqliteError> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            self.clear_away();
            let path = self.file(self.own.as_str());
            *lock = Some(take(&self.directory, &path).map_err(|source| SqliteError::Lease { path, source })?);
        }
        Ok(())
    }

    /// Returns whether the process of this name is alive. If not, its lock is cleared away.
    fn has_lock(&self, name: &str) -> bool {
        if self.own == name {
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
            // Another process may have cleared it away just now, and its owner have made it again and locked that.
            Ok(()) if !is_at(&file, &path) => path.exists(),
            Ok(()) => {
                let _ = fs::remove_file(path);
                false
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        }
    }

    /// Removes what is left of owners that were killed.
    fn clear_away(&self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
                self.has_lock(name);
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.lock"))
    }
}

impl Leases for FileLeases {
    fn own(&self) -> &OwnerId {
        &self.own
    }

    fn hold(&self) -> Reply<OwnerId> {
        Reply::ready(self.taken().map(|()| self.own.clone()).map_err(Into::into))
    }

    fn is_alive(&self, owner: &OwnerId) -> Reply<bool> {
        Reply::ready(Ok(self.has_lock(owner.as_str())))
    }

    fn release(&self) {
        if self.lock.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            let _ = fs::remove_file(self.file(self.own.as_str()));
        }
    }
}

impl Drop for FileLeases {
    fn drop(&mut self) {
        self.release();
    }
}

fn take(directory: &Path, path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        // A process that clears away may have it for a moment, and may have taken the file away before it was locked.
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
        let one = FileLeases::new(directory.path().join("owners"));
        let other = FileLeases::new(directory.path().join("owners"));
        let name = one.hold().wait().unwrap();
        let is_alive = |leases: &FileLeases, name: &str| leases.is_alive(&name.into()).wait().unwrap();
        assert_eq!(one.hold().wait().unwrap(), name);
        assert!(is_alive(&one, name.as_str()) && is_alive(&other, name.as_str()));
        assert!(*one.own() == name && *other.own() != name);
        drop(one);
        assert!(!is_alive(&other, name.as_str()));
        // What is left of one that was killed.
        let dead = Uuid::now_v7().to_string();
        let file = directory.path().join("owners").join(format!("{dead}.lock"));
        fs::write(&file, "").unwrap();
        assert!(!is_alive(&other, &dead) && !file.exists());
        assert!(!is_alive(&other, "../../etc/passwd") && !is_alive(&other, ""));
    }
}
