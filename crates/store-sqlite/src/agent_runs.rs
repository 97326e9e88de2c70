//! Runs of agents in rows.

use std::sync::Arc;

use pincer_store::{
    Accepted, AgentRun, AgentRunId, AgentRunState, AgentRuns, ClientCall, ClientCalls, MOST_SUMMARIZED, Millis,
    NewAgentRun, NewSession, QueueLimit, Reply, RunChange, RunId, Safety, SessionId, SessionKey, Stopped, StoreError,
    WhenFull,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::SqliteStore;
use crate::rows::{id, optional_id, state};
use crate::store::Refused;
use crate::{deliveries, figures, runs, sessions};

const COLUMNS: &str = "agent_run.id, agent_run.user, agent_run.session_key, session.id, agent_run.key, state, rank, agent_run.created_at, \
                       started_at, ended_at, generation, last_event, first_entry, is_stopped, request, detail, result, merged_into";
const TABLES: &str = "agent_run JOIN session ON session.number = agent_run.session";

/// The runs of a key that have not ended, and those that no run was told of. Each of the two has an index that holds nothing
/// else, however many runs have ended.
pub(crate) const OPEN: &str = "SELECT number FROM agent_run WHERE user = ?1 AND session_key = ?2 AND ended_at IS NULL
    UNION ALL
    SELECT number FROM agent_run WHERE user = ?1 AND session_key = ?2 AND state = 'summarized' AND merged_into IS NULL";
/// The messages that wait for a session, the oldest first.
pub(crate) const QUEUED: &str = "SELECT id FROM agent_run WHERE user = ?1 AND session_key = ?2 AND state = 'queued'
    AND ended_at IS NULL ORDER BY number";

fn read(row: &Row<'_>) -> rusqlite::Result<AgentRun> {
    Ok(AgentRun {
        id: id(row, 0)?,
        user: row.get(1)?,
        session_key: id(row, 2)?,
        session: id(row, 3)?,
        key: row.get(4)?,
        state: state(row, 5)?,
        rank: row.get(6)?,
        created_at: row.get(7)?,
        started_at: row.get(8)?,
        ended_at: row.get(9)?,
        generation: row.get(10)?,
        last_event: row.get(11)?,
        first_entry: row.get(12)?,
        is_stopped: row.get(13)?,
        request: row.get(14)?,
        detail: row.get(15)?,
        result: row.get(16)?,
        merged_into: optional_id(row, 17)?,
    })
}

fn find(connection: &Connection, id: &AgentRunId) -> Result<AgentRun, Refused> {
    let query = format!("SELECT {COLUMNS} FROM {TABLES} WHERE agent_run.id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id.as_str()], read).optional()?;
    found.ok_or_else(|| StoreError::Missing { what: "agent run", id: id.to_string() }.into())
}

fn with_key(
    connection: &Connection,
    user: &str,
    session: &SessionKey,
    key: &str,
) -> rusqlite::Result<Option<AgentRun>> {
    let query = format!(
        "SELECT {COLUMNS} FROM {TABLES} WHERE agent_run.user = ?1 AND agent_run.session_key = ?2 AND agent_run.key = ?3"
    );
    connection.prepare_cached(&query)?.query_row((user, session.as_str(), key), read).optional()
}

/// Changes a run, as part of a commit of its session.
pub(crate) fn change_run(
    connection: &Connection,
    session: i64,
    change: &RunChange,
    first_entry: u32,
    now: Millis,
) -> Result<(), Refused> {
    let begins = change.state == AgentRunState::Running;
    // A run that was left out of its queue has ended, and only takes the run that is told of it.
    let update = "UPDATE agent_run SET state = ?2, session = ?3, generation = coalesce(?4, generation),
                  last_event = coalesce(?5, last_event), detail = CASE WHEN ?13 THEN NULL ELSE coalesce(?6, detail) END,
                  result = coalesce(?7, result), merged_into = coalesce(?8, merged_into),
                  started_at = CASE WHEN ?9 THEN coalesce(started_at, ?10) ELSE started_at END,
                  first_entry = CASE WHEN ?9 THEN coalesce(first_entry, ?11) ELSE first_entry END,
                  ended_at = CASE WHEN ?12 THEN coalesce(ended_at, ?10) END
                  WHERE id = ?1 AND (user, session_key) = (SELECT user, key FROM session WHERE number = ?3)
                  AND (ended_at IS NULL OR state = 'summarized' AND merged_into IS NULL AND ?12 AND ?8 IS NOT NULL)";
    let is_final = change.state.is_final();
    let changed = connection.prepare_cached(update)?.execute(params![
        change.id.as_str(),
        change.state.as_str(),
        session,
        change.generation,
        change.last_event,
        change.detail.as_deref(),
        change.result.as_deref(),
        change.merged_into.as_ref().map(AgentRunId::as_str),
        begins,
        now,
        first_entry,
        is_final,
        is_final && change.detail.is_none(),
    ])?;
    if changed == 0 {
        return Err(StoreError::Missing { what: "open agent run", id: change.id.to_string() }.into());
    }
    if let Some(figures) = &change.figures {
        figures::store(connection, &change.id, figures, now)?;
    }
    connection.prepare_cached("DELETE FROM awaited WHERE run = ?1")?.execute([change.id.as_str()])?;
    for id in change.awaits.iter().filter(|_| change.state == AgentRunState::Waiting) {
        let awaits = "INSERT INTO awaited (run, id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        connection.prepare_cached(awaits)?.execute((change.id.as_str(), id))?;
    }
    if change.generation.is_some() {
        // Nor does the time count in which no process worked on the run: it began with the last commit on the session.
        let shift =
            "UPDATE run SET expires_at = expires_at + max(?2 - (SELECT updated_at FROM session WHERE number = ?3), 0)
                     WHERE agent_run = ?1 AND ended_at IS NULL AND expires_at IS NOT NULL";
        connection.prepare_cached(shift)?.execute((change.id.as_str(), now, session))?;
    }
    // While a run waits, the time of its programs stands still.
    let lifetime = match change.state {
        AgentRunState::Waiting => {
            "UPDATE run SET lifetime_left = max(expires_at - ?2, 0), expires_at = NULL
             WHERE agent_run = ?1 AND ended_at IS NULL AND expires_at IS NOT NULL"
        }
        _ => {
            "UPDATE run SET expires_at = lifetime_left + ?2, lifetime_left = NULL
             WHERE agent_run = ?1 AND ended_at IS NULL AND lifetime_left IS NOT NULL"
        }
    };
    connection.prepare_cached(lifetime)?.execute((change.id.as_str(), now))?;
    let active = match change.state {
        AgentRunState::Running | AgentRunState::Waiting => "UPDATE session SET active = ?2 WHERE number = ?1",
        _ => "UPDATE session SET active = NULL WHERE number = ?1 AND active = ?2",
    };
    connection.prepare_cached(active)?.execute((session, change.id.as_str()))?;
    if is_final {
        end_programs(connection, &change.id, now)?;
        clear(connection, &change.id)?;
    }
    Ok(())
}

/// Ends the programs that a run leaves behind.
fn end_programs(connection: &Connection, run: &AgentRunId, now: Millis) -> rusqlite::Result<()> {
    let end = "UPDATE run SET state = 'aborted', expires_at = NULL, fence = fence + 1, ended_at = ?2, result = NULL
               WHERE agent_run = ?1 AND ended_at IS NULL RETURNING id";
    let mut end = connection.prepare_cached(end)?;
    let ended = end.query_map((run.as_str(), now), |row| id(row, 0))?.collect::<rusqlite::Result<Vec<RunId>>>()?;
    ended.iter().try_for_each(|program| runs::clear(connection, program))
}

/// Removes what goes when a run ends.
fn clear(connection: &Connection, id: &AgentRunId) -> rusqlite::Result<()> {
    for clear in [
        "UPDATE approval SET state = 'cancelled' WHERE run = ?1 AND state = 'pending'",
        "DELETE FROM standing_grant WHERE run = ?1",
        "DELETE FROM client_call WHERE run = ?1",
    ] {
        connection.prepare_cached(clear)?.execute([id.as_str()])?;
    }
    Ok(())
}

/// Ends all runs that have not ended.
pub(crate) fn abort_all(connection: &Connection, now: Millis) -> rusqlite::Result<()> {
    let abort =
        "UPDATE agent_run SET state = 'aborted', ended_at = ?1, is_stopped = 1, detail = NULL WHERE ended_at IS NULL
                 RETURNING id";
    let mut abort = connection.prepare(abort)?;
    let aborted = abort.query_map([now], |row| id(row, 0))?.collect::<rusqlite::Result<Vec<AgentRunId>>>()?;
    aborted.iter().try_for_each(|id| clear(connection, id))
}

/// Removes the questions and grants of the runs of a session that is forgotten.
pub(crate) fn forget_questions(connection: &Connection, session: i64) -> rusqlite::Result<()> {
    for forget in [
        "DELETE FROM approval WHERE run IN (SELECT id FROM agent_run WHERE session = ?1)",
        "DELETE FROM standing_grant WHERE run IN (SELECT id FROM agent_run WHERE session = ?1)",
    ] {
        connection.prepare_cached(forget)?.execute([session])?;
    }
    Ok(())
}

/// Makes room in a queue. `None` if the new message is the one that gives way.
fn make_room(
    connection: &Connection,
    new: &NewAgentRun,
    limit: QueueLimit,
) -> rusqlite::Result<Option<Vec<AgentRunId>>> {
    let mut waiting = connection.prepare_cached(QUEUED)?;
    let waiting = waiting.query_map((&new.user, new.session.as_str()), |row| id(row, 0))?;
    let waiting: Vec<AgentRunId> = waiting.collect::<rusqlite::Result<_>>()?;
    let excess = (waiting.len() + 1).saturating_sub(limit.cap.max(1) as usize);
    if excess == 0 {
        return Ok(Some(Vec::new()));
    }
    let state = match limit.full {
        WhenFull::RefuseNew => return Ok(None),
        WhenFull::DropOldest => AgentRunState::Dropped,
        WhenFull::Summarize => AgentRunState::Summarized,
    };
    let dropped: Vec<AgentRunId> = waiting.into_iter().take(excess).collect();
    for id in &dropped {
        let drop = "UPDATE agent_run SET state = ?2, ended_at = ?3, request = brief WHERE id = ?1";
        connection.prepare_cached(drop)?.execute((id.as_str(), state.as_str(), new.now))?;
        clear(connection, id)?;
    }
    let untold = "UPDATE agent_run SET state = 'dropped'
                  WHERE user = ?1 AND session_key = ?2 AND state = 'summarized' AND merged_into IS NULL
                  AND number NOT IN (SELECT number FROM agent_run
                      WHERE user = ?1 AND session_key = ?2 AND state = 'summarized' AND merged_into IS NULL
                      ORDER BY number DESC LIMIT ?3)";
    connection.prepare_cached(untold)?.execute((&new.user, new.session.as_str(), MOST_SUMMARIZED))?;
    Ok(Some(dropped))
}

/// Stores a message, unless it was stored before.
pub(crate) fn accept(connection: &Connection, new: &NewAgentRun) -> Result<Accepted, Refused> {
    if let Some(key) = &new.key
        && let Some(known) = with_key(connection, &new.user, &new.session, key)?
    {
        let digest = "SELECT digest = ?2 FROM agent_run WHERE id = ?1";
        let is_same =
            connection.prepare_cached(digest)?.query_row((known.id.as_str(), &new.digest), |row| row.get(0))?;
        return Ok(if is_same { Accepted::Same(known) } else { Accepted::Different(known.id) });
    }
    let dropped = match &new.answer {
        Some(_) => Vec::new(),
        None => match make_room(connection, new, new.queue)? {
            Some(dropped) => dropped,
            None => return Ok(Accepted::Full),
        },
    };
    if sessions::current(connection, &new.user, &new.session)?.is_none() {
        sessions::create(
            connection,
            &NewSession {
                id: new.new_session.clone(),
                user: new.user.clone(),
                key: new.session.clone(),
                agent: new.agent.clone(),
                label: None,
                parent: None,
                created_at: new.now,
            },
        )?;
    }
    let state = if new.answer.is_some() { AgentRunState::Done } else { AgentRunState::Queued };
    let insert = "INSERT INTO agent_run (id, user, session_key, session, key, digest, state, rank, created_at, request, brief,
                    result, started_at, ended_at)
                  SELECT ?1, ?2, ?3, number, ?4, ?5, ?9, ?6, ?7, ?8, ?11, ?10, iif(?10 IS NULL, NULL, ?7), iif(?10 IS NULL, NULL, ?7)
                  FROM session
                  WHERE user = ?2 AND key = ?3 AND is_current = 1 ON CONFLICT DO NOTHING";
    let made = connection.prepare_cached(insert)?.execute(params![
        new.id.as_str(),
        new.user,
        new.session.as_str(),
        new.key,
        new.digest,
        new.rank,
        new.now,
        &*new.request,
        state.as_str(),
        new.answer.as_deref(),
        &*new.brief,
    ])?;
    if made == 0 {
        return Err(StoreError::Exists { what: "agent run", id: new.id.to_string() }.into());
    }
    deliveries::store(connection, new.delivery.as_slice())?;
    Ok(Accepted::New { run: find(connection, &new.id)?, dropped })
}

impl AgentRuns for SqliteStore {
    fn accept_run(&self, run: NewAgentRun) -> Reply<Accepted> {
        let has_delivery = run.delivery.is_some();
        let reply = self.transaction(Safety::Power, run.request.len(), move |connection| accept(connection, &run));
        self.told_of_deliveries(has_delivery, reply)
    }

    fn agent_run(&self, id: &AgentRunId) -> Reply<AgentRun> {
        self.look_up(|connection| find(connection, id))
    }

    fn agent_run_with_key(&self, user: &str, session: &SessionKey, key: &str) -> Reply<Option<AgentRun>> {
        self.look_up(|connection| Ok(with_key(connection, user, session, key)?))
    }

    fn open_runs(&self, user: &str, session: &SessionKey) -> Reply<Vec<AgentRun>> {
        self.look_up(|connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM {TABLES} WHERE agent_run.number IN ({OPEN}) ORDER BY
                 CASE state WHEN 'running' THEN 0 WHEN 'waiting' THEN 0 WHEN 'queued' THEN 1 ELSE 2 END, rank, agent_run.number"
            );
            let of = (user, session.as_str());
            Ok(connection.prepare_cached(&query)?.query_map(of, read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn sessions_with_work(&self) -> Reply<Vec<(String, SessionKey)>> {
        self.read(|connection| {
            let query = "SELECT user, session_key FROM agent_run WHERE ended_at IS NULL GROUP BY user, session_key
                         ORDER BY min(number)";
            let read = |row: &Row<'_>| Ok((row.get(0)?, id(row, 1)?));
            Ok(connection.prepare_cached(query)?.query_map([], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn sessions_to_wake(&self, now: Millis) -> Reply<Vec<(String, SessionKey)>> {
        self.read(move |connection| {
            let query = "SELECT user, session_key FROM agent_run WHERE ended_at IS NULL AND state = 'waiting' AND (is_stopped = 1
                 OR EXISTS (SELECT 1 FROM awaited LEFT JOIN approval ON approval.id = awaited.id
                    LEFT JOIN client_call ON client_call.run = awaited.run AND client_call.id = awaited.id
                    WHERE awaited.run = agent_run.id AND (approval.id IS NULL AND client_call.id IS NULL
                        OR approval.state <> 'pending' OR approval.expires_at <= ?1 OR client_call.result IS NOT NULL)))
                 GROUP BY user, session_key";
            let read = |row: &Row<'_>| Ok((row.get(0)?, id(row, 1)?));
            Ok(connection.prepare_cached(query)?.query_map([now], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn runs_of_session(&self, session: &SessionId, limit: u32) -> Reply<Vec<AgentRun>> {
        let session = session.clone();
        self.read(move |connection| {
            let query =
                format!("SELECT {COLUMNS} FROM {TABLES} WHERE session.id = ?1 ORDER BY agent_run.number DESC LIMIT ?2");
            let of = (session.as_str(), limit);
            Ok(connection.prepare_cached(&query)?.query_map(of, read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn stop_run(&self, id: &AgentRunId, result: Arc<str>, now: Millis) -> Reply<Stopped> {
        let id = id.clone();
        self.transaction(Safety::Power, 0, move |connection| {
            let run = find(connection, &id)?;
            match run.state {
                AgentRunState::Queued => {
                    let end = "UPDATE agent_run SET state = 'aborted', ended_at = ?2, is_stopped = 1, result = ?3 WHERE id = ?1";
                    connection.execute(end, (id.as_str(), now, &*result))?;
                    clear(connection, &id)?;
                    Ok(Stopped::Unbegun)
                }
                AgentRunState::Running | AgentRunState::Waiting => {
                    connection.execute("UPDATE agent_run SET is_stopped = 1 WHERE id = ?1", [id.as_str()])?;
                    Ok(Stopped::Asked)
                }
                _ => Ok(Stopped::Ended),
            }
        })
    }
}

const CLIENT: &str = "id, run, name, arguments, created_at, result";

fn read_client(row: &Row<'_>) -> rusqlite::Result<ClientCall> {
    Ok(ClientCall {
        id: row.get(0)?,
        run: id(row, 1)?,
        name: row.get(2)?,
        arguments: row.get(3)?,
        created_at: row.get(4)?,
        result: row.get(5)?,
    })
}

impl ClientCalls for SqliteStore {
    fn ask_client(&self, call: ClientCall) -> Reply<ClientCall> {
        self.transaction(Safety::Power, call.arguments.len(), move |connection| {
            // Calls go with their run: one that came after its end would stay.
            let insert = "INSERT INTO client_call (id, run, name, arguments, created_at) SELECT ?1, ?2, ?3, ?4, ?5
                          WHERE EXISTS (SELECT 1 FROM agent_run WHERE id = ?2 AND ended_at IS NULL) ON CONFLICT DO NOTHING";
            let ClientCall { id, run, name, arguments, created_at, .. } = &call;
            connection.prepare_cached(insert)?.execute((id, run.as_str(), name, arguments, created_at))?;
            let query = format!("SELECT {CLIENT} FROM client_call WHERE run = ?1 AND id = ?2");
            let stored = connection.prepare_cached(&query)?.query_row((run.as_str(), id), read_client).optional()?;
            stored.ok_or_else(|| StoreError::Missing { what: "open agent run", id: run.to_string() }.into())
        })
    }

    fn answer_client(&self, run: &AgentRunId, id: &str, result: Arc<str>) -> Reply<bool> {
        let (run, id) = (run.clone(), id.to_owned());
        self.transaction(Safety::Power, result.len(), move |connection| {
            let answer = "UPDATE client_call SET result = ?3 WHERE run = ?1 AND id = ?2 AND result IS NULL";
            if connection.execute(answer, (run.as_str(), &id, &*result))? == 1 {
                return Ok(true);
            }
            let known = "SELECT EXISTS (SELECT 1 FROM client_call WHERE run = ?1 AND id = ?2)";
            match connection.query_row(known, (run.as_str(), &id), |row| row.get(0))? {
                true => Ok(false),
                false => Err(StoreError::Missing { what: "client call", id: id.clone() }.into()),
            }
        })
    }

    fn client_calls(&self, run: &AgentRunId) -> Reply<Vec<ClientCall>> {
        self.look_up(|connection| {
            let query = format!("SELECT {CLIENT} FROM client_call WHERE run = ?1 ORDER BY number");
            let mut query = connection.prepare_cached(&query)?;
            Ok(query.query_map([run.as_str()], read_client)?.collect::<rusqlite::Result<_>>()?)
        })
    }
}
