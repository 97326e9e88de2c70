//! Idempotency keys in rows.

use pincer_store::{IdempotencyKeys, Millis, Remembered, Reply, Safety, StoreError};
use rusqlite::OptionalExtension;

use crate::SqliteStore;

impl IdempotencyKeys for SqliteStore {
    fn reserve_key(&self, scope: &str, key: &str, digest: &[u8], now: Millis) -> Reply<Remembered> {
        let (scope, key, digest) = (scope.to_owned(), key.to_owned(), digest.to_owned());
        self.transaction(Safety::Power, 0, move |connection| {
            let query = "SELECT digest, answer FROM idempotency_key WHERE scope = ?1 AND key = ?2";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?));
            match connection.prepare_cached(query)?.query_row((&scope, &key), read).optional()? {
                Some((known, answer)) if known == digest => Ok(Remembered::Same(answer)),
                Some(_) => Ok(Remembered::Different),
                None => {
                    connection.execute(
                        "INSERT INTO idempotency_key (scope, key, digest, created_at) VALUES (?1, ?2, ?3, ?4)",
                        (&scope, &key, &digest, now),
                    )?;
                    Ok(Remembered::New)
                }
            }
        })
    }

    fn answer_key(&self, scope: &str, key: &str, answer: &str) -> Reply<()> {
        let (scope, key, answer) = (scope.to_owned(), key.to_owned(), answer.to_owned());
        self.commit(Safety::Process, answer.len(), move |connection| {
            let update = "UPDATE idempotency_key SET answer = ?3 WHERE scope = ?1 AND key = ?2";
            match connection.execute(update, (&scope, &key, &answer))? {
                0 => Err(StoreError::Missing { what: "idempotency key", id: format!("{scope}/{key}") }.into()),
                _ => Ok(()),
            }
        })
    }

    fn forget_keys(&self, before: Millis) -> Reply<usize> {
        self.commit(Safety::Process, 0, move |connection| {
            Ok(connection.execute("DELETE FROM idempotency_key WHERE created_at < ?1", [before])?)
        })
    }
}
