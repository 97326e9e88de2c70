//! Runs: which there are, how they stand, and who owns them.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::sqlite::{Refused, stored_enum};
use crate::{Millis, SqliteStore, StoreError};

/// Proof of owning a run. Each new owner gets a higher one; with an old one nothing can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Its program runs, or calls of it are in flight.
    Running,
    /// It has a snapshot and can be continued.
    Waiting,
    /// It has returned.
    Completed,
    /// It has failed.
    Failed,
    /// It waited for too long.
    Expired,
    /// It was cancelled.
    Aborted,
}

stored_enum!(RunState {
    Running = "running",
    Waiting = "waiting",
    Completed = "completed",
    Failed = "failed",
    Expired = "expired",
    Aborted = "aborted",
});

impl RunState {
    /// Whether it will never run again.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// A run to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewRun<'a> {
    /// Its id.
    pub id: &'a str,
    /// The session it belongs to.
    pub session: &'a str,
    /// Who may continue it.
    pub caller: &'a str,
    /// When it began.
    pub created_at: Millis,
}

/// A run as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// The session it belongs to.
    pub session: String,
    /// Who may continue it.
    pub caller: String,
    /// How it stands.
    pub state: RunState,
    /// The process that last claimed it.
    pub owner: String,
    /// That process's proof.
    pub fence: Fence,
    /// When it began.
    pub created_at: Millis,
    /// When it can no longer be continued, if it waits.
    pub expires_at: Option<Millis>,
}

/// Runs and their owners.
pub trait Runs {
    /// Stores a run that has begun.
    fn create_run(&self, run: &NewRun<'_>, owner: &str) -> Result<Fence, StoreError>;
    /// The run with this id.
    fn run(&self, id: &str) -> Result<Run, StoreError>;
    /// All runs of a session, or of all sessions, oldest first.
    fn runs(&self, session: Option<&str>) -> Result<Vec<Run>, StoreError>;
    /// Takes a run over from whoever had `seen` as proof. Of several that try, one succeeds.
    fn claim_run(&self, id: &str, seen: Fence, owner: &str) -> Result<Fence, StoreError>;
    /// Changes how a run stands. A final state takes its snapshot away.
    fn set_run_state(&self, id: &str, fence: Fence, state: RunState) -> Result<(), StoreError>;
    /// Ends the runs that wait longer than they may, and returns their ids.
    fn expire_runs(&self, now: Millis) -> Result<Vec<String>, StoreError>;
}

fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.get(0)?,
        session: row.get(1)?,
        caller: row.get(2)?,
        state: row.get(3)?,
        owner: row.get(4)?,
        fence: Fence(row.get(5)?),
        created_at: row.get(6)?,
        expires_at: row.get(7)?,
    })
}

const COLUMNS: &str = "id, session, caller, state, owner, fence, created_at, expires_at";

fn find(connection: &Connection, id: &str) -> Result<Run, Refused> {
    let query = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id], read).optional()?;
    found.ok_or_else(|| StoreError::Missing { what: "run", id: id.into() }.into())
}

/// Fails unless the run is there and `fence` is its owner's.
pub(crate) fn check_fence(connection: &Connection, id: &str, fence: Fence) -> Result<Run, Refused> {
    let run = find(connection, id)?;
    if run.fence == fence { Ok(run) } else { Err(StoreError::Fenced { run: id.into() }.into()) }
}

impl Runs for SqliteStore {
    fn create_run(&self, run: &NewRun<'_>, owner: &str) -> Result<Fence, StoreError> {
        self.transaction(|connection| {
            let made = connection.execute(
                "INSERT INTO run (id, session, caller, state, owner, fence, created_at) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)
                 ON CONFLICT DO NOTHING",
                (run.id, run.session, run.caller, RunState::Running, owner, run.created_at),
            )?;
            if made == 0 {
                return Err(StoreError::Exists { what: "run", id: run.id.into() }.into());
            }
            Ok(Fence(1))
        })
    }

    fn run(&self, id: &str) -> Result<Run, StoreError> {
        self.transaction(|connection| find(connection, id))
    }

    fn runs(&self, session: Option<&str>) -> Result<Vec<Run>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM run WHERE ?1 IS NULL OR session = ?1 ORDER BY created_at, id");
        self.with(|connection| connection.prepare_cached(&query)?.query_map([session], read)?.collect())
    }

    fn claim_run(&self, id: &str, seen: Fence, owner: &str) -> Result<Fence, StoreError> {
        self.transaction(|connection| {
            check_fence(connection, id, seen)?;
            let fence = Fence(seen.0 + 1);
            connection.execute("UPDATE run SET owner = ?2, fence = ?3 WHERE id = ?1", (id, owner, fence.0))?;
            Ok(fence)
        })
    }

    fn set_run_state(&self, id: &str, fence: Fence, state: RunState) -> Result<(), StoreError> {
        self.transaction(|connection| {
            check_fence(connection, id, fence)?;
            connection.execute("UPDATE run SET state = ?2, expires_at = NULL WHERE id = ?1", (id, state))?;
            if state.is_final() {
                connection.execute("DELETE FROM snapshot WHERE run = ?1", [id])?;
            }
            Ok(())
        })
    }

    fn expire_runs(&self, now: Millis) -> Result<Vec<String>, StoreError> {
        self.transaction(|connection| {
            // The fence moves too: whoever was about to continue one of them comes too late.
            let mut expire = connection.prepare_cached(
                "UPDATE run SET state = ?1, expires_at = NULL, fence = fence + 1
                 WHERE state = ?2 AND expires_at <= ?3 RETURNING id",
            )?;
            let ids = expire.query_map((RunState::Expired, RunState::Waiting, now), |row| row.get(0))?;
            let ids = ids.collect::<rusqlite::Result<Vec<String>>>()?;
            for id in &ids {
                connection.execute("DELETE FROM snapshot WHERE run = ?1", [id])?;
            }
            Ok(ids)
        })
    }
}
