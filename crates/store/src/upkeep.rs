//! Keeps the store small: runs end in time, are forgotten later, and their space goes back to the system.

use crate::runs::clear;
use crate::{Millis, RunState, Safety, SqliteStore, StoreError};

/// The most runs that are forgotten in one step: other processes must not wait for long.
const FORGOTTEN_AT_ONCE: u32 = 500;
/// The pages that are given back in one step: 1 MB, some 10 ms.
const GIVEN_BACK_AT_ONCE: u32 = 256;
/// The free pages that are kept for what comes next, at least: 4 MB.
const LEAST_KEPT: i64 = 1024;
/// The part of the file that may be free.
const FREE_PART: i64 = 8;

/// Upkeep, done now and then by each process.
pub trait Upkeep {
    /// Ends the runs that wait longer than they may, and returns their ids.
    fn expire_runs(&self, now: Millis) -> Result<Vec<String>, StoreError>;
    /// Forgets runs that ended before, with their calls; returns how many. If there are many, some are left for the next time.
    fn forget_runs(&self, ended_before: Millis) -> Result<usize, StoreError>;
    /// Returns when the next run expires, or is to be forgotten if it is remembered for so long.
    fn next_due(&self, remembered: Millis) -> Result<Option<Millis>, StoreError>;
    /// Gives free space back to the system, if there is much. `true` if there is more to give back.
    fn give_space_back(&self) -> Result<bool, StoreError>;
    /// Returns a number that differs after another connection has changed something.
    fn change_counter(&self) -> Result<i64, StoreError>;
}

impl Upkeep for SqliteStore {
    fn expire_runs(&self, now: Millis) -> Result<Vec<String>, StoreError> {
        // Nearly always there are none, and looking costs less than a transaction that writes nothing.
        let due = "SELECT EXISTS (SELECT 1 FROM run WHERE expires_at IS NOT NULL AND expires_at <= ?1)";
        if !self.with(|connection| connection.prepare_cached(due)?.query_row([now], |row| row.get(0)))? {
            return Ok(Vec::new());
        }
        self.transaction(Safety::Power, |connection| {
            // The fence moves too: a process that was about to continue one of them comes too late.
            let mut expire = connection.prepare_cached(
                "UPDATE run SET state = ?1, expires_at = NULL, fence = fence + 1, ended_at = ?3, result = NULL
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
        let due = "SELECT EXISTS (SELECT 1 FROM run WHERE ended_at IS NOT NULL AND ended_at < ?1)";
        if !self.with(|connection| connection.prepare_cached(due)?.query_row([ended_before], |row| row.get(0)))? {
            return Ok(0);
        }
        self.transaction(Safety::Process, |connection| {
            let mut forget = connection.prepare_cached(
                "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE ended_at IS NOT NULL AND ended_at < ?1 LIMIT ?2)
                 RETURNING id, tools",
            )?;
            let forgotten =
                forget.query_map((ended_before, FORGOTTEN_AT_ONCE), |row| Ok((row.get(0)?, row.get(1)?)))?;
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
        })
    }

    fn next_due(&self, remembered: Millis) -> Result<Option<Millis>, StoreError> {
        let query = "SELECT min(due) FROM (SELECT min(expires_at) AS due FROM run WHERE expires_at IS NOT NULL
            UNION ALL SELECT min(ended_at) + ?1 FROM run WHERE ended_at IS NOT NULL)";
        self.with(|connection| connection.prepare_cached(query)?.query_row([remembered], |row| row.get(0)))
    }

    fn give_space_back(&self) -> Result<bool, StoreError> {
        self.with(|connection| {
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

    fn change_counter(&self) -> Result<i64, StoreError> {
        self.with(|connection| connection.pragma_query_value(None, "data_version", |row| row.get(0)))
    }
}
