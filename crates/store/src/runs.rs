//! Runs: which there are, how they stand, and who owns them.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::snapshots::put;
use crate::sqlite::{Refused, stored_enum};
use crate::{Millis, Safety, Snapshot, SqliteStore, StoreError};

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
    /// The run of an agent it is part of, if it is: then only that may continue it.
    pub agent_run: Option<&'a str>,
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
    /// The run of an agent it is part of.
    pub agent_run: Option<String>,
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

/// A run with what waits in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOverview {
    /// The run.
    pub run: Run,
    /// The size of its snapshot, if it has one.
    pub snapshot_bytes: Option<u32>,
    /// What the one who parked it wrote down, as JSON.
    pub detail: Option<String>,
}

/// Runs and their owners.
pub trait Runs {
    /// Stores a run that has begun.
    fn create_run(&self, run: &NewRun<'_>, owner: &str) -> Result<Fence, StoreError> {
        self.create_run_at(run, owner, None)
    }
    /// The same, with its cell, so that it could be continued from here.
    fn create_run_at(&self, run: &NewRun<'_>, owner: &str, cell: Option<&Snapshot>) -> Result<Fence, StoreError>;
    /// The run with this id.
    fn run(&self, id: &str) -> Result<Run, StoreError>;
    /// All runs of a session, or of all sessions, oldest first.
    fn runs(&self, session: Option<&str>) -> Result<Vec<Run>, StoreError>;
    /// The same, with what waits in them.
    fn run_overviews(&self, session: Option<&str>) -> Result<Vec<RunOverview>, StoreError>;
    /// All runs that somebody drives, or drove when it died.
    fn running(&self) -> Result<Vec<Run>, StoreError>;
    /// Lets a run wait whose owner is gone, if it has a snapshot; `false` if it has none.
    fn let_wait(&self, id: &str, seen: Fence, expires_at: Millis) -> Result<bool, StoreError>;
    /// Takes a run over from whoever had `seen` as proof, to let it run. Of several that try, one succeeds. Who has it already
    /// keeps its proof.
    fn claim_run(&self, id: &str, seen: Fence, owner: &str) -> Result<Fence, StoreError>;
    /// Ends a run in a final state, with what its caller is told as JSON. Its snapshot, its open questions and what was granted
    /// to it go with it.
    fn finish_run(
        &self,
        id: &str,
        fence: Fence,
        state: RunState,
        result: &str,
        now: Millis,
        safety: Safety,
    ) -> Result<(), StoreError>;
    /// What the caller of a run was last told, as JSON.
    fn run_result(&self, id: &str) -> Result<Option<String>, StoreError>;
    /// Ends a run whoever owns it; `false` if it had ended. Its owner can store nothing from now on.
    fn abort_run(&self, id: &str, now: Millis) -> Result<bool, StoreError>;
    /// Ends the runs that wait longer than they may, and returns their ids.
    fn expire_runs(&self, now: Millis) -> Result<Vec<String>, StoreError>;
    /// Forgets the runs that ended before, with their calls; returns how many.
    fn forget_runs(&self, ended_before: Millis) -> Result<usize, StoreError>;
    /// Changes whenever another connection has changed something: whoever waits for that looks here first.
    fn change_counter(&self) -> Result<i64, StoreError>;
}

fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.get(0)?,
        session: row.get(1)?,
        caller: row.get(2)?,
        agent_run: row.get(3)?,
        state: row.get(4)?,
        owner: row.get(5)?,
        fence: Fence(row.get(6)?),
        created_at: row.get(7)?,
        expires_at: row.get(8)?,
    })
}

const COLUMNS: &str = "id, session, caller, agent_run, state, owner, fence, created_at, expires_at";

fn find(connection: &Connection, id: &str) -> Result<Run, Refused> {
    let query = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id], read).optional()?;
    found.ok_or_else(|| StoreError::Missing { what: "run", id: id.into() }.into())
}

/// Fails unless the run is there and `fence` is its owner's. Its session and its owner.
pub(crate) fn check_fence(connection: &Connection, id: &str, fence: Fence) -> Result<(String, String), Refused> {
    let mut query = connection.prepare_cached("SELECT fence, session, owner FROM run WHERE id = ?1")?;
    let found = query.query_row([id], |row| Ok((Fence(row.get(0)?), row.get(1)?, row.get(2)?))).optional()?;
    match found {
        Some((found, session, owner)) if found == fence => Ok((session, owner)),
        Some(_) => Err(StoreError::Fenced { run: id.into() }.into()),
        None => Err(StoreError::Missing { what: "run", id: id.into() }.into()),
    }
}

/// What goes when a run ends.
fn clear(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    for clear in [
        "DELETE FROM snapshot WHERE run = ?1",
        "UPDATE approval SET state = 'cancelled' WHERE run = ?1 AND state = 'pending'",
        "DELETE FROM standing_grant WHERE run = ?1",
    ] {
        connection.prepare_cached(clear)?.execute([id])?;
    }
    Ok(())
}

impl Runs for SqliteStore {
    fn create_run_at(&self, run: &NewRun<'_>, owner: &str, cell: Option<&Snapshot>) -> Result<Fence, StoreError> {
        // Nobody has been told of it: a power cut may take it.
        self.transaction(Safety::Process, |connection| {
            let mut make = connection.prepare_cached(
                "INSERT INTO run (id, session, caller, agent_run, state, owner, fence, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7) ON CONFLICT DO NOTHING",
            )?;
            let NewRun { id, session, caller, agent_run, created_at } = *run;
            if make.execute((id, session, caller, agent_run, RunState::Running, owner, created_at))? == 0 {
                return Err(StoreError::Exists { what: "run", id: id.into() }.into());
            }
            if let Some(cell) = cell {
                put(connection, id, cell)?;
            }
            Ok(Fence(1))
        })
    }

