//! Connections that only read: a long read holds up neither a commit nor another read.

use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::SqliteError;
use crate::file::reader;
use crate::store::{Core, Refused};

/// The connections that are kept open while nothing is read.
const KEPT: usize = 4;

/// Connections that are open and not in use. They see everything that was committed before a read begins.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<Connection>>);

impl Core {
    /// Runs `work` on a connection of its own.
    pub(crate) fn reading<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Refused>) -> Result<T, Refused> {
        let free = self.readers.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match free {
            Some(connection) => connection,
            None => {
                let opened = reader(&self.path).map_err(|error| SqliteError::of(&self.path, error))?;
                // Another file may be at the path by now.
                self.check_there()?;
                opened
            }
        };
        let read = work(&connection);
        let mut free = self.readers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(connection);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use pincer_store_contract::Blocking;
    use pincer_store_contract::words::{effect, made_at};

    use crate::SqliteStore;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// An export, a transcript of 100 MB: here a read that does not end before it is told to.
    #[test]
    fn a_long_read_holds_up_no_commit_and_no_other_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(&directory.path().join("pincer.db")).expect("a store");
        let fence = made_at(Blocking(&store), "a", "p", 500);
        let (go, held) = channel::<()>();
        let (begins, begun) = channel();
        let reading = store.read(move |connection| {
            let transaction = connection.unchecked_transaction()?;
            let count = || transaction.query_row("SELECT count(*) FROM call", [], |row| row.get::<_, u32>(0));
            let before = count()?;
            let _ = begins.send(());
            let _ = held.recv();
            Ok((before, count()?))
        });
        begun.recv_timeout(PATIENCE).expect("it reads");
        let (tell, told) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let store = Blocking(&store);
                for seq in 0..50 {
                    store.dispatch("a", fence, "p", &effect(seq), pincer_store::Safety::Process).expect("dispatched");
                    store.settle("a", "p", seq, "1", 7, pincer_store::Safety::Power).expect("settled");
                    assert_eq!(store.run("a").expect("found by its key").fence, fence);
                }
                let _ = tell.send(store.calls("a").expect("listed").len());
            });
            let listed = told.recv_timeout(PATIENCE);
            drop(go);
            assert_eq!(listed.expect("a commit or a read waited for the long read"), 50);
        });
        assert_eq!(reading.wait().expect("read"), (0, 0), "a read sees one moment");
    }
}
