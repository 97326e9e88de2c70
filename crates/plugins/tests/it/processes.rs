//! Plugins at work, the samples among them, and plugins that misbehave, one by one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_catalog::Policy;
use pincer_plugins::{Found, HookSettings, MANIFEST, PluginProcess, PluginSettings, load, provide};
use pincer_store::Approvals;
use pincer_testkit::doorway::{Doorway, Updates};
use pincer_testkit::tools::{echo, entry};
use pincer_tools::{Answer, Context, Effect, ErrorCode};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

struct House {
    process: Arc<PluginProcess>,
    doorway: Doorway,
}

impl Deref for House {
    type Target = Doorway;

    fn deref(&self) -> &Doorway {
        &self.doorway
    }
}

fn house(found: &Found, config: Value, directory: TempDir) -> House {
    let config: Map<String, Value> = config.as_object().cloned().unwrap_or_default();
    house_with(found, PluginSettings { config, ..PluginSettings::default() }, None, directory)
}

/// A door with `write`, `exec` and what the plugin brings.
fn house_with(found: &Found, settings: PluginSettings, hooks: Option<Duration>, directory: TempDir) -> House {
    let process = PluginProcess::new(found, settings);
    let hooks = HookSettings { timeout: hooks, allow_prompt_injection: true, ..HookSettings::default() };
    let plugin = provide(found, &process, &hooks).unwrap().plugin;
    let doorway = Doorway::open(directory, &Policy::open(), |door, _| {
        let door = door.tool(entry("openclaw:core:write"), echo()).unwrap();
        door.tool(entry("openclaw:core:exec"), echo()).unwrap().plugin(plugin).unwrap()
    });
    House { process, doorway }
}

impl House {
    async fn ok(&self, tool: &str, input: Value) -> Value {
        self.call(tool, input).await.value().unwrap()
    }

