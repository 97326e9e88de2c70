//! Tools of tests, and the gates at which tools and tests wait for each other.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pincer_catalog::{Entry, Flags, ToolId};
use pincer_tools::{FnTool, Tool, ToolCall, ToolError};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Longer than anything takes that happens at all.
pub const NEVER: Duration = Duration::from_secs(60);

/// Gates at which tools and tests wait for each other.
#[derive(Clone, Default)]
pub struct Gates(Arc<Mutex<HashMap<String, Arc<Semaphore>>>>);

impl Gates {
    fn gate(&self, name: &str) -> Arc<Semaphore> {
        let mut gates = self.0.lock().expect("gates");
        Arc::clone(gates.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
    }

    /// Lets one through.
    pub fn open(&self, name: &str) {
        self.gate(name).add_permits(1);
    }

    /// Returns whether a call has come to a gate, or a test has opened it.
    pub fn has_come(&self, name: &str) -> bool {
        self.0.lock().expect("gates").contains_key(name)
    }

    /// Waits until it is opened, and panics if that never happens.
    pub async fn pass(&self, name: &str) {
        let waiting = tokio::time::timeout(NEVER, self.wait(name)).await;
        waiting.unwrap_or_else(|_| panic!("{name} never happened"));
    }

    /// Waits until it is opened.
    pub async fn wait(&self, name: &str) {
        self.gate(name).acquire().await.expect("open").forget();
    }
}

/// Returns the entry of a trusted tool.
pub fn entry(id: &str) -> Entry {
    let id: ToolId = id.parse().expect("an id");
    let mut entry = Entry::new(id.clone(), format!("A test tool called {}", id.name()));
    entry.flags = Flags { trusted: true, ..Flags::default() };
    entry
}

/// Returns a tool that is a function.
pub fn tool<F: Future<Output = Result<Value, ToolError>> + Send + 'static>(
    call: impl Fn(ToolCall) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(FnTool(call))
}

/// Returns a tool that gives its input back.
pub fn echo() -> Arc<dyn Tool> {
    tool(|call| async move { Ok(call.input) })
}

/// Returns a tool that fails.
pub fn fail() -> Arc<dyn Tool> {
    tool(|_| async { Err(ToolError::unknown("it broke")) })
}

/// Returns a tool that opens `NAME begun`, waits for `NAME`, which is in its input, and gives it back.
pub fn gate(gates: &Gates) -> Arc<dyn Tool> {
    let gates = gates.clone();
    tool(move |call| {
        let (gates, name) = (gates.clone(), call.input["name"].as_str().unwrap_or_default().to_owned());
        async move {
            gates.open(&format!("{name} begun"));
            gates.wait(&name).await;
            Ok(json!(name))
        }
    })
}
