//! `pincer channels`: what a person sees of them, and a plugin's channel from its message to the answer.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pincer_scripted::{Script, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::Home;

/// Tells what stands in the file `say`, a line for each message, and writes what it is asked to `log`.
const WIRE: &str = r#"
import json, os, sys, threading, time
lock = threading.Lock()
def send(message):
    with lock:
        sys.stdout.write(json.dumps({'jsonrpc': '2.0', **message}) + '\n'); sys.stdout.flush()
def note(what):
    with open('log', 'a') as log: log.write(json.dumps(what) + '\n')
def talk(channel):
    while not os.path.exists('say'): time.sleep(0.01)
    for number, line in enumerate(open('say')):
        send({'id': f'r{number}', 'method': 'channel/received', 'params': {'channel': channel, **json.loads(line)}})
for line in sys.stdin:
    m = json.loads(line)
    id, method, params = m.get('id'), m.get('method'), m.get('params') or {}
    if method is None: note({'acknowledged': id, 'result': m.get('result'), 'error': m.get('error')})
    elif method == 'initialize': send({'id': id, 'result': {'protocolVersion': 1}})
    elif method == 'channel/start':
        if params['config'].get('wrong'):
            send({'id': id, 'error': {'code': 1, 'message': 'there is no host', 'data': {'permanent': True}}})
            continue
        send({'id': id, 'result': None})
        send({'method': 'channel/state', 'params': {'channel': params['channel'], 'state': 'up'}})
        threading.Thread(target=talk, args=[params['channel']], daemon=True).start()
    elif method == 'channel/send':
        note({'to': params['to'], 'text': params['text'], 'replyTo': params['replyTo']})
        send({'id': id, 'result': {'messageId': 'its-own'}})
    elif method == 'shutdown': send({'id': id, 'result': None}); break
    elif id is not None: send({'id': id, 'result': None})
"#;
const ANN: &str = "allowFrom: ['ann'], config: { host: 'example.org' }";

fn served(replies: &str) -> Server {
    Server::start(Script::parse(&format!("{{ replies: [{replies}] }}")).unwrap()).unwrap()
}

/// A home with the plugin `wire` and these channels.
fn home(server: &Server, channels: &str) -> Home {
    let home = Home::with(&format!(
        "{{ workspace: 'work', plugins: {{ paths: ['plugins'] }}, channels: {{ {channels} }}, \
         models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, agents: {{ defaults: {{ model: 's/scripted' }} }} }}",
        server.url()
    ));
    fs::create_dir(home.path("work")).unwrap();
    fs::create_dir_all(home.path("plugins/wire")).unwrap();
    fs::write(home.path("plugins/wire/wire.py"), WIRE).unwrap();
    let manifest = json!({
        "id": "wire",
        "version": "1",
        "command": ["python3", "wire.py"],
        "channels": [{ "name": "wire", "description": "A wire of tests.", "capabilities": { "maxText": 1000 } }],
    });
    fs::write(home.path("plugins/wire/pincer.plugin.json5"), manifest.to_string()).unwrap();
    home
}

fn quiet() -> Server {
    served("{ parts: [{ text: 'Hello, Ann.' }], repeat: true }")
}

/// Waits for something that must come. The time is only there so that a test that fails ends.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `pincer channels start --json`, and its events.
struct Running {
    child: Child,
    events: Box<dyn Iterator<Item = Value>>,
}

