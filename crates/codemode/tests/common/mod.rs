//! Code mode with test tools behind a real door, on a real engine and a real store.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pincer_catalog::{Catalog, Entry, Flags, Policy};
use pincer_codemode::{CodeMode, ExecInput, RunScope, RunTools, Settings, WaitInput};
use pincer_store::Snapshots;
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_testkit::doorway::store;
pub(crate) use pincer_testkit::doorway::{Doorway, deny};
pub(crate) use pincer_testkit::house::{LIVE_CELLS, engine};
pub(crate) use pincer_testkit::tools::{Gates, echo};
use pincer_testkit::tools::{fail, gate, tool};
use pincer_tools::{ApprovalRule, Context, Door, DoorBuilder, Matcher, RuleDecision, Tool};
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct House {
    pub mode: CodeMode,
    pub gates: Gates,
    pub counted: Arc<AtomicU32>,
    pub policy: Policy,
    pub doorway: Doorway,
}

impl Deref for House {
    type Target = Doorway;

    fn deref(&self) -> &Doorway {
        &self.doorway
    }
}

pub(crate) fn entry(id: &str, flags: Flags) -> Entry {
    let mut entry = Entry { flags, ..pincer_testkit::tools::entry(id) };
    entry.description += if entry.id.name() == "echo" { ". Returns its input" } else { ". Does what a test needs" };
    entry
}

const TRUSTED: Flags = Flags {
    read_only: false,
    claims_read_only: false,
    idempotent: false,
    sequential: false,
    direct_only: false,
    trusted: true,
};

pub(crate) fn house() -> House {
    house_with(|door| door)
}

/// `echo`, `count` (how often it was called), `gate` (waits for the test), `fail`, `ask` (a person is asked), `look` (read
/// only), `turn` (one at a time), `hidden` (denied), one of an MCP server and one of a client.
pub(crate) fn house_with(more: impl FnOnce(DoorBuilder) -> DoorBuilder) -> House {
    let (gates, counted): (Gates, Arc<AtomicU32>) = Default::default();
    let counter = Arc::clone(&counted);
    let count = tool(move |_| {
        let count = counter.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(json!(count)) }
    });
    let tools: Vec<(&str, Flags, Arc<dyn Tool>)> = vec![
        ("openclaw:core:echo", TRUSTED, echo()),
        ("openclaw:core:count", TRUSTED, count),
        ("openclaw:core:gate", TRUSTED, gate(&gates)),
        ("openclaw:core:turn", Flags { sequential: true, ..TRUSTED }, gate(&gates)),
        ("openclaw:core:fail", TRUSTED, fail()),
        ("openclaw:core:ask", TRUSTED, echo()),
        ("openclaw:core:look", Flags { read_only: true, ..TRUSTED }, echo()),
        ("openclaw:core:hidden", TRUSTED, echo()),
        ("mcp:files:read", Flags::default(), echo()),
        ("client:app:pick-file", Flags::default(), echo()),
    ];
    let matcher = Matcher::parse("rules", &["openclaw:core:ask"]).expect("a matcher");
    let policy = deny(&["hidden"]);
    let doorway = Doorway::new(&policy, |door| {
        let add = |door: DoorBuilder, (id, flags, tool)| door.tool(entry(id, flags), tool).expect(id);
        more(tools.into_iter().fold(door, add).rule(ApprovalRule { matcher, decision: RuleDecision::Ask }))
    });
    let mode = mode(&doorway.door, &doorway.store, doorway.directory.path());
    House { mode, gates, counted, policy, doorway }
}

pub(crate) fn mode(door: &Arc<Door>, store: &Arc<SqliteStore>, directory: &Path) -> CodeMode {
    let leases = Arc::new(FileLeases::new(directory.join("owners")));
    CodeMode::new(engine().clone(), LIVE_CELLS, Arc::clone(door), store.clone(), leases)
}

/// Changes what is stored of a suspended program.
pub(crate) fn tamper(house: &House, run: &str, change: impl FnOnce(&mut pincer_store::Snapshot)) {
    let mut snapshot = house.store.snapshot(&run.into()).wait().expect("read").expect("a snapshot");
    change(&mut snapshot);
    let file = rusqlite::Connection::open(house.store_file()).expect("the file");
    let change = "UPDATE snapshot SET bytes = ?2, detail = ?3 WHERE run = ?1";
    assert_eq!(file.execute(change, (run, &snapshot.parts[0], &snapshot.detail)).expect("changed"), 1);
}

impl House {
    /// Another process with the same store, as far as one process can be another: it owns nothing of the first one's.
    pub(crate) fn neighbour(&self) -> Self {
        let store = store(&self.store_file());
        let mode = mode(&self.door, &store, self.directory.path());
        Self { mode, doorway: Doorway { store, ..self.doorway.clone() }, ..self.clone() }
    }

    pub(crate) fn scope(&self) -> RunScope {
        let context = Context { session: "main".into(), agent: Some("writer".into()), ..Context::default() };
        let catalog = Catalog::new(self.door.entries()).expect("different ids");
        let tools = Arc::new(RunTools::new(&self.door, &catalog, &self.policy, &context));
        RunScope::new(tools, Settings::default(), context).by("me")
    }

    /// A scope in which nothing waits for long.
    pub(crate) fn brief(&self) -> RunScope {
        let scope = self.scope();
        RunScope { settings: scope.settings.clone().timeout_ms(300), ..scope }
    }

    pub(crate) async fn exec(&self, code: &str) -> Value {
        self.exec_in(&self.scope(), code).await
    }

    pub(crate) async fn exec_in(&self, scope: &RunScope, code: &str) -> Value {
        serde_json::to_value(self.mode.exec(scope, ExecInput::javascript(code)).await).expect("JSON")
    }

    pub(crate) async fn wait(&self, run: &Value) -> Value {
        self.wait_in(&self.scope(), run).await
    }

    /// Continues what a result with `runId` says.
    pub(crate) async fn wait_in(&self, scope: &RunScope, run: &Value) -> Value {
        let run_id = run["runId"].as_str().unwrap_or_else(|| panic!("it does not wait: {run}")).into();
        serde_json::to_value(self.mode.wait(scope, &WaitInput { run_id }).await).expect("JSON")
    }

    /// The value of a program that completes.
    pub(crate) async fn value(&self, code: &str) -> Value {
        let result = self.exec(code).await;
        assert_eq!(result["status"], "completed", "{code}: {result}");
        result["value"].clone()
    }

    pub(crate) fn count(&self) -> u32 {
        self.counted.load(Ordering::SeqCst)
    }
}

pub(crate) fn code_of(result: &Value) -> &str {
    result["code"].as_str().unwrap_or("none")
}

/// What a result says, for assertions on parts of it.
pub(crate) fn says(result: &Value, words: &str) -> bool {
    result["error"].as_str().is_some_and(|error| error.contains(words))
}
