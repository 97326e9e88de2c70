//! Runs in rows.

use std::sync::Arc;

use pincer_store::{
    AgentRunId, Checkpoint, Claim, Fence, Millis, NewRun, RecordedPart, Reply, Run, RunEnd, RunId, RunKey, RunState,
    Runs, Safety, SessionKey, StoreError, ToolSet,
};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::rows::{id, state};
use crate::snapshots::{self, put};
use crate::store::Refused;
use crate::{SqliteStore, recordings};

pub(crate) const COLUMNS: &str = "id, session, caller, agent_run, state, owner, fence, created_at, expires_at, acknowledged, boot, key, \
                       program, tools";
pub(crate) const COLUMN_COUNT: usize = 14;

/// Only a run that was running can have lost something: what waits was synced.
pub(crate) fn reader(boot: Option<&str>) -> impl Fn(&Row<'_>) -> rusqlite::Result<Run> {
    move |row| {
        let state: RunState = state(row, 4)?;
        let booted: Option<String> = row.get(10)?;
        let (key, program): (Option<String>, Option<Vec<u8>>) = (row.get(11)?, row.get(12)?);
        Ok(Run {
            id: id(row, 0)?,
            session: id(row, 1)?,
            user: row.get(2)?,
            agent_run: row.get(3)?,
            state,
            owner: id(row, 5)?,
            fence: Fence(row.get(6)?),
            created_at: row.get(7)?,
            expires_at: row.get(8)?,
            acknowledged: row.get(9)?,
            power_cut: state == RunState::Running && booted.is_some_and(|booted| Some(booted.as_str()) != boot),
            key: key.zip(program).map(|(key, program)| RunKey { key, program }),
            tools: row.get(13)?,
        })
    }
}

/// Fails unless the run is there, has not ended, and `fence` is its owner's. Returns its state.
pub(crate) fn check_fence(connection: &Connection, id: &RunId, fence: Fence) -> Result<RunState, Refused> {
    let mut query = connection.prepare_cached("SELECT fence, state FROM run WHERE id = ?1")?;
    let found = query.query_row([id.as_str()], |row| Ok((Fence(row.get(0)?), state::<RunState>(row, 1)?)));
    match found.optional()? {
        Some((found, state)) if found == fence && !state.is_final() => Ok(state),
        Some(_) => Err(StoreError::Fenced { run: id.clone() }.into()),
        None => Err(StoreError::no_run(id).into()),
    }
}

/// Like [`check_fence`], for what only a running run can do.
pub(crate) fn check_running(connection: &Connection, id: &RunId, fence: Fence) -> Result<(), Refused> {
    match check_fence(connection, id, fence)? {
        RunState::Running => Ok(()),
        _ => Err(StoreError::Fenced { run: id.clone() }.into()),
    }
}

/// Removes what goes when a run ends.
pub(crate) fn clear(connection: &Connection, id: &RunId) -> rusqlite::Result<()> {
    for clear in [
        "DELETE FROM snapshot WHERE run = ?1",
        "DELETE FROM delta WHERE run = ?1",
        "UPDATE approval SET state = 'cancelled' WHERE run = ?1 AND state = 'pending'",
        "DELETE FROM standing_grant WHERE run = ?1",
    ] {
        connection.prepare_cached(clear)?.execute([id.as_str()])?;
    }
    Ok(())
}

fn keep_tools(connection: &Connection, tools: &ToolSet) -> rusqlite::Result<()> {
    let known = "SELECT EXISTS (SELECT 1 FROM tool_set WHERE hash = ?1)";
    if !connection.prepare_cached(known)?.query_row([&tools.hash], |row| row.get(0))? {
        connection.execute("INSERT INTO tool_set (hash, tools) VALUES (?1, ?2)", (&tools.hash, &*tools.tools))?;
    }
    Ok(())
}

impl SqliteStore {
    /// Returns the boot under which a claim's checkpoints are good: none is needed for what is synced.
    fn boot_of(&self, claim: &Claim) -> Option<Arc<str>> {
        match claim.safety {
            Safety::Power => None,
            Safety::Process => self.core.boot.clone(),
        }
    }