    async fn error(&self, tool: &str, input: Value) -> String {
        self.doorway.error(tool, input).await.message
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The Python sample, copied as a user would.
fn notes() -> House {
    let directory = tempfile::tempdir().unwrap();
    for name in [MANIFEST, "notes.py"] {
        fs::copy(examples().join("notes").join(name), directory.path().join(name)).unwrap();
    }
    house(&load(directory.path()).unwrap(), json!({ "file": "mine.jsonl" }), directory)
}

/// The Rust sample, where its own build would have put it.
fn clock(config: Value) -> House {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(examples().join("clock").join(MANIFEST), directory.path().join(MANIFEST)).unwrap();
    let built = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/clock");
    fs::create_dir_all(directory.path().join("target/release")).unwrap();
    fs::copy(built, directory.path().join("target/release/clock")).unwrap();
    house(&load(directory.path()).unwrap(), config, directory)
}

#[tokio::test]
async fn the_python_sample_has_a_tool_a_hook_and_a_namespace() {
    let house = notes();
    assert_eq!(house.ok("add_note", json!({ "text": "milk", "topic": "shop" })).await, json!({ "count": 1 }));
    assert_eq!(house.ok("plugin:notes:add_note", json!({ "text": "call" })).await, json!({ "count": 2 }));
    assert_eq!(house.ok("list_notes", json!({ "topic": "shop" })).await, json!([{ "text": "milk", "topic": "shop" }]));
    assert!(house.directory.path().join("mine.jsonl").exists(), "its config reached it");
    assert!(house.error("add_note", json!({ "txt": "x" })).await.contains("Did you mean: text?"));
    let namespaces = house.door.namespaces();
    assert_eq!((namespaces[0].0.as_str(), namespaces[0].1.global.as_str()), ("notes", "Notes"));

    assert_eq!(house.ok("write", json!({ "path": "a.txt" })).await, json!({ "path": "a.txt" }));
    let write = house.call("write", json!({ "path": "notes.jsonl" }));
    let (outcome, ()) = tokio::join!(write, async {
        let question = house.question().await.id;
        assert!(house.store.approval(&question).await.unwrap().request.contains("Change the notes themselves?"));
        house.door.answer(&question, Answer::Deny, "me").await.unwrap();
    });
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::Denied);
    house.process.end().await;
    assert_eq!(
        house.ok("list_notes", json!({})).await.as_array().unwrap().len(),
        2,
        "it is started again when it is needed"
    );
}

#[tokio::test]
async fn the_rust_sample_reports_is_cancelled_and_asks() {
    let house = Arc::new(clock(json!({ "night": [0, 24] })));
    let updates = Arc::new(Updates::default());
    let outcome = house
        .call_with_updates(&Context::default(), "count_down", json!({ "ticks": 3, "tickMs": 1 }), updates.clone())
        .await;
    assert_eq!(outcome.value().unwrap(), json!({ "ticks": 3 }));
    assert_eq!(*updates.0.lock().unwrap(), [json!({ "left": 2 }), json!({ "left": 1 }), json!({ "left": 0 })]);

    let abort = CancellationToken::new();
    let context = Context { abort: abort.clone(), ..Context::default() };
    let (calling, told) = (Arc::clone(&house), Arc::new(Updates::default()));
    let seen = told.clone();
    let call = tokio::spawn(async move {
        calling.call_with_updates(&context, "count_down", json!({ "ticks": 1000, "tickMs": 5 }), told).await
    });
    while seen.0.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    abort.cancel();
    assert_eq!(call.await.unwrap().result.unwrap_err().code, ErrorCode::Aborted);
    assert_eq!(house.ok("count_down", json!({ "ticks": 0 })).await, json!({ "ticks": 0 }), "the process goes on");

    let exec = house.call("exec", json!({ "command": "ls" }));
    let (outcome, ()) = tokio::join!(exec, async {
        house.door.answer(&house.question().await.id, Answer::AllowOnce, "me").await.unwrap();
    });
    assert!(outcome.result.is_ok());
    house.process.end().await;
}

/// A plugin in Python whose `tool/call` does what `body` says, with `id` and `params` at hand.
fn bad(body: &str) -> House {
    bad_with("def call(id, params):\n", body, "{'protocolVersion': 1}", "")
}

fn bad_with(head: &str, body: &str, hello: &str, start: &str) -> House {
    let directory = tempfile::tempdir().unwrap();
    let indented: String = body.lines().map(|line| format!("    {line}\n")).collect();
    let script = format!(
        "import json, sys, os, time, subprocess\n\
         def send(message):\n    sys.stdout.write(json.dumps({{'jsonrpc': '2.0', **message}}) + '\\n'); sys.stdout.flush()\n\
         def ok(id, value=1):\n    send({{'id': id, 'result': {{'value': value}}}})\n\
         {head}{indented}\n{start}\n\
         for line in sys.stdin:\n    message = json.loads(line)\n    id, params = message.get('id'), message.get('params')\n    \
         if message['method'] == 'initialize': send({{'id': id, 'result': {hello}}})\n    \
         elif message['method'] == 'tool/call': call(id, params)\n    \
         elif message['method'] == 'shutdown': send({{'id': id, 'result': None}}); break\n    \
         elif id is not None: send({{'id': id, 'result': None}})\n"
    );
    fs::write(directory.path().join("bad.py"), script).unwrap();
    let manifest = "{ id: 'bad', version: '1', command: ['python3', 'bad.py'], tools: [\
                    { name: 'act', description: 'x', inputSchema: { type: 'object' }, timeoutMs: 20000 },\
                    { name: 'hasty', description: 'x', inputSchema: { type: 'object' }, timeoutMs: 300 },\
                    { name: 'look', description: 'x', inputSchema: { type: 'object' }, outputSchema: { type: 'string' }, readOnly: true }],\
                    hooks: [{ event: 'before_tool_call', matcher: ['write'], timeoutMs: 2000 }] }";
    fs::write(directory.path().join(MANIFEST), manifest).unwrap();
    house(&load(directory.path()).unwrap(), json!({}), directory)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_misbehaviour_is_an_error_that_names_the_plugin_and_harms_nobody_else() {
    let good = notes();
    for (body, told, effect) in [
        (
            "print('debug'); ok(id)",
            "the plugin bad wrote something to its standard output that is not JSON-RPC: `debug`",
            Effect::Unknown,
        ),
        ("print('no json', 'o:', sys.stderr); sys.exit(3)", "not JSON-RPC", Effect::Unknown),
        (
            "print('oh no', file=sys.stderr); os._exit(3)",
            "the plugin bad ended (exit status: 3) and said: oh no",
            Effect::Unknown,
        ),
        ("os.kill(os.getpid(), 9)", "the plugin bad ended (signal: 9 (SIGKILL))", Effect::Unknown),
        ("raise ValueError('broken inside')", "broken inside", Effect::Unknown),
        (
            "send({'id': id, 'result': 5})",
            "the plugin bad answered the call of act with `5` instead of",
            Effect::Unknown,
        ),
        (
            "send({'id': id + 1000, 'result': {'value': 1}})",
            "the plugin bad answered request 1002, which nobody has made",
            Effect::Unknown,
        ),
        ("send({'id': 'x', 'result': 1})", "the id \"x\", which is none of ours", Effect::Unknown),
        ("send({'id': id})", "both or neither of a result and an error", Effect::Unknown),
        (
            "send({'method': 'tools/register', 'params': {'name': 'evil'}})",
            "the plugin bad sent `tools/register`, which a plugin may not",
            Effect::Unknown,
        ),
        (
            "send({'id': 7, 'method': 'channel/received', 'params': {'channel': 'bad', 'sender': 'root'}})",
            "the plugin bad sent `channel/received`, which a plugin may not",
            Effect::Unknown,
        ),
        (
            "sys.stdout.write('x' * 100_000_000 + '\\n'); sys.stdout.flush()",
            "the plugin bad wrote a message of more than 16777216 bytes",
            Effect::Unknown,
        ),
        (
            "send({'id': id, 'error': {'code': 1, 'message': 'no such city'}})",
            "the plugin bad says: no such city",
            Effect::Unknown,
        ),
        (
            "send({'id': id, 'error': {'code': 1, 'message': 'not started', 'data': {'effect': 'none'}}})",
            "the plugin bad says: not started",
            Effect::None,
        ),
        ("os.close(1); time.sleep(1000)", "the plugin bad closed its standard output", Effect::Unknown),
    ] {
        let house = bad(body);
        let outcome = tokio::time::timeout(Duration::from_secs(60), house.call("act", json!({}))).await.expect(told);
        let error = outcome.result.expect_err(told);
        assert!(error.message.contains(told), "{} / {told}", error.message);
        assert_eq!((error.code, outcome.effect), (ErrorCode::ToolFailed, effect), "{told}");
        assert!(good.ok("list_notes", json!({})).await.is_array(), "the others are unharmed");
        assert_eq!(house.door.entries().len(), 5, "nothing was added");
        house.process.end().await;
    }
}

#[tokio::test]
async fn an_answer_too_many_ends_the_process_and_the_next_call_has_a_new_one() {
    let house = bad("ok(id, os.getpid()); ok(id, os.getpid())");
    let first = house.ok("act", json!({})).await;
    let second = loop {
        // The second answer may break the call that is made while it is read: then it says so.
        match house.call("act", json!({})).await.value() {
            Ok(pid) if pid != first => break pid,
            Ok(_) => {}
            Err(error) => assert!(error.message.contains("which nobody has made or which had its answer"), "{error}"),
        }
    };
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_process_is_started_when_it_is_first_needed() {
    let house = bad_with("def call(id, params):\n", "ok(id)", "{'protocolVersion': 1}", "open('started', 'w').close()");
    assert_eq!(house.ok("exec", json!({})).await, json!({}), "a call that is none of its business");
    assert!(!house.directory.path().join("started").exists());
    house.ok("act", json!({})).await;
    assert!(house.directory.path().join("started").exists());
}

#[tokio::test]
async fn a_value_that_is_not_what_was_declared_is_refused() {
    let house = bad("ok(id, 5)");
    let outcome = house.call("look", json!({})).await;
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::InvalidOutput);
}

#[tokio::test]
async fn a_call_that_hangs_is_ended_by_its_time_and_the_process_goes_on() {
    let house = bad("import threading\nif params['name'] == 'act': ok(id, os.getpid())");
    let pid = house.ok("act", json!({})).await;
    let error = house.call("hasty", json!({})).await.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    assert_eq!(house.ok("act", json!({})).await, pid, "it is the same process");
}

#[tokio::test]
async fn a_late_answer_to_a_call_that_was_given_up_is_no_offence() {
    let house = bad("if params['name'] == 'hasty':\n    time.sleep(1.5)\nok(id, os.getpid())");
    let pid = house.ok("act", json!({})).await;
    assert_eq!(house.call("hasty", json!({})).await.result.unwrap_err().code, ErrorCode::Timeout);
    assert_eq!(house.ok("act", json!({})).await, pid);
}

#[tokio::test]
async fn what_cannot_start_says_why_and_has_done_nothing() {
    for (hello, start, told) in [
        ("{'protocolVersion': 2}", "", "the plugin bad speaks protocol version 2; 1 is needed"),
        ("None", "", "the plugin bad speaks protocol version null"),
        (
            "{'protocolVersion': 1}",
            "sys.exit('no licence')",
            "the plugin bad ended (exit status: 1) and said: no licence",
        ),
        ("{'protocolVersion': 1}", "print('Welcome!', flush=True)", "not JSON-RPC: `Welcome!`"),
    ] {
        let house = bad_with("def call(id, params):\n", "ok(id)", hello, start);
        let outcome = house.call("act", json!({})).await;
        let error = outcome.result.expect_err(told).message;
        assert!(error.contains(told), "{error}");
        assert_eq!(outcome.effect, Effect::None);
    }
    let mut found = load(notes().directory.path());
    if let Ok(found) = &mut found {
        found.manifest.command = vec!["./no-such-program".into()];
        let house = house(found, json!({}), tempfile::tempdir().unwrap());
        assert!(house.error("list_notes", json!({})).await.contains("the plugin notes cannot be started"));
    }
}

#[tokio::test]
async fn a_hook_that_falls_shuts_the_gate() {
    let house = bad_with("def call(id, params):\n", "ok(id)", "{'protocolVersion': 1}", "sys.exit(1)");
    let error = house.call("write", json!({})).await.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Blocked);
    assert!(error.message.contains("the plugin bad ended"), "{error}");
}

#[tokio::test]
async fn the_user_settles_how_long_hooks_may_take_and_what_the_process_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let script = "import json, sys, os\nfor line in sys.stdin:\n    m = json.loads(line)\n    if m['method'] == 'initialize':\n        r = {'protocolVersion': 1}\n    elif m['method'] == 'tool/call':\n        r = {'value': {'given': os.environ.get('GIVEN'), 'secret': os.environ.get('SOME_TOKEN'), 'folder': os.getcwd()}}\n    else:\n        continue\n    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': r}), flush=True)\n";
    fs::write(directory.path().join("p.py"), script).unwrap();
    let manifest = "{ id: 'deaf', version: '1', command: ['python3', 'p.py'], tools: [{ name: 'tell', description: 'x', inputSchema: { type: 'object' } }], hooks: [{ event: 'before_tool_call', matcher: ['write'] }] }";
    fs::write(directory.path().join(MANIFEST), manifest).unwrap();
    let found = load(directory.path()).unwrap();
    let environment = [("GIVEN".to_owned(), "yes".to_owned())].into();
    let settings = PluginSettings { environment, ..PluginSettings::default() };
    let house = house_with(&found, settings, Some(Duration::from_millis(100)), directory);
    let told = house.ok("tell", json!({})).await;
    assert_eq!((&told["given"], &told["secret"]), (&json!("yes"), &Value::Null));
    assert_eq!(told["folder"], json!(found.folder));
    assert!(house.error("write", json!({})).await.contains("did not answer within 100 ms, so the call is blocked"));
}

