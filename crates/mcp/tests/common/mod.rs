//! Real servers, good and bad, behind a real door.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub(crate) mod settings;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pincer_catalog::{Catalog, Policy};
use pincer_mcp::{ServerSettings, Servers};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{ApprovalRule, BoxFuture, Call, CallError, Context, Door, Outcome, Request, RunCatalog, UpdateSink};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

/// Far more than anything here takes; it only keeps a broken test from hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a house is made of. There is always a server `good`, the fixture.
pub(crate) struct Setup {
    directory: TempDir,
    servers: Vec<ServerSettings>,
    rules: Vec<ApprovalRule>,
}

/// Servers behind a door, in a directory.
pub(crate) struct House {
    pub servers: Servers,
    pub door: Arc<Door>,
    pub store: Arc<SqliteStore>,
    pub directory: TempDir,
}

/// With a good server only.
pub(crate) fn setup() -> Setup {
    let setup = Setup { directory: tempfile::tempdir().unwrap(), servers: Vec::new(), rules: Vec::new() };
    setup.server("good", &[&program("mcp-fixture"), "stdio"])
}

/// With a server `liar` in some mode.
pub(crate) fn with_liar(mode: &str) -> House {
    setup().liar(mode).open()
}

pub(crate) fn program(name: &str) -> String {
    pincer_testkit::program(name).unwrap().to_str().unwrap().to_owned()
}

impl Setup {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn liar(self, mode: &str) -> Self {
        self.server("liar", &[&program("mcp-liar"), mode])
    }

    /// A program that notes its process id before it begins.
    pub(crate) fn server(self, name: &str, words: &[&str]) -> Self {
        self.shell(name, "exec \"$@\"", words)
    }

    /// A shell that notes its process id and then does something with the words.
    pub(crate) fn shell(mut self, name: &str, script: &str, words: &[&str]) -> Self {
        let pids = self.directory.path().join(format!("{name}.pids"));
        let noting = format!("echo $$ >> \"$0\"; {script}");
        let begin = ["sh", "-c", &noting, pids.to_str().unwrap()];
        let words: Vec<&str> = begin.into_iter().chain(words.iter().copied()).collect();
        let server = settings::by_words(name, &words, self.directory.path(), &self.path("state"));
        self.servers.push(server);
        self
    }

    /// Changes the settings of the server that was added last.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut ServerSettings)) -> Self {
        change(self.servers.last_mut().unwrap());
        self
    }

    pub(crate) fn rule(mut self, rule: ApprovalRule) -> Self {
        self.rules.push(rule);
        self
    }

    pub(crate) fn open(self) -> House {
        let Self { directory, servers, rules } = self;
        let store = Arc::new(SqliteStore::open(&directory.path().join("pincer.db")).unwrap());
        let builder = rules.into_iter().fold(Door::builder(), |builder, rule| builder.rule(rule));
        let door = Arc::new(builder.build(store.clone()));
        let state = directory.path().join("state");
        let servers = Servers::new(servers.into_iter().map(settings::identified), Some(state));
        servers.attach(&door);
        House { servers, door, store, directory }
    }
}

impl House {
    /// All servers have been asked what they have.
    pub(crate) async fn asked(self) -> Self {
        within(self.servers.refresh_all()).await;
        self
    }

    /// The same servers in a new process, as far as anybody can tell.
    pub(crate) async fn reopened(self, change: impl FnOnce(Setup) -> Setup) -> Self {
        within(self.servers.end()).await;
        let Self { directory, .. } = self;
        let setup = Setup { directory, servers: Vec::new(), rules: Vec::new() };
        change(setup).open()
    }

    pub(crate) fn scope(&self) -> RunCatalog {
        RunCatalog::new(&Catalog::new(self.door.entries()).unwrap(), &Policy::open())
    }

