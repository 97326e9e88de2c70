//! A real store with a connection for each owner, that can be put back to where it was.

use std::path::Path;

use pincer_store::{Call, CallState, Fence, Repeat, Run, RunState, Snapshot, StoreError};
use pincer_store_contract::Blocking;
use pincer_store_sqlite::SqliteStore;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tempfile::TempDir;

use crate::model::{Model, Owner, Row, Step, Told};
use pincer_store_contract::words::{SAFE, claim, delta, effect, finish, full, park, read_only, retiring, run};

/// The only run.
pub(crate) const RUN: &str = "a";

/// The tables that have something of it, those that others refer to first.
const TABLES: [&str; 4] = ["run", "snapshot", "delta", "call"];

/// All rows of the run, as they are in the file.
pub(crate) type Rows = Vec<Vec<Vec<Value>>>;

/// What the store says of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub run: Run,
    pub snapshot: Option<Snapshot>,
    pub calls: Vec<Call>,
    pub result: Option<String>,
}

impl Stored {
    /// The same in the words of the model.
    pub(crate) fn model(&self, rows: &Rows) -> Model {
        let next = |row: &Vec<Value>, column: usize| match row[column] {
            Value::Integer(next) => next as u32,
            _ => panic!("a number"),
        };
        // The next number is the second column of a snapshot, the third of a delta.
        let parts = rows[1].iter().map(|row| next(row, 1)).chain(rows[2].iter().map(|row| next(row, 2))).collect();
        let calls = self.calls.iter().map(|call| {
            assert_eq!(call.state == CallState::Settled, call.settled.is_some() && call.outcome.is_some());
            let (owner, has_effect) = (call.owner.to_string(), call.repeat != Repeat::Pure);
            (call.seq, Row { owner, has_effect, settled: call.settled })
        });
        let Run { state, fence, owner, .. } = self.run.clone();
        Model { state, fence: fence.0, owner: owner.to_string(), parts, calls: calls.collect() }
    }
}

/// How a scenario begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// The first owner has made the run, without a checkpoint.
    Fresh,
    /// The first owner has made it with one.
    Covered(u32),
    /// It is suspended, and its owner is gone.
    Waiting(u32),
}

pub(crate) struct World {
    _directory: TempDir,
    stores: Vec<SqliteStore>,
    raw: Connection,
}

impl World {
    pub(crate) fn new(owners: usize) -> Self {
        // Where a sync costs nothing: there are hundreds of thousands of commits.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let directory = directory.expect("a directory");
        let path = directory.path().join("pincer.db");
        let stores = (0..=owners).map(|_| SqliteStore::open(&path).expect("a store")).collect();
        let raw = Connection::open(&path).expect("a connection");
        raw.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = OFF").expect("set");
        raw.set_prepared_statement_cache_capacity(64);
        Self { _directory: directory, stores, raw }
    }

