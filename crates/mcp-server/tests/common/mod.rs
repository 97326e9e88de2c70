//! A face with test tools behind a real door, on a real engine and a real store, and clients of it.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod person;
pub mod web;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pincer_catalog::{Entry, Flags, Layer, Policy, Rules};
use pincer_codemode::{CodeMode, Settings};
use pincer_config::keys::{Mcp, McpSampling, McpServer};
use pincer_mcp::{Places, Servers};
use pincer_mcp_server::{Face, FaceParts, Requests, Surface, User, serve};
use pincer_sandbox::{Engine, Options};
use pincer_store::{Approval, Approvals, RunState, Runs};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_tools::{ApprovalRule, Door, FnTool, Matcher, RuleDecision, Server, ServerState, Tool, ToolCall, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use person::{Client, Person};

const LIVE_CELLS: u32 = 64;
/// What takes longer than this never happens.
pub const NEVER: Duration = Duration::from_secs(60);

pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let cache_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine-cache");
    let load = || Options {
        cache_dir: Some(cache_dir),
        live_cells: LIVE_CELLS,
        long_turn: Some(pincer_codemode::fair_turns()),
        ..Options::default()
    };
    ENGINE.get_or_init(|| Engine::load(load()).expect("the engine"))
}

/// Places where tools and tests wait for each other.
#[derive(Clone, Default)]
pub struct Gates(Arc<Mutex<HashMap<String, Arc<Semaphore>>>>);

