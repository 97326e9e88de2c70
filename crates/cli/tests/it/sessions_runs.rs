//! `pincer sessions` while something goes on in them: runs as another process has left them, and a run of an agent.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use pincer_agent::{Agent, Request};
use pincer_config::Loaded;
use pincer_runtime::{EngineStart, ModelSetup, Principal, Runtime, RuntimeOptions};
use pincer_scripted::{Format, Script, Server};
use pincer_store::{
    AgentRunId, AgentRunState, AgentRuns, Attach, Changes, Clock, EntryKind, Fence, Leases, NewAgentRun, NewEntry,
    QueueLimit, RunChange, Safety, SessionCommit, SessionId, Sessions, WhenFull,
};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use pincer_testkit::house::engine;
use regex::Regex;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::Home;

/// A home in whose store this process writes, too.
struct House {
    home: Home,
    store: SqliteStore,
    user: String,
}

/// A process that works on a session, for as long as this is kept.
struct Alive {
    _leases: FileLeases,
    session: SessionId,
    fence: Fence,
}

impl House {
    fn new() -> Self {
        let home = Home::with(
            "{ models: { providers: { mine: { baseUrl: 'http://127.0.0.1:1/v1', apiKey: 'k', api: 'openai-completions' } } }, \
             agents: { defaults: { model: 'mine/x' } } }",
        );
        // The first command makes the state directory, as it must be.
        assert_eq!(home.run(&["sessions", "list"]).0, 0);
        let store = SqliteStore::open(&home.path(".state/pincer/pincer.db")).expect("a store");
        Self { home, store, user: Principal::of_this_process().user().to_owned() }
    }

    fn leases(&self) -> FileLeases {
        let directory: PathBuf = self.home.path(".state/pincer/owners");
        FileLeases::new(directory)
    }

    /// Accepts a message.
    fn accept(&self, key: &str) -> AgentRunId {
        let id = AgentRunId::from(format!("ar_{}", Uuid::now_v7()));
        let run = NewAgentRun {
            id: id.clone(),
            user: self.user.clone(),
            session: key.into(),
            agent: None,
            new_session: Uuid::now_v7().to_string().into(),
            key: None,
            digest: Vec::new(),
            rank: 0,
            request: serde_json::to_string(&Request::new("hello")).expect("JSON").into(),
            brief: "{}".into(),
            answer: None,
            delivery: None,
            queue: QueueLimit { cap: 20, full: WhenFull::RefuseNew },
            now: self.store.now(),
        };
        self.store.accept_run(run).wait().expect("accepted");
        id
    }

    fn commit(&self, run: &AgentRunId, state: AgentRunState) -> SessionCommit {
        let now = self.store.now();
        SessionCommit { runs: vec![RunChange::new(run.clone(), state)], now, ..SessionCommit::default() }
    }

    /// Begins a run, as a process that goes on.
    fn begin(&self, key: &str, run: &AgentRunId) -> Alive {
        let leases = self.leases();
        let own = leases.hold().wait().expect("a lease");
        let session = self.store.current_session(&self.user, &key.into()).wait().expect("read").expect("a session");
        let message = NewEntry {
            id: Uuid::now_v7().simple().to_string().into(),
            attach: Attach::Leaf,
            kind: EntryKind::Message,
            run: Some(run.clone()),
            call: None,
            body: r#"{"message":{"role":"user","content":"hello"}}"#.into(),
            events: None,
            at: self.store.now(),
        };
        let commit = SessionCommit { entries: vec![message], ..self.commit(run, AgentRunState::Running) };
        let fence = self.store.claim_session(&session.id, session.fence, &own, commit).wait().expect("claimed");
        Alive { _leases: leases, session: session.id, fence }
    }

    /// Begins a run, and ends as a process that is killed.
    fn begin_and_die(&self, key: &str, run: &AgentRunId) {
        drop(self.begin(key, run));
    }

    /// Begins a run, which then waits for a person.
    fn begin_and_wait(&self, key: &str, run: &AgentRunId) {
        let alive = self.begin(key, run);
        let commit = SessionCommit { release: true, ..self.commit(run, AgentRunState::Waiting) };
        self.store.commit_session(&alive.session, alive.fence, commit, Safety::Power).wait().expect("stored");
    }

    /// Waits until another process has asked that a run be stopped.
    fn until_asked(&self, run: &AgentRunId) {
        let mut changes = self.store.watch(Duration::from_millis(10));
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let asked = async {
            while !self.store.agent_run(run).await.expect("read").is_stopped {
                changes.changed().await;
            }
        };
        tokio.block_on(async { tokio::time::timeout(Duration::from_secs(60), asked).await }).expect("it is asked");
    }

    /// Ends a run, as the process that works on it.
    fn stop(&self, alive: &Alive, run: &AgentRunId) {
        let commit = SessionCommit { release: true, ..self.commit(run, AgentRunState::Aborted) };
        self.store.commit_session(&alive.session, alive.fence, commit, Safety::Power).wait().expect("stored");
    }

