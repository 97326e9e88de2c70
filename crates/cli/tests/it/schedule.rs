//! Jobs and channels in one process: a channel whose plugin reads messages from a file, and writes what it sends to another.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use pincer_scripted::{Script, Server};
use pincer_store::{Deliveries, DeliverySource, NewDelivery, Route};
use pincer_store_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::common::Home;

const MANIFEST: &str = "{ id: 'pipe', version: '1', command: ['python3', 'pipe.py'], channels: [{ name: 'pipe', capabilities: { maxText: 1000 } }] }";
const PLUGIN: &str = r#"
import json, os, sys, threading, time
lock = threading.Lock()
def send(message):
    with lock:
        sys.stdout.write(json.dumps({'jsonrpc': '2.0', **message}) + '\n'); sys.stdout.flush()
def talk(channel):
    while not os.path.exists('in'): time.sleep(0.01)
    for number, line in enumerate(open('in')):
        send({'id': f'r{number}', 'method': 'channel/received', 'params': {'channel': channel, **json.loads(line)}})
for line in sys.stdin:
    m = json.loads(line)
    id, method, params = m.get('id'), m.get('method'), m.get('params') or {}
    if method == 'initialize': send({'id': id, 'result': {'protocolVersion': 1}})
    elif method == 'channel/start':
        send({'id': id, 'result': None})
        send({'method': 'channel/state', 'params': {'channel': params['channel'], 'state': 'up'}})
        threading.Thread(target=talk, args=[params['channel']], daemon=True).start()
    elif method == 'channel/send':
        with open('out', 'a') as out: out.write(json.dumps([params['to'], params['text']]) + '\n')
        send({'id': id, 'result': None})
    elif method == 'shutdown': send({'id': id, 'result': None}); break
    elif method is not None and id is not None: send({'id': id, 'result': None})
"#;

fn served(replies: &[Value]) -> Server {
    let script = json!({ "replies": replies }).to_string();
    Server::start(Script::parse(&script).unwrap()).unwrap()
}

fn home(server: &Server, more: &str) -> Home {
    let home = Home::with(&format!(
        "{{ workspace: 'work', plugins: {{ paths: ['pipe'] }}, channels: {{ pipe: {{ allowFrom: ['ann'] }} }}, \
         models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, agents: {{ defaults: {{ model: 's/scripted' }} }}, {more} }}",
        server.url()
    ));
    fs::create_dir_all(home.path("work")).unwrap();
    fs::create_dir_all(home.path("pipe")).unwrap();
    fs::write(home.path("pipe/pipe.py"), PLUGIN).unwrap();
    fs::write(home.path("pipe/pincer.plugin.json5"), MANIFEST).unwrap();
    home
}

/// `pincer channels start`, until it is dropped.
struct Running(Child);

impl Running {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["channels", "start"]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until so many texts were sent.
fn sent(home: &Home, count: usize) -> Vec<Value> {
    // The time is only there so that a test that fails ends.
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60), "{count} texts come");
        let out = fs::read_to_string(home.path("pipe/out")).unwrap_or_default();
        let lines: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.len() >= count {
            return lines;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_reminder_that_is_asked_for_on_a_channel_comes_there() {
    let add =
        json!({ "action": "add", "name": "tea", "at": "1s", "message": "Remind ann of the tea.", "session": "this" });
    let server = served(&[
        json!({ "parts": [{ "call": { "id": "c1", "name": "cron", "arguments": add } }] }),
        json!({ "parts": [{ "text": "I will." }] }),
        json!({ "parts": [{ "text": "Tea time!" }] }),
    ]);
    let home = home(&server, "");
    let _running = Running::start(&home);
    fs::write(home.path("pipe/new"), "{\"messageId\": \"m1\", \"sender\": \"ann\", \"text\": \"Remind me.\"}\n")
        .unwrap();
    fs::rename(home.path("pipe/new"), home.path("pipe/in")).unwrap();
    assert_eq!(sent(&home, 2), [json!(["ann", "I will."]), json!(["ann", "Tea time!"])]);
    let (_, listed, _) = home.run(&["cron", "list"]);
    assert!(listed.contains("to pipe ann"), "{listed}");
    // The operator sees it too, and `pincer agent` is the operator's.
    let jobs = home.json(&["cron", "list", "--json"]).1;
    assert_eq!((&jobs[0]["route"]["to"], &jobs[0]["madeIn"]), (&json!("ann"), &json!("pipe:dm:ann")));
}

#[test]
fn a_job_of_the_operators_reports_to_a_channel() {
    let server = served(&[json!({ "parts": [{ "text": "All is well." }], "repeat": true })]);
    let home = home(&server, "");
    let add = |name: &str, channel: &str| {
        let place = ["--channel", channel, "--to", "#lounge"];
        home.run(&[&["cron", "add", name, "--at", "1s", "-m", "Report."][..], &place].concat())
    };
    let (code, _, err) = add("lost", "irc");
    assert!(code == 2 && err.contains("there is no channel irc"), "{code} {err}");
    assert_eq!(home.run(&["cron", "add", "a", "--at", "1s", "-m", "x", "--channel", "pipe"]).0, 2);
    assert_eq!(add("report", "pipe").0, 0);
    let (_, shown, _) = home.run(&["cron", "show", "report"]);
    assert!(shown.contains("answers   go to pipe #lounge"), "{shown}");
    let _running = Running::start(&home);
    assert_eq!(sent(&home, 1), [json!(["#lounge", "All is well."])]);
}

#[test]
fn a_schedule_that_is_off_is_off_in_channels_too() {
    let server = served(&[json!({ "parts": [{ "text": "Hello, ann." }], "repeat": true })]);
    let home = home(&server, "cron: { enabled: false },");
    let add =
        ["cron", "add", "report", "--at", "1s", "-m", "Report.", "--channel", "pipe", "--to", "#lounge", "--json"];
    let due = home.json(&add).1["nextRunAtMs"].as_u64().unwrap();
    let due = SystemTime::UNIX_EPOCH + Duration::from_millis(due);
    std::thread::sleep(due.duration_since(SystemTime::now()).unwrap_or_default());
    let _running = Running::start(&home);
    fs::write(home.path("pipe/in"), "{\"messageId\": \"m1\", \"sender\": \"ann\", \"text\": \"Hi.\"}\n").unwrap();
    assert_eq!(sent(&home, 1), [json!(["ann", "Hello, ann."])]);
    assert_eq!(home.json(&["cron", "runs", "report", "--json"]).1, json!([]));
}

#[test]
fn a_text_that_was_not_sent_in_its_time_is_shown_as_failed() {
    let server = served(&[]);
    let home = home(&server, "");
    assert_eq!(home.run(&["channels", "deliveries"]).0, 0);
    let store = SqliteStore::open(&home.path(".state/pincer/pincer.db")).unwrap();
    let text = NewDelivery {
        id: "dl_1".into(),
        user: "me".into(),
        run: None,
        source: DeliverySource::Operator,
        key: "one".into(),
        route: Route { channel: "pipe".into(), to: "ann".into(), ..Route::default() },
        reply_to: None,
        text: "Hello.".into(),
        expires_at: Some(1),
        now: 1,
    };
    store.enqueue(text).wait().unwrap();
    let listed = home.json(&["channels", "deliveries", "--json"]).1;
    assert_eq!(listed[0]["state"], "failed");
    assert!(listed[0]["error"].as_str().unwrap().contains("in its time"), "{listed}");
}
