//! A door with test tools, on a real store.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::sync::{Arc, Mutex};

use pincer_catalog::{Catalog, Entry, Layer, Policy, Rules};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{
    Call, CallError, Context, Door, DoorBuilder, Event, FnTool, Outcome, RunCatalog, ToolCall, ToolError,
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct House {
    pub door: Arc<Door>,
    pub scope: RunCatalog,
    pub store: Arc<SqliteStore>,
    pub events: Arc<Mutex<Vec<Event>>>,
    pub directory: TempDir,
}

pub(crate) fn entry(id: &str) -> Entry {
    let mut entry = Entry::new(id.parse().expect("an id"), "a test tool");
    entry.input_schema = json!({
        "type": "object",
        "required": ["text"],
        "properties": { "text": { "type": "string" }, "times": { "type": "integer" } },
        "additionalProperties": false,
    });
    entry
}

/// Returns its input.
pub(crate) fn echo() -> Arc<dyn pincer_tools::Tool> {
    Arc::new(FnTool(|call: ToolCall| async move { Ok::<Value, ToolError>(call.input) }))
}

/// A door with `openclaw:core:echo`, `mcp:files:read` and `openclaw:core:hidden`, which policy denies, and what `more` adds.
pub(crate) fn house(more: impl FnOnce(DoorBuilder) -> DoorBuilder) -> House {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Arc::new(SqliteStore::open(&directory.path().join("pincer.db")).expect("a store"));
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let told = Arc::clone(&events);
    let builder =
        Door::builder().events(Arc::new(move |event: &Event| told.lock().expect("events").push(event.clone())));
    let builder = builder.tool(entry("openclaw:core:echo"), echo()).expect("registered");
    let builder = builder.tool(entry("mcp:files:read"), echo()).expect("registered");
    let builder = builder.tool(entry("openclaw:core:hidden"), echo()).expect("registered");
    let door = Arc::new(more(builder).build(store.clone()));
    let rules = Rules { deny: vec!["hidden".into()], ..Rules::default() };
    let policy = Policy::open().with(Layer::new("tools", &rules).expect("valid"));
    let catalog = Catalog::new(door.entries()).expect("different ids");
    let scope = RunCatalog::new(&catalog, &policy);
    House { door, scope, store, events, directory }
}

pub(crate) fn call(tool: &str, input: Value) -> Call {
    Call { id: "call-1".into(), tool: tool.into(), input: input.into(), line: Some(7), ..Call::default() }
}

impl House {
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Outcome {
        self.call_as(&Context::default(), tool, input).await
    }

    pub(crate) async fn call_as(&self, context: &Context, tool: &str, input: Value) -> Outcome {
        self.door.call(&self.scope, context, call(tool, input), Arc::new(())).await
    }

    pub(crate) async fn error(&self, tool: &str, input: Value) -> CallError {
        self.call(tool, input).await.result.expect_err("an error")
    }
}
