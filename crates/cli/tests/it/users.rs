//! Users of one server: what belongs to one is nothing to another.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::common::Home;
use serde_json::{Value, json};

/// A server over HTTP.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["mcp", "serve", "--http", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").and_then(|url| url.strip_suffix("/mcp"));
        Self { child, address: address.unwrap_or_else(|| panic!("{line}")).to_owned() }
    }

    fn user(&self, token: &str) -> User<'_> {
        let mut user = User { server: self, token: token.to_owned(), session: String::new() };
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let (head, _) = user.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        let session =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("mcp-session-id: ").map(str::to_owned));
        user.session = format!("Mcp-Session-Id: {}\r\n", session.expect("a session"));
        user.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        user
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with a token.
struct User<'a> {
    server: &'a Server,
    token: String,
    session: String,
}

impl User<'_> {
    /// Posts a message: head and body of the answer.
    fn post(&self, message: &Value) -> (String, String) {
        let body = message.to_string();
        let mut stream = TcpStream::connect(&self.server.address).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{}Accept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.token,
            self.session,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
        let (head, body) = self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        let lines = body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let answer =
            lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|message| message["id"] == 1);
        answer.unwrap_or_else(|| panic!("{head} {body}"))["result"].clone()
    }

    fn exec(&self, code: &str) -> Value {
        let done = self.ask("tools/call", &json!({ "name": "exec", "arguments": { "code": code } }));
        done["structuredContent"].clone()
    }
}

fn two_users(rest: &str) -> Home {
    Home::with(&format!(
        "{{ mcp: {{ serve: {{ tokens: {{ ann: 'aaaaaaaaaaaaaaaa', bob: 'bbbbbbbbbbbbbbbb' }} }} }}, {rest} }}"
    ))
}

#[test]
fn processes_and_history_of_a_user_are_nothing_to_another() {
    let home = two_users("tools: { exec: { mode: 'full' }, profile: 'full' }");
    let server = Server::start(&home);
    let (ann, bob) = (server.user("aaaaaaaaaaaaaaaa"), server.user("bbbbbbbbbbbbbbbb"));
    let started = ann.exec("return (await tools.exec({ command: 'sleep 1000 # secret', background: true })).processId");
    let id = started["value"].as_str().unwrap_or_else(|| panic!("{started}"));
    let list = "return (await tools.process({ action: 'list' })).processes.length";
    assert_eq!((&ann.exec(list)["value"], &bob.exec(list)["value"]), (&json!(1), &json!(0)));
    for action in ["poll", "write", "end"] {
        let refused = bob.exec(&format!("await tools.process({{ action: '{action}', id: '{id}', text: '' }})"));
        assert!(refused["error"].as_str().unwrap().contains("there are none"), "{refused}");
    }
    assert_eq!(ann.exec(list)["value"], 1, "it still runs");
    let history = "return JSON.stringify([await tools.sessions_history({}), await tools.sessions_list({}), await tools.session_status({})])";
    assert!(ann.exec(history)["value"].as_str().unwrap().contains("sleep 1000 # secret"));
    let seen = bob.exec(history)["value"].as_str().unwrap().to_owned();
    assert!(!seen.contains("sleep 1000") && seen.contains("sessions_history"), "{seen}");
}

/// Only root can be two users.
#[cfg(target_os = "linux")]
#[test]
fn without_a_token_another_user_of_this_machine_is_not_served() {
    use std::os::unix::process::CommandExt;
    let server = Server::start(&Home::with("{}"));
    let (host, port) = server.address.rsplit_once(':').unwrap();
    let request = format!(
        "import http.client\nc = http.client.HTTPConnection('{host}', {port})\n\
         c.request('POST', '/mcp', '{{}}', {{'Content-Type': 'application/json', 'Accept': 'application/json, text/event-stream'}})\n\
         r = c.getresponse()\nprint(r.status, r.read().decode())"
    );
    let asked = |uid: Option<u32>| {
        let mut python = std::process::Command::new("python3");
        python.args(["-c", &request]).current_dir("/");
        if let Some(uid) = uid {
            python.uid(uid);
        }
        String::from_utf8(python.output().unwrap().stdout).unwrap()
    };
    let own = asked(None);
    assert!(!own.is_empty() && !own.starts_with("403"), "{own}");
    if rustix::process::getuid().is_root() {
        let other = asked(Some(65534));
        assert!(other.starts_with("403") && other.contains("set mcp.serve.tokens"), "{other}");
    }
}

#[test]
fn each_user_has_a_policy_and_answers_of_their_own() {
    let home = two_users(
        "tools: { profile: 'full', bySender: { bob: { deny: ['web_fetch'] } } }, \
         approvals: { rules: [{ match: 'write', decision: 'ask' }] }",
    );
    let server = Server::start(&home);
    let (ann, bob) = (server.user("aaaaaaaaaaaaaaaa"), server.user("bbbbbbbbbbbbbbbb"));
    let has = "return ALL_TOOLS.some((tool) => tool.id.endsWith('web_fetch'))";
    assert_eq!((&ann.exec(has)["value"], &bob.exec(has)["value"]), (&json!(true), &json!(false)));
    let shown = |user: &User<'_>| user.ask("tools/list", &json!({})).to_string().contains("web_fetch");
    assert_eq!((shown(&ann), shown(&bob)), (true, false));
    let denied = bob.exec("await tools.web_fetch({ url: 'http://example.org' })");
    assert_eq!(denied["status"], "failed", "{denied}");
    // An answer for ever to one is none to the other.
    let write = "await tools.write({ path: 'a', content: 'b' }); return 'written'";
    let waiting = ann.exec(write);
    let question = waiting["pendingToolCalls"][0]["approvalId"].as_str().unwrap_or_else(|| panic!("{waiting}"));
    assert_eq!(home.run(&["approvals", "allow", question, "--always"]).0, 0);
    assert_eq!(ann.exec(write)["value"], "written");
    assert_eq!(bob.exec(write)["status"], "waiting");
    assert!(home.run(&["approvals", "grants"]).1.contains("token:ann"));
}
