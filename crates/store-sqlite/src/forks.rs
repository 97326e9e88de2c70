//! The branch of a session as a session of its own.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};

use crate::store::Refused;

/// Returns the positions of the branch that ends with an entry, from the first on. A nested call stands for its reply.
fn branch(connection: &Connection, session: i64, at: u32) -> rusqlite::Result<Vec<u32>> {
    let query = "WITH RECURSIVE branch (position, parent, kind) AS (
            SELECT position, parent, kind FROM entry WHERE session = ?1 AND position = ?2
            UNION ALL
            SELECT entry.position, entry.parent, entry.kind FROM entry JOIN branch
            ON entry.session = ?1 AND entry.position = branch.parent WHERE branch.parent < branch.position)
        SELECT position FROM branch WHERE kind <> 'nested_call' ORDER BY position";
    connection.prepare_cached(query)?.query_map((session, at), |row| row.get(0))?.collect()
}

/// Copies the branch of `from` that ends with an entry, and the nested calls of it, to `to`, which is empty. Returns `false` if
/// there is no such entry.
pub(crate) fn copy_branch(connection: &Connection, from: i64, at: u32, to: i64) -> Result<bool, Refused> {
    let branch = branch(connection, from, at)?;
    let Some(end) = branch.last().copied() else { return Ok(false) };
    let parents = [None].into_iter().chain(branch.iter().copied().map(Some));
    let mut copied: BTreeMap<u32, Option<u32>> = branch.iter().copied().zip(parents).collect();
    let nested = "SELECT position, parent FROM entry WHERE session = ?1 AND kind = 'nested_call' AND parent IS NOT NULL
                  ORDER BY position";
    let mut nested = connection.prepare_cached(nested)?;
    let mut nested = nested.query([from])?;
    while let Some(row) = nested.next()? {
        let (position, parent) = (row.get(0)?, row.get(1)?);
        if copied.contains_key(&parent) {
            copied.insert(position, Some(parent));
        }
    }
    let copy = "INSERT INTO entry (session, position, id, parent, kind, run, call, body, at)
                SELECT ?3, ?4, id, ?5, kind, run, call, body, at FROM entry WHERE session = ?1 AND position = ?2";
    let mut copy = connection.prepare_cached(copy)?;
    // A parent comes before its children, so its new place is known.
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    for (place, (position, parent)) in (1..).zip(&copied) {
        let parent = parent.and_then(|parent| places.get(&parent));
        copy.execute((from, position, to, place, parent))?;
        places.insert(*position, place);
    }
    let settle = "UPDATE session SET entries = ?2, leaf = ?3, context_from = ?4,
                  settings = (SELECT settings FROM session WHERE number = ?5) WHERE number = ?1";
    let entries = places.values().next_back();
    connection.execute(settle, (to, entries, places.get(&end), context_from(connection, to)?, from))?;
    Ok(true)
}

/// Returns the first entry of a copied branch that a model is sent. The source cannot tell: it may have been compacted since.
fn context_from(connection: &Connection, session: i64) -> rusqlite::Result<u32> {
    let last = "SELECT position, CASE WHEN kind = 'compaction' AND json_valid(body) AND json_type(body, '$.firstKeptEntryId') = 'text'
                    THEN json_extract(body, '$.firstKeptEntryId') END
                FROM entry WHERE session = ?1 AND kind IN ('compaction', 'reset') ORDER BY position DESC LIMIT 1";
    let last = connection.query_row(last, [session], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((position, kept)): Option<(u32, Option<String>)> = last else { return Ok(1) };
    let kept_at = "SELECT position FROM entry WHERE session = ?1 AND id = ?2 AND position < ?3";
    let kept_at = connection.query_row(kept_at, (session, kept, position), |row| row.get(0)).optional()?;
    Ok(kept_at.unwrap_or(position))
}
