//! The file: private, in WAL mode, at a known schema.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Params, TransactionBehavior};

use crate::clock::{BootClock, boot_id};
use crate::migrations::STEPS;
use crate::presence::Presence;
use crate::sync::LogSync;
use crate::{Clock, Millis, StoreError};

/// How long a write waits for another process to finish its own.
const BUSY: Duration = Duration::from_secs(10);

/// How often a first start looks again whether another one has made the file.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Statements that are kept prepared: all there are. With fewer than are in use, each is parsed again every time.
const STATEMENTS: usize = 128;

/// Everything in one SQLite file. Can be shared by threads, and the file by processes.
pub struct SqliteStore {
    path: PathBuf,
    /// The file that was opened: if another one, or none, is at the path, what is stored here is lost.
    inode: u64,
    connection: Mutex<Connection>,
    pub(crate) log: LogSync,
    boot: Option<String>,
    clock: BootClock,
    /// Held for as long as the file is open, so that it is not replaced meanwhile.
    _presence: Presence,
}

/// How long a commit waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all: [`StoreError::Busy`] if somebody else is at it, here or in another process.
    None,
    /// Some seconds, as every other call.
    Usual,
}

/// How something is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// What it must survive.
    pub safety: Safety,
    /// How long it may wait.
    pub patience: Patience,
}

impl From<Safety> for Commit {
    fn from(safety: Safety) -> Self {
        Self { safety, patience: Patience::Usual }
    }
}

/// What a commit is safe from when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// From the death of this process. A later commit that is safe from more makes this one so too.
    Process,
    /// From a power cut as well: it is on the disk. Costs what the disk takes, some 15 times as much on a good one.
    Power,
}

