//! The file: private, in WAL mode, at a known schema.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::StoreError;
use crate::migrations::STEPS;

/// How long a write waits for another process to finish its own.
const BUSY: Duration = Duration::from_secs(10);

/// Everything in one SQLite file. Can be shared by threads, and the file by processes.
pub struct SqliteStore {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl SqliteStore {
    /// Opens the file, making it, and the directory it is in, if need be: readable and writable by this user only.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        prepare(path).map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
        let of = |error| StoreError::of(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(of)?;
        connection.busy_timeout(BUSY).map_err(of)?;
        // Read before anything is written: a file that is not ours must stay as it is.
        let found = version(&connection).map_err(of)?;
        if found > STEPS.len() as i64 {
            return Err(StoreError::Newer { path: path.to_owned(), found, known: STEPS.len() as i64 });
        }
        // FULL: a commit is on the disk before it is acknowledged, so that not even a power cut takes it back.
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
        connection.execute_batch(settings).map_err(of)?;
        migrate(&mut connection).map_err(of)?;
        Ok(Self { path: path.to_owned(), connection: Mutex::new(connection) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Limits the file to a number of pages, as a disk of that size would.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.with(|connection| connection.pragma_update(None, "max_page_count", pages))
    }

    /// Runs `work` on the connection and sorts its errors.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.lock()).map_err(|error| StoreError::of(&self.path, error))
    }

    /// Runs `work` in a transaction that either commits as a whole or changes nothing.
    pub(crate) fn transaction<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Refused>) -> Result<T, StoreError> {
        let mut connection = self.lock();
        let of = |error| StoreError::of(&self.path, error);
        // Immediate: a write that begins as a read could fail in the middle when somebody else writes.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
        let result = work(&transaction).map_err(|refused| match refused {
            Refused::Database(error) => of(error),
            Refused::Store(error) => error,
        })?;
        transaction.commit().map_err(of)?;
        Ok(result)
    }

    /// A panic in the middle of a transaction rolls it back, so the connection is as good as before.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a transaction is given up.
pub(crate) enum Refused {
    Database(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The directory 0700, the file 0600. SQLite gives its own files beside it the same permissions.
fn prepare(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => drop(made?),
    }
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    // The schema is read too, so that a damaged file shows itself here.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Takes the steps that are missing, each with its number in one transaction. Two processes may start at once.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    for (index, step) in STEPS.iter().enumerate() {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if version(&transaction)? == index as i64 {
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", index as i64 + 1)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Gives an enum of unit variants its stored spelling, both ways.
macro_rules! stored_enum {
    ($type:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        impl $type {
            /// As it is stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
        impl rusqlite::types::ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }
        impl rusqlite::types::FromSql for $type {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                match value.as_str()? {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(rusqlite::types::FromSqlError::InvalidType),
                }
            }
        }
    };
}
pub(crate) use stored_enum;
