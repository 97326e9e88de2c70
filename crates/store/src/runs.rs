//! Runs: which there are, how they stand, and who owns them.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::snapshots::put;
use crate::sqlite::{Refused, stored_enum};
use crate::{Checkpoint, Commit, Millis, Safety, SqliteStore, StoreError};

/// Proves that its holder owns a run. Each claim gets a higher one; with an old one nothing can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

impl Fence {
    /// The fence of the process that creates a run.
    pub const FIRST: Self = Self(1);
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Returns whether it will never run again.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }
}

/// A key under which a run is begun at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunKey<'a> {
    /// The caller's word, unique for this caller and session.
    pub key: &'a str,
    /// A digest of the program: another one under the same key is another request.
    pub program: &'a [u8],
}

/// The tools that a program may call, as they were when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolSet<'a> {
    /// The hash of `tools`.
    pub hash: &'a [u8],
    /// The description that its owner wrote down.
    pub tools: &'a str,
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
    /// The key of the request, if it has one.
    pub key: Option<RunKey<'a>>,
    /// The tools it may call.
    pub tools: Option<ToolSet<'a>>,
}

/// A process that takes a run, with its promise about checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The process.
    pub owner: &'a str,
    /// The safety of the run's checkpoints. After a power cut, a run whose checkpoints were not synced cannot be continued: its
    /// last calls may not be stored.
    pub safety: Safety,
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
    /// A suspension of it was acknowledged.
    pub acknowledged: bool,
    /// It ran, with checkpoints that were not synced, when the machine went down: what it did last may be unknown.
    pub power_cut: bool,
    /// The key of its request, with the digest of the program.
    pub key: Option<(String, Vec<u8>)>,
    /// The hash of the tools it may call.
    pub tools: Option<Vec<u8>>,
}

