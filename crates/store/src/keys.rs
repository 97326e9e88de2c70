//! Idempotency keys: a request that is sent twice is done once.

use rusqlite::OptionalExtension;

use crate::{Millis, Safety, SqliteStore, StoreError};

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It was new, and is reserved for this request now.
    New,
    /// The same request was accepted before; its answer, if there is one yet.
    Same(Option<String>),
    /// Another request was accepted under this key.
    Different,
}

/// Keys that requests carry.
pub trait IdempotencyKeys {
    /// Reserves a key for a request, told by its digest, or says what is known of it.
    fn reserve_key(&self, scope: &str, key: &str, digest: &[u8], now: Millis) -> Result<Remembered, StoreError>;
    /// Stores the answer to the request that reserved the key.
    fn answer_key(&self, scope: &str, key: &str, answer: &str) -> Result<(), StoreError>;
    /// Forgets the keys that are older; returns how many.
    fn forget_keys(&self, before: Millis) -> Result<usize, StoreError>;
}

impl IdempotencyKeys for SqliteStore {
    fn reserve_key(&self, scope: &str, key: &str, digest: &[u8], now: Millis) -> Result<Remembered, StoreError> {
        self.transaction(Safety::Power, |connection| {
            let query = "SELECT digest, answer FROM idempotency_key WHERE scope = ?1 AND key = ?2";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?));
            match connection.prepare_cached(query)?.query_row((scope, key), read).optional()? {
                Some((known, answer)) if known == digest => Ok(Remembered::Same(answer)),
                Some(_) => Ok(Remembered::Different),
                None => {
                    connection.execute(
                        "INSERT INTO idempotency_key (scope, key, digest, created_at) VALUES (?1, ?2, ?3, ?4)",
                        (scope, key, digest, now),
                    )?;
                    Ok(Remembered::New)
                }
            }
        })
    }

    fn answer_key(&self, scope: &str, key: &str, answer: &str) -> Result<(), StoreError> {
        let update = "UPDATE idempotency_key SET answer = ?3 WHERE scope = ?1 AND key = ?2";
        let changed = self.with(|connection| connection.execute(update, (scope, key, answer)))?;
        let missing = || StoreError::Missing { what: "idempotency key", id: format!("{scope}/{key}") };
        if changed == 0 { Err(missing()) } else { Ok(()) }
    }

    fn forget_keys(&self, before: Millis) -> Result<usize, StoreError> {
        self.with(|connection| connection.execute("DELETE FROM idempotency_key WHERE created_at < ?1", [before]))
    }
}