    fn runs_where(&self, filter: &'static str, session: Option<&SessionKey>) -> Reply<Vec<Run>> {
        let (boot, session) = (self.core.boot.clone(), session.cloned());
        self.read(move |connection| {
            let query = format!("SELECT {COLUMNS} FROM run WHERE {filter}");
            let mut query = connection.prepare_cached(&query)?;
            let session = session.as_ref().map(SessionKey::as_str);
            let runs = query.query_map([session], reader(boot.as_deref()))?;
            Ok(runs.collect::<rusqlite::Result<_>>()?)
        })
    }
}

impl Runs for SqliteStore {
    fn create_run(&self, run: NewRun, claim: Claim, checkpoint: Option<Checkpoint>, safety: Safety) -> Reply<Fence> {
        if let Err(error) = self.check_there() {
            return Reply::ready(Err(error.into()));
        }
        let boot = self.boot_of(&claim);
        let recorded = run.recorded.as_ref().map_or(0, RecordedPart::bytes);
        let bytes = checkpoint.as_ref().map_or(0, snapshots::bytes) + recorded;
        self.transaction(safety, bytes, move |connection| {
            let mut make = connection.prepare_cached(
                "INSERT INTO run (id, session, caller, agent_run, state, owner, fence, created_at, boot, key, program, tools)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING",
            )?;
            let NewRun { id, session, user, agent_run, created_at, key, tools, recorded } = &run;
            let (state, owner) = (RunState::Running.as_str(), claim.owner.as_str());
            let (word, program) = (key.as_ref().map(|key| key.key.as_str()), key.as_ref().map(|key| &key.program));
            let hash = tools.as_ref().map(|tools| &tools.hash);
            let of = (id.as_str(), session.as_str(), user, agent_run);
            let row = (of.0, of.1, of.2, of.3, state, owner, created_at, boot.as_deref(), word, program, hash);
            if make.execute(row)? == 0 {
                let id = word.unwrap_or(id.as_str()).to_owned();
                return Err(StoreError::Exists { what: "run", id }.into());
            }
            if let Some(tools) = tools {
                keep_tools(connection, tools)?;
            }
            if let Some(checkpoint) = &checkpoint {
                put(connection, id, Fence::FIRST, checkpoint)?;
            }
            if let Some(part) = recorded {
                recordings::put(connection, id, part)?;
            }
            Ok(Fence::FIRST)
        })
    }

    fn run(&self, id: &RunId) -> Reply<Run> {
        self.look_up(|connection| {
            let query = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
            let mut query = connection.prepare_cached(&query)?;
            let found = query.query_row([id.as_str()], reader(self.core.boot.as_deref())).optional()?;
            found.ok_or_else(|| StoreError::no_run(id).into())
        })
    }

    fn run_with_key(&self, user: &str, session: &SessionKey, key: &str) -> Reply<Option<Run>> {
        self.look_up(|connection| {
            let query = format!("SELECT {COLUMNS} FROM run WHERE caller = ?1 AND session = ?2 AND key = ?3");
            let of = (user, session.as_str(), key);
            let boot = self.core.boot.as_deref();
            Ok(connection.prepare_cached(&query)?.query_row(of, reader(boot)).optional()?)
        })
    }

    fn runs(&self, session: Option<&SessionKey>) -> Reply<Vec<Run>> {
        self.runs_where("?1 IS NULL OR session = ?1 ORDER BY id", session)
    }

