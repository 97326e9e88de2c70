//! Runs as they are listed: a page at a time, however many there are.
//!
//! Their ids begin with the time, so the order of the ids is that in which they began.

use rusqlite::{OptionalExtension, Row};

use crate::runs::{COLUMN_COUNT, COLUMNS, reader};
use crate::{Millis, Run, RunState, SqliteStore, StoreError};

/// The most runs that are returned for the beginning of an id.
const MOST_NAMED: u32 = 100;

/// The runs that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// Only those of this session.
    pub session: Option<&'a str>,
    /// Only those of this user.
    pub caller: Option<&'a str>,
    /// Only those whose ids come before this one. It need not be there any more.
    pub before: Option<&'a str>,
    /// How many at most: the latest.
    pub limit: u32,
}

/// A run with what waits in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOverview {
    /// The run.
    pub run: Run,
    /// The size of its snapshot, if it has one.
    pub snapshot_bytes: Option<u32>,
    /// The detail that the process that parked it wrote down, as JSON.
    pub detail: Option<String>,
}

/// How a run stands, and which process last claimed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The run.
    pub id: String,
    /// How it stands.
    pub state: RunState,
    /// The process.
    pub owner: String,
}

/// The runs of a session, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCount {
    /// The session.
    pub session: String,
    /// All of them.
    pub runs: u32,
    /// Those that have not ended.
    pub open: u32,
    /// When the last one began.
    pub last: Millis,
}

/// Questions about many runs at once.
pub trait Listings {
    /// Returns one page of runs, the oldest first.
    fn run_overviews(&self, page: &Page<'_>) -> Result<Vec<RunOverview>, StoreError>;
    /// Returns one run with what waits in it.
    fn run_overview(&self, id: &str) -> Result<RunOverview, StoreError>;
    /// Returns the ids that begin so, a hundred at most.
    fn runs_named(&self, beginning: &str) -> Result<Vec<String>, StoreError>;
    /// Returns how many runs of a session stand how: those of one user, or all.
    fn run_counts(&self, session: &str, caller: Option<&str>) -> Result<Vec<(RunState, u32)>, StoreError>;
    /// Returns the sessions that have runs, of one user or of all, the one with the latest run first.
    fn sessions(&self, caller: Option<&str>) -> Result<Vec<SessionCount>, StoreError>;
    /// Returns how these runs stand, in no order, as far as there are any.
    fn standings(&self, ids: &[String]) -> Result<Vec<Standing>, StoreError>;
}

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
    fn run_overviews(&self, page: &Page<'_>) -> Result<Vec<RunOverview>, StoreError> {
        let Page { session, caller, before, limit } = *page;
        // To SQLite every text is less than every blob.
        // Two statements: with both cases in one, SQLite would read the runs of all sessions for those of one.
        let of = if session.is_some() { "session = ?1" } else { "?1 IS NULL" };
        let query = format!(
            "SELECT {} FROM run LEFT JOIN snapshot ON snapshot.run = run.id
             WHERE {of} AND id < coalesce(?2, x'') AND (?4 IS NULL OR caller = ?4) ORDER BY id DESC LIMIT ?3",
            overview_columns()
        );
        let read = overview_reader(self.boot());
        self.with(|connection| {
            let mut query = connection.prepare_cached(&query)?;
            let runs = query.query_map((session, before, limit, caller), read)?;
            let mut runs = runs.collect::<rusqlite::Result<Vec<_>>>()?;
            runs.reverse();
            Ok(runs)
        })
    }

    fn run_overview(&self, id: &str) -> Result<RunOverview, StoreError> {
        let query =
            format!("SELECT {} FROM run LEFT JOIN snapshot ON snapshot.run = run.id WHERE id = ?1", overview_columns());
        self.look(|connection| {
            let found = connection.prepare_cached(&query)?.query_row([id], overview_reader(self.boot())).optional()?;
            found.ok_or_else(|| StoreError::Missing { what: "run", id: id.into() }.into())
        })
    }

    fn runs_named(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        let query = "SELECT id FROM run WHERE id >= ?1 AND id < ?1 || char(0x10ffff) ORDER BY id LIMIT ?2";
        let asked = (beginning, MOST_NAMED);
        self.with(|connection| connection.prepare_cached(query)?.query_map(asked, |row| row.get(0))?.collect())
    }

    fn run_counts(&self, session: &str, caller: Option<&str>) -> Result<Vec<(RunState, u32)>, StoreError> {
        let query = "SELECT state, count(*) FROM run WHERE session = ?1 AND (?2 IS NULL OR caller = ?2) GROUP BY state";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.with(|connection| connection.prepare_cached(query)?.query_map((session, caller), read)?.collect())
    }

    fn sessions(&self, caller: Option<&str>) -> Result<Vec<SessionCount>, StoreError> {
        let query = "SELECT session, count(*), sum(ended_at IS NULL), max(created_at) AS last FROM run
            WHERE ?1 IS NULL OR caller = ?1 GROUP BY session ORDER BY last DESC, session";
        let read = |row: &Row<'_>| {
            Ok(SessionCount { session: row.get(0)?, runs: row.get(1)?, open: row.get(2)?, last: row.get(3)? })
        };
        self.with(|connection| connection.prepare_cached(query)?.query_map([caller], read)?.collect())
    }

    fn standings(&self, ids: &[String]) -> Result<Vec<Standing>, StoreError> {
        self.with(|connection| {
            let mut query = connection.prepare_cached("SELECT id, state, owner FROM run WHERE id = ?1")?;
            let read = |row: &Row<'_>| Ok(Standing { id: row.get(0)?, state: row.get(1)?, owner: row.get(2)? });
            ids.iter().filter_map(|id| query.query_row([id], read).optional().transpose()).collect()
        })
    }
}
