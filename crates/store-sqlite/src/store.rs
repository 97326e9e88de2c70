//! The store: one connection that writes, a few that read, and the way of a call to one of them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pincer_store::{Clock, Millis, Reply, Safety, StoreError};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{oneshot, watch};
use tracing::Span;

use crate::SqliteError;
use crate::clock::{BootClock, boot_id};
use crate::file::{BUSY, prepare, writer};
use crate::presence::Presence;
use crate::readers::Readers;
use crate::sync::Syncer;
use crate::worker::Worker;

/// How often a first start looks again whether another one has made the file.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The most bytes that are written by the caller's own thread, if the connection is free. It takes less time than to wake another
/// thread up.
const AT_ONCE_BYTES: usize = 256 << 10;

/// Everything in one SQLite file. Can be shared by threads, and the file by processes. Dropping it waits for what it has accepted.
pub struct SqliteStore {
    pub(crate) core: Arc<Core>,
    /// Does what cannot be written at once, in its order.
    queue: Worker,
    /// Does what takes long to read.
    reading: Worker,
}

/// The state that the threads of a store share.
pub(crate) struct Core {
    pub path: PathBuf,
    /// The file that was opened: if another one, or none, is at the path, what is stored here is lost.
    inode: u64,
    writer: Mutex<Connection>,
    pub readers: Readers,
    pub syncer: Syncer,
    pub boot: Option<Arc<str>>,
    clock: BootClock,
    /// Is told of commits, in tests.
    commits: OnceLock<CommitHook>,
    /// Counts the deliveries that this process stores.
    pub delivery_news: watch::Sender<u64>,
    /// Held for as long as the file is open, so that it is not replaced meanwhile.
    _presence: Presence,
}

impl SqliteStore {
    /// Opens the file, making it, and the directory it is in, if need be: readable and writable by this user only.
    pub fn open(path: &Path) -> Result<Self, SqliteError> {
        let started = Instant::now();
        loop {
            // Where several processes start at once, SQLite refuses some of the first steps without waiting.
            match Core::open(path) {
                Err(SqliteError::Busy { .. }) if started.elapsed() < BUSY => thread::sleep(LOOK_AGAIN),
                opened => {
                    let core = Arc::new(opened?);
                    let (queue, reading) = (Worker::new("store-writer", 1), Worker::new("store-reader", 2));
                    return Ok(Self { core, queue, reading });
                }
            }
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.core.path
    }

    /// Folds what was written beside the file into it, as far as no other process is in the way: then a copy of the file is a
    /// copy of the store.
    pub fn fold(&self) -> Result<(), SqliteError> {
        self.core.hastily(&mut self.core.lock(), |connection| self.core.fold_in(connection))
    }

    /// Limits the file to a number of pages, as a disk of that size would.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages: u32) -> Result<(), SqliteError> {
        let limited = self.core.lock().pragma_update(None, "max_page_count", pages);
        limited.map_err(|error| SqliteError::of(&self.core.path, error))
    }

    /// Has `hook` called around each commit, for good. Tests fail, count or end the process there.
    #[doc(hidden)]
    pub fn watch_commits(&self, hook: CommitHook) {
        let _ = self.core.commits.set(hook);
    }

