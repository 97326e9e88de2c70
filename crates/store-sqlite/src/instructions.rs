//! The instructions of models, in rows.

use pincer_store::{Frame, Instructions, Millis, NewFrame, Reply, SessionCommit, SessionId, StoreError};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::SqliteStore;
use crate::rows::id;
use crate::sessions::number;
use crate::store::Refused;

impl Instructions for SqliteStore {
    fn listed_skills(&self, session: &SessionId) -> Reply<Option<String>> {
        self.look_up(|connection| {
            let query = "SELECT listed FROM session LEFT JOIN session_skills ON session_skills.session = session.number
                         WHERE session.id = ?1";
            let found = connection.prepare_cached(query)?.query_row([session.as_str()], |row| row.get(0)).optional()?;
            found.ok_or_else(|| StoreError::no_session(session).into())
        })
    }

    fn shown_tools(&self, session: &SessionId) -> Reply<Option<String>> {
        self.look_up(|connection| {
            let query = "SELECT shown FROM session LEFT JOIN session_tools ON session_tools.session = session.number
                         WHERE session.id = ?1";
            let found = connection.prepare_cached(query)?.query_row([session.as_str()], |row| row.get(0)).optional()?;
            found.ok_or_else(|| StoreError::no_session(session).into())
        })
    }

    fn frames(&self, session: &SessionId, after: i64, limit: u32) -> Reply<Vec<Frame>> {
        let session = session.clone();
        self.read(move |connection| {
            let query = "SELECT number, position, digest, detail, run, at FROM session_frame
                         WHERE session = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
            let of = (number(connection, &session)?, after, limit);
            Ok(connection.prepare_cached(query)?.query_map(of, read_frame)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn frame_body(&self, digest: &[u8]) -> Reply<Option<String>> {
        let digest = digest.to_vec();
        self.read(move |connection| {
            let query = "SELECT body FROM frame WHERE digest = ?1";
            Ok(connection.prepare_cached(query)?.query_row([&digest], |row| row.get(0)).optional()?)
        })
    }

    fn is_begun(&self, workspace: &str) -> Reply<bool> {
        self.look_up(|connection| {
            let query = "SELECT EXISTS (SELECT 1 FROM begun_workspace WHERE path = ?1)";
            Ok(connection.prepare_cached(query)?.query_row([workspace], |row| row.get(0))?)
        })
    }
}

fn read_frame(row: &Row<'_>) -> rusqlite::Result<Frame> {
    Ok(Frame {
        number: row.get(0)?,
        position: row.get(1)?,
        digest: row.get(2)?,
        detail: row.get(3)?,
        run: id(row, 4)?,
        at: row.get(5)?,
    })
}

/// Stores a frame, unless it is the last one of the session. `position` is that of the next entry.
fn keep_frame(
    connection: &Connection,
    session: i64,
    position: u32,
    frame: &NewFrame,
    now: Millis,
) -> rusqlite::Result<()> {
    let NewFrame { digest, body, detail, run } = frame;
    let last = "SELECT digest = ?2 AND detail = ?3 FROM session_frame WHERE session = ?1 ORDER BY number DESC LIMIT 1";
    let is_last =
        connection.prepare_cached(last)?.query_row((session, digest, &**detail), |row| row.get(0)).optional()?;
    if is_last == Some(true) {
        return Ok(());
    }
    let keep = "INSERT INTO frame (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(keep)?.execute((digest, &**body))?;
    let keep = "INSERT INTO session_frame (session, position, digest, detail, run, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(keep)?.execute((session, position, digest, &**detail, run.as_str(), now))?;
    Ok(())
}

/// Stores what a commit says of them. In tables of their own: the row of a session is written anew with every commit.
/// `position` is that of the first new entry.
pub(crate) fn store(
    connection: &Connection,
    session: i64,
    position: u32,
    commit: &SessionCommit,
) -> Result<(), Refused> {
    let SessionCommit { skills, shown_tools, frame, begun_workspace, now, .. } = commit;
    if let Some(frame) = frame {
        keep_frame(connection, session, position, frame, *now)?;
    }
    if let Some(skills) = skills {
        let keep = "INSERT INTO session_skills (session, listed) VALUES (?1, ?2)
                    ON CONFLICT (session) DO UPDATE SET listed = excluded.listed";
        connection.prepare_cached(keep)?.execute((session, &**skills))?;
    }
    if let Some(tools) = shown_tools {
        let keep = "INSERT INTO session_tools (session, shown) VALUES (?1, ?2)
                    ON CONFLICT (session) DO UPDATE SET shown = excluded.shown";
        connection.prepare_cached(keep)?.execute((session, &**tools))?;
    }
    if let Some(path) = begun_workspace {
        let begun: (&str, Millis) = (path, *now);
        connection
            .prepare_cached("INSERT INTO begun_workspace (path, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(begun)?;
    }
    Ok(())
}

/// Copies what is kept for a session to its fork: the beginning of the prompt stays the same.
pub(crate) fn copy(connection: &Connection, from: i64, to: i64) -> Result<(), Refused> {
    let copy = "INSERT INTO session_skills (session, listed) SELECT ?2, listed FROM session_skills WHERE session = ?1";
    connection.prepare_cached(copy)?.execute((from, to))?;
    let copy = "INSERT INTO session_tools (session, shown) SELECT ?2, shown FROM session_tools WHERE session = ?1";
    connection.prepare_cached(copy)?.execute((from, to))?;
    Ok(())
}