/// Runs and their owners.
pub trait Runs {
    /// Stores a run that has begun, with its first checkpoint if it has one. Fails with [`StoreError::Exists`] if there is a
    /// run with this id, or one with this key for the same caller and session.
    fn create_run(
        &self,
        run: &NewRun<'_>,
        claim: Claim<'_>,
        checkpoint: Option<&Checkpoint<'_>>,
        commit: Commit,
    ) -> Result<Fence, StoreError>;
    /// Returns the run with this id.
    fn run(&self, id: &str) -> Result<Run, StoreError>;
    /// Returns the run that was begun with this key.
    fn run_with_key(&self, caller: &str, session: &str, key: &str) -> Result<Option<Run>, StoreError>;
    /// Returns all runs of a session, or of all sessions, oldest first. There may be many: see [`Listings`](crate::Listings).
    fn runs(&self, session: Option<&str>) -> Result<Vec<Run>, StoreError>;
    /// Returns all runs that are driven, or were when their process died.
    fn running(&self) -> Result<Vec<Run>, StoreError>;
    /// Lets a running run wait whose owner is gone or gives it up, if it has a snapshot; `false` if it has none.
    fn let_wait(&self, id: &str, seen: Fence, expires_at: Millis) -> Result<bool, StoreError>;
    /// Takes a run over, to let it run. `seen` is the state and the proof that the claimant saw: if either has changed, this
    /// fails with [`StoreError::Fenced`]. Every claim gets a new proof, also one by the owner itself.
    fn claim_run(&self, id: &str, seen: (RunState, Fence), claim: Claim<'_>) -> Result<Fence, StoreError>;
    /// Notes which tools a run may call from now on.
    fn set_tools(&self, id: &str, fence: Fence, tools: ToolSet<'_>) -> Result<(), StoreError>;
    /// Returns what was written down of a set of tools.
    fn tool_set(&self, hash: &[u8]) -> Result<Option<String>, StoreError>;
    /// Ends a run in a final state, with what its caller is told as JSON. Its snapshot, its open questions and what was granted
    /// to it go with it.
    fn finish_run(
        &self,
        id: &str,
        fence: Fence,
        state: RunState,
        result: &str,
        now: Millis,
        commit: Commit,
    ) -> Result<(), StoreError>;
    /// Returns what the caller of a run was last told, as JSON.
    fn run_result(&self, id: &str) -> Result<Option<String>, StoreError>;
    /// Ends a run regardless of its owner; `false` if it had ended. Its owner can store nothing from now on.
    fn abort_run(&self, id: &str, now: Millis) -> Result<bool, StoreError>;
}

pub(crate) const COLUMNS: &str = "id, session, caller, agent_run, state, owner, fence, created_at, expires_at, acknowledged, boot, key, \
                       program, tools";
pub(crate) const COLUMN_COUNT: usize = 14;

/// Only a run that was running can have lost something: what waits was synced.
pub(crate) fn reader(boot: Option<&str>) -> impl Fn(&Row<'_>) -> rusqlite::Result<Run> {
    move |row| {
        let state: RunState = row.get(4)?;
        let booted: Option<String> = row.get(10)?;
        let (key, program): (Option<String>, Option<Vec<u8>>) = (row.get(11)?, row.get(12)?);
        Ok(Run {
            id: row.get(0)?,
            session: row.get(1)?,
            caller: row.get(2)?,
            agent_run: row.get(3)?,
            state,
            owner: row.get(5)?,
            fence: Fence(row.get(6)?),
            created_at: row.get(7)?,
            expires_at: row.get(8)?,
            acknowledged: row.get(9)?,
            power_cut: state == RunState::Running && booted.is_some_and(|booted| Some(booted.as_str()) != boot),
            key: key.zip(program),
            tools: row.get(13)?,
        })
    }
}

/// Fails unless the run is there, has not ended, and `fence` is its owner's. Returns its session and its state.
pub(crate) fn check_fence(connection: &Connection, id: &str, fence: Fence) -> Result<(String, RunState), Refused> {
    let mut query = connection.prepare_cached("SELECT fence, session, state FROM run WHERE id = ?1")?;
    let found = query.query_row([id], |row| Ok((Fence(row.get(0)?), row.get(1)?, row.get::<_, RunState>(2)?)));
    match found.optional()? {
        Some((found, session, state)) if found == fence && !state.is_final() => Ok((session, state)),
        Some(_) => Err(StoreError::Fenced { run: id.into() }.into()),
        None => Err(StoreError::Missing { what: "run", id: id.into() }.into()),
    }
}

/// Like [`check_fence`], for what only a running run can do.
pub(crate) fn check_running(connection: &Connection, id: &str, fence: Fence) -> Result<String, Refused> {
    match check_fence(connection, id, fence)? {
        (session, RunState::Running) => Ok(session),
        _ => Err(StoreError::Fenced { run: id.into() }.into()),
    }
}

/// Removes what goes when a run ends.
pub(crate) fn clear(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    for clear in [
        "DELETE FROM snapshot WHERE run = ?1",
        "DELETE FROM delta WHERE run = ?1",
        "UPDATE approval SET state = 'cancelled' WHERE run = ?1 AND state = 'pending'",
        "DELETE FROM standing_grant WHERE run = ?1",
    ] {
        connection.prepare_cached(clear)?.execute([id])?;
    }
    Ok(())
}

fn keep_tools(connection: &Connection, tools: ToolSet<'_>) -> rusqlite::Result<()> {
    let known = "SELECT EXISTS (SELECT 1 FROM tool_set WHERE hash = ?1)";
    if !connection.prepare_cached(known)?.query_row([tools.hash], |row| row.get(0))? {
        connection.execute("INSERT INTO tool_set (hash, tools) VALUES (?1, ?2)", (tools.hash, tools.tools))?;
    }
    Ok(())
}

impl SqliteStore {
    /// The boot under which a claim's checkpoints are good: none is needed for what is synced.
    fn boot_of(&self, claim: Claim<'_>) -> Option<&str> {
        match claim.safety {
            Safety::Power => None,
            Safety::Process => self.boot(),
        }
    }
}

impl Runs for SqliteStore {
    fn create_run(
        &self,
        run: &NewRun<'_>,
        claim: Claim<'_>,
        checkpoint: Option<&Checkpoint<'_>>,
        commit: Commit,
    ) -> Result<Fence, StoreError> {
        self.check_there()?;
        self.commit_as(commit, |connection| {
            let mut make = connection.prepare_cached(
                "INSERT INTO run (id, session, caller, agent_run, state, owner, fence, created_at, boot, key, program, tools)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING",
            )?;
            let NewRun { id, session, caller, agent_run, created_at, key, tools } = *run;
            let (state, boot) = (RunState::Running, self.boot_of(claim));
            let (word, program) = (key.map(|key| key.key), key.map(|key| key.program));
            let hash = tools.map(|tools| tools.hash);
            let row = (id, session, caller, agent_run, state, claim.owner, created_at, boot, word, program, hash);
            if make.execute(row)? == 0 {
                return Err(StoreError::Exists { what: "run", id: word.unwrap_or(id).into() }.into());
            }
            if let Some(tools) = tools {
                keep_tools(connection, tools)?;
            }
            if let Some(checkpoint) = checkpoint {
                put(connection, id, Fence::FIRST, checkpoint)?;
            }
            Ok(Fence::FIRST)
        })
    }

    fn run(&self, id: &str) -> Result<Run, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
        self.look(|connection| {
            let found = connection.prepare_cached(&query)?.query_row([id], reader(self.boot())).optional()?;
            found.ok_or_else(|| StoreError::Missing { what: "run", id: id.into() }.into())
        })
    }

    fn run_with_key(&self, caller: &str, session: &str, key: &str) -> Result<Option<Run>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM run WHERE caller = ?1 AND session = ?2 AND key = ?3");
        let of = (caller, session, key);
        self.with(|connection| connection.prepare_cached(&query)?.query_row(of, reader(self.boot())).optional())
    }

