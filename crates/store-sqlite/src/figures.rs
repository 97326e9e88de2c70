//! Figures of runs in rows.

use pincer_store::{AgentRunId, Figures, FiguresPage, Millis, Reply, RunFigures, SessionId, SessionKey};
use rusqlite::{Connection, Row};

use crate::SqliteStore;
use crate::rows::id;

/// The figures of a user's runs.
pub(crate) const OF_USER: &str = "SELECT run, session_key, at, figures, number FROM run_figures
    WHERE user = ?1 AND (at, number) > (?2, ?3) ORDER BY at, number LIMIT ?4";
/// The figures of the runs under one key.
pub(crate) const OF_KEY: &str = "SELECT run, session_key, at, figures, number FROM run_figures
    WHERE user = ?1 AND session_key = ?5 AND (at, number) > (?2, ?3) ORDER BY at, number LIMIT ?4";
/// The figures of the runs of one session.
pub(crate) const OF_SESSION: &str = "SELECT run, run_figures.session_key, at, figures, run_figures.number
    FROM agent_run CROSS JOIN run_figures ON run_figures.number = agent_run.number
    WHERE agent_run.session = (SELECT number FROM session WHERE id = ?1) AND agent_run.number > ?2
    ORDER BY agent_run.number LIMIT ?3";

fn read(row: &Row<'_>) -> rusqlite::Result<RunFigures> {
    Ok(RunFigures {
        run: id(row, 0)?,
        session_key: id(row, 1)?,
        at: row.get(2)?,
        figures: row.get(3)?,
        number: row.get(4)?,
    })
}

/// Stores the figures of a run, in place of those before.
pub(crate) fn store(connection: &Connection, run: &AgentRunId, figures: &str, now: Millis) -> rusqlite::Result<()> {
    let store = "INSERT INTO run_figures (number, run, user, session_key, at, figures)
                 SELECT number, id, user, session_key, ?2, ?3 FROM agent_run WHERE id = ?1
                 ON CONFLICT (number) DO UPDATE SET at = excluded.at, figures = excluded.figures";
    connection.prepare_cached(store)?.execute((run.as_str(), now, figures)).map(drop)
}

impl Figures for SqliteStore {
    fn run_figures(&self, page: FiguresPage) -> Reply<Vec<RunFigures>> {
        self.read(move |connection| {
            let FiguresPage { user, key, after: (at, number), limit } = &page;
            let found = match key.as_ref().map(SessionKey::as_str) {
                Some(key) => {
                    let mut query = connection.prepare_cached(OF_KEY)?;
                    query.query_map((user, at, number, limit, key), read)?.collect::<rusqlite::Result<_>>()?
                }
                None => {
                    let mut query = connection.prepare_cached(OF_USER)?;
                    query.query_map((user, at, number, limit), read)?.collect::<rusqlite::Result<_>>()?
                }
            };
            Ok(found)
        })
    }

    fn figures_of_session(&self, session: &SessionId, after: i64, limit: u32) -> Reply<Vec<RunFigures>> {
        let session = session.clone();
        self.read(move |connection| {
            let mut query = connection.prepare_cached(OF_SESSION)?;
            Ok(query.query_map((session.as_str(), after, limit), read)?.collect::<rusqlite::Result<_>>()?)
        })
    }
}
