//! A server of our own over HTTP, and clients that put load on it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::cells::Outcome;
use crate::measure::{peak_bytes_of, resident_bytes_of};

/// `pincer mcp serve --http` as a process. It ends with this.
pub(crate) struct Served {
    child: Child,
    pub address: String,
}

impl Served {
    /// Starts a server with this config, and a file `small.txt` in its workspace.
    pub(crate) async fn start(directory: &Path, config: &Value) -> Outcome<Self> {
        std::fs::write(directory.join("small.txt"), "something to read\n")?;
        let file = directory.join("pincer.json5");
        std::fs::write(&file, config.to_string())?;
        let mut child = Command::new(std::env::current_exe()?)
            .current_dir(directory)
            .arg("--config")
            .arg(&file)
            .arg("--state-dir")
            .arg(directory.join("state"))
            .args(["mcp", "serve", "--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut told = BufReader::new(child.stderr.take().ok_or("no error output")?).lines();
        let line = told.next_line().await?.unwrap_or_default();
        let address = line.strip_prefix("listening on http://").and_then(|url| url.strip_suffix("/mcp"));
        let address = address.ok_or_else(|| format!("the server did not start: {line}"))?.to_owned();
        // Reads on, so that the server never waits for a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = told.next_line().await {} });
        Ok(Self { child, address })
    }

    /// Returns the resident memory of the server.
    pub(crate) fn resident_bytes(&self) -> usize {
        resident_bytes_of(self.pid())
    }

    /// Returns the id of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// Returns the most resident memory that the server ever had.
    pub(crate) fn most_resident_bytes(&self) -> usize {
        self.child.id().map_or(0, peak_bytes_of)
    }
}

/// One client with a session, on a connection that it keeps.
pub(crate) struct LoadClient {
    stream: BufReader<TcpStream>,
    head: String,
    next: u64,
}

impl LoadClient {
    pub(crate) async fn connect(address: &str, token: Option<&str>) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\n{token}"
        );
        let mut client = Self { stream: BufReader::new(stream), head, next: 0 };
        let info = json!({ "name": "load", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let (session, _) = client.ask("initialize", hello).await?;
        let session = session.ok_or("no session")?;
        client.head.push_str(&format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n"));
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        client.answer(None).await?;
        Ok(client)
    }

    /// Runs a program, and returns its result and the time it took.
    pub(crate) async fn exec(&mut self, code: &str) -> Outcome<(Value, Duration)> {
        let started = Instant::now();
        let result = self.call("exec", json!({ "code": code })).await?;
        Ok((result, started.elapsed()))
    }

    /// Continues a suspended program.
    pub(crate) async fn wait(&mut self, run_id: &str) -> Outcome<Value> {
        self.call("wait", json!({ "runId": run_id })).await
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Outcome<Value> {
        let (_, mut answer) = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await?;
        Ok(answer["result"]["structuredContent"].take())
    }

    /// Ends the session, as a client should.
    pub(crate) async fn leave(mut self) -> Outcome<()> {
        let head = self.head.replacen("POST", "DELETE", 1);
        self.stream.get_mut().write_all(format!("{head}Content-Length: 0\r\n\r\n").as_bytes()).await?;
        self.answer(None).await.map(drop)
    }

    async fn ask(&mut self, method: &str, params: Value) -> Outcome<(Option<String>, Value)> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        self.answer(Some(id)).await
    }

    async fn send(&mut self, message: &Value) -> Outcome<()> {
        let body = message.to_string();
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        Ok(self.stream.get_mut().write_all(request.as_bytes()).await?)
    }

    /// Reads an answer to its end, and returns its session and the message with this id.
    async fn answer(&mut self, id: Option<u64>) -> Outcome<(Option<String>, Value)> {
        let status = self.line().await?;
        let (mut length, mut chunked, mut session) = (0, false, None);
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse()?,
                "transfer-encoding" => chunked = value.trim().eq_ignore_ascii_case("chunked"),
                "mcp-session-id" => session = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            loop {
                let size = usize::from_str_radix(self.line().await?.trim(), 16)?;
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..]).await?;
                self.line().await?;
                if size == 0 {
                    break;
                }
            }
        } else {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).await?;
        }
        let body = String::from_utf8_lossy(&body);
        let Some(id) = id else { return Ok((session, Value::Null)) };
        let events = body.lines().filter_map(|line| line.strip_prefix("data:").or(Some(line)));
        let mut messages = events.filter_map(|text| serde_json::from_str::<Value>(text.trim()).ok());
        let message = messages.find(|message| message["id"] == id);
        message.map(|message| (session, message)).ok_or_else(|| format!("no answer: {status} {body}").into())
    }

    async fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err("the server closed the connection".into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}