    /// Returns how a run stands.
    fn state(&self, run: &AgentRunId) -> &'static str {
        self.store.agent_run(run).wait().expect("read").state.as_str()
    }
}

#[test]
fn what_goes_on_is_listed_and_can_be_aborted() {
    let house = House::new();
    let home = &house.home;
    let state = |key: &str| {
        let (_, listed) = home.json(&["sessions", "list", "--json"]);
        let session = listed.as_array().unwrap().iter().find(|session| session["key"] == key).unwrap().clone();
        (session["state"].as_str().unwrap().to_owned(), session["queued"].as_u64().unwrap())
    };

    let queued = [house.accept("queued"), house.accept("queued")];
    assert_eq!(state("queued"), ("queued".into(), 2));
    assert!(home.run(&["sessions", "list"]).1.contains("queued  queued 2  0 entries"));

    let waiting = house.accept("waiting");
    house.begin_and_wait("waiting", &waiting);
    let later = house.accept("waiting");
    assert_eq!(state("waiting"), ("waiting".into(), 1));

    let orphan = house.accept("orphan");
    house.begin_and_die("orphan", &orphan);
    assert_eq!(state("orphan"), ("working".into(), 0));

    for key in ["queued", "waiting", "orphan"] {
        let (code, _, err) = home.run(&["sessions", "delete", key, "--yes"]);
        assert!(code == 1 && err.contains(&format!("`pincer sessions abort {key}` first")), "{key}: {code} {err}");
    }

    let (code, told) = home.json(&["sessions", "abort", "queued", "--json"]);
    assert_eq!((code, &told["active"], &told["queued"]), (0, &json!(null), &json!(queued)));
    let (code, out, err) = home.run(&["sessions", "abort", "waiting"]);
    let expected = format!("stopped {waiting}, and took back 1 message that had not begun\n");
    assert_eq!((code, out), (0, expected), "{err}");
    let (code, out, err) = home.run(&["sessions", "abort", "orphan"]);
    assert_eq!((code, out), (0, format!("stopped {orphan}\n")), "{err}");
    for run in queued.iter().chain([&waiting, &later, &orphan]) {
        assert_eq!(house.state(run), "aborted", "{run}");
    }
    for key in ["queued", "waiting", "orphan"] {
        assert_eq!(state(key), ("idle".into(), 0));
        let (code, out, _) = home.run(&["sessions", "abort", key]);
        assert_eq!((code, out), (0, format!("nothing was going on in {key}\n")));
        assert_eq!(home.run(&["sessions", "delete", key, "--yes"]).0, 0);
    }
}

#[test]
fn messages_that_a_restored_backup_ends_are_told() {
    let house = House::new();
    let (queued, begun) = (house.accept("a"), house.accept("b"));
    house.begin_and_die("b", &begun);
    let House { home, store, .. } = house;
    assert_eq!(home.run(&["backup", "saved.db"]).0, 0);
    drop(store);
    let (code, restored) = home.json(&["restore", "saved.db", "--json"]);
    assert_eq!((code, &restored["messages"]), (0, &json!([queued, begun])), "{restored}");
    let store = SqliteStore::open(&home.path(".state/pincer/pincer.db")).expect("a store");
    for (run, told) in [(&queued, "had not begun: send it again"), (&begun, "had no answer yet")] {
        let result = store.agent_run(run).wait().expect("there").result.expect("a result");
        let result: Value = serde_json::from_str(&result).expect("JSON");
        let error = result["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("the store was restored from a backup") && error.contains(told), "{result}");
    }
    drop(store);
    let (code, out, err) = home.run(&["restore", "saved.db"]);
    assert!(code == 0 && out.contains("2 messages had no answer in the backup and are now aborted"), "{out}{err}");
    assert!(out.contains(queued.as_str()) && out.contains(begun.as_str()), "{out}");
}

#[test]
fn a_run_of_a_living_process_is_stopped_by_that_process() {
    let house = House::new();
    let run = house.accept("main");
    let alive = house.begin("main", &run);
    let mut abort = house.home.command(&["sessions", "abort", "main"]).stdout(Stdio::piped()).spawn().unwrap();
    house.until_asked(&run);
    // Enough time for the command to end, if it did not wait.
    for _ in 0..5 {
        assert_eq!(house.home.json(&["sessions", "list", "--json"]).1[0]["state"], "working");
    }
    assert!(abort.try_wait().unwrap().is_none(), "the command has ended before the run");
    house.stop(&alive, &run);
    let output = abort.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("stopped {run}\n"));
}

#[test]
fn a_run_whose_process_dies_when_it_is_asked_to_stop_is_ended_all_the_same() {
    let house = House::new();
    let run = house.accept("main");
    let alive = house.begin("main", &run);
    let abort = house.home.command(&["sessions", "abort", "main"]).stdout(Stdio::piped()).spawn().unwrap();
    house.until_asked(&run);
    drop(alive);
    let output = abort.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("stopped {run}\n"));
    assert_eq!(house.state(&run), "aborted");
}

