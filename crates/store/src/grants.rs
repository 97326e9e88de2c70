//! Grants: answers that hold for later calls too.

use rusqlite::{Connection, Row};

use crate::sqlite::Refused;
use crate::{Millis, Safety, SqliteStore, StoreError};

/// How long a grant holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Until it is revoked.
    Always,
    /// For the next calls of one run.
    Next {
        /// The run.
        run: String,
        /// How many are left.
        remaining: u32,
    },
}

/// A grant to be stored.
#[derive(Clone, Debug)]
pub struct NewGrant<'a> {
    /// Its id.
    pub id: &'a str,
    /// The tool's id.
    pub tool: &'a str,
    /// The tool's fingerprint: the grant is for the tool as it was.
    pub fingerprint: Option<&'a [u8]>,
    /// The user whose calls it is for; every user's if absent.
    pub user: Option<&'a str>,
    /// How long it holds.
    pub kind: GrantKind,
    /// When it was given.
    pub created_at: Millis,
}

/// A grant as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: String,
    /// The tool's id.
    pub tool: String,
    /// The tool's fingerprint. Grants of earlier versions have none, and hold for every tool of this id.
    pub fingerprint: Option<Vec<u8>>,
    /// The user whose calls it is for. Grants of earlier versions have none, and are for every user's.
    pub user: Option<String>,
    /// How long it holds.
    pub kind: GrantKind,
    /// When it was given.
    pub created_at: Millis,
}

/// Standing grants.
pub trait Grants {
    /// Stores a grant.
    fn grant(&self, grant: &NewGrant<'_>) -> Result<(), StoreError>;
    /// All grants, oldest first.
    fn grants(&self) -> Result<Vec<Grant>, StoreError>;
    /// Takes a grant back; `false` if there is none with this id.
    fn revoke(&self, id: &str) -> Result<bool, StoreError>;
    /// Returns the grants of a user for a tool of this fingerprint: those that hold until they are revoked, and those for the next calls
    /// of this run. Nothing is used up: [`dispatch`](crate::Journal::dispatch) does that.
    fn grants_for(
        &self,
        tool: &str,
        fingerprint: &[u8],
        user: &str,
        run: Option<&str>,
    ) -> Result<Vec<Grant>, StoreError>;
}

fn read(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let (run, remaining): (Option<String>, Option<u32>) = (row.get(2)?, row.get(3)?);
    let kind = match (run, remaining) {
        (Some(run), Some(remaining)) => GrantKind::Next { run, remaining },
        _ => GrantKind::Always,
    };
    Ok(Grant {
        id: row.get(0)?,
        tool: row.get(1)?,
        kind,
        created_at: row.get(4)?,
        fingerprint: row.get(5)?,
        user: row.get(6)?,
    })
}

pub(crate) fn put(connection: &Connection, grant: &NewGrant<'_>) -> Result<(), Refused> {
    let (run, remaining) = match &grant.kind {
        GrantKind::Always => (None, None),
        GrantKind::Next { run, remaining } => (Some(run), Some(remaining)),
    };
    let insert = "INSERT INTO standing_grant (id, tool, run, remaining, created_at, fingerprint, user)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
    let row = (grant.id, grant.tool, run, remaining, grant.created_at, grant.fingerprint, grant.user);
    match connection.execute(insert, row)? {
        0 => Err(StoreError::Exists { what: "grant", id: grant.id.into() }.into()),
        _ => Ok(()),
    }
}

impl Grants for SqliteStore {
    fn grant(&self, grant: &NewGrant<'_>) -> Result<(), StoreError> {
        self.transaction(Safety::Power, |connection| put(connection, grant))
    }

    fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        let query = "SELECT id, tool, run, remaining, created_at, fingerprint, user FROM standing_grant ORDER BY created_at, id";
        self.with(|connection| connection.prepare_cached(query)?.query_map([], read)?.collect())
    }

    fn revoke(&self, id: &str) -> Result<bool, StoreError> {
        self.with(|connection| Ok(connection.execute("DELETE FROM standing_grant WHERE id = ?1", [id])? == 1))
    }

    fn grants_for(
        &self,
        tool: &str,
        fingerprint: &[u8],
        user: &str,
        run: Option<&str>,
    ) -> Result<Vec<Grant>, StoreError> {
        let query = "SELECT id, tool, run, remaining, created_at, fingerprint, user FROM standing_grant
             WHERE tool = ?1 AND (fingerprint IS NULL OR fingerprint = ?2) AND (user IS NULL OR user = ?3)
                AND (remaining IS NULL OR (run = ?4 AND remaining > 0)) ORDER BY created_at, id";
        let asked = (tool, fingerprint, user, run);
        self.with(|connection| connection.prepare_cached(query)?.query_map(asked, read)?.collect())
    }
}

/// Uses a counted grant of a run for one call; `false` if nothing is left of it.
pub(crate) fn count_down(connection: &Connection, id: &str, run: &str) -> rusqlite::Result<bool> {
    let count = "UPDATE standing_grant SET remaining = remaining - 1 WHERE id = ?1 AND run = ?2 AND remaining > 0";
    let counted = connection.prepare_cached(count)?.execute((id, run))? == 1;
    connection.prepare_cached("DELETE FROM standing_grant WHERE id = ?1 AND remaining = 0")?.execute([id])?;
    Ok(counted)
}

/// Returns whether none of these grants has been revoked.
pub(crate) fn are_there(connection: &Connection, ids: &[String]) -> rusqlite::Result<bool> {
    let mut known = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM standing_grant WHERE id = ?1)")?;
    for id in ids {
        if !known.query_row([id], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}
