//! The instructions of models, in rows.

use pincer_store::{Instructions, Millis, Reply, SessionCommit, SessionId, StoreError};
use rusqlite::{Connection, OptionalExtension};

use crate::SqliteStore;
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

    fn is_begun(&self, workspace: &str) -> Reply<bool> {
        self.look_up(|connection| {
            let query = "SELECT EXISTS (SELECT 1 FROM begun_workspace WHERE path = ?1)";
            Ok(connection.prepare_cached(query)?.query_row([workspace], |row| row.get(0))?)
        })
    }
}

/// Stores what a commit says of them. In tables of their own: the row of a session is written anew with every commit.
pub(crate) fn store(connection: &Connection, session: i64, commit: &SessionCommit) -> Result<(), Refused> {
    let SessionCommit { skills, shown_tools, begun_workspace, now, .. } = commit;
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