    fn runs_of_agent(&self, agent_run: &AgentRunId) -> Reply<Vec<RunId>> {
        self.look_up(|connection| {
            let query = "SELECT id FROM run WHERE agent_run = ?1 AND ended_at IS NULL ORDER BY id";
            let mut query = connection.prepare_cached(query)?;
            Ok(query.query_map([agent_run.as_str()], |row| id(row, 0))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn running(&self) -> Reply<Vec<Run>> {
        self.runs_where("state = 'running' AND ?1 IS NULL ORDER BY created_at, id", None)
    }

    fn let_wait(&self, id: &RunId, seen: Fence, expires_at: Millis) -> Reply<bool> {
        let id = id.clone();
        self.transaction(Safety::Power, 0, move |connection| {
            check_running(connection, &id, seen)?;
            let wait = "UPDATE run SET state = ?2, expires_at = ?3, fence = fence + 1, boot = NULL, acknowledged = 1,
                        reserved = 1
                        WHERE id = ?1 AND EXISTS (SELECT 1 FROM snapshot WHERE run = ?1)";
            Ok(connection.execute(wait, (id.as_str(), RunState::Waiting.as_str(), expires_at))? == 1)
        })
    }

    fn claim_run(&self, id: &RunId, seen: (RunState, Fence), claim: Claim) -> Reply<Fence> {
        if let Err(error) = self.check_there() {
            return Reply::ready(Err(error.into()));
        }
        // The disk may have a run that another process drove as one that can be continued after a power cut.
        // One that waits gets its new boot with its first effect, which is synced.
        let safety = if seen.0 == RunState::Running { Safety::Power } else { Safety::Process };
        let (id, boot) = (id.clone(), self.boot_of(&claim));
        self.transaction(safety, 0, move |connection| {
            let state = check_fence(connection, &id, seen.1)?;
            if state != seen.0 {
                return Err(StoreError::Fenced { run: id.clone() }.into());
            }
            let fence = seen.1.0 + 1;
            let take = "UPDATE run SET state = ?2, owner = ?3, fence = ?4, boot = ?5, expires_at = NULL WHERE id = ?1";
            let row = (id.as_str(), RunState::Running.as_str(), claim.owner.as_str(), fence, boot.as_deref());
            connection.prepare_cached(take)?.execute(row)?;
            Ok(Fence(fence))
        })
    }

    fn set_tools(&self, id: &RunId, fence: Fence, tools: ToolSet) -> Reply<()> {
        let id = id.clone();
        self.transaction(Safety::Process, tools.tools.len(), move |connection| {
            check_fence(connection, &id, fence)?;
            keep_tools(connection, &tools)?;
            connection.execute("UPDATE run SET tools = ?2 WHERE id = ?1", (id.as_str(), &tools.hash))?;
            Ok(())
        })
    }

    fn finish_run(&self, id: &RunId, fence: Fence, end: RunEnd, now: Millis, safety: Safety) -> Reply<()> {
        let id = id.clone();
        let bytes = end.result.len() + end.recorded.as_ref().map_or(0, RecordedPart::bytes);
        self.transaction(safety, bytes, move |connection| {
            let RunEnd { state, result, recorded } = &end;
            check_fence(connection, &id, fence)?;
            // The fence moves too: a process that saw the run running, and its owner gone, comes too late to continue it.
            let finish = "UPDATE run SET state = ?2, expires_at = NULL, fence = fence + 1, result = ?3, ended_at = ?4
                          WHERE id = ?1";
            connection.prepare_cached(finish)?.execute((id.as_str(), state.as_str(), &**result, now))?;
            if let Some(part) = recorded {
                recordings::put(connection, &id, part)?;
            }
            Ok(clear(connection, &id)?)
        })
    }

    fn run_result(&self, id: &RunId) -> Reply<Option<String>> {
        let id = id.clone();
        self.read(move |connection| {
            let query = "SELECT result FROM run WHERE id = ?1";
            let mut query = connection.prepare_cached(query)?;
            Ok(query.query_row([id.as_str()], |row| row.get(0)).optional()?.flatten())
        })
    }

    fn abort_run(&self, id: &RunId, now: Millis) -> Reply<(bool, RunState)> {
        let id = id.clone();
        self.transaction(Safety::Power, 0, move |connection| {
            let abort = "UPDATE run SET state = ?2, expires_at = NULL, fence = fence + 1, ended_at = ?3, result = NULL
                         WHERE id = ?1 AND state IN ('running', 'waiting')";
            let aborted = connection.execute(abort, (id.as_str(), RunState::Aborted.as_str(), now))? == 1;
            if aborted {
                clear(connection, &id)?;
                return Ok((true, RunState::Aborted));
            }
            let mut known = connection.prepare_cached("SELECT state FROM run WHERE id = ?1")?;
            let found = known.query_row([id.as_str()], |row| state::<RunState>(row, 0)).optional()?;
            found.map(|state| (false, state)).ok_or_else(|| StoreError::no_run(&id).into())
        })
    }
}
