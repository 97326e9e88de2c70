//! Failures of the file.

use std::io;
use std::path::{Path, PathBuf};

use pincer_store::{DatabaseError, DatabaseErrorKind, StoreError};
use rusqlite::ErrorCode;

/// A failure of the file of a store, or of a copy of it.
#[derive(Debug, thiserror::Error)]
pub enum SqliteError {
    /// The directory or file cannot be made private or opened.
    #[error("the store {} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a database, or is damaged. It has been left as it is.
    #[error(
        "the store {} is damaged and was left untouched: {reason}. Restore it from a backup, or move it away to start anew",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        reason: String,
    },
    /// A later version of Pincer has written the file.
    #[error(
        "the store {} has schema {found}, this version of Pincer knows up to {known}: use the version that wrote it, or a \
         later one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// There is no room for it.
    #[error("the disk under the store {} is full: make room and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The system failed to write, and there is no room. It is not known whether something was written.
    #[error(
        "the disk of the directory {} is full, so the store {} cannot be written ({reason}): make room there and try again",
        directory(path).display(),
        path.display()
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        reason: String,
    },
    /// Another process holds the file for longer than we wait.
    #[error("the store {} is busy: another process has been writing for too long; try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file was removed or replaced while it was open.
    #[error(
        "the store {} was removed or replaced while this process had it open, so nothing more is stored: restart this process",
        path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// A backup cannot be written or put in place.
    #[error("{} cannot be copied to {}: {source}", from.display(), to.display())]
    Copy {
        /// The file that is copied.
        from: PathBuf,
        /// Where to.
        to: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is a file already where a backup is to be written.
    #[error("{} is there already and was left as it is: name another file, or remove it", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// A process has the store open that is to be replaced.
    #[error(
        "the store {} is in use: end all Pincer processes that have this state directory (servers, programs that run), and try \
         again",
        path.display()
    )]
    InUse {
        /// The store.
        path: PathBuf,
    },
    /// A file is not a backup, or is damaged.
    #[error("{} is not a backup of a store, or is damaged, so the store was left as it is: {reason}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// The file cannot be written.
    #[error(
        "the store {} cannot be written ({reason}): look at the disk, and at the limit on file sizes (`ulimit -f`)",
        path.display()
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        reason: String,
    },
    /// A change breaks a rule of the file: a bug of Pincer, or a value that no limit has caught.
    #[error("the store {} does not take this change ({reason}), which is a bug of Pincer: report it", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        reason: String,
    },
    /// A thread of this process that had the change died.
    #[error("the store {} failed: a thread that writes to it has died, which is a bug of Pincer", path.display())]
    Died {
        /// The file.
        path: PathBuf,
    },
    /// The lock by which other processes see that this one is alive cannot be made.
    #[error("the lock {} of this process cannot be made", path.display())]
    Lease {
        /// The lock.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A store does not take what it was asked to store. Only restoring a backup can meet this.
    #[error(transparent)]
    Store(Box<StoreError>),
    /// Another error of SQLite.
    #[error("the store {} failed", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The room below which the system's failure to write is that of a full disk: SQLite's own files begin with 32 KiB.
const LEAST_ROOM: u64 = 256 << 10;

impl SqliteError {
    /// Returns the failure of the system to write, on a disk with so much room.
    fn unwritable(path: &Path, reason: String, room: Option<u64>) -> Self {
        let path = path.to_owned();
        match room {
            Some(room) if room < LEAST_ROOM => Self::NoRoom { path, reason },
            _ => Self::Unwritable { path, reason },
        }
    }

    /// Sorts what SQLite says.
    pub(crate) fn of(path: &Path, error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        if code == Some(ErrorCode::SystemIoFailure) {
            return Self::unwritable(path, error.to_string(), room(directory(path)));
        }
        let path = path.to_owned();
        match code {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt { path, reason: error.to_string() }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                Self::Unfit { path, reason: error.to_string() }
            }
            _ => Self::Database { path, source: Box::new(error) },
        }
    }
}

/// Returns the directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the bytes that may still be written on the disk of a directory, if the system tells.
fn room(directory: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> Self {
        let kind = match error {
            SqliteError::Busy { .. } => DatabaseErrorKind::Busy,
            SqliteError::Unwritable { .. }
            | SqliteError::NoRoom { .. }
            | SqliteError::Database { .. }
            | SqliteError::Died { .. } => DatabaseErrorKind::Interrupted,
            SqliteError::Unfit { .. } => DatabaseErrorKind::Unfit,
            _ => DatabaseErrorKind::Refused,
        };
        Self::Database(DatabaseError::new(kind, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_to_write_on_a_full_disk_names_the_disk_and_the_remedy() {
        let told = |room| {
            SqliteError::unwritable(Path::new("/srv/state/pincer.db"), "disk I/O error".into(), room).to_string()
        };
        for room in [Some(0), Some(LEAST_ROOM - 1)] {
            assert_eq!(
                told(room),
                "the disk of the directory /srv/state is full, so the store /srv/state/pincer.db cannot be written (disk I/O \
                 error): make room there and try again"
            );
        }
        for room in [None, Some(LEAST_ROOM)] {
            assert!(told(room).contains("look at the disk"), "{}", told(room));
        }
        assert!(room(directory(Path::new("pincer.db"))).is_some_and(|room| room > 0));
        assert_eq!(room(Path::new("/no/such/directory")), None);
    }
}
