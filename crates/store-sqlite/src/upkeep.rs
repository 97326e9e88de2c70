//! Keeps the file small.

use pincer_store::{Millis, Reply, RunId, RunState, Safety, Upkeep};
use rusqlite::Connection;

use crate::SqliteStore;
use crate::rows::id;
use crate::runs::clear;
use crate::store::Refused;

/// The most runs that are forgotten in one step: other processes must not wait for long.
const FORGOTTEN_AT_ONCE: u32 = 500;
/// The pages that are given back in one step: 1 MB, some 10 ms.
const GIVEN_BACK_AT_ONCE: u32 = 256;
/// The free pages that are kept for what comes next, at least: 4 MB.
const LEAST_KEPT: i64 = 1024;
/// The part of the file that may be free.
const FREE_PART: i64 = 8;

/// Holds for a program that no open run of an agent has. A program of an open run neither expires nor is forgotten: if its process dies,
/// the next one finds the program by its key, however late, and must not begin it again. It ends with its run.
const FREE: &str =
    "NOT EXISTS (SELECT 1 FROM agent_run WHERE agent_run.id = run.agent_run AND agent_run.ended_at IS NULL)";

/// Returns whether there is something to do. Nearly always there is not, and looking costs less than a transaction that writes
/// nothing.
fn is_due(connection: &Connection, due: &str, time: Millis) -> rusqlite::Result<bool> {
    connection.prepare_cached(due)?.query_row([time], |row| row.get(0))
}

/// Forgets runs, and the sets of tools that no other run has.
fn forget(connection: &Connection, ended_before: Millis) -> Result<usize, Refused> {
    let forget = format!(
        "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE ended_at IS NOT NULL AND ended_at < ?1 AND {FREE} LIMIT ?2)
         RETURNING id, tools"
    );
    let mut forget = connection.prepare_cached(&forget)?;
    let forgotten = forget.query_map((ended_before, FORGOTTEN_AT_ONCE), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let forgotten = forgotten.collect::<rusqlite::Result<Vec<(String, Option<Vec<u8>>)>>>()?;
    for (id, _) in &forgotten {
        connection.prepare_cached("DELETE FROM approval WHERE run = ?1")?.execute([id])?;
    }
    let mut tools: Vec<&Vec<u8>> = forgotten.iter().filter_map(|(_, tools)| tools.as_ref()).collect();
    tools.sort_unstable();
    tools.dedup();
    for hash in tools {
        // Nearly always the first run that is looked at still has it.
        let unused = "DELETE FROM tool_set WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM run WHERE tools = ?1)";
        connection.prepare_cached(unused)?.execute([hash])?;
    }
    Ok(forgotten.len())
}

impl Upkeep for SqliteStore {
    fn expire_runs(&self, now: Millis) -> Reply<Vec<RunId>> {
        let due =
            format!("SELECT EXISTS (SELECT 1 FROM run WHERE expires_at IS NOT NULL AND expires_at <= ?1 AND {FREE})");
        match self.core.sorted(self.core.reading(|connection| Ok(is_due(connection, &due, now)?))) {
            Ok(true) => {}
            Ok(false) => return Reply::ready(Ok(Vec::new())),
            Err(error) => return Reply::ready(Err(error)),
        }
        self.transaction(Safety::Power, usize::MAX, move |connection| {
            // The fence moves too: a process that was about to continue one of them comes too late.
            let expire = format!(
                "UPDATE run SET state = ?1, expires_at = NULL, fence = fence + 1, ended_at = ?3, result = NULL
                 WHERE state = ?2 AND expires_at <= ?3 AND {FREE} RETURNING id"
            );
            let mut expire = connection.prepare_cached(&expire)?;
            let of = (RunState::Expired.as_str(), RunState::Waiting.as_str(), now);
            let ids = expire.query_map(of, |row| id(row, 0))?.collect::<rusqlite::Result<Vec<RunId>>>()?;
            for id in &ids {
                clear(connection, id)?;
            }
            Ok(ids)
        })
    }

    fn forget_runs(&self, ended_before: Millis) -> Reply<usize> {
        let due = format!("SELECT EXISTS (SELECT 1 FROM run WHERE ended_at IS NOT NULL AND ended_at < ?1 AND {FREE})");
        match self.core.sorted(self.core.reading(|connection| Ok(is_due(connection, &due, ended_before)?))) {
            Ok(true) => {}
            Ok(false) => return Reply::ready(Ok(0)),
            Err(error) => return Reply::ready(Err(error)),
        }
        self.transaction(Safety::Process, usize::MAX, move |connection| forget(connection, ended_before))
    }

    fn next_due(&self, remembered: Millis) -> Reply<Option<Millis>> {
        self.look_up(|connection| {
            let query = format!(
                "SELECT min(due) FROM (SELECT min(expires_at) AS due FROM run WHERE expires_at IS NOT NULL AND {FREE}
                UNION ALL SELECT min(ended_at) + ?1 FROM run WHERE ended_at IS NOT NULL AND {FREE})"
            );
            Ok(connection.prepare_cached(&query)?.query_row([remembered], |row| row.get(0))?)
        })
    }

    fn give_space_back(&self) -> Reply<bool> {
        self.commit(Safety::Process, usize::MAX, |connection| {
            let count = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            let kept = LEAST_KEPT.max(count("page_count")? / FREE_PART);
            let free = count("freelist_count")?;
            if free <= kept {
                return Ok(false);
            }
            // A page is given back with each row that is read.
            let mut give = connection.prepare_cached(&format!("PRAGMA incremental_vacuum({GIVEN_BACK_AT_ONCE})"))?;
            let mut given = give.query([])?;
            while given.next()?.is_some() {}
            let left = count("freelist_count")?;
            // Files of earlier versions may not be able to.
            Ok(left < free && left > kept)
        })
    }
}