    pub(crate) async fn call_as(
        &self,
        context: Context,
        tool: &str,
        input: Value,
        updates: Arc<dyn UpdateSink>,
    ) -> Outcome {
        let call = Call { id: "call-1".into(), tool: tool.into(), input: input.into(), ..Call::default() };
        within(self.door.call(&self.scope(), &context, call, updates)).await
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> Outcome {
        self.call_as(Context::default(), tool, input, Arc::new(())).await
    }

    pub(crate) async fn ok(&self, tool: &str, input: Value) -> Value {
        self.call(tool, input).await.value().unwrap()
    }

    /// The text of a result's first block.
    pub(crate) async fn text(&self, tool: &str, input: Value) -> String {
        text(&self.ok(tool, input).await)
    }

    pub(crate) async fn error(&self, tool: &str, input: Value) -> CallError {
        self.call(tool, input).await.result.unwrap_err()
    }

    /// The good server works, and has not been started again.
    pub(crate) async fn is_unharmed(&self) {
        let said = self.text("mcp:good:test_simple_text", json!({})).await;
        assert_eq!(said, "This is a simple text response for testing.");
        assert_eq!(self.pids("good").len(), 1, "the good server was started once");
    }

    /// Makes a call that hangs, sees that nobody else is held up, and lets it come to its end.
    pub(crate) async fn is_unharmed_by(&self, stuck: impl Future<Output = Outcome>, release: impl FnOnce()) -> Outcome {
        tokio::pin!(stuck);
        tokio::select! {
            biased;
            outcome = &mut stuck => panic!("it does not hang: {outcome:?}"),
            () = self.is_unharmed() => {}
        }
        release();
        within(stuck).await
    }

    /// Names of a server's tools at the door, in order.
    pub(crate) fn tools(&self, server: &str) -> Vec<String> {
        let entries = self.door.entries();
        let theirs = entries.iter().filter(|entry| entry.id.owner() == server);
        theirs.map(|entry| entry.id.name().to_owned()).collect()
    }

    /// Waits until something is so, looking whenever something has become known of a server.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let mut changes = self.servers.changes();
        within(async {
            while !is_so(self) {
                changes.changed().await.unwrap();
            }
        })
        .await;
    }

    /// The processes of a server, in the order of their starts.
    pub(crate) fn pids(&self, server: &str) -> Vec<i32> {
        let noted = std::fs::read_to_string(self.path(&format!("{server}.pids"))).unwrap_or_default();
        noted.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What a server has written to its standard error.
    pub(crate) fn log(&self, server: &str) -> String {
        std::fs::read_to_string(self.path(&format!("state/logs/mcp/{server}.log"))).unwrap_or_default()
    }

    pub(crate) async fn end(self) {
        within(self.servers.end()).await;
        for server in self.servers.iter() {
            for pid in self.pids(server.name()) {
                assert!(!is_alive(pid), "the server {} is still there", server.name());
            }
        }
    }
}

/// Fails instead of hanging.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it comes to an end")
}

/// Waits for what only the system can tell.
pub(crate) async fn eventually(is_so: impl Fn() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The text of a result's first block.
pub(crate) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}")).to_owned()
}

/// Whether there is such a process, and it is not over.
pub(crate) fn is_alive(pid: i32) -> bool {
    let told = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

pub(crate) fn kill(pid: i32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

pub(crate) fn is_private(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777 == 0o600
}

/// What somebody who is asked does.
pub(crate) enum Asked {
    /// Gives this answer.
    Answers(Value),
    /// Goes on thinking about it.
    Thinks,
}

/// Somebody who made a call: hears of it, and can be asked.
pub(crate) struct Person {
    asked: Asked,
    pub questions: Mutex<Vec<Request>>,
    pub updates: Mutex<Vec<Value>>,
    /// How many questions nobody has answered or taken back.
    pub open: watch::Sender<usize>,
}

impl Person {
    pub(crate) fn who(asked: Asked) -> Arc<Self> {
        Arc::new(Self { asked, questions: Mutex::default(), updates: Mutex::default(), open: watch::channel(0).0 })
    }

    pub(crate) async fn has_open(&self, count: usize) {
        within(self.open.subscribe().wait_for(|open| *open == count)).await.unwrap();
    }
}

/// Counts a question as open for as long as it is kept.
struct Open<'p>(&'p Person);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

impl UpdateSink for Person {
    fn update(&self, update: Value) {
        self.updates.lock().unwrap().push(update);
    }

    fn ask(&self, request: Request) -> BoxFuture<'_, Option<Value>> {
        self.questions.lock().unwrap().push(request);
        self.open.send_modify(|open| *open += 1);
        let open = Open(self);
        Box::pin(async move {
            let _open = open;
            match &self.asked {
                Asked::Answers(answer) => Some(answer.clone()),
                Asked::Thinks => std::future::pending().await,
            }
        })
    }
}
