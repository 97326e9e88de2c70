//! Copies of the store: made while it is in use, put in its place while it is not.
//!
//! A backup is one file without a log beside it. Between the backup and its restoration, the runs that had not ended in it may
//! have gone on: continuing them could repeat what they did since. So they end, with what the backup knows of their calls.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pincer_store::{
    AgentRun, AgentRunId, AgentRuns, Call, Clock, Grants, Journal, Run, RunEnd, RunId, RunState, Runs, Safety,
    StoreError,
};
use rusqlite::{Connection, OpenFlags};
use tempfile::{Builder, TempDir};

use crate::file::{make_directory, version};
use crate::migrations::STEPS;
use crate::presence::Presence;
use crate::{SqliteError, SqliteStore, agent_runs, deliveries};

/// Says what is stored as the results of runs that end because their store is restored, as JSON.
pub struct Endings<P, M> {
    /// For a program and its calls.
    pub program: P,
    /// For a message.
    pub message: M,
}

/// How the directories begin in which copies are made. They are beside what they become, since only there a rename is one step.
const IN_THE_MAKING: &str = ".pincer-restore-";

const READ_WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// The contents of a backup that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// How many runs there are.
    pub runs: usize,
    /// Those that had not ended in the backup, and have now.
    pub ended: Vec<RunId>,
    /// Messages that had no answer in the backup, and are aborted now.
    pub messages: Vec<AgentRunId>,
    /// How many grants hold again, also those that were revoked since.
    pub grants: usize,
}

impl SqliteStore {
    /// Writes a copy of everything to a new file, readable by this user only, while all processes go on. It is on the disk when
    /// this returns; before, there is no file under that name. Fails with [`SqliteError::Taken`] if there is one already.
    pub fn backup(&self, to: &Path) -> Result<(), SqliteError> {
        self.check_there()?;
        let failed = |source| SqliteError::Copy { from: self.path().to_owned(), to: to.to_owned(), source };
        let taken = || SqliteError::Taken { path: to.to_owned() };
        if to.symlink_metadata().is_ok() {
            return Err(taken());
        }
        let copy = Builder::new().prefix(".pincer-backup-").tempfile_in(directory_of(to)).map_err(failed)?;
        // On a connection of its own: this process's other calls go on too.
        let connection = Connection::open_with_flags(self.path(), READ_WRITE);
        let connection = connection.map_err(|error| SqliteError::of(self.path(), error))?;
        let name = copy.path().to_str().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        connection.execute("VACUUM INTO ?1", [name]).map_err(|error| SqliteError::of(to, error))?;
        copy.as_file().sync_all().map_err(failed)?;
        copy.persist_noclobber(to).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => taken(),
            _ => failed(error.error),
        })?;
        sync_directory(to).map_err(failed)
    }

    /// Puts a backup in the place of the store at `to`, or makes the store from it. Programs and messages that had not ended end, with
    /// the results that `endings` gives.
    ///
    /// Fails with [`SqliteError::InUse`] while a process has the store open, and with [`SqliteError::NotABackup`] if `from` is
    /// none or is damaged. Whenever it fails, or its process dies, the store is as it was.
    pub fn restore<P, M>(from: &Path, to: &Path, endings: &Endings<P, M>) -> Result<Restored, SqliteError>
    where
        P: Fn(&Run, &[Call]) -> String,
        M: Fn(&AgentRun) -> String,
    {
        let failed = |source| SqliteError::Copy { from: from.to_owned(), to: to.to_owned(), source };
        let source = File::open(from).map_err(|source| SqliteError::Open { path: from.to_owned(), source })?;
        make_directory(to).map_err(failed)?;
        let _presence = Presence::exclusive(to).map_err(|error| match error {
            TryLockError::WouldBlock => SqliteError::InUse { path: to.to_owned() },
            TryLockError::Error(error) => failed(error),
        })?;
        if is_same(&source, to) {
            return Err(SqliteError::Taken { path: to.to_owned() });
        }
        remove_leftovers(to).map_err(failed)?;
        let making = Builder::new().prefix(IN_THE_MAKING).tempdir_in(directory_of(to)).map_err(failed)?;
        let copy = copied(source, from, &making).map_err(failed)?;
        check_backup(&copy, from)?;
        let restored = end_runs(&copy, endings)?;
        // All of it must be in the one file that is moved.
        if has_content(&beside(&copy, "-wal")) {
            return Err(failed(io::Error::other("the copy could not be completed")));
        }
        File::open(&copy).and_then(|copy| copy.sync_all()).map_err(failed)?;
        close_old(to)?;
        fs::rename(&copy, to).map_err(failed)?;
        sync_directory(to).map_err(failed)?;
        Ok(restored)
    }
}

/// The directory that a file is in.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that SQLite keeps beside another.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

fn is_same(source: &File, to: &Path) -> bool {
    match (source.metadata(), fs::metadata(to)) {
        (Ok(source), Ok(to)) => (source.dev(), source.ino()) == (to.dev(), to.ino()),
        _ => false,
    }
}

