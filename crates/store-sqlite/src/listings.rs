//! Pages of runs.

use pincer_store::{
    Listings, Page, Reply, RunId, RunOverview, RunState, SessionCount, SessionKey, Standing, StoreError,
};
use rusqlite::{OptionalExtension, Row};

use crate::SqliteStore;
use crate::rows::{id, state};
use crate::runs::{COLUMN_COUNT, COLUMNS, reader};

/// The most runs that are returned for the beginning of an id.
const MOST_NAMED: u32 = 100;

/// The columns of an overview. The newest delta has the detail.
fn overview_columns() -> String {
    format!(
        "{COLUMNS}, length(bytes) + (SELECT coalesce(sum(length(bytes)), 0) FROM delta WHERE delta.run = run.id),
            coalesce((SELECT detail FROM delta WHERE delta.run = run.id ORDER BY number DESC LIMIT 1), detail)"
    )
}

fn overview_reader(boot: Option<&str>) -> impl Fn(&Row<'_>) -> rusqlite::Result<RunOverview> {
    let read = reader(boot);
    move |row| {
        let (snapshot_bytes, detail) = (row.get(COLUMN_COUNT)?, row.get(COLUMN_COUNT + 1)?);
        Ok(RunOverview { run: read(row)?, snapshot_bytes, detail })
    }
}

impl Listings for SqliteStore {
    fn run_overviews(&self, page: Page) -> Reply<Vec<RunOverview>> {
        let boot = self.core.boot.clone();
        self.read(move |connection| {
            let Page { session, user, before, limit } = &page;
            // To SQLite every text is less than every blob.
            // Two statements: with both cases in one, SQLite would read the runs of all sessions for those of one.
            let of = if session.is_some() { "session = ?1" } else { "?1 IS NULL" };
            let query = format!(
                "SELECT {} FROM run LEFT JOIN snapshot ON snapshot.run = run.id
                 WHERE {of} AND id < coalesce(?2, x'') AND (?4 IS NULL OR caller = ?4) ORDER BY id DESC LIMIT ?3",
                overview_columns()
            );
            let mut query = connection.prepare_cached(&query)?;
            let of = (session.as_ref().map(SessionKey::as_str), before.as_ref().map(RunId::as_str), limit, user);
            let runs = query.query_map(of, overview_reader(boot.as_deref()))?;
            let mut runs = runs.collect::<rusqlite::Result<Vec<_>>>()?;
            runs.reverse();
            Ok(runs)
        })
    }

    fn run_overview(&self, id: &RunId) -> Reply<RunOverview> {
        let (id, boot) = (id.clone(), self.core.boot.clone());
        self.read(move |connection| {
            let columns = overview_columns();
            let query = format!("SELECT {columns} FROM run LEFT JOIN snapshot ON snapshot.run = run.id WHERE id = ?1");
            let mut query = connection.prepare_cached(&query)?;
            let found = query.query_row([id.as_str()], overview_reader(boot.as_deref())).optional()?;
            found.ok_or_else(|| StoreError::no_run(&id).into())
        })
    }

    fn runs_named(&self, beginning: &str) -> Reply<Vec<RunId>> {
        let beginning = beginning.to_owned();
        self.read(move |connection| {
            let query = "SELECT id FROM run WHERE id >= ?1 AND id < ?1 || char(0x10ffff) ORDER BY id LIMIT ?2";
            let mut query = connection.prepare_cached(query)?;
            let named = query.query_map((&beginning, MOST_NAMED), |row| id(row, 0))?;
            Ok(named.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn run_counts(&self, session: &SessionKey, user: Option<&str>) -> Reply<Vec<(RunState, u32)>> {
        let (session, user) = (session.clone(), user.map(str::to_owned));
        self.read(move |connection| {
            let query =
                "SELECT state, count(*) FROM run WHERE session = ?1 AND (?2 IS NULL OR caller = ?2) GROUP BY state";
            let mut query = connection.prepare_cached(query)?;
            let counts = query.query_map((session.as_str(), &user), |row| Ok((state(row, 0)?, row.get(1)?)))?;
            Ok(counts.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn sessions(&self, user: Option<&str>) -> Reply<Vec<SessionCount>> {
        let user = user.map(str::to_owned);
        self.read(move |connection| {
            let query = "SELECT session, count(*), sum(ended_at IS NULL), max(created_at) AS last FROM run
                WHERE ?1 IS NULL OR caller = ?1 GROUP BY session ORDER BY last DESC, session";
            let mut query = connection.prepare_cached(query)?;
            let read = |row: &Row<'_>| {
                Ok(SessionCount { session: id(row, 0)?, runs: row.get(1)?, open: row.get(2)?, last: row.get(3)? })
            };
            Ok(query.query_map([&user], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn standings(&self, ids: Vec<RunId>) -> Reply<Vec<Standing>> {
        self.read(move |connection| {
            let mut query = connection.prepare_cached("SELECT id, state, owner FROM run WHERE id = ?1")?;
            let read = |row: &Row<'_>| Ok(Standing { id: id(row, 0)?, state: state(row, 1)?, owner: id(row, 2)? });
            let found = ids.iter().filter_map(|id| query.query_row([id.as_str()], read).optional().transpose());
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }
}
