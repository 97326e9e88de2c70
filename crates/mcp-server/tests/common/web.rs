//! A face over real sockets, and requests as no well-behaved client makes them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use pincer_mcp_server::{Bounds, HttpServer, HttpSettings};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};

use super::person::{Client, Person};
use super::{House, NEVER};

pub(crate) struct Web {
    pub address: String,
    pub serving: tokio::task::JoinHandle<()>,
}

pub(crate) fn settings(tokens: &[(&str, &str)]) -> HttpSettings {
    let tokens: BTreeMap<String, String> =
        tokens.iter().map(|(name, token)| ((*name).to_owned(), (*token).to_owned())).collect();
    let address = "127.0.0.1:0".parse().expect("an address");
    HttpSettings { address, tokens, allowed_hosts: Vec::new(), allowed_origins: Vec::new(), bounds: Bounds::USUAL }
}

/// Two users.
pub(crate) const TOKENS: [(&str, &str); 2] = [("ann", "token-of-ann"), ("bob", "token-of-bob")];

pub(crate) async fn listen(house: &House, settings: HttpSettings) -> Web {
    let server = HttpServer::bind(settings).await.expect("a server");
    let url = server.url();
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp")).expect("a URL").to_owned();
    let serving = server.serve(Arc::clone(&house.face), house.end.clone());
    Web { address, serving: tokio::spawn(async move { serving.await.expect("scopes") }) }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answered {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answered {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &'_ str| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
        self.head.lines().find(|line| named(line)).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

impl Web {
    pub(crate) async fn connect(&self, person: Person, token: Option<&str>) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", self.address));
        config.auth_header = token.map(str::to_owned);
        person.connect(StreamableHttpClientTransport::from_config(config)).await
    }

    /// A request with these lines in its head. Reads until the server has nothing more to say, or has said `enough`.
    pub(crate) async fn request(&self, method: &str, head: &str, body: &str, enough: &str) -> Answered {
        let host = if head.to_ascii_lowercase().contains("host:") { "" } else { "Host: 127.0.0.1\r\n" };
        let text = format!(
            "{method} /mcp HTTP/1.1\r\n{host}{head}Accept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let (address, enough) = (self.address.clone(), enough.to_owned());
        let asked = tokio::task::spawn_blocking(move || exchange(&address, &text, &enough));
        asked.await.expect("an answer")
    }

    pub(crate) async fn post(&self, head: &str, message: &Value) -> Answered {
        self.request("POST", head, &message.to_string(), "").await
    }

    /// A session of this token's user: its id.
    pub(crate) async fn session(&self, token: &str) -> String {
        let head = format!("Authorization: Bearer {token}\r\n");
        let answered = self.post(&head, &hello()).await;
        let id = answered.header("mcp-session-id").unwrap_or_else(|| panic!("no session: {answered:?}")).to_owned();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&format!("{head}Mcp-Session-Id: {id}\r\n"), &done).await.status, 202);
        id
    }
}

/// The first message of a client.
pub(crate) fn hello() -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

pub(crate) fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

fn exchange(address: &str, text: &str, enough: &str) -> Answered {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(NEVER)).expect("a limit");
    // A server that refuses need not read to the end.
    let _ = stream.write_all(text.as_bytes());
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count) = stream.read(&mut piece) {
        read.extend_from_slice(&piece[..count]);
        if count == 0 || (!enough.is_empty() && String::from_utf8_lossy(&read).contains(enough)) {
            break;
        }
    }
    let read = String::from_utf8_lossy(&read).into_owned();
    let (head, body) = read.split_once("\r\n\r\n").unwrap_or((&read, ""));
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Answered { status, head: head.to_owned(), body: body.to_owned() }
}