    /// Returns how many rows all tables have together. Benchmarks compare it before and after.
    #[doc(hidden)]
    pub fn row_count(&self) -> Result<i64, SqliteError> {
        let connection = self.core.lock();
        let count = || {
            // No indexes, and nothing of SQLite's own.
            let mut tables = connection.prepare(
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'",
            )?;
            let names = tables.query_map([], |row| row.get::<_, String>(0))?;
            let count = |name: String| {
                connection.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get::<_, i64>(0))
            };
            names.map(|name| count(name?)).sum::<rusqlite::Result<i64>>()
        };
        count().map_err(|error| SqliteError::of(&self.core.path, error))
    }

    /// Returns how many rows this process has inserted, updated or deleted.
    #[doc(hidden)]
    pub fn row_changes(&self) -> u64 {
        self.core.lock().total_changes()
    }

    /// Fails if the file that is open is no longer the one at its path: what is written now would be gone with this process.
    pub(crate) fn check_there(&self) -> Result<(), SqliteError> {
        self.core.check_there()
    }

    /// Runs `work` in a transaction that either commits as a whole or changes nothing. `bytes` is about how much it writes.
    pub(crate) fn transaction<T: Send + 'static>(
        &self,
        safety: Safety,
        bytes: usize,
        work: impl Fn(&Connection) -> Result<T, Refused> + Send + 'static,
    ) -> Reply<T> {
        self.commit(safety, bytes, move |connection| {
            // Immediate: a write that begins as a read could fail in the middle when another process writes.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Runs `work`, which commits, and replies when that is as safe as it must be. On this thread, if no other commit is under
    /// way or waits for its turn; `work` may then be run a second time, after it has failed because another process writes.
    pub(crate) fn commit<T: Send + 'static>(
        &self,
        safety: Safety,
        bytes: usize,
        work: impl Fn(&mut Connection) -> Result<T, Refused> + Send + 'static,
    ) -> Reply<T> {
        let is_synced = self.core.at_least(safety) == Safety::Power;
        if bytes <= AT_ONCE_BYTES && !self.queue.is_busy() {
            match self.core.at_once(is_synced, &work) {
                Some(Ok(value)) if is_synced => return self.core.synced(value),
                Some(done) => return Reply::ready(done),
                None => {}
            }
        }
        let (tell, told) = oneshot::channel();
        let (core, parent) = (Arc::clone(&self.core), Span::current());
        self.queue.push(Box::new(move || {
            let _within = parent.enter();
            let done = core.in_turn(is_synced, &work);
            match done {
                Ok(value) if is_synced => Core::sync_then(&core, value, tell),
                done => drop(tell.send(done)),
            }
        }));
        self.core.told(told)
    }

    /// Reads on this thread: for what is found by its key.
    pub(crate) fn look_up<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Refused>) -> Reply<T> {
        Reply::ready(self.core.sorted(self.core.reading(work)))
    }

    /// Reads on another thread: for what may be much.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Refused> + Send + 'static,
    ) -> Reply<T> {
        let (tell, told) = oneshot::channel();
        let core = Arc::clone(&self.core);
        self.reading.push(Box::new(move || drop(tell.send(core.sorted(core.reading(work))))));
        self.core.told(told)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.queue.drain();
        self.core.syncer.drain();
        // A read has the file open: it could not be replaced before.
        self.reading.drain();
    }
}

impl Clock for SqliteStore {
    fn now(&self) -> Millis {
        self.core.now()
    }
}

