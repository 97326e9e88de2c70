//! `backup` and `restore` as processes, beside others that use the store; and what the store's file is worth by itself.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Home;
use serde_json::{Value, json};

/// Commands need no approval.
const FREE: &str = r#"{ tools: { exec: { mode: "full" } } }"#;

/// A program with an effect, which waits after it.
const ACTS: &str = "await tools.exec({ command: 'echo one >> effects' }); await yield_control('x'); return (await tools.ls({})).entries.length";

fn store(home: &Home) -> PathBuf {
    home.path(".state/pincer/pincer.db")
}

fn suspended(home: &Home) -> String {
    let (code, waiting) = home.json(&["exec", "--json", "-e", ACTS]);
    assert_eq!((code, &waiting["status"]), (3, &json!("waiting")), "{waiting}");
    waiting["runId"].as_str().unwrap().to_owned()
}

/// Until something is so; a test that waits for ever fails by the time it takes.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} never happened");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A server on standard input and output.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts one, and waits until it greets its client.
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["mcp", "serve"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("pincer");
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, output };
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        server.tell(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }));
        server.said();
        server.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn tell(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "it has ended");
        line
    }

    /// Runs a program that suspends itself, and returns its id.
    fn suspended(&mut self) -> String {
        let call = json!({ "name": "exec", "arguments": { "code": "await yield_control('x'); return 1" } });
        self.tell(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }));
        loop {
            let line = self.said();
            if let Some(at) = line.find("cm_") {
                return line[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
            }
        }
    }

    fn end(mut self) {
        assert!(Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

/// The runs that a copy of the file alone has.
fn runs_of_a_copy(home: &Home) -> Vec<String> {
    let log = store(home).with_extension("db-wal");
    assert_eq!(fs::metadata(&log).map_or(0, |log| log.len()), 0, "something is left in the log");
    let copy = home.path("copy");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir(&copy).unwrap();
    fs::copy(store(home), copy.join("pincer.db")).unwrap();
    let (code, list) = home.json(&["runs", "list", "--json", "--state-dir", copy.to_str().unwrap()]);
    assert_eq!(code, 0, "{list}");
    list.as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_backup_made_while_a_server_runs_brings_everything_back() {
    let home = Home::with(FREE);
    let id = suspended(&home);
    let server = Server::start(&home);
    let (code, made) = home.json(&["backup", "saved.db", "--json"]);
    assert_eq!((code, &made["runs"], &made["file"]), (0, &json!(1), &json!("saved.db")), "{made}");
    assert_eq!(made["bytes"], fs::metadata(home.path("saved.db")).unwrap().len());
    assert_eq!(fs::metadata(home.path("saved.db")).unwrap().permissions().mode() & 0o777, 0o600);
    // There is a process that uses it.
    let (code, _, err) = home.run(&["restore", "saved.db"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("is in use: end all Pincer processes"), "{err}");
    server.end();
    // It goes on after the backup: to continue it from there would be to do it again.
    assert_eq!(home.json(&["wait", &id, "--json"]).0, 0);
    let (code, restored) = home.json(&["restore", "saved.db", "--json"]);
    let expected = json!({ "file": "saved.db", "runs": 1, "ended": [id], "messages": [], "grants": 0 });
    assert_eq!((code, &restored), (0, &expected));
    let (code, result) = home.json(&["wait", &id, "--json"]);
    assert_eq!((code, &result["status"], &result["code"]), (1, &json!("failed"), &json!("aborted")), "{result}");
    let error = result["error"].as_str().unwrap();
    assert!(error.contains("restored from a backup") && error.contains("settled calls: openclaw:core:exec"), "{error}");
    let (_, shown) = home.json(&["runs", "show", &id, "--json"]);
    assert_eq!((&shown["state"], &shown["calls"][0]["succeeded"]), (&json!("aborted"), &json!(true)), "{shown}");
    assert_eq!(fs::read_to_string(home.path("effects")).unwrap(), "one\n");
    // For people.
    let (code, out, err) = home.run(&["restore", "saved.db"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("restored 1 run from saved.db\n1 run had not ended in the backup and is now aborted"),
        "{out}"
    );
    assert!(out.contains(&id), "{out}");
}

#[test]
fn a_backup_is_made_while_a_program_runs() {
    let home = Home::with(FREE);
    let code = "await tools.exec({ command: 'touch begun; while [ ! -e go ]; do sleep 0.05; done' }); return 'done'";
    let mut command = home.command(&["exec", "--json", "--timeout-ms", "60000", "-e", code]);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("pincer");
    until("the command", || home.path("begun").exists());
    let (code, out, err) = home.run(&["backup", "saved.db"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("backed up 1 run to saved.db ("), "{out}");
    // The first backup stays.
    let (code, _, err) = home.run(&["backup", "saved.db"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("saved.db is there already and was left as it is"), "{err}");
    assert_eq!(home.run(&["restore", "saved.db"]).0, 1, "the program has the store open");
    fs::write(home.path("go"), "").unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"done\""));
    let (code, restored) = home.json(&["restore", "saved.db", "--json"]);
    assert_eq!((code, restored["ended"].as_array().unwrap().len()), (0, 1), "{restored}");
    let (_, list) = home.json(&["runs", "list", "--json"]);
    let (_, shown) = home.json(&["runs", "show", list[0]["runId"].as_str().unwrap(), "--json"]);
    let error = shown["result"]["error"].as_str().unwrap();
    assert!(error.contains("calls that may have happened: openclaw:core:exec"), "{error}");
}

#[test]
fn what_is_no_backup_changes_nothing() {
    let home = Home::with("{}");
    let (code, _, err) = home.run(&["backup", "saved.db"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("there is nothing to back up"), "{err}");
    assert!(!store(&home).exists() && !home.path("saved.db").exists());
    let (_, waiting) = home.json(&["exec", "--json", "-e", "await yield_control('x'); return 5"]);
    let id = waiting["runId"].as_str().unwrap();
    let before = fs::read(store(&home)).unwrap();
    fs::write(home.path("garbage"), "this is no backup ".repeat(500)).unwrap();
    for (file, why) in [("garbage", "is not a backup of a store"), ("none", "No such file")] {
        let (code, out, err) = home.run(&["restore", file, "--json"]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(why) && err.contains(file), "{err}");
    }
    assert_eq!(home.run(&["restore"]).0, 2);
    assert_eq!(fs::read(store(&home)).unwrap(), before);
    assert_eq!(home.json(&["wait", id, "--json"]).1["value"], 5);
}

#[test]
fn the_file_alone_is_the_store_when_commands_and_servers_have_ended() {
    let home = Home::with(FREE);
    let first = suspended(&home);
    assert_eq!(runs_of_a_copy(&home), [first.as_str()]);
    assert_eq!(home.run(&["tools", "call", "ls", "{}"]).0, 0);
    assert_eq!(runs_of_a_copy(&home), [first.as_str()]);
    let mut server = Server::start(&home);
    let second = server.suspended();
    server.end();
    assert_eq!(runs_of_a_copy(&home), [first.as_str(), second.as_str()]);
    // A program that is suspended because its process is told to end.
    let code = "await tools.exec({ command: 'touch begun; sleep 600' })";
    let mut command = home.command(&["exec", "-e", code]);
    let mut running = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("pincer");
    until("the command", || home.path("begun").exists());
    assert!(Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap().success());
    running.wait().unwrap();
    until("the end of it", || fs::metadata(store(&home).with_extension("db-wal")).map_or(0, |log| log.len()) == 0);
    assert_eq!(runs_of_a_copy(&home).len(), 3);
}
