//! Bringing commits to the disk: one sync serves all commits that wait for one.
//!
//! A commit writes to the log beside the file and does not sync it. A commit that must survive a power cut then waits here, after
//! it has let go of the connection, so that others commit meanwhile.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The log of a store, as far as it has to reach the disk.
pub(crate) struct LogSync {
    log: File,
    /// Synced once: the log may be new in it.
    directory: File,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of syncs that have begun.
    begun: u64,
    /// The newest sync that has ended.
    ended: u64,
    is_going_on: bool,
    /// The first sync that failed, if it has not been made good, and what the system said. Later syncs prove nothing: the system
    /// may have forgotten what it could not write.
    failed: Option<(u64, io::ErrorKind, String)>,
}

impl LogSync {
    /// The log of the store at `path`, which must be there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let directory = match path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            Some(directory) => File::open(directory)?,
            None => File::open(".")?,
        };
        Ok(Self { log: File::open(log)?, directory, state: Mutex::default(), ended: Condvar::new() })
    }

    /// Returns once everything that was written before this call is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        // A sync that has begun already may have missed what was just written.
        let needed = state.begun + 1;
        loop {
            if let Some((failed, kind, reason)) = &state.failed
                && *failed <= needed
            {
                return Err(io::Error::new(*kind, reason.clone()));
            }
            if state.ended >= needed {
                return Ok(());
            }
            state = match state.is_going_on {
                true => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                false => self.sync_now(state),
            };
        }
    }

    fn sync_now<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.is_going_on = true;
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let first = if number == 1 { self.directory.sync_all() } else { Ok(()) };
        let synced = first.and_then(|()| self.log.sync_data());
        let mut state = self.state();
        (state.is_going_on, state.ended) = (false, number);
        if let Err(error) = synced {
            state.failed.get_or_insert((number, error.kind(), error.to_string()));
        }
        self.ended.notify_all();
        state
    }

    /// Whether a sync has failed, so that the log cannot be relied on.
    pub fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Everything in the log is in the file by now, and on the disk.
    pub fn made_good(&self) {
        self.state().failed = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::LogSync;
    use crate::{Claim, NewRun, Runs, Safety, SqliteStore, StoreError};

    fn create(store: &SqliteStore, id: &str) -> Result<(), StoreError> {
        let run = NewRun { id, session: "s", caller: "me", agent_run: None, created_at: 0, key: None, tools: None };
        let claim = Claim { owner: "p", safety: Safety::Power };
        store.create_run(&run, claim, None, Safety::Power.into()).map(drop)
    }

    #[test]
    fn commits_share_syncs() {
        const THREADS: usize = 8;
        const COMMITS: usize = 50;
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(&directory.path().join("pincer.db")).expect("a store");
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, made) = (&store, &made);
                scope.spawn(move || {
                    for number in 0..COMMITS {
                        let before = store.log.state().begun;
                        create(store, &format!("{thread}/{number}")).expect("made");
                        made.fetch_add(1, Ordering::Relaxed);
                        assert!(store.log.state().ended > before, "a sync that began after the commit has ended");
                    }
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), THREADS * COMMITS);
        let state = store.log.state();
        assert!(state.begun <= (THREADS * COMMITS) as u64 && state.begun == state.ended && !state.is_going_on);
    }

    /// A later sync that succeeds does not bring back what the system could not write.
    #[test]
    fn a_failed_sync_is_told_until_the_log_has_been_folded_in() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pincer.db");
        let mut store = SqliteStore::open(&path).expect("a store");
        create(&store, "before").expect("made");
        // A device that cannot be synced.
        let log = std::mem::replace(&mut store.log.log, File::open("/dev/null").expect("a device"));
        let failed = create(&store, "unsynced").expect_err("it is not on the disk");
        assert!(matches!(failed, StoreError::Unwritable { .. }), "{failed}");
        store.log.log = log;
        assert!(store.log.sync().is_err() && store.log.has_failed());
        // As long as another process reads, it cannot be folded in.
        let reader = rusqlite::Connection::open(&path).expect("another");
        reader.execute_batch("BEGIN; SELECT count(*) FROM run").expect("it reads");
        let other = SqliteStore::open(&path).expect("another store");
        create(&other, "other").expect("made");
        store.fold().expect("as far as it can");
        assert!(store.log.has_failed());
        drop(reader);
        create(&store, "after").expect("made good");
        assert_eq!(store.runs(None).expect("listed").len(), 4);
    }

    #[test]
    fn a_log_that_is_not_there_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(LogSync::open(&directory.path().join("none.db")).is_err());
    }
}