impl Core {
    fn open(path: &Path) -> Result<Self, SqliteError> {
        let failed = |source| SqliteError::Open { path: path.to_owned(), source };
        let (inode, presence) = prepare(path).map_err(failed)?;
        let connection = writer(path)?;
        let boot = boot_id();
        let clock = BootClock::agree(&connection, boot.as_deref()).map_err(|error| SqliteError::of(path, error))?;
        let syncer = Syncer::open(path).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            inode,
            writer: Mutex::new(connection),
            readers: Readers::default(),
            syncer,
            boot: boot.map(Into::into),
            clock,
            commits: OnceLock::new(),
            delivery_news: watch::Sender::new(0),
            _presence: presence,
        })
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Fails if the file that is open is no longer the one at its path.
    pub(crate) fn check_there(&self) -> Result<(), SqliteError> {
        match fs::metadata(&self.path) {
            Ok(there) if there.ino() == self.inode => Ok(()),
            _ => Err(SqliteError::Gone { path: self.path.clone() }),
        }
    }

    /// Returns a number that differs after another connection has changed something. `None` while the connection is in use.
    pub(crate) fn change_counter(&self) -> Option<i64> {
        let connection = self.writer.try_lock().ok()?;
        connection.pragma_query_value(None, "data_version", |row| row.get(0)).ok()
    }

    /// A power cut is noticed by the name of the boot. Without one, everything is synced.
    fn at_least(&self, safety: Safety) -> Safety {
        if self.boot.is_some() { safety } else { Safety::Power }
    }

    /// Runs `work` on the connection that writes. `None` if other work has it, here or in another process.
    fn at_once<T>(
        &self,
        is_synced: bool,
        work: &impl Fn(&mut Connection) -> Result<T, Refused>,
    ) -> Option<Result<T, StoreError>> {
        let mut connection = self.writer.try_lock().ok()?;
        let done = self.hastily(&mut connection, |connection| Ok(self.prepared(is_synced, connection, work)));
        match done.unwrap_or_else(|error| Err(error.into())) {
            Err(error) if error.is_busy() => None,
            done => Some(done),
        }
    }

    /// Runs `work` on the connection that writes when that is free.
    fn in_turn<T>(
        &self,
        is_synced: bool,
        work: &impl Fn(&mut Connection) -> Result<T, Refused>,
    ) -> Result<T, StoreError> {
        self.prepared(is_synced, &mut self.lock(), work)
    }

    /// Runs `work` after what a synced commit needs: the file must be there, and the disk must take it.
    fn prepared<T>(
        &self,
        is_synced: bool,
        connection: &mut Connection,
        work: &impl Fn(&mut Connection) -> Result<T, Refused>,
    ) -> Result<T, StoreError> {
        let _span = tracing::debug_span!("store_commit", synced = is_synced).entered();
        if is_synced {
            self.check_there()?;
            if self.syncer.has_failed() {
                self.fold_in(connection)?;
            }
        }
        let Some(hook) = self.commits.get() else { return self.sorted(work(connection)) };
        hook(CommitMoment::Before);
        let done = self.sorted(work(connection));
        if done.is_ok() {
            hook(CommitMoment::After);
        }
        done
    }

    /// Replies with `value` once everything that was committed is on the disk. A commit that fails here is there, unless the
    /// power fails.
    fn synced<T: Send + 'static>(self: &Arc<Self>, value: T) -> Reply<T> {
        let (tell, told) = oneshot::channel();
        Self::sync_then(self, value, tell);
        self.told(told)
    }

    fn sync_then<T: Send + 'static>(core: &Arc<Self>, value: T, tell: oneshot::Sender<Result<T, StoreError>>) {
        let path = core.path.clone();
        core.syncer.then(Box::new(move |synced: Result<(), &io::Error>| {
            let unwritable = |error: &io::Error| SqliteError::Unwritable { path, reason: error.to_string() };
            let _ = tell.send(synced.map(|()| value).map_err(|error| unwritable(error).into()));
        }));
    }

    /// Replies with what another thread will tell.
    fn told<T: Send + 'static>(&self, told: oneshot::Receiver<Result<T, StoreError>>) -> Reply<T> {
        let path = self.path.clone();
        Reply::later(async move { told.await.unwrap_or_else(|_| Err(SqliteError::Died { path }.into())) })
    }

    pub(crate) fn sorted<T>(&self, done: Result<T, Refused>) -> Result<T, StoreError> {
        done.map_err(|refused| match refused {
            Refused::Database(error) => SqliteError::of(&self.path, error).into(),
            Refused::Store(error) => error,
        })
    }

    fn fold_in(&self, connection: &Connection) -> Result<(), SqliteError> {
        // If another process reads or writes just now, this says so in its row and does what it can.
        let mut is_whole = false;
        let fold = connection.pragma(None, "wal_checkpoint", "TRUNCATE", |row| {
            is_whole = row.get::<_, i64>(0)? == 0;
            Ok(())
        });
        fold.map_err(|error| SqliteError::of(&self.path, error))?;
        if is_whole {
            self.syncer.made_good();
        }
        Ok(())
    }

    /// Runs `work` without waiting for other processes.
    fn hastily<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&mut Connection) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        let of = |error| SqliteError::of(&self.path, error);
        connection.busy_timeout(Duration::ZERO).map_err(of)?;
        let result = work(connection);
        connection.busy_timeout(BUSY).map_err(of)?;
        result
    }

    /// A panic in the middle of a transaction rolls it back, so the connection is as good as before.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A moment of a commit.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitMoment {
    /// Nothing of it is stored.
    Before,
    /// It is stored, and its caller has not been told.
    After,
}

/// Is called around commits.
#[doc(hidden)]
pub type CommitHook = Box<dyn Fn(CommitMoment) + Send + Sync>;

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

impl From<SqliteError> for Refused {
    fn from(error: SqliteError) -> Self {
        Self::Store(error.into())
    }
}
