//! `pincer mcp serve` as a process: how it begins, what it does, and how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Home;
use serde_json::{Value, json};

const NEVER: Duration = Duration::from_secs(60);

/// With a server that carries the home in its environment, so that it can be found.
fn home() -> Home {
    let home = Home::with("{}");
    let fixture = json!({
        "command": pincer_testkit::program("mcp-fixture").unwrap(), "args": ["stdio"],
        "env": { "MARK": home.path("mark") },
    });
    let config = json!({ "tools": { "profile": "full", "exec": { "mode": "full" } }, "mcp": { "servers": { "fixture": fixture } } });
    fs::write(home.path("pincer.json5"), config.to_string()).unwrap();
    home
}

/// Until something is so; a test that waits for ever fails by the time it takes.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + NEVER;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} never happened");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a server of this home runs.
fn any_server_runs(home: &Home) -> bool {
    let mark = format!("MARK={}", home.path("mark").display());
    let environments =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments.into_iter().any(|environment| String::from_utf8_lossy(&environment).split('\0').any(|one| one == mark))
}

/// A server on standard input and output.
struct Served {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Served {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(&[&["mcp", "serve"], arguments].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("pincer");
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut served = Self { child, input, output };
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let greeting = served.ask(0, "initialize", hello);
        assert_eq!(greeting["result"]["serverInfo"]["name"], "pincer", "{greeting}");
        served.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        served
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Every line is a message: nothing else may be on this pipe.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it has ended");
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.answer(id)
    }

    fn exec(&mut self, id: u64, code: &str) -> Value {
        let answer = self.ask(id, "tools/call", json!({ "name": "exec", "arguments": { "code": code } }));
        answer["result"]["structuredContent"].clone()
    }

    fn send_exec(&mut self, id: u64, code: &str) {
        let params = json!({ "name": "exec", "arguments": { "code": code } });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }

    fn ends(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

fn terminate(child: &Child) {
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_client_that_closes_the_pipe_ends_it_with_all_that_it_started() {
    let home = home();
    let mut served = Served::start(&home, &[]);
    let done = served.exec(1, "return (await MCP.fixture.testSimpleText({})).content[0].text");
    assert_eq!(done["value"], "This is a simple text response for testing.", "{done}");
    assert!(any_server_runs(&home));
    assert_eq!(served.ends(), Some(0));
    until("the end of the server behind it", || !any_server_runs(&home));
    assert_eq!(fs::read_dir(home.path(".state/pincer/owners")).map_or(0, Iterator::count), 0);
    // Nor is it an error to want nothing.
    let output = home.command(&["mcp", "serve"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0), "{output:?}");
}

#[test]
fn what_runs_when_the_system_ends_it_is_suspended_and_continued_by_another_process() {
    let home = home();
    let mut served = Served::start(&home, &[]);
    let code = "const { stdout } = await tools.exec({ command: 'touch begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.05; done; echo done' }); return stdout.trim()";
    served.send_exec(1, code);
    until("the command", || home.path("begun").exists());
    terminate(&served.child);
    // Whoever waits is told how to go on.
    let waiting = served.answer(1)["result"]["structuredContent"].clone();
    assert_eq!((&waiting["status"], &waiting["pendingToolCalls"][0]["state"]), (&json!("waiting"), &json!("running")));
    // The command may finish, and its result is not lost.
    fs::write(home.path("go"), "").unwrap();
    assert_eq!(served.ends(), Some(0));
    let (exit, done) = home.json(&["wait", "--json", waiting["runId"].as_str().unwrap()]);
    assert_eq!((exit, &done["value"]), (0, &json!("done")), "{done}");
}

#[test]
fn a_program_of_a_client_that_has_gone_is_continued_by_another_process() {
    let home = home();
    let mut served = Served::start(&home, &[]);
    served.send_exec(1, "await tools.write({ path: 'begun', content: '' }); await new Promise((go) => setTimeout(go, 600000)); return 1");
    until("the program", || home.path("begun").exists());
    assert_eq!(served.ends(), Some(0));
    let (_, runs) = home.json(&["runs", "list", "--json"]);
    assert_eq!(runs[0]["state"], "waiting", "{runs}");
}

#[test]
fn a_server_whose_state_directory_was_removed_acknowledges_nothing() {
    let home = home();
    let mut served = Served::start(&home, &[]);
    assert_eq!(served.exec(1, "await yield_control('x')")["status"], "waiting");
    fs::remove_dir_all(home.path(".state")).unwrap();
    let failed = served.exec(2, "await tools.write({ path: 'made', content: '' }); await yield_control('x')");
    assert_eq!((&failed["status"], &failed["code"]), (&json!("failed"), &json!("runtime_unavailable")), "{failed}");
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("removed") && error.contains("pincer.db"), "{error}");
    // What needs no store is not held up.
    assert_eq!(served.exec(3, "return 1 + 1")["value"], 2);
}

#[test]
fn built_in_tools_are_there_only_if_the_config_asks_for_tools() {
    let has = |tools: Value| {
        let home = home();
        let config = json!({ "tools": tools }).to_string();
        fs::write(home.path("pincer.json5"), config).unwrap();
        let mut served = Served::start(&home, &[]);
        let in_programs = served.exec(1, "return ALL_TOOLS.map((tool) => tool.name).sort().join()")["value"].clone();
        let written = served.exec(2, "await tools.write({ path: 'made', content: '' })");
        assert_eq!(served.ends(), Some(0));
        let mut served = Served::start(&home, &["--surface", "direct"]);
        let listed = served.ask(1, "tools/list", json!({}))["result"]["tools"].as_array().unwrap().len();
        assert_eq!(served.ends(), Some(0));
        (in_programs, written["status"].clone(), listed, home.path("made").exists())
    };
    let none = (json!(""), json!("failed"), 0, false);
    assert_eq!(has(json!({})), none);
    assert_eq!(has(json!({ "exec": { "mode": "full" }, "deny": ["read"] })), none);
    assert_eq!(has(json!({ "allow": ["write"] })), (json!("apply_patch,write"), json!("completed"), 2, true));
    assert_eq!(has(json!({ "profile": "full" })).1, "completed");
    assert_eq!(has(json!({ "alsoAllow": ["write"] })).1, "completed");
}

#[test]
fn other_surfaces_show_other_tools() {
    let home = home();
    for (surface, has, has_not) in
        [("code", "wait", "read"), ("search", "tool_call", "exec"), ("direct", "test_simple_text", "tool_call")]
    {
        let mut served = Served::start(&home, &["--surface", surface]);
        let listed = served.ask(1, "tools/list", json!({}));
        let names: Vec<&str> =
            listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(names.contains(&has) && !names.contains(&has_not), "{surface}: {names:?}");
        assert_eq!(served.ends(), Some(0));
    }
    let (code, _, err) = home.run(&["mcp", "serve", "--surface", "all"]);
    assert!(code == 2 && err.contains("direct"), "{err}");
}

/// Posts the first message of a client: the status line of the answer.
fn post(address: &str, head: &str) -> String {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Accept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[test]
fn over_http_it_says_where_it_is_and_lets_in_who_has_a_token() {
    let home = Home::with("{ mcp: { serve: { tokens: { ann: '${TOKEN}' } } } }");
    let mut command = home.command(&["mcp", "serve", "--http", "127.0.0.1:0"]);
    command.env("TOKEN", "0123456789abcdef").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").and_then(|url| url.strip_suffix("/mcp"));
    let address = address.unwrap_or_else(|| panic!("{line}"));
    assert_eq!(post(address, ""), "HTTP/1.1 401 Unauthorized");
    assert_eq!(post(address, "Authorization: Bearer 0123456789abcdef\r\n"), "HTTP/1.1 200 OK");
    terminate(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_does_not_listen_where_anybody_could_come_in_nor_twice_in_one_place() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let (none, short) = ("{}", "{ mcp: { serve: { tokens: { ann: '' } } } }");
    for (config, address, says) in [
        (none, "0.0.0.0:0", "set a token in `mcp.serve.tokens`, or listen on 127.0.0.1"),
        (short, "0.0.0.0:0", "mcp.serve.tokens.ann: a token needs at least 16 characters"),
        (none, taken.as_str(), "cannot listen on"),
        (none, "localhost", "invalid"),
    ] {
        let (code, out, err) = Home::with(config).run(&["mcp", "serve", "--http", address]);
        assert_eq!((code, out.as_str()), (2, ""), "{address}: {err}");
        assert!(err.contains(says), "{address}: {err}");
    }
    drop(holder);
}
