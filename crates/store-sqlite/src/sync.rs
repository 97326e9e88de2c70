//! Bringing commits to the disk: one sync serves all commits that wait for one.
//!
//! A commit writes to the log beside the file and does not sync it. A commit that must survive a power cut then waits here, after
//! it has let go of the connection, so that others commit meanwhile.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::worker::Worker;

/// Is told when everything that was committed before is on the disk, or why it is not.
pub(crate) type Synced = Box<dyn FnOnce(Result<(), &io::Error>) + Send>;

/// Syncs the log of a store, on a thread of its own.
pub(crate) struct Syncer {
    log: Arc<Log>,
    worker: Worker,
}

/// The log of a store, as far as it has to reach the disk.
struct Log {
    file: File,
    /// Synced once: the log may be new in it.
    directory: File,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Synced>,
    /// The directory has been synced.
    is_known: bool,
    /// The first sync that failed, if it has not been made good. Later syncs prove nothing: the system may have forgotten what it
    /// could not write.
    failed: Option<(io::ErrorKind, String)>,
    /// How many syncs there were.
    #[cfg(test)]
    count: usize,
}

impl Syncer {
    /// Returns the syncer of the store at `path`, which must be there.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let directory = match path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            Some(directory) => File::open(directory)?,
            None => File::open(".")?,
        };
        let log = Log { file: File::open(log)?, directory, state: Mutex::default() };
        Ok(Self { log: Arc::new(log), worker: Worker::new("store-sync", 1) })
    }

    /// Calls `synced` once everything that was written before is on the disk.
    pub(crate) fn then(&self, synced: Synced) {
        let mut state = self.log.state();
        state.waiting.push(synced);
        // A sync that waits for its turn serves this one too; one that has begun may have missed what was just written.
        if state.waiting.len() == 1 {
            drop(state);
            let log = Arc::clone(&self.log);
            self.worker.push(Box::new(move || log.sync()));
        }
    }

    /// Returns whether a sync has failed, so that the log cannot be relied on.
    pub(crate) fn has_failed(&self) -> bool {
        self.log.state().failed.is_some()
    }

    /// Notes that everything in the log is in the file by now, and on the disk.
    pub(crate) fn made_good(&self) {
        self.log.state().failed = None;
    }

    /// Waits until nothing waits for a sync.
    pub(crate) fn drain(&self) {
        self.worker.drain();
    }
}

impl Log {
    fn sync(&self) {
        let mut state = self.state();
        let (waiting, is_known) = (std::mem::take(&mut state.waiting), state.is_known);
        drop(state);
        let directory = if is_known { Ok(()) } else { self.directory.sync_all() };
        let synced = directory.and_then(|()| self.file.sync_data());
        let mut state = self.state();
        #[cfg(test)]
        {
            state.count += 1;
        }
        match synced {
            Ok(()) => state.is_known = true,
            Err(error) => drop(state.failed.get_or_insert((error.kind(), error.to_string()))),
        }
        let failed = state.failed.clone().map(|(kind, reason)| io::Error::new(kind, reason));
        drop(state);
        for synced in waiting {
            synced(failed.as_ref().map_or(Ok(()), Err));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    use pincer_store::{Claim, NewRun, Reply, Runs, Safety};

    use super::Syncer;
    use crate::SqliteStore;

    fn create(store: &SqliteStore, id: &str) -> Reply<()> {
        let (session, user) = ("s".into(), "me".into());
        let run = NewRun {
            id: id.into(),
            session,
            user,
            agent_run: None,
            created_at: 0,
            key: None,
            tools: None,
            recorded: None,
        };
        let claim = Claim { owner: "p".into(), safety: Safety::Power };
        store.create_run(run, claim, None, Safety::Power).map(|made| made.map(drop))
    }

    #[test]
    fn commits_share_syncs() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(&directory.path().join("pincer.db")).expect("a store");
        let syncer = &store.core.syncer;
        // The thread that syncs is kept from it until all commits wait.
        let (go, held) = mpsc::channel::<()>();
        syncer.worker.push(Box::new(move || {
            let _ = held.recv();
        }));
        let replies: Vec<_> = (0..50).map(|number| create(&store, &format!("cm_{number}"))).collect();
        drop(go);
        replies.into_iter().for_each(|reply| reply.wait().expect("made"));
        assert_eq!(syncer.log.state().count, 1);
        create(&store, "cm_later").wait().expect("made");
        assert_eq!(syncer.log.state().count, 2, "a sync that has ended does not serve a later commit");
    }

    #[test]
    fn a_sync_that_has_begun_does_not_serve_a_later_commit() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(&directory.path().join("pincer.db")).expect("a store");
        let count = Arc::new(AtomicUsize::new(0));
        let (told, telling) = mpsc::channel();
        for _ in 0..20 {
            let (counted, told) = (Arc::clone(&count), told.clone());
            let before = store.core.syncer.log.state().count;
            let log = Arc::clone(&store.core.syncer.log);
            store.core.syncer.then(Box::new(move |synced| {
                assert!(synced.is_ok());
                counted.fetch_add(usize::from(log.state().count > before), Ordering::SeqCst);
                let _ = told.send(());
            }));
        }
        telling.iter().take(20).for_each(drop);
        assert_eq!(count.load(Ordering::SeqCst), 20);
    }

    /// A later sync that succeeds does not bring back what the system could not write.
    #[test]
    fn a_failed_sync_is_told_until_the_log_has_been_folded_in() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pincer.db");
        let mut store = SqliteStore::open(&path).expect("a store");
        create(&store, "before").wait().expect("made");
        // A device that cannot be synced.
        let replaced = |store: &mut SqliteStore, file: File| {
            store.core.syncer.drain();
            let core = Arc::get_mut(&mut store.core).expect("idle");
            let log = Arc::get_mut(&mut core.syncer.log).expect("idle");
            std::mem::replace(&mut log.file, file)
        };
        let file = replaced(&mut store, File::open("/dev/null").expect("a device"));
        let failed = create(&store, "unsynced").wait().expect_err("it is not on the disk");
        assert!(failed.may_be_stored() && failed.to_string().contains("cannot be written"), "{failed}");
        replaced(&mut store, file);
        assert!(store.core.syncer.has_failed());
        // As long as another process reads, it cannot be folded in.
        let reader = rusqlite::Connection::open(&path).expect("another");
        reader.execute_batch("BEGIN; SELECT count(*) FROM run").expect("it reads");
        let other = SqliteStore::open(&path).expect("another store");
        create(&other, "other").wait().expect("made");
        store.fold().expect("as far as it can");
        assert!(store.core.syncer.has_failed());
        drop(reader);
        create(&store, "after").wait().expect("made good");
        assert_eq!(store.runs(None).wait().expect("listed").len(), 4);
    }

    #[test]
    fn a_log_that_is_not_there_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(Syncer::open(&directory.path().join("none.db")).is_err());
    }
}
