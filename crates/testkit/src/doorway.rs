//! The fixture of tests that need no runtime: a door on a fresh store in a temporary directory, with its events noted.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pincer_catalog::{Catalog, Layer, Policy, Rules};
use pincer_store::{Approval, Approvals};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Call, CallError, Context, Door, DoorBuilder, Event, Outcome, RunCatalog, UpdateSink};
use serde_json::Value;
use tempfile::TempDir;

/// A door in a directory of its own. A clone is the same door.
#[derive(Clone)]
pub struct Doorway {
    /// The door.
    pub door: Arc<Door>,
    /// The tools that policy leaves of those that the door was built with. Calls share it, since a scope has the lock of its
    /// sequential tools.
    pub scope: Arc<RunCatalog>,
    /// The store of the door.
    pub store: Arc<SqliteStore>,
    /// The events of all calls.
    pub events: Arc<Mutex<Vec<Event>>>,
    /// The directory, in which `state` belongs to the store.
    pub directory: Arc<TempDir>,
}

/// A sink that keeps the updates of a call.
#[derive(Default)]
pub struct Updates(pub Mutex<Vec<Value>>);

impl UpdateSink for Updates {
    fn update(&self, update: Value) {
        self.0.lock().expect("updates").push(update);
    }
}

/// Opens the store in a file.
pub fn store(file: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(file).expect("a store"))
}

/// Returns a policy that denies these tools.
pub fn deny(names: &[&str]) -> Policy {
    let rules = Rules { deny: names.iter().map(|name| (*name).to_owned()).collect(), ..Rules::default() };
    Policy::open().with(Layer::new("tools", &rules).expect("valid"))
}

/// Returns a call by line 7 of a program.
pub fn call(tool: &str, input: Value) -> Call {
    Call { id: "call-1".into(), tool: tool.into(), input: input.into(), line: Some(7), ..Call::default() }
}

impl Doorway {
    /// Builds a door in a new directory of what `add` makes of an empty builder.
    pub fn new(policy: &Policy, add: impl FnOnce(DoorBuilder) -> DoorBuilder) -> Self {
        Self::open(tempfile::tempdir().expect("a directory"), policy, |door, _| add(door))
    }

    /// Like `new`, but in a directory that may have files already, and `add` gets the store too.
    pub fn open(
        directory: TempDir,
        policy: &Policy,
        add: impl FnOnce(DoorBuilder, &Arc<SqliteStore>) -> DoorBuilder,
    ) -> Self {
        let store = store(&store_file(&directory));
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let noted = Arc::clone(&events);
        let note = move |event: &Event| noted.lock().expect("events").push(event.clone());
        let door = Arc::new(add(Door::builder().events(Arc::new(note)), &store).build(store.clone()));
        let catalog = Catalog::new(door.entries()).expect("different ids");
        let scope = Arc::new(RunCatalog::new(&catalog, policy));
        Self { door, scope, store, events, directory: Arc::new(directory) }
    }

    /// Returns the file of the store.
    pub fn store_file(&self) -> PathBuf {
        store_file(&self.directory)
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, input: Value) -> Outcome {
        self.call_as(&Context::default(), tool, input).await
    }

    /// Calls a tool in a context.
    pub async fn call_as(&self, context: &Context, tool: &str, input: Value) -> Outcome {
        self.call_with_updates(context, tool, input, Arc::new(())).await
    }

    /// Calls a tool in a context and passes its updates on.
    pub async fn call_with_updates(
        &self,
        context: &Context,
        tool: &str,
        input: Value,
        updates: Arc<dyn UpdateSink>,
    ) -> Outcome {
        self.door.call(&self.scope, context, call(tool, input), updates).await
    }

    /// Waits until exactly one question is open, and returns it.
    pub async fn question(&self) -> Approval {
        loop {
            let mut open = self.store.pending_approvals().await.expect("read");
            if open.len() == 1 {
                return open.remove(0);
            }
            // No sleep: where a test has paused the clock, that would move it on.
            tokio::task::yield_now().await;
        }
    }

    /// Calls a tool that must fail, and returns the error.
    pub async fn error(&self, tool: &str, input: Value) -> CallError {
        self.call(tool, input).await.result.expect_err("an error")
    }
}

fn store_file(directory: &TempDir) -> PathBuf {
    directory.path().join("state/pincer.db")
}
