//! A face with test tools behind a real door, on a real engine and a real store, and clients of it.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]

pub(crate) mod person;
pub(crate) mod web;

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_config::keys::McpServer;
use pincer_mcp::{Sampling, Servers};
use pincer_mcp_server::{Face, FaceParts, Surface, serve};
use pincer_runtime::{Principal, Runtime, ScopeRequest};
use pincer_store::{Approval, Approvals, RunState, Runs};
use pincer_store_sqlite::SqliteStore;
pub(crate) use pincer_testkit::house::{Gates, NEVER, echo, entry, program};
use pincer_testkit::house::{fail, gate, tool};
use pincer_tools::{Door, Server, ServerState, Tool, ToolError};
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;

use person::{Client, Person};

const LIVE_CELLS: u32 = 64;

/// What a face is to be like.
pub(crate) struct Plan {
    pub surface: Surface,
    pub deny: Vec<&'static str>,
    /// What a person is asked about.
    pub ask: Vec<&'static str>,
    pub servers: Vec<(&'static str, McpServer)>,
    pub timeout_ms: u64,
}

impl Plan {
    pub(crate) fn new(surface: Surface) -> Self {
        Self { surface, deny: Vec::new(), ask: vec!["openclaw:core:ask"], servers: Vec::new(), timeout_ms: 60_000 }
    }
}

pub(crate) struct House {
    pub face: Arc<Face>,
    pub runtime: Arc<Runtime>,
    pub door: Arc<Door>,
    pub store: Arc<SqliteStore>,
    pub servers: Arc<Servers>,
    pub gates: Gates,
    pub end: CancellationToken,
    _directory: TempDir,
}

/// `echo`; `ask` and `other`, which are `echo` too; `gate`, which says `NAME begun` and waits for `NAME`; `hang`, which says
/// `hangs`, waits for its abort and says `aborted`; `fail`.
fn tools(gates: &Gates) -> Vec<(&'static str, Arc<dyn Tool>)> {
    let on = gates.clone();
    let hang = tool(move |call| {
        let gates = on.clone();
        async move {
            gates.open("hangs");
            call.abort.cancelled().await;
            gates.open("aborted");
            Err(ToolError::unknown("it was aborted"))
        }
    });
    vec![
        ("openclaw:core:echo", echo()),
        ("openclaw:core:ask", echo()),
        ("openclaw:core:other", echo()),
        ("openclaw:core:gate", gate(gates)),
        ("openclaw:core:hang", hang),
        ("openclaw:core:fail", fail()),
    ]
}

pub(crate) fn house(surface: Surface) -> House {
    planned(Plan::new(surface))
}

pub(crate) fn planned(plan: Plan) -> House {
    let gates = Gates::default();
    let kit = pincer_testkit::house::Plan {
        live_cells: LIVE_CELLS,
        sampling: if plan.surface == Surface::Direct { Sampling::Pass } else { Sampling::Refuse },
        ..Default::default()
    };
    let kit = kit.tools(tools(&gates)).ask(&plan.ask).deny(&plan.deny).timeout_ms(plan.timeout_ms);
    let kit = plan.servers.into_iter().fold(kit, |kit, (name, server)| kit.server(name, server));
    let pincer_testkit::house::House { runtime, directory } = kit.open();
    let clients = ScopeRequest::new(Principal::new("user:me"), "main");
    let parts = FaceParts { runtime: Arc::clone(&runtime), clients, surface: plan.surface };
    House {
        face: Face::new(parts).expect("a face"),
        door: Arc::clone(runtime.door()),
        store: Arc::clone(runtime.store()),
        servers: Arc::clone(runtime.servers()),
        runtime,
        gates,
        end: CancellationToken::new(),
        _directory: directory,
    }
}

impl House {
    /// A connection, and the task that serves it.
    pub(crate) fn line(&self, bytes: usize) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (ours, theirs) = tokio::io::duplex(bytes);
        let (input, output) = tokio::io::split(theirs);
        let serving = serve(Arc::clone(&self.face), input, output, self.end.clone());
        (ours, tokio::spawn(async move { serving.await.expect("a client") }))
    }

    pub(crate) async fn connect(&self, person: Person) -> Client {
        let (ours, _) = self.line(1 << 16);
        person.connect(ours).await
    }

    /// Brings tools of a server to the door, as if it had listed them.
    pub(crate) fn serves(&self, name: &str, tools: Vec<(Entry, Arc<dyn Tool>)>) {
        let tools = tools.into_iter().map(|(entry, tool)| (Arc::new(entry), tool)).collect();
        self.door.set_server(Server { name: name.into(), state: ServerState::Available, tools });
    }

    /// The one question that is open.
    pub(crate) fn question(&self) -> Approval {
        let mut open = self.store.pending_approvals().wait().expect("questions");
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }

    pub(crate) fn state(&self, run: &str) -> RunState {
        self.store.run(&run.into()).wait().expect("a run").state
    }

    /// The ids of all runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<String> {
        let runs = self.store.runs(None).wait().expect("runs");
        runs.into_iter().map(|run| run.id.to_string()).collect()
    }

    /// Waits until a run is in this state.
    pub(crate) async fn until(&self, run: &str, state: RunState) {
        let reached = async {
            while self.state(run) != state {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let late = tokio::time::timeout(NEVER, reached).await.is_err();
        assert!(!late, "{run} is {:?}, and never {state:?}", self.state(run));
    }
}
