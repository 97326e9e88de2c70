//! Recordings of runs in rows: parts, and texts that several runs share.

use std::path::Path;

use pincer_store::{RecordedPart, RecordedRuns, Recordings, Reply, RunId, SharedText, StoreError, StoredRecording};
use rusqlite::{Connection, OptionalExtension};

use crate::file::{looking, version};
use crate::migrations::STEPS;
use crate::rows::id;
use crate::runs::{COLUMNS, reader};
use crate::store::Refused;
use crate::{SqliteError, SqliteStore, journal};

/// Stores a part. The caller is in the transaction that stores what the part belongs to.
pub(crate) fn put(connection: &Connection, run: &RunId, part: &RecordedPart) -> rusqlite::Result<()> {
    let RecordedPart { number, text, texts } = part;
    if *number == 0 {
        // What was recorded before is of a beginning that counts no more.
        for clear in ["DELETE FROM recording WHERE run = ?1", "DELETE FROM recorded_use WHERE run = ?1"] {
            connection.prepare_cached(clear)?.execute([run.as_str()])?;
        }
    }
    let put = "INSERT OR REPLACE INTO recording (run, number, part) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(put)?.execute((run.as_str(), number, &**text))?;
    for SharedText { hash, text } in texts {
        let known = "SELECT EXISTS (SELECT 1 FROM recorded_text WHERE hash = ?1)";
        if !connection.prepare_cached(known)?.query_row([hash], |row| row.get(0))? {
            let keep = "INSERT INTO recorded_text (hash, text) VALUES (?1, ?2)";
            connection.prepare_cached(keep)?.execute((hash, &**text))?;
        }
        let uses = "INSERT INTO recorded_use (run, hash) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        connection.prepare_cached(uses)?.execute((run.as_str(), hash))?;
    }
    Ok(())
}

/// The runs of an agent's run that have a recording, and those of a session.
pub(crate) const OF_AGENT_RUN: &str = "SELECT id FROM run WHERE agent_run = ?1
    AND EXISTS (SELECT 1 FROM recording WHERE recording.run = run.id AND number = 0) ORDER BY id";
pub(crate) const OF_SESSION: &str = "SELECT id FROM run WHERE session = ?1 AND caller = ?2
    AND EXISTS (SELECT 1 FROM recording WHERE recording.run = run.id AND number = 0) ORDER BY id";

/// Reads a recording. The caller is in a transaction: the parts must belong together.
fn read(connection: &Connection, id: &RunId, boot: Option<&str>) -> Result<StoredRecording, Refused> {
    let run = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
    let run = connection.prepare_cached(&run)?.query_row([id.as_str()], reader(boot)).optional()?;
    let run = run.ok_or_else(|| StoreError::no_run(id))?;
    let parts = "SELECT part FROM recording WHERE run = ?1 ORDER BY number";
    let mut parts = connection.prepare_cached(parts)?;
    let parts = parts.query_map([id.as_str()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let texts = "SELECT recorded_text.hash, text FROM recorded_use
        JOIN recorded_text ON recorded_text.hash = recorded_use.hash WHERE run = ?1";
    let mut texts = connection.prepare_cached(texts)?;
    let shared = |row: &rusqlite::Row<'_>| Ok(SharedText { hash: row.get(0)?, text: row.get::<_, String>(1)?.into() });
    let texts = texts.query_map([id.as_str()], shared)?.collect::<rusqlite::Result<_>>()?;
    let calls = journal::all(connection, id)?;
    let result = "SELECT result FROM run WHERE id = ?1";
    let result = connection.prepare_cached(result)?.query_row([id.as_str()], |row| row.get(0))?;
    Ok(StoredRecording { run, parts, texts, calls, result })
}

impl SqliteStore {
    /// Returns the recordings of the runs whose ids begin so, a few at most, in a store that stays as it is: nothing is written, and the
    /// file and its directory may be such that nothing can be. `None` if no version that records runs has opened it.
    pub fn look_at_recordings(path: &Path, beginning: &str) -> Result<Option<Vec<StoredRecording>>, SqliteError> {
        const MOST: u32 = 3;
        let of = |error| SqliteError::of(path, error);
        let connection = looking(path)?;
        let (found, known) = (version(&connection).map_err(of)?, STEPS.len() as i64);
        if found > known {
            return Err(SqliteError::Newer { path: path.to_owned(), found, known });
        }
        let has = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'recording')";
        if !connection.query_row(has, [], |row| row.get(0)).map_err(of)? {
            return Ok(None);
        }
        let look = || {
            let transaction = connection.unchecked_transaction()?;
            let named = "SELECT id FROM run WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT ?2";
            let mut named = transaction.prepare(named)?;
            let ids = named.query_map((beginning, MOST), |row| id(row, 0))?;
            let ids = ids.collect::<rusqlite::Result<Vec<RunId>>>()?;
            ids.iter().map(|id| read(&transaction, id, None)).collect::<Result<Vec<_>, Refused>>()
        };
        match look() {
            Ok(found) => Ok(Some(found)),
            Err(Refused::Database(error)) => Err(of(error)),
            Err(Refused::Store(error)) => Err(SqliteError::Store(Box::new(error))),
        }
    }
}

impl Recordings for SqliteStore {
    fn recording(&self, run: &RunId) -> Reply<StoredRecording> {
        let (run, boot) = (run.clone(), self.core.boot.clone());
        self.read(move |connection| {
            let transaction = connection.unchecked_transaction()?;
            read(&transaction, &run, boot.as_deref())
        })
    }

    fn recorded_runs(&self, of: RecordedRuns) -> Reply<Vec<RunId>> {
        self.read(move |connection| {
            let runs = match &of {
                RecordedRuns::OfAgentRun(run) => connection
                    .prepare_cached(OF_AGENT_RUN)?
                    .query_map([run.as_str()], |row| id(row, 0))?
                    .collect::<rusqlite::Result<_>>(),
                RecordedRuns::OfSession { session, user } => connection
                    .prepare_cached(OF_SESSION)?
                    .query_map((session.as_str(), user), |row| id(row, 0))?
                    .collect::<rusqlite::Result<_>>(),
            };
            Ok(runs?)
        })
    }
}
