//! The contract of every store, for SQLite.

use pincer_store::Store;
use pincer_store_contract::{Fresh, Open};
use pincer_store_sqlite::SqliteStore;

fn fresh() -> Open {
    let directory = tempfile::tempdir().expect("a directory");
    Box::new(move || -> Box<dyn Store> {
        Box::new(SqliteStore::open(&directory.path().join("pincer.db")).expect("a store"))
    })
}

pincer_store_contract::contract!(Fresh::new(fresh));