impl Gates {
    fn gate(&self, name: &str) -> Arc<Semaphore> {
        let mut gates = self.0.lock().expect("gates");
        Arc::clone(gates.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
    }

    pub fn open(&self, name: &str) {
        self.gate(name).add_permits(1);
    }

    /// Waits until it is opened.
    pub async fn pass(&self, name: &str) {
        let gate = self.gate(name);
        let passed = tokio::time::timeout(NEVER, gate.acquire()).await;
        passed.unwrap_or_else(|_| panic!("{name} never happened")).expect("open").forget();
    }
}

/// What a face is to be like.
pub struct Plan {
    pub surface: Surface,
    pub deny: Vec<&'static str>,
    /// What a person is asked about.
    pub ask: Vec<&'static str>,
    pub servers: Vec<(&'static str, McpServer)>,
    pub timeout_ms: u64,
}

impl Plan {
    pub fn new(surface: Surface) -> Self {
        Self { surface, deny: Vec::new(), ask: vec!["openclaw:core:ask"], servers: Vec::new(), timeout_ms: 60_000 }
    }
}

pub struct House {
    pub face: Arc<Face>,
    pub door: Arc<Door>,
    pub store: Arc<SqliteStore>,
    pub mode: CodeMode,
    pub servers: Arc<Servers>,
    pub gates: Gates,
    pub end: CancellationToken,
    _directory: TempDir,
}

/// A server that is one of the test programs.
pub fn program(name: &str, argument: &str) -> McpServer {
    let command = pincer_testkit::program(name).expect("built with the workspace");
    McpServer { command: Some(command.display().to_string()), args: vec![argument.into()], ..McpServer::default() }
}

pub fn entry(id: &str) -> Entry {
    let id: pincer_catalog::ToolId = id.parse().expect("an id");
    let mut entry = Entry::new(id.clone(), format!("A test tool called {}", id.name()));
    entry.flags = Flags { trusted: true, ..Flags::default() };
    entry
}

fn tool<F: Future<Output = Result<Value, ToolError>> + Send + 'static>(
    call: impl Fn(ToolCall) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(FnTool(call))
}

pub fn echo() -> Arc<dyn Tool> {
    tool(|call| async move { Ok(call.input) })
}

/// `echo`; `ask` and `other`, which are `echo` too; `gate`, which says `NAME begun` and waits for `NAME`; `hang`, which says
/// `hangs`, waits for its abort and says `aborted`; `fail`.
fn tools(gates: &Gates) -> Vec<(&'static str, Arc<dyn Tool>)> {
    let (at, on) = (gates.clone(), gates.clone());
    let gate = tool(move |call| {
        let (gates, name) = (at.clone(), call.input["name"].as_str().unwrap_or_default().to_owned());
        async move {
            gates.open(&format!("{name} begun"));
            gates.pass(&name).await;
            Ok(json!(name))
        }
    });
    let hang = tool(move |call| {
        let gates = on.clone();
        async move {
            gates.open("hangs");
            call.abort.cancelled().await;
            gates.open("aborted");
            Err(ToolError::unknown("it was aborted"))
        }
    });
    let fail = tool(|_| async { Err(ToolError::unknown("it broke")) });
    vec![
        ("openclaw:core:echo", echo()),
        ("openclaw:core:ask", echo()),
        ("openclaw:core:other", echo()),
        ("openclaw:core:gate", gate),
        ("openclaw:core:hang", hang),
        ("openclaw:core:fail", fail),
    ]
}

pub fn house(surface: Surface) -> House {
    planned(Plan::new(surface))
}

pub fn planned(plan: Plan) -> House {
    let directory = tempfile::tempdir().expect("a directory");
    let (gates, requests) = (Gates::default(), Requests::default());
    let mut builder = Door::builder().events(Arc::new(requests.clone()));
    for (id, tool) in tools(&gates) {
        builder = builder.tool(entry(id), tool).expect(id);
    }
    for name in &plan.ask {
        let matcher = Matcher::parse("rules", &[*name]).expect("a matcher");
        builder = builder.rule(ApprovalRule { matcher, decision: RuleDecision::Ask });
    }
    let store = Arc::new(SqliteStore::open(&directory.path().join("pincer.db")).expect("a store"));
    let door = Arc::new(builder.build(store.clone()));
    let mcp = Mcp {
        servers: plan.servers.into_iter().map(|(name, server)| (name.to_owned(), server)).collect(),
        ..Mcp::default()
    };
    let places = Places { workspace: directory.path().to_owned(), ..Places::default() };
    let sampling = if plan.surface == Surface::Direct { McpSampling::Pass } else { McpSampling::Refuse };
    let servers = Arc::new(Servers::new(&mcp, &places, sampling));
    servers.attach(&door);
    let leases = Arc::new(FileLeases::new(directory.path().join("owners")));
    let mode = CodeMode::new(engine().clone(), LIVE_CELLS, Arc::clone(&door), store.clone(), leases);
    let rules = Rules { deny: plan.deny.iter().map(|name| (*name).to_owned()).collect(), ..Rules::default() };
    let face = Face::new(FaceParts {
        mode: mode.clone(),
        door: Arc::clone(&door),
        servers: Arc::clone(&servers),
        approvals: store.clone(),
        requests,
        policies: Policy::open().with(Layer::new("tools", &rules).expect("valid")).into(),
        settings: Settings::default().timeout_ms(plan.timeout_ms),
        session: "main".into(),
        user: User("user:me".into()),
        surface: plan.surface,
    });
    House { face, door, store, mode, servers, gates, end: CancellationToken::new(), _directory: directory }
}

impl House {
    /// A connection, and the task that serves it.
    pub fn line(&self, bytes: usize) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (ours, theirs) = tokio::io::duplex(bytes);
        let (input, output) = tokio::io::split(theirs);
        let serving = serve(Arc::clone(&self.face), input, output, self.end.clone());
        (ours, tokio::spawn(async move { serving.await.expect("a client") }))
    }

    pub async fn connect(&self, person: Person) -> Client {
        let (ours, _) = self.line(1 << 16);
        person.connect(ours).await
    }

    /// Brings tools of a server to the door, as if it had listed them.
    pub fn serves(&self, name: &str, tools: Vec<(Entry, Arc<dyn Tool>)>) {
        let tools = tools.into_iter().map(|(entry, tool)| (Arc::new(entry), tool)).collect();
        self.door.set_server(Server { name: name.into(), state: ServerState::Available, tools });
    }

    /// The one question that is open.
    pub fn question(&self) -> Approval {
        let mut open = self.store.pending_approvals().wait().expect("questions");
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }

    pub fn state(&self, run: &str) -> RunState {
        self.store.run(&run.into()).wait().expect("a run").state
    }

    /// The ids of all runs, oldest first.
    pub fn runs(&self) -> Vec<String> {
        let runs = self.store.runs(None).wait().expect("runs");
        runs.into_iter().map(|run| run.id.to_string()).collect()
    }

    /// Waits until a run is in this state.
    pub async fn until(&self, run: &str, state: RunState) {
        let reached = async {
            while self.state(run) != state {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let late = tokio::time::timeout(NEVER, reached).await.is_err();
        assert!(!late, "{run} is {:?}, and never {state:?}", self.state(run));
    }
}
