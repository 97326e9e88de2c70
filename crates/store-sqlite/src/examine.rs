//! A look at a store that changes nothing in it.

use std::fs;
use std::path::Path;

use crate::file::{reader, version};
use crate::migrations::STEPS;
use crate::presence::Presence;
use crate::{SqliteError, SqliteStore};

/// The largest file that is checked page by page: that takes well under a second.
const CHECKED_BYTES: u64 = 64 << 20;

/// The findings about a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// The version of its schema.
    pub schema: i64,
    /// The version that this build uses. Opening the store brings it there.
    pub known: i64,
    /// The size of the file.
    pub bytes: u64,
    /// Whether its pages are sound.
    pub integrity: Integrity,
}

/// Whether the pages of a store are sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// They are.
    Sound,
    /// They are not; the first thing that is wrong.
    Damaged(String),
    /// The file is too large to be checked quickly.
    Unchecked,
}

impl SqliteStore {
    /// Examines the store at a path, which other processes may have open. Its schema and its content stay as they are.
    ///
    /// Fails with [`SqliteError::Newer`] if a later build has written it, and with [`SqliteError::Corrupt`] if it is no store.
    pub fn examine(path: &Path) -> Result<Examined, SqliteError> {
        let failed = |source| SqliteError::Open { path: path.to_owned(), source };
        let bytes = fs::metadata(path).map_err(failed)?.len();
        let _presence = Presence::shared(path).map_err(failed)?;
        let look = || {
            let connection = reader(path)?;
            let schema = version(&connection)?;
            let integrity = match bytes > CHECKED_BYTES {
                true => Integrity::Unchecked,
                // One row of `ok`, or the first thing that is wrong.
                false => match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))? {
                    verdict if verdict == "ok" => Integrity::Sound,
                    verdict => Integrity::Damaged(verdict),
                },
            };
            Ok((schema, integrity))
        };
        let (schema, integrity) = look().map_err(|error| SqliteError::of(path, error))?;
        let known = STEPS.len() as i64;
        if schema > known {
            return Err(SqliteError::Newer { path: path.to_owned(), found: schema, known });
        }
        Ok(Examined { schema, known, bytes, integrity })
    }
}
