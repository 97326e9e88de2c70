//! A workspace, the built-in tools and a door, on a real store.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pincer_builtin::{Builtin, ExecMode, Settings};
use pincer_catalog::{Catalog, Policy};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Call, Context, Door, ErrorCode, Outcome, RunCatalog, UpdateSink};
use serde_json::Value;
use tempfile::TempDir;

/// All built-in tools, in their order.
pub(crate) const TOOLS: [&str; 13] = [
    "read",
    "write",
    "edit",
    "apply_patch",
    "ls",
    "find",
    "grep",
    "exec",
    "process",
    "web_fetch",
    "session_status",
    "sessions_list",
    "sessions_history",
];

pub(crate) struct House {
    pub door: Arc<Door>,
    pub scope: Arc<RunCatalog>,
    pub builtin: Arc<Builtin>,
    pub store: Arc<SqliteStore>,
    pub directory: TempDir,
}

/// What a tool reported on its way.
#[derive(Default)]
pub(crate) struct Updates(pub Mutex<Vec<Value>>);

impl UpdateSink for Updates {
    fn update(&self, update: Value) {
        self.0.lock().expect("updates").push(update);
    }
}

/// The tools with every command allowed.
pub(crate) fn house() -> House {
    house_with(|settings| settings)
}

pub(crate) fn house_with(change: impl FnOnce(Settings) -> Settings) -> House {
    let directory = tempfile::tempdir().expect("a directory");
    let workspace = directory.path().join("workspace");
    fs::create_dir(&workspace).expect("a workspace");
    let store = Arc::new(SqliteStore::open(&directory.path().join("state/pincer.db")).expect("a store"));
    let settings = change(Settings { workspace, exec_mode: ExecMode::Full, ..Settings::default() });
    let builtin = Builtin::new(settings).expect("tools");
    let door = builtin.register(Door::builder(), Some(store.clone())).expect("registered").build(store.clone());
    let catalog = Catalog::new(door.entries()).expect("different ids");
    let scope = Arc::new(RunCatalog::new(&catalog, &Policy::open()));
    House { door: Arc::new(door), scope, builtin: Arc::new(builtin), store, directory }
}

pub(crate) fn context() -> Context {
    Context { session: "main".into(), ..Context::default() }
}

impl House {
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join("workspace").join(path)
    }

    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, content).expect("a file");
        path
    }

    pub(crate) fn get(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("a file")
    }

    pub(crate) async fn outcome(
        &self,
        context: &Context,
        tool: &str,
        input: Value,
        updates: Arc<dyn UpdateSink>,
    ) -> Outcome {
        let call = Call { id: "call-1".into(), tool: tool.into(), input: input.into(), ..Call::default() };
        self.door.call(&self.scope, context, call, updates).await
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<Value, String> {
        let outcome = self.outcome(&context(), tool, input, Arc::new(())).await;
        outcome.value().map_err(|error| {
            assert_ne!(error.code, ErrorCode::InvalidOutput, "{error}");
            error.message
        })
    }

    pub(crate) async fn ok(&self, tool: &str, input: Value) -> Value {
        self.call(tool, input.clone()).await.unwrap_or_else(|error| panic!("{tool} {input}: {error}"))
    }

    pub(crate) async fn error(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input.clone()).await {
            Ok(value) => panic!("{tool} {input} came to {value}"),
            Err(error) => error,
        }
    }
}

/// Everything beneath a directory: paths and contents.
pub(crate) fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() {
                found.push((entry.path(), fs::read(entry.path()).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}