#[test]
fn a_reset_stops_what_goes_on_and_asks_no_model() {
    let house = House::new();
    let run = house.accept("main");
    house.begin_and_wait("main", &run);
    let later = house.accept("main");
    let (code, out, err) = house.home.run(&["sessions", "reset", "main"]);
    let told = format!("stopped {run}, and took back 1 message that had not begun\nmain begins anew.");
    assert!(code == 0 && out.starts_with(&told), "{code} {out} {err}");
    // A run that had begun would have failed: nothing listens where the model should be.
    assert_eq!((house.state(&run), house.state(&later)), ("aborted", "aborted"));
    let (_, listed) = house.home.json(&["sessions", "list", "--all", "--json"]);
    let states: Vec<&Value> = listed.as_array().unwrap().iter().map(|session| &session["state"]).collect();
    assert_eq!(states, ["idle", "ended"]);
}

#[test]
fn a_run_of_an_agent_is_shown_with_the_lines_that_made_its_calls() {
    let script = r#"{ order: 'conversation', replies: [
        { parts: [{ text: 'I copy it.' }, { call: { id: 'c1', name: 'exec', arguments: { code: "const a = await tools.read({ path: 'a.txt' })\nawait tools.write({ path: 'b.txt', content: 'x' })\nreturn 'copied'" } } }] },
        { parts: [{ text: 'Done.' }] } ] }"#;
    let server = Server::start(Script::parse(script).unwrap()).unwrap();
    let home = Home::with("{}");
    let config = format!(
        "{{ workspace: {:?}, models: {{ providers: {{ scripted: {{ baseUrl: '{}', apiKey: 'k', api: 'openai-completions' }} }} }}, \
         agents: {{ defaults: {{ model: 'scripted/scripted' }} }}, tools: {{ codeMode: true }}, \
         approvals: {{ rules: [{{ match: 'openclaw:core:write', decision: 'ask' }}] }} }}",
        home.path("workspace").display().to_string(),
        server.base_url(Format::Chat),
    );
    std::fs::create_dir(home.path("workspace")).unwrap();
    std::fs::write(home.path("workspace/a.txt"), "text").unwrap();
    std::fs::write(home.path("pincer.json5"), &config).unwrap();
    // The first command makes the state directory, as it must be.
    assert_eq!(home.run(&["sessions", "list"]).0, 0);
    let loaded = Loaded { parsed: pincer_config::parse(&config, &|_| None).unwrap(), ..Loaded::default() };
    let state = home.path(".state/pincer");
    let models = ModelSetup::new(&loaded, Some(&state));
    let options =
        RuntimeOptions { engine: EngineStart::Given(engine().clone()), ..RuntimeOptions::new(loaded, &state) };
    let user = Principal::of_this_process().user().to_owned();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let agent = Agent::new(Arc::new(Runtime::open(options).unwrap()), models);
        let sent = agent.submit(&user, &"main".into(), Request::new("Copy a.txt."), None).await.unwrap();
        let outcome = agent.outcome(&user, &sent.run_id).await.unwrap();
        let question = outcome.approvals[0].approval_id.to_string();
        let (_, out, _) = home.run(&["sessions", "show", "main"]);
        assert!(out.contains("waits  has not gone on since") && out.contains(&question), "{out}");
        let (code, _, err) = home.run(&["approvals", "allow", &question]);
        assert_eq!(code, 0, "{err}");
        let answered = tokio::time::timeout(Duration::from_secs(60), agent.outcome(&user, &sent.run_id)).await;
        assert_eq!(answered.expect("an end").unwrap().text(), "I copy it.\n\nDone.");
        agent.close().await;
        agent.runtime().shutdown(Duration::ZERO).await;
    });
    let (code, out, err) = home.run(&["sessions", "show", "main"]);
    assert_eq!(code, 0, "{err}");
    let rest = out.split_once("\n\n").unwrap().1;
    let expected = r#"user  TIME  #ID
  Copy a\.txt\.

assistant  scripted/scripted  TIME  #ID
  I copy it\.
  exec
    1  const a = await tools\.read\(\{ path: 'a\.txt' \}\)
    2  await tools\.write\(\{ path: 'b\.txt', content: 'x' \}\)
    3  return 'copied'
    line 1  openclaw:core:read  \{"path":"a\.txt"\}  LASTED
    line 2  openclaw:core:write  \{"path":"b\.txt","content":"x"\}  LASTED
    →  copied
waits  for LASTED  TIME  #ID
  asked about  openclaw:core:write  ap_\S+
goes on  TIME  #ID
  allowed  by command line  openclaw:core:write  ap_\S+

assistant  scripted/scripted  TIME  #ID
  Done\.
"#;
    let expected = expected.replace("TIME", r"[0-9-]{10} [0-9:]{8}").replace("#ID", "#[0-9a-f]+");
    let expected = format!("^{}$", expected.replace("LASTED", r"[0-9.]+ (ms|s|min)"));
    assert!(Regex::new(&expected).unwrap().is_match(rest), "{rest}");
}