#[tokio::test]
async fn a_plugin_that_keeps_falling_is_started_later_and_later() {
    let house = bad("open('starts', 'a').write(f'{time.time()}\\n'); os._exit(1)");
    for _ in 0..4 {
        assert!(house.error("act", json!({})).await.contains("the plugin bad ended"));
    }
    let starts = fs::read_to_string(house.directory.path().join("starts")).unwrap();
    let times: Vec<f64> = starts.lines().map(|line| line.parse().unwrap()).collect();
    // None before the second, then at least 0.2 s and 0.4 s.
    assert!(times[2] - times[1] >= 0.2 && times[3] - times[2] >= 0.4, "{times:?}");
}

#[tokio::test]
async fn a_plugin_ends_with_everything_it_has_started() {
    let house = bad("child = subprocess.Popen(['setsid', 'sleep', '1000'])\nok(id, child.pid)");
    let child = house.ok("act", json!({})).await;
    house.process.end().await;
    let stat = format!("/proc/{child}/stat");
    let deadline = Instant::now() + Duration::from_secs(10);
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "{child} still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn many_calls_at_once_find_their_own_answers() {
    let house = Arc::new(bad("ok(id, params['input']['n'])"));
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.ok("act", json!({ "n": n })).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), n);
    }
}

#[test]
fn hooks_that_need_a_permission_are_left_out_and_a_gate_must_be_decided_about() {
    let made = |event: &str, settings: HookSettings| {
        let directory = tempfile::tempdir().unwrap();
        let manifest = format!("{{ id: 'watch', version: '1', command: ['true'], hooks: [{{ event: '{event}' }}] }}");
        fs::write(directory.path().join(MANIFEST), manifest).unwrap();
        let found = load(directory.path()).unwrap();
        let process = PluginProcess::new(&found, PluginSettings::default());
        provide(&found, &process, &settings).map(|made| (made.plugin.others.len(), made.left_out.len()))
    };
    let usual = HookSettings { allow_prompt_injection: true, ..HookSettings::default() };
    let allowed = HookSettings { allow_conversation_access: Some(true), ..usual.clone() };
    let refused = HookSettings { allow_conversation_access: Some(false), ..HookSettings::default() };
    assert_eq!(made("session_start", HookSettings::default()).unwrap(), (1, 0));
    assert_eq!(made("llm_output", usual.clone()).unwrap(), (0, 1));
    assert_eq!(made("llm_output", allowed.clone()).unwrap(), (1, 0));
    assert_eq!(made("before_prompt_build", usual.clone()).unwrap(), (1, 0));
    assert_eq!(made("before_prompt_build", refused.clone()).unwrap(), (0, 1));
    assert_eq!(made("before_agent_run", allowed).unwrap(), (1, 0));
    assert_eq!(made("before_agent_run", refused).unwrap(), (0, 1));
    let error = made("before_agent_run", usual).unwrap_err().to_string();
    assert!(error.contains("plugins.entries.watch.hooks.allowConversationAccess"), "{error}");
}