impl SqliteStore {
    /// Opens the file, making it, and the directory it is in, if need be: readable and writable by this user only.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let started = Instant::now();
        loop {
            // Where several processes start at once, SQLite refuses some of the first steps without waiting.
            match Self::try_open(path) {
                Err(StoreError::Busy { .. }) if started.elapsed() < BUSY => thread::sleep(LOOK_AGAIN),
                opened => return opened,
            }
        }
    }

    fn try_open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Open { path: path.to_owned(), source };
        let (inode, presence) = prepare(path).map_err(failed)?;
        let of = |error| StoreError::of(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(of)?;
        connection.busy_timeout(BUSY).map_err(of)?;
        // Read before anything is written: a file that is not ours must stay as it is.
        let found = version(&connection).map_err(of)?;
        if found > STEPS.len() as i64 {
            return Err(StoreError::Newer { path: path.to_owned(), found, known: STEPS.len() as i64 });
        }
        // `sync.rs` syncs commits. Folding in 16 MB at a time instead of 4 spares pages that are written often, and a large cell
        // must not be written twice because it does not fit into the cache.
        let settings = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
            PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 33554432; PRAGMA cache_spill = OFF;";
        connection.execute_batch(settings).map_err(of)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Otherwise SQLite plans, and so parses, some statements again for each new parameter.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(of)?;
        migrate(&mut connection).map_err(of)?;
        make_shrinkable(&connection).map_err(of)?;
        let boot = boot_id();
        let clock = BootClock::agree(&connection, boot.as_deref()).map_err(of)?;
        let log = LogSync::open(path).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            inode,
            connection: Mutex::new(connection),
            log,
            boot,
            clock,
            _presence: presence,
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of this boot of the machine.
    pub(crate) fn boot(&self) -> Option<&str> {
        self.boot.as_deref()
    }

    /// Folds what was written beside the file into it, as far as no other process is in the way: then a copy of the file is a
    /// copy of the store.
    pub fn fold(&self) -> Result<(), StoreError> {
        self.hastily(&mut self.lock(), |connection| self.fold_in(connection))
    }

    fn fold_in(&self, connection: &Connection) -> Result<(), StoreError> {
        // If another process reads or writes just now, this says so in its row and does what it can.
        let mut is_whole = false;
        let fold = connection.pragma(None, "wal_checkpoint", "TRUNCATE", |row| {
            is_whole = row.get::<_, i64>(0)? == 0;
            Ok(())
        });
        fold.map_err(|error| StoreError::of(&self.path, error))?;
        if is_whole {
            self.log.made_good();
        }
        Ok(())
    }

    /// Prepares for a commit that must survive a power cut: the file must be there, and the disk must take it.
    fn check_syncable(&self, connection: &Connection) -> Result<(), StoreError> {
        self.check_there()?;
        if self.log.has_failed() {
            self.fold_in(connection)?;
        }
        Ok(())
    }

    /// Brings what was committed to the disk. A commit that fails here is there, unless the power fails.
    fn sync(&self) -> Result<(), StoreError> {
        let unwritable =
            |error: io::Error| StoreError::Unwritable { path: self.path.clone(), reason: error.to_string() };
        self.log.sync().map_err(unwritable)
    }

    /// Fails if the file that is open is no longer the one at its path: what is written now would be gone with this process.
    pub(crate) fn check_there(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(there) if there.ino() == self.inode => Ok(()),
            _ => Err(StoreError::Gone { path: self.path.clone() }),
        }
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

    /// The same for work that only reads, and may not find what it looks for.
    pub(crate) fn look<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Refused>) -> Result<T, StoreError> {
        work(&self.lock()).map_err(|refused| self.sorted(refused))
    }

    fn sorted(&self, refused: Refused) -> StoreError {
        match refused {
            Refused::Database(error) => StoreError::of(&self.path, error),
            Refused::Store(error) => error,
        }
    }

    /// Runs `work` in a transaction that either commits as a whole or changes nothing.
    pub(crate) fn transaction<T>(
        &self,
        safety: Safety,
        work: impl FnOnce(&Connection) -> Result<T, Refused>,
    ) -> Result<T, StoreError> {
        self.commit_as(safety.into(), work)
    }

    /// Like [`transaction`](Self::transaction), but with [`Patience::None`] it returns [`StoreError::Busy`] instead of blocking.
    pub(crate) fn commit_as<T>(
        &self,
        commit: Commit,
        work: impl FnOnce(&Connection) -> Result<T, Refused>,
    ) -> Result<T, StoreError> {
        self.safely(commit, |connection| {
            let of = |error| StoreError::of(&self.path, error);
            // Immediate: a write that begins as a read could fail in the middle when another process writes.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
            let result = work(&transaction).map_err(|refused| self.sorted(refused))?;
            transaction.commit().map_err(of)?;
            Ok(result)
        })
    }

    /// Makes one statement, which is a transaction by itself: for what happens often. `true` if it changed something; otherwise
    /// what `unchanged` finds out.
    pub(crate) fn change_as(
        &self,
        commit: Commit,
        statement: &str,
        params: impl Params,
        unchanged: impl FnOnce(&Connection) -> Result<bool, Refused>,
    ) -> Result<bool, StoreError> {
        self.safely(commit, |connection| {
            let made = connection.prepare_cached(statement).and_then(|mut made| made.execute(params));
            match made.map_err(|error| StoreError::of(&self.path, error))? {
                0 => unchanged(connection).map_err(|refused| self.sorted(refused)),
                _ => Ok(true),
            }
        })
    }

    /// Runs `work`, which commits, and returns when that is as safe as it must be.
    fn safely<T>(
        &self,
        Commit { safety, patience }: Commit,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let is_synced = self.at_least(safety) == Safety::Power;
        let result = self.patiently(patience, |connection| {
            if is_synced {
                self.check_syncable(connection)?;
            }
            work(connection)
        })?;
        if is_synced {
            self.sync()?;
        }
        Ok(result)
    }

    /// A power cut is noticed by the name of the boot. Without one, everything is synced.
    fn at_least(&self, safety: Safety) -> Safety {
        if self.boot.is_some() { safety } else { Safety::Power }
    }

    fn patiently<T>(
        &self,
        patience: Patience,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if patience == Patience::Usual {
            return work(&mut self.lock());
        }
        let busy = || StoreError::Busy { path: self.path.clone() };
        let mut connection = self.connection.try_lock().map_err(|_| busy())?;
        self.hastily(&mut connection, work)
    }

    /// Runs `work` without waiting for other processes.
    fn hastily<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let of = |error| StoreError::of(&self.path, error);
        connection.busy_timeout(Duration::ZERO).map_err(of)?;
        let result = work(connection);
        connection.busy_timeout(BUSY).map_err(of)?;
        result
    }

    /// A panic in the middle of a transaction rolls it back, so the connection is as good as before.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SqliteStore {
    fn now(&self) -> Millis {
        self.clock.now()
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

/// Makes the directory (0700) and the file (0600), and takes the lock that says that this process has it open. SQLite gives
/// its own files beside it the same permissions.
fn prepare(path: &Path) -> io::Result<(u64, Presence)> {
    make_directory(path)?;
    let presence = Presence::shared(path)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => drop(made?),
    }
    let there = fs::metadata(path)?;
    if there.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    Ok((there.ino(), presence))
}

/// Makes the directory that a store is in (0700).
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    match path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        Some(directory) => DirBuilder::new().recursive(true).mode(0o700).create(directory),
        None => Ok(()),
    }
}

/// Returns the schema of a file.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
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

/// Lets a file of an earlier version give space back: it has to be written anew once. A large one stays as it is, and so does
/// one that another process uses just now, until the next time.
fn make_shrinkable(connection: &Connection) -> rusqlite::Result<()> {
    const LARGE: i64 = 64 << 20;
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    if number("auto_vacuum")? == 0 && number("page_count")? * number("page_size")? < LARGE {
        connection.busy_timeout(Duration::ZERO)?;
        // The store works without it: another process or a full disk may be in the way.
        let _ = connection.execute_batch("VACUUM");
        connection.busy_timeout(BUSY)?;
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