    /// The connection of the process that looks, and takes over at the end.
    pub(crate) fn last(&self) -> Blocking<'_> {
        Blocking(self.stores.last().expect("one more than owners"))
    }

    /// Begins a scenario: puts the run there, and returns what its first owner holds.
    pub(crate) fn begin(&self, start: Start, name: &str) -> Option<i64> {
        self.raw.execute("DELETE FROM run", []).expect("emptied");
        let first = match start {
            Start::Covered(next) => Some(full(next, b"cell")),
            Start::Fresh | Start::Waiting(_) => None,
        };
        let made = self.last().create_run(&run(RUN, "s"), claim(name), first.as_ref(), SAFE);
        let fence = made.expect("made");
        if let Start::Waiting(next) = start {
            self.last().park(RUN, fence, &park(full(next, b"cell"), Some(100))).expect("parked");
            return None;
        }
        Some(fence.0)
    }

    pub(crate) fn rows(&self) -> Rows {
        let of = |table: &&str| {
            let key = if *table == "run" { "id" } else { "run" };
            let query = format!("SELECT * FROM {table} WHERE {key} = ?1");
            let mut query = self.raw.prepare_cached(&query).expect("a query");
            let columns = query.column_count();
            let read = |row: &rusqlite::Row<'_>| (0..columns).map(|index| row.get(index)).collect();
            query.query_map([RUN], read).expect("read").collect::<rusqlite::Result<_>>().expect("read")
        };
        TABLES.iter().map(of).collect()
    }

    /// Puts the run back to where it was.
    pub(crate) fn put_back(&self, rows: &Rows) {
        let transaction = self.raw.unchecked_transaction().expect("begun");
        transaction.prepare_cached("DELETE FROM run").expect("a statement").execute([]).expect("emptied");
        for (table, rows) in TABLES.iter().zip(rows) {
            for row in rows {
                let places = vec!["?"; row.len()].join(", ");
                let insert = format!("INSERT INTO {table} VALUES ({places})");
                let mut insert = transaction.prepare_cached(&insert).expect("a statement");
                insert.execute(params_from_iter(row)).expect("put back");
            }
        }
        transaction.commit().expect("put back");
    }

    pub(crate) fn stored(&self) -> Stored {
        let store = self.last();
        Stored {
            run: store.run(RUN).expect("there"),
            snapshot: store.snapshot(RUN).expect("read"),
            calls: store.calls(RUN).expect("read"),
            result: store.run_result(RUN).expect("read"),
        }
    }

    /// Takes a step on the connection of its owner.
    pub(crate) fn take(&self, index: usize, step: Step, owner: &mut Owner) -> Told {
        let store = Blocking(&self.stores[index]);
        match step {
            Step::Read => {
                let run = store.run(RUN).expect("there");
                owner.seen = Some((run.state, run.fence.0));
                return Told::Done;
            }
            Step::Settle(seq) => return said(store.settle(RUN, owner.name, seq, "1", 7, SAFE)),
            Step::Abort => return said(store.abort_run(RUN, 50)),
            Step::Expire => return said(store.expire_runs(200).map(|ids| !ids.is_empty())),
            Step::Claim | Step::LetWait => {
                let Some((state, fence)) = owner.seen else { return Told::Skipped };
                let (seen, name) = ((state, Fence(fence)), claim(owner.name));
                if step == Step::LetWait {
                    return said(store.let_wait(RUN, Fence(fence), 100));
                }
                return match store.claim_run(RUN, seen, name) {
                    Ok(fence) => {
                        owner.fence = Some(fence.0);
                        Told::Claimed(fence.0)
                    }
                    Err(error) => refused(&error),
                };
            }
            _ => {}
        }
        let Some(fence) = owner.fence.map(Fence) else { return Told::Skipped };
        let dispatch = |call| store.dispatch(RUN, fence, owner.name, &call, SAFE);
        let result = match step {
            Step::Full(next) => store.checkpoint(RUN, fence, &full(next, b"cell"), SAFE),
            Step::Delta(next) => store.checkpoint(RUN, fence, &delta(next, b"more", 0), SAFE),
            Step::Park(next) => store.park(RUN, fence, &park(full(next, b"cell"), Some(100))),
            Step::Finish => finish(store, RUN, fence, RunState::Completed),
            Step::Effect(seq) => dispatch(effect(seq)),
            Step::Look(seq) => dispatch(read_only(seq)),
            Step::Retire(seq) => dispatch(retiring(seq)),
            _ => unreachable!("handled above"),
        };
        said(result.map(|()| true))
    }
}

fn said(result: Result<bool, StoreError>) -> Told {
    match result {
        Ok(true) => Told::Done,
        Ok(false) => Told::Nothing,
        Err(error) => refused(&error),
    }
}

fn refused(error: &StoreError) -> Told {
    match error {
        StoreError::Fenced { .. } => Told::Fenced,
        StoreError::NotCovered { .. } => Told::NotCovered,
        StoreError::Outdated { .. } => Told::Outdated,
        StoreError::Exists { .. } => Told::Exists,
        StoreError::Missing { .. } => Told::Missing,
        other => panic!("{other}"),
    }
}
