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
    /// Uses a grant for one call of a tool in a run: the id of the grant, if there is one. A counted one counts down, and is
    /// gone after its last use.
    fn use_grant(&self, tool: &str, run: Option<&str>) -> Result<Option<String>, StoreError>;
    /// The same, but only a counted one.
    fn use_counted_grant(&self, tool: &str, run: Option<&str>) -> Result<Option<String>, StoreError>;
}

fn read(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let (run, remaining): (Option<String>, Option<u32>) = (row.get(2)?, row.get(3)?);
    let kind = match (run, remaining) {
        (Some(run), Some(remaining)) => GrantKind::Next { run, remaining },
        _ => GrantKind::Always,
    };
    Ok(Grant { id: row.get(0)?, tool: row.get(1)?, kind, created_at: row.get(4)? })
}

pub(crate) fn put(connection: &Connection, grant: &NewGrant<'_>) -> Result<(), Refused> {
    let (run, remaining) = match &grant.kind {
        GrantKind::Always => (None, None),
        GrantKind::Next { run, remaining } => (Some(run), Some(remaining)),
    };
    let insert = "INSERT INTO standing_grant (id, tool, run, remaining, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
                  ON CONFLICT DO NOTHING";
    match connection.execute(insert, (grant.id, grant.tool, run, remaining, grant.created_at))? {
        0 => Err(StoreError::Exists { what: "grant", id: grant.id.into() }.into()),
        _ => Ok(()),
    }
}

impl Grants for SqliteStore {
    fn grant(&self, grant: &NewGrant<'_>) -> Result<(), StoreError> {
        self.transaction(Safety::Power, |connection| put(connection, grant))
    }

    fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        let query = "SELECT id, tool, run, remaining, created_at FROM standing_grant ORDER BY created_at, id";
        self.with(|connection| connection.prepare_cached(query)?.query_map([], read)?.collect())
    }

    fn revoke(&self, id: &str) -> Result<bool, StoreError> {
        self.with(|connection| Ok(connection.execute("DELETE FROM standing_grant WHERE id = ?1", [id])? == 1))
    }

    fn use_grant(&self, tool: &str, run: Option<&str>) -> Result<Option<String>, StoreError> {
        self.use_one(tool, run, "remaining IS NULL OR")
    }

    fn use_counted_grant(&self, tool: &str, run: Option<&str>) -> Result<Option<String>, StoreError> {
        self.use_one(tool, run, "")
    }
}

impl SqliteStore {
    fn use_one(&self, tool: &str, run: Option<&str>, others: &str) -> Result<Option<String>, StoreError> {
        // A standing grant first: it costs nothing.
        let query = format!(
            "SELECT id, tool, run, remaining, created_at FROM standing_grant
             WHERE tool = ?1 AND ({others} (run = ?2 AND remaining > 0))
             ORDER BY remaining IS NOT NULL, created_at, id LIMIT 1"
        );
        self.transaction(Safety::Power, |connection| {
            let found = connection.prepare_cached(&query)?.query_map((tool, run), read)?.next().transpose()?;
            let Some(grant) = found else { return Ok(None) };
            if let GrantKind::Next { remaining, .. } = grant.kind {
                connection
                    .execute("UPDATE standing_grant SET remaining = ?2 WHERE id = ?1", (&grant.id, remaining - 1))?;
                connection.execute("DELETE FROM standing_grant WHERE remaining = 0", [])?;
            }
            Ok(Some(grant.id))
        })
    }
}