/// Removes what a restoration left that did not come to its end. The lock is held: no other one is under way.
fn remove_leftovers(to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory_of(to))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(IN_THE_MAKING) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Copies a backup, so that it stays as it is: what follows changes the copy. A log beside it belongs to it.
fn copied(source: File, from: &Path, making: &TempDir) -> io::Result<PathBuf> {
    let copy = making.path().join("pincer.db");
    put(source, &copy)?;
    let log = beside(from, "-wal");
    if has_content(&log) {
        put(File::open(log)?, &beside(&copy, "-wal"))?;
    }
    Ok(copy)
}

fn put(mut source: File, to: &Path) -> io::Result<()> {
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.set_permissions(Permissions::from_mode(0o600))
}

/// Fails unless the copy is a store of a version that is known, and sound.
fn check_backup(copy: &Path, from: &Path) -> Result<(), SqliteError> {
    let not_one = |reason: String| SqliteError::NotABackup { path: from.to_owned(), reason };
    let checked = || -> rusqlite::Result<(i64, bool, String)> {
        let connection = Connection::open_with_flags(copy, READ_WRITE)?;
        let found = version(&connection)?;
        let has_runs = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'run')";
        let is_store = connection.query_row(has_runs, [], |row| row.get(0))?;
        // One row of `ok`, or the first thing that is wrong.
        let verdict = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        Ok((found, is_store, verdict))
    };
    match checked() {
        Err(error) => Err(not_one(error.to_string())),
        Ok((found, ..)) if found > STEPS.len() as i64 => {
            Err(SqliteError::Newer { path: from.to_owned(), found, known: STEPS.len() as i64 })
        }
        Ok((0, ..) | (_, false, _)) => Err(not_one("it has no runs table".into())),
        Ok((_, true, verdict)) if verdict != "ok" => Err(not_one(verdict)),
        Ok(_) => Ok(()),
    }
}

/// Ends what may have gone on since, in the copy, and leaves it as one file.
fn end_runs<P, M>(copy: &Path, endings: &Endings<P, M>) -> Result<Restored, SqliteError>
where
    P: Fn(&Run, &[Call]) -> String,
    M: Fn(&AgentRun) -> String,
{
    let store = SqliteStore::open(copy)?;
    let restored = ended(&store, endings).map_err(|error| SqliteError::Store(Box::new(error)))?;
    store.fold()?;
    Ok(restored)
}

fn ended<P, M>(store: &SqliteStore, endings: &Endings<P, M>) -> Result<Restored, StoreError>
where
    P: Fn(&Run, &[Call]) -> String,
    M: Fn(&AgentRun) -> String,
{
    let runs = store.runs(None).wait()?;
    let mut ended = Vec::new();
    for run in runs.iter().filter(|run| !run.state.is_final()) {
        let end = RunEnd::new(RunState::Aborted, (endings.program)(run, &store.calls(&run.id).wait()?));
        store.finish_run(&run.id, run.fence, end, store.now(), Safety::Process).wait()?;
        ended.push(run.id.clone());
    }
    let mut results: Vec<(AgentRunId, String)> = Vec::new();
    for (user, key) in store.sessions_with_work().wait()? {
        let open = store.open_runs(&user, &key).wait()?;
        let open = open.iter().filter(|run| !run.state.is_final());
        results.extend(open.map(|run| (run.id.clone(), (endings.message)(run))));
    }
    results.sort();
    let messages = results.iter().map(|(id, _)| id.clone()).collect();
    let now = store.now();
    let rest = store.transaction(Safety::Process, 0, move |connection| {
        for (id, result) in &results {
            let tell = "UPDATE agent_run SET result = ?2 WHERE id = ?1";
            connection.prepare_cached(tell)?.execute((id.as_str(), result))?;
        }
        // A message that waits here may have had its answer since.
        agent_runs::abort_all(connection, now)?;
        deliveries::cancel_all(connection, now)?;
        connection.execute("UPDATE session SET owner = NULL, active = NULL, fence = fence + 1", [])?;
        // An answer that was for one call may have been used since.
        connection.execute("UPDATE approval SET used = 1 WHERE state <> 'pending'", [])?;
        Ok(())
    });
    rest.wait()?;
    Ok(Restored { runs: runs.len(), ended, messages, grants: store.grants().wait()?.len() })
}

/// Leaves the old store as one file. A log that stayed beside its successor would be taken for its own, and damage it.
fn close_old(to: &Path) -> Result<(), SqliteError> {
    if !to.exists() {
        return Ok(());
    }
    let close = || Connection::open_with_flags(to, READ_WRITE)?.pragma_update(None, "journal_mode", "DELETE");
    match close().map_err(|error| SqliteError::of(to, error)) {
        // What is damaged is what is replaced.
        Ok(()) | Err(SqliteError::Corrupt { .. }) => {}
        // A process of an earlier version, which holds no lock.
        Err(SqliteError::Busy { .. }) => return Err(SqliteError::InUse { path: to.to_owned() }),
        Err(error) => return Err(error),
    }
    for suffix in ["-wal", "-shm", "-journal"] {
        match fs::remove_file(beside(to, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SqliteError::Open { path: to.to_owned(), source: error });
            }
            _ => {}
        }
    }
    sync_directory(to).map_err(|source| SqliteError::Open { path: to.to_owned(), source })
}
