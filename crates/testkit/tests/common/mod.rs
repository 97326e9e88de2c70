//! A client of bare lines and bare HTTP, which sees what is really sent.

#![allow(dead_code, reason = "each test file uses its own half of this")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Far more than anything here takes; it only keeps a broken test from hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server and the lines it writes.
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: BufReader<ChildStderr>,
    lines: Receiver<String>,
}

impl Server {
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        Self { stdin: child.stdin.take(), stderr, child, lines }
    }

    /// Starts and says hello with these capabilities of the client.
    pub(crate) fn connected(program: &str, arguments: &[&str], capabilities: Value) -> Self {
        let mut server = Self::start(program, arguments);
        server.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello(capabilities) }));
        assert_eq!(server.until(|message| message["id"] == 0)["result"]["protocolVersion"], "2025-11-25");
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().expect("stdin is open"), "{message}").expect("the server reads");
    }

    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the server says something")
    }

    /// The next message for which this is true; lines that are no messages are skipped as a patient client would.
    pub(crate) fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.line()).unwrap_or_default();
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.until(|message| message["id"] == id)
    }

    pub(crate) fn call(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// The next line on stderr.
    pub(crate) fn first_complaint(&mut self) -> String {
        let mut said = String::new();
        self.stderr.read_line(&mut said).expect("stderr is text");
        said.trim_end().to_owned()
    }

    /// The end of the process, and what it wrote to stderr.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("stderr is text");
        (self.child.wait().expect("the server ends"), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn hello(capabilities: Value) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client })
}

/// The text of a result's only block.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// One request on a connection of its own; what comes back as it is.
pub(crate) fn post(address: &str, headers: &str, message: &Value) -> String {
    let body = message.to_string();
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time can be set");
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\n{headers}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is text and ends");
    answer
}