    fn run(&self, id: &str) -> Result<Run, StoreError> {
        self.look(|connection| find(connection, id))
    }

    fn runs(&self, session: Option<&str>) -> Result<Vec<Run>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM run WHERE ?1 IS NULL OR session = ?1 ORDER BY created_at, id");
        self.with(|connection| connection.prepare_cached(&query)?.query_map([session], read)?.collect())
    }

    fn run_overviews(&self, session: Option<&str>) -> Result<Vec<RunOverview>, StoreError> {
        let query = format!(
            "SELECT {COLUMNS}, length(bytes), detail FROM run LEFT JOIN snapshot ON snapshot.run = run.id
             WHERE ?1 IS NULL OR session = ?1 ORDER BY created_at, id"
        );
        let read =
            |row: &Row<'_>| Ok(RunOverview { run: read(row)?, snapshot_bytes: row.get(9)?, detail: row.get(10)? });
        self.with(|connection| connection.prepare_cached(&query)?.query_map([session], read)?.collect())
    }

    fn running(&self) -> Result<Vec<Run>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM run WHERE state = 'running' ORDER BY created_at, id");
        self.with(|connection| connection.prepare_cached(&query)?.query_map([], read)?.collect())
    }

    fn let_wait(&self, id: &str, seen: Fence, expires_at: Millis) -> Result<bool, StoreError> {
        self.transaction(Safety::Power, |connection| {
            check_fence(connection, id, seen)?;
            let wait = "UPDATE run SET state = ?2, expires_at = ?3, fence = fence + 1
                        WHERE id = ?1 AND EXISTS (SELECT 1 FROM snapshot WHERE run = ?1)";
            Ok(connection.execute(wait, (id, RunState::Waiting, expires_at))? == 1)
        })
    }

    fn claim_run(&self, id: &str, seen: Fence, owner: &str) -> Result<Fence, StoreError> {
        self.transaction(Safety::Process, |connection| {
            let (_, before) = check_fence(connection, id, seen)?;
            let fence = if before == owner { seen } else { Fence(seen.0 + 1) };
            let claim = "UPDATE run SET state = ?2, owner = ?3, fence = ?4, expires_at = NULL WHERE id = ?1";
            connection.prepare_cached(claim)?.execute((id, RunState::Running, owner, fence.0))?;
            Ok(fence)
        })
    }

    fn finish_run(
        &self,
        id: &str,
        fence: Fence,
        state: RunState,
        result: &str,
        now: Millis,
        safety: Safety,
    ) -> Result<(), StoreError> {
        self.transaction(safety, |connection| {
            check_fence(connection, id, fence)?;
            // The fence moves too: whoever saw it run, and its process end, comes too late to continue it.
            let finish = "UPDATE run SET state = ?2, expires_at = NULL, fence = fence + 1, result = ?3, ended_at = ?4
                          WHERE id = ?1";
            connection.prepare_cached(finish)?.execute((id, state, result, now))?;
            Ok(clear(connection, id)?)
        })
    }

    fn run_result(&self, id: &str) -> Result<Option<String>, StoreError> {
        let query = "SELECT result FROM run WHERE id = ?1";
        let found = self.with(|connection| connection.query_row(query, [id], |row| row.get(0)).optional())?;
        Ok(found.flatten())
    }

    fn abort_run(&self, id: &str, now: Millis) -> Result<bool, StoreError> {
        self.transaction(Safety::Power, |connection| {
            find(connection, id)?;
            let abort = "UPDATE run SET state = ?2, expires_at = NULL, fence = fence + 1, ended_at = ?3
                         WHERE id = ?1 AND state IN ('running', 'waiting')";
            let aborted = connection.execute(abort, (id, RunState::Aborted, now))? == 1;
            if aborted {
                clear(connection, id)?;
            }
            Ok(aborted)
        })
    }

    fn expire_runs(&self, now: Millis) -> Result<Vec<String>, StoreError> {
        // Nearly always there are none, and looking costs less than a transaction that writes nothing.
        let due = "SELECT EXISTS (SELECT 1 FROM run WHERE expires_at IS NOT NULL AND expires_at <= ?1)";
        if !self.with(|connection| connection.prepare_cached(due)?.query_row([now], |row| row.get(0)))? {
            return Ok(Vec::new());
        }
        self.transaction(Safety::Power, |connection| {
            // The fence moves too: whoever was about to continue one of them comes too late.
            let mut expire = connection.prepare_cached(
                "UPDATE run SET state = ?1, expires_at = NULL, fence = fence + 1, ended_at = ?3
                 WHERE state = ?2 AND expires_at <= ?3 RETURNING id",
            )?;
            let ids = expire.query_map((RunState::Expired, RunState::Waiting, now), |row| row.get(0))?;
            let ids = ids.collect::<rusqlite::Result<Vec<String>>>()?;
            for id in &ids {
                clear(connection, id)?;
            }
            Ok(ids)
        })
    }

    fn forget_runs(&self, ended_before: Millis) -> Result<usize, StoreError> {
        let forget = "DELETE FROM run WHERE ended_at IS NOT NULL AND ended_at < ?1";
        self.with(|connection| connection.prepare_cached(forget)?.execute([ended_before]))
    }

    fn change_counter(&self) -> Result<i64, StoreError> {
        self.with(|connection| connection.pragma_query_value(None, "data_version", |row| row.get(0)))
    }
}