impl Running {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["channels", "start", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, events: Box::new(lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())) }
    }

    /// Waits until the channel is connected.
    fn up(home: &Home) -> Self {
        let mut running = Self::start(home);
        let events: Vec<Value> = running.events.by_ref().take(2).collect();
        let event = |event: &str| json!({ "event": event, "channel": "wire" });
        assert_eq!(events, [event("started"), event("up")]);
        running
    }

    fn end(&mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        let mut error = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (code, error)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(home: &Home, line: &Value) {
    fs::write(home.path("plugins/wire/say.new"), line.to_string()).unwrap();
    fs::rename(home.path("plugins/wire/say.new"), home.path("plugins/wire/say")).unwrap();
}

/// Waits until the plugin was asked to send this, and returns how it was asked.
fn sent(home: &Home, text: &str) -> Value {
    until(text, || {
        let log = fs::read_to_string(home.path("plugins/wire/log")).unwrap_or_default();
        let whole = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.into_iter().find(|line| line["text"] == text)
    })
}

#[test]
fn without_channels_there_is_the_command_line_and_nothing_to_start() {
    let home = Home::with("{}");
    let (code, out, err) = home.run(&["channels", "list"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "cli  (built in)  the command line: pincer agent\n");
    let (code, document) = home.json(&["channels", "list", "--json"]);
    assert_eq!((code, document), (0, json!([{ "name": "cli", "builtIn": true, "enabled": true }])));
    let (code, out, err) = home.run(&["channels", "start"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("no channel is turned on: name one under `channels`"), "{err}");
    assert_eq!(home.run(&["channels", "deliveries"]).1, "nothing was to be sent\n");
    assert_eq!(home.json(&["channels", "deliveries", "--json"]), (0, json!([])));
}

#[test]
fn a_channel_is_listed_with_its_plugin_and_nothing_is_started() {
    let server = quiet();
    let home =
        home(&server, &format!("wire: {{ {ANN}, allowTo: ['#lounge'] }}, spare: {{ plugin: 'wire', enabled: false }}"));
    let (code, out, err) = home.run(&["channels", "list"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("wire  (wire of the plugin wire)  A wire of tests.\n"), "{out}");
    assert!(out.lines().any(|line| line.starts_with("spare  ") && line.ends_with("(turned off)")), "{out}");
    let (_, document) = home.json(&["channels", "list", "--json"]);
    let wire = document.as_array().unwrap().iter().find(|channel| channel["name"] == "wire").unwrap();
    for (key, value) in [
        ("builtIn", json!(false)),
        ("enabled", json!(true)),
        ("plugin", json!("wire")),
        ("agent", json!("main")),
        ("allowFrom", json!(["ann"])),
        ("allowTo", json!(["#lounge"])),
        ("placesWaiting", json!(0)),
    ] {
        assert_eq!(wire[key], value, "{key}: {wire:#}");
    }
    assert!(!wire.to_string().contains("example.org"), "its own settings may be secret: {wire:#}");
    assert!(!home.path("plugins/wire/log").exists(), "nothing was started");
    let home = self::home(&server, "wire: {}");
    assert!(home.run(&["channels", "list"]).1.contains("(takes no messages: allowFrom is empty)"));
}

#[test]
fn a_channel_without_a_plugin_is_listed_with_the_reason_and_cannot_be_started() {
    let server = quiet();
    for (channels, entry, reason) in [
        ("irc: { plugin: 'irk', allowFrom: ['*'] }", "irc", "there is no plugin irk that is turned on"),
        (
            "irc: { allowFrom: ['*'] }",
            "irc",
            "no plugin has a channel called irc: name its plugin in `channels.irc.plugin`",
        ),
    ] {
        let home = home(&server, channels);
        let (code, out, _) = home.run(&["channels", "list"]);
        assert!(code == 0 && out.contains(&format!("{entry}  cannot be run: ")) && out.contains(reason), "{out}");
        let document = home.json(&["channels", "list", "--json"]).1;
        let listed = document.as_array().unwrap().iter().find(|channel| channel["name"] == entry).unwrap();
        assert!(listed["problem"].as_str().unwrap().contains(reason), "{listed:#}");
        let (code, out, err) = home.run(&["channels", "start"]);
        assert!(code == 2 && out.is_empty() && err.contains(reason), "{code} {out} {err}");
    }
    // A plugin that is turned off brings none.
    let home = home(&server, &format!("wire: {{ {ANN} }}"));
    let config = fs::read_to_string(home.path("pincer.json5")).unwrap();
    let off = config.replace("paths: ['plugins']", "paths: ['plugins'], entries: { wire: { enabled: false } }");
    fs::write(home.path("pincer.json5"), off).unwrap();
    let (code, _, err) = home.run(&["channels", "start", "wire"]);
    assert!(code == 2 && err.contains("no plugin has a channel called wire"), "{code} {err}");
}

#[test]
fn names_that_are_none_are_wrong_usage_with_a_word_that_helps() {
    let server = quiet();
    let home = home(&server, &format!("wire: {{ {ANN} }}, spare: {{ plugin: 'wire', enabled: false }}"));
    let to = ["--to", "ann", "-m", "Hi."];
    for (arguments, code, words) in [
        (vec!["start", "wier"], 2, "there is no channel wier in the config: did you mean wire?"),
        (vec!["start", "spare"], 2, "spare is turned off: set `channels.spare.enabled` to true"),
        (vec!["start", ""], 2, "there is no channel"),
        (
            [&["send", "wier"][..], &to].concat(),
            2,
            "there is no channel wier that is turned on: `pincer channels list`",
        ),
        ([&["send", "spare"][..], &to].concat(), 2, "there is no channel spare that is turned on"),
        (vec!["send", "wire", "--to", "", "-m", "Hi."], 2, "--to"),
        (vec!["send", "wire", "--to", "ann", "-m", " "], 2, "the text must have something in it"),
        (vec!["cancel", "dl_nothing"], 1, "no text that waits has the id dl_nothing"),
        (vec!["deliveries", "--state", "gone"], 2, "pending"),
    ] {
        let (found, out, err) = home.run(&[&["channels"][..], &arguments].concat());
        assert!(found == code && err.contains(words), "{arguments:?}: {found} {out} {err}");
    }
    for (name, reason) in [("Big", "cannot be the name of a channel"), ("cli", "the command line is always there")] {
        let home = Home::with(&format!("{{ channels: {{ {name}: {{}} }} }}"));
        let (code, _, err) = home.run(&["channels", "list"]);
        assert!(code == 2 && err.contains(&format!("channels.{name}: ")) && err.contains(reason), "{code} {err}");
    }
}

#[test]
fn every_command_shows_an_example_of_itself() {
    let home = Home::with("{}");
    for command in ["", "list", "start", "send", "deliveries", "cancel"] {
        let arguments: Vec<&str> =
            ["channels", command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let (code, out, err) = home.run(&arguments);
        let example = format!("Examples:\n  pincer channels {command}");
        assert!(code == 0 && err.is_empty() && out.contains(&example), "{command}: {code} {out}{err}");
    }
}

#[test]
fn a_message_comes_by_a_plugin_and_its_answer_goes_back() {
    let server = quiet();
    let home = home(&server, &format!("wire: {{ {ANN} }}"));
    let mut running = Running::up(&home);
    // A second process would answer everything twice.
    let (code, _, err) = home.run(&["channels", "start"]);
    assert!(code == 1 && err.contains("another process runs the channel wire"), "{code} {err}");
    say(&home, &json!({ "messageId": "m1", "sender": "ann", "text": "Hi." }));
    let answer = sent(&home, "Hello, Ann.");
    assert_eq!((&answer["to"], &answer["replyTo"]), (&json!("ann"), &json!("m1")));
    assert!(server.requests()[0].text.contains("Hi."), "{}", server.requests()[0].text);
    // It is told of as of all others.
    let delivery = || {
        let all = home.json(&["channels", "deliveries", "--channel", "wire", "--json"]).1;
        all.as_array().unwrap().iter().find(|delivery| delivery["state"] == "sent").cloned()
    };
    let delivery = until("the end of the delivery", delivery);
    assert_eq!((&delivery["source"], &delivery["messageId"]), (&json!("answer"), &json!("its-own")));
    assert!(home.run(&["sessions", "show", "wire:dm:ann"]).1.contains("Hello, Ann."));
    assert_eq!(running.end(Signal::TERM), (Some(0), String::new()));
    assert_eq!(running.events.next(), None, "nothing more is told");
}

#[test]
fn an_answer_to_a_question_of_a_channel_says_that_the_process_of_the_channel_goes_on() {
    let command = "{ parts: [{ call: { id: 'c', name: 'exec', arguments: { command: 'rm -f nothing' } } }] }";
    let server = served(&format!("{command}, {{ parts: [{{ text: 'It is done.' }}], repeat: true }}"));
    let home = home(&server, &format!("wire: {{ {ANN} }}"));
    let _running = Running::up(&home);
    say(&home, &json!({ "messageId": "m1", "sender": "ann", "text": "Remove it." }));
    let question =
        until("the question", || home.json(&["approvals", "list", "--json"]).1[0]["id"].as_str().map(str::to_owned));
    let (code, out, err) = home.run(&["approvals", "allow", &question]);
    let told =
        "a process that runs its channel goes on with it; otherwise: pincer agent --session wire:dm:ann --continue";
    assert!(code == 0 && out.contains(told) && !out.contains("continue with:"), "{code} {out} {err}");
    sent(&home, "It is done.");
}

#[test]
fn a_killed_process_leaves_the_message_and_its_answer_to_the_next_one() {
    let slow = "{ parts: [{ text: 'Never.' }], wire: { headersAfterMs: 60000 } }";
    let server = served(&format!("{slow}, {{ parts: [{{ text: 'Hello again.' }}], repeat: true }}"));
    let home = home(&server, &format!("wire: {{ {ANN} }}"));
    let mut first = Running::up(&home);
    say(&home, &json!({ "messageId": "m1", "sender": "ann", "text": "Hi." }));
    until("the request", || (!server.requests().is_empty()).then_some(()));
    assert_eq!(first.end(Signal::KILL).0, None);
    let _second = Running::up(&home);
    assert_eq!(sent(&home, "Hello again.")["replyTo"], "m1");
}

#[test]
fn a_text_waits_for_the_process_that_runs_its_channel_or_is_taken_back() {
    let server = quiet();
    let home = home(&server, &format!("wire: {{ {ANN} }}"));
    let send = |text: &str, id: &str| {
        home.run(&["channels", "send", "wire", "--to", "#lounge", "-m", text, "--id", id, "--timeout", "0"])
    };
    let (code, out, err) = send("The build is done.", "build-1");
    assert!(
        code == 3 && out.is_empty() && err.contains("waits: `pincer channels start` sends it"),
        "{code} {out} {err}"
    );
    assert_eq!(send("The build is done.", "build-1").0, 3, "the same text");
    let (code, _, err) = send("Another text.", "build-1");
    assert!(code == 2 && err.contains("another text was sent under this id"), "{code} {err}");
    assert_eq!(send("Not this one.", "build-2").0, 3);
    let listed = home.json(&["channels", "deliveries", "--state", "pending", "--json"]).1;
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["text"]), (2, &json!("Not this one.")));
    assert!(home.run(&["channels", "list"]).1.contains("texts wait for 1 place"));
    let (code, out, _) = home.run(&["channels", "cancel", &id]);
    assert_eq!((code, out), (0, format!("{id} is not sent any more\n")));
    let (code, _, err) = home.run(&["channels", "cancel", &id]);
    assert!(code == 1 && err.contains("cannot be taken back: it is cancelled"), "{code} {err}");

    let _running = Running::up(&home);
    assert_eq!(sent(&home, "The build is done.")["to"], "#lounge");
    assert_eq!(home.run(&["channels", "send", "wire", "--to", "ben", "-m", "And now?", "--timeout", "60"]).0, 0);
    sent(&home, "And now?");
    let log = fs::read_to_string(home.path("plugins/wire/log")).unwrap();
    assert!(!log.contains("Not this one.") && log.matches("The build is done.").count() == 1, "{log}");
    let (_, rows, _) = home.run(&["channels", "deliveries"]);
    assert!(rows.contains("sent       wire ben  And now?") && rows.contains("taken back by the operator"), "{rows}");
}

#[test]
fn a_channel_that_refuses_its_settings_ends_the_command_with_the_reason() {
    let server = quiet();
    let home = home(&server, "wire: { allowFrom: ['ann'], config: { wrong: true } }");
    let (code, out, err) = home.run(&["channels", "start"]);
    assert!(
        code == 1 && out.is_empty() && err.contains("wire cannot be started: the plugin wire says: there is no host"),
        "{code} {out} {err}"
    );
}