    fn runs(&self, session: Option<&str>) -> Result<Vec<Run>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM run WHERE ?1 IS NULL OR session = ?1 ORDER BY id");
        self.with(|connection| connection.prepare_cached(&query)?.query_map([session], reader(self.boot()))?.collect())
    }

    fn running(&self) -> Result<Vec<Run>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM run WHERE state = 'running' ORDER BY created_at, id");
        self.with(|connection| connection.prepare_cached(&query)?.query_map([], reader(self.boot()))?.collect())
    }

    fn let_wait(&self, id: &str, seen: Fence, expires_at: Millis) -> Result<bool, StoreError> {
        self.transaction(Safety::Power, |connection| {
            check_running(connection, id, seen)?;
            let wait = "UPDATE run SET state = ?2, expires_at = ?3, fence = fence + 1, boot = NULL, acknowledged = 1,
                        reserved = 1
                        WHERE id = ?1 AND EXISTS (SELECT 1 FROM snapshot WHERE run = ?1)";
            Ok(connection.execute(wait, (id, RunState::Waiting, expires_at))? == 1)
        })
    }

    fn claim_run(&self, id: &str, seen: (RunState, Fence), claim: Claim<'_>) -> Result<Fence, StoreError> {
        self.check_there()?;
        // The disk may have a run that another process drove as one that can be continued after a power cut.
        // One that waits gets its new boot with its first effect, which is synced.
        let safety = if seen.0 == RunState::Running { Safety::Power } else { Safety::Process };
        self.transaction(safety, |connection| {
            let (_, state) = check_fence(connection, id, seen.1)?;
            if state != seen.0 {
                return Err(StoreError::Fenced { run: id.into() }.into());
            }
            let fence = seen.1.0 + 1;
            let take = "UPDATE run SET state = ?2, owner = ?3, fence = ?4, boot = ?5, expires_at = NULL WHERE id = ?1";
            let row = (id, RunState::Running, claim.owner, fence, self.boot_of(claim));
            connection.prepare_cached(take)?.execute(row)?;
            Ok(Fence(fence))
        })
    }

    fn set_tools(&self, id: &str, fence: Fence, tools: ToolSet<'_>) -> Result<(), StoreError> {
        self.transaction(Safety::Process, |connection| {
            check_fence(connection, id, fence)?;
            keep_tools(connection, tools)?;
            connection.execute("UPDATE run SET tools = ?2 WHERE id = ?1", (id, tools.hash))?;
            Ok(())
        })
    }

    fn tool_set(&self, hash: &[u8]) -> Result<Option<String>, StoreError> {
        let query = "SELECT tools FROM tool_set WHERE hash = ?1";
        self.with(|connection| connection.query_row(query, [hash], |row| row.get(0)).optional())
    }

    fn finish_run(
        &self,
        id: &str,
        fence: Fence,
        state: RunState,
        result: &str,
        now: Millis,
        commit: Commit,
    ) -> Result<(), StoreError> {
        self.commit_as(commit, |connection| {
            check_fence(connection, id, fence)?;
            // The fence moves too: a process that saw the run running, and its owner gone, comes too late to continue it.
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
            let known = "SELECT EXISTS (SELECT 1 FROM run WHERE id = ?1)";
            if !connection.query_row(known, [id], |row| row.get(0))? {
                return Err(StoreError::Missing { what: "run", id: id.into() }.into());
            }
            let abort = "UPDATE run SET state = ?2, expires_at = NULL, fence = fence + 1, ended_at = ?3, result = NULL
                         WHERE id = ?1 AND state IN ('running', 'waiting')";
            let aborted = connection.execute(abort, (id, RunState::Aborted, now))? == 1;
            if aborted {
                clear(connection, id)?;
            }
            Ok(aborted)
        })
    }
}
