//! The lock that says that a process has a store open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A lock on the file beside a store: shared by the processes that have the store open, exclusive while it is replaced.
pub(crate) struct Presence(File);

impl Presence {
    /// Waits while the store is being replaced.
    pub(crate) fn shared(path: &Path) -> io::Result<Self> {
        let file = lock_file(path)?;
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// Fails at once while a process has the store open.
    pub(crate) fn exclusive(path: &Path) -> Result<Self, TryLockError> {
        let file = lock_file(path).map_err(TryLockError::Error)?;
        file.try_lock()?;
        Ok(Self(file))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A child that was just started has this file open too until its own program begins, and with it the lock.
        let _ = self.0.unlock();
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.with_extension("lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_was_closed_is_free_although_a_child_has_its_lock_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pincer.db");
        let open = Presence::shared(&path).expect("open");
        let _of_a_child = open.0.try_clone().expect("as a fork has it");
        assert!(matches!(Presence::exclusive(&path), Err(TryLockError::WouldBlock)));
        drop(open);
        let replacing = Presence::exclusive(&path).expect("free");
        assert!(matches!(Presence::exclusive(&path), Err(TryLockError::WouldBlock)));
        drop(replacing);
        Presence::shared(&path).expect("free again");
    }
}
