//! A workspace, the built-in tools and a door, on a real store.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use pincer_builtin::{Builtin, ExecMode, Settings};
use pincer_catalog::Policy;
use pincer_testkit::doorway::Doorway;
use pincer_tools::{Context, DoorBuilder, ErrorCode};
use serde_json::Value;

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
    pub builtin: Builtin,
    doorway: Doorway,
}

impl Deref for House {
    type Target = Doorway;

    fn deref(&self) -> &Doorway {
        &self.doorway
    }
}

/// The tools with every command allowed.
pub(crate) fn house() -> House {
    house_with(|settings| settings)
}

pub(crate) fn house_with(change: impl FnOnce(Settings) -> Settings) -> House {
    made(change, |door| door)
}

fn made(change: impl FnOnce(Settings) -> Settings, add: impl FnOnce(DoorBuilder) -> DoorBuilder) -> House {
    let directory = tempfile::tempdir().expect("a directory");
    let workspace = directory.path().join("workspace");
    fs::create_dir(&workspace).expect("a workspace");
    let settings = change(Settings { workspace, exec_mode: ExecMode::Full, ..Settings::default() });
    let builtin = Builtin::new(settings).expect("tools");
    let doorway = Doorway::open(directory, &Policy::open(), |door, store| {
        builtin.register(add(door), Some(store.clone())).expect("registered")
    });
    House { builtin, doorway }
}

pub(crate) fn context() -> Context {
    Context { session: "main".into(), ..Context::default() }
}

impl House {
    /// The tools behind a door with something of its own.
    pub(crate) fn with_door(add: impl FnOnce(DoorBuilder) -> DoorBuilder) -> Self {
        made(|settings| settings, add)
    }

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

    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<Value, String> {
        let outcome = self.call_as(&context(), tool, input).await;
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
