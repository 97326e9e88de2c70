//! Grants in rows.

use pincer_store::{Grant, GrantId, GrantKind, Grants, Reply, RunId, Safety, StoreError};
use rusqlite::{Connection, Row};

use crate::SqliteStore;
use crate::rows::{id, optional_id};
use crate::store::Refused;

const COLUMNS: &str = "id, tool, run, remaining, created_at, fingerprint, user";

fn read(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let kind = match (optional_id(row, 2)?, row.get(3)?) {
        (Some(run), Some(remaining)) => GrantKind::Next { run, remaining },
        _ => GrantKind::Always,
    };
    Ok(Grant {
        id: id(row, 0)?,
        tool: row.get(1)?,
        kind,
        created_at: row.get(4)?,
        fingerprint: row.get(5)?,
        user: row.get(6)?,
    })
}

pub(crate) fn put(connection: &Connection, grant: &Grant) -> Result<(), Refused> {
    let (run, remaining) = match &grant.kind {
        GrantKind::Always => (None, None),
        GrantKind::Next { run, remaining } => (Some(run.as_str()), Some(remaining)),
    };
    let insert = "INSERT INTO standing_grant (id, tool, run, remaining, created_at, fingerprint, user)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
    let Grant { id, tool, fingerprint, user, created_at, .. } = grant;
    match connection.execute(insert, (id.as_str(), tool, run, remaining, created_at, fingerprint, user))? {
        0 => Err(StoreError::Exists { what: "grant", id: id.to_string() }.into()),
        _ => Ok(()),
    }
}

impl Grants for SqliteStore {
    fn grant(&self, grant: Grant) -> Reply<()> {
        self.transaction(Safety::Power, 0, move |connection| put(connection, &grant))
    }

    fn grants(&self) -> Reply<Vec<Grant>> {
        self.read(|connection| {
            let query = format!("SELECT {COLUMNS} FROM standing_grant ORDER BY created_at, id");
            Ok(connection.prepare_cached(&query)?.query_map([], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn revoke(&self, id: &GrantId) -> Reply<bool> {
        let id = id.clone();
        self.commit(Safety::Process, 0, move |connection| {
            Ok(connection.execute("DELETE FROM standing_grant WHERE id = ?1", [id.as_str()])? == 1)
        })
    }

    fn grants_for(
        &self,
        tools: Vec<String>,
        fingerprint: Vec<u8>,
        user: &str,
        run: Option<&RunId>,
    ) -> Reply<Vec<Grant>> {
        self.look_up(|connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM standing_grant
                 WHERE tool = ?1 AND (fingerprint IS NULL OR fingerprint = ?2) AND (user IS NULL OR user = ?3)
                    AND (remaining IS NULL OR (run = ?4 AND remaining > 0)) ORDER BY created_at, id"
            );
            let mut query = connection.prepare_cached(&query)?;
            let mut found = Vec::new();
            for tool in &tools {
                let asked = (tool, &fingerprint, user, run.map(RunId::as_str));
                found.extend(query.query_map(asked, read)?.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            Ok(found)
        })
    }
}

/// Uses a counted grant of a run for one call; `false` if nothing is left of it.
pub(crate) fn count_down(connection: &Connection, id: &GrantId, run: &RunId) -> rusqlite::Result<bool> {
    let count = "UPDATE standing_grant SET remaining = remaining - 1 WHERE id = ?1 AND run = ?2 AND remaining > 0";
    let counted = connection.prepare_cached(count)?.execute((id.as_str(), run.as_str()))? == 1;
    connection.prepare_cached("DELETE FROM standing_grant WHERE id = ?1 AND remaining = 0")?.execute([id.as_str()])?;
    Ok(counted)
}

/// Returns whether none of these grants has been revoked.
pub(crate) fn are_there(connection: &Connection, ids: &[GrantId]) -> rusqlite::Result<bool> {
    let mut known = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM standing_grant WHERE id = ?1)")?;
    for id in ids {
        if !known.query_row([id.as_str()], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}
