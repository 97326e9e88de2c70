//! Just enough of an HTTP client to see every chunk.

use std::collections::BTreeMap;

use pincer_scripted::{Format, Script, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// An answer whose head has come.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    stream: BufReader<TcpStream>,
}

/// The next thing that came of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Chunk(Vec<u8>),
    End,
    /// The connection was closed before the end of the body.
    Broken,
}

/// A whole answer.
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) end: Next,
}

impl Whole {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    /// The events of a stream: their names, and their data.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = self.text().replace("\r\n", "\n").replace('\r', "\n");
        let field = |event: &str, name: &str| {
            let mut lines = event.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            lines.next().unwrap_or_default().to_owned()
        };
        let events = text.split("\n\n").filter(|event| event.contains("data: "));
        events.map(|event| (field(event, "event"), field(event, "data"))).collect()
    }

    /// The data of a stream as JSON, without `[DONE]`.
    pub(crate) fn data(&self) -> Vec<Value> {
        let events = self.events();
        events
            .iter()
            .filter(|(_, data)| data != "[DONE]")
            .map(|(_, data)| serde_json::from_str(data).unwrap())
            .collect()
    }
}

pub(crate) fn server(script: &str) -> Server {
    Server::start(Script::parse(script).unwrap()).unwrap()
}

pub(crate) fn streamed() -> Value {
    json!({ "model": "scripted", "stream": true, "stream_options": { "include_usage": true } })
}

/// Sends a request on a connection of its own and waits for the head of the answer.
pub(crate) async fn send(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let status = line(&mut stream).await.unwrap();
    let status = status.split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = BTreeMap::new();
    while let Some((name, value)) = line(&mut stream).await.unwrap().split_once(": ") {
        headers.insert(name.to_owned(), value.to_owned());
    }
    Answer { status, headers, stream }
}

/// Sends a model request and waits for the head of the answer.
pub(crate) async fn begin(server: &Server, format: Format, body: &Value) -> Answer {
    send(server, "POST", format.path(), &[], &body.to_string()).await
}

/// Sends a model request and waits for all of the answer.
pub(crate) async fn ask(server: &Server, format: Format, body: &Value) -> Whole {
    begin(server, format, body).await.whole().await
}

impl Answer {
    pub(crate) async fn next(&mut self) -> Next {
        let Some(length) = line(&mut self.stream).await else { return Next::Broken };
        let Ok(length) = usize::from_str_radix(&length, 16) else { return Next::Broken };
        let mut chunk = vec![0; length + 2];
        if self.stream.read_exact(&mut chunk).await.is_err() {
            return Next::Broken;
        }
        chunk.truncate(length);
        if length == 0 { Next::End } else { Next::Chunk(chunk) }
    }

    pub(crate) async fn whole(mut self) -> Whole {
        let mut chunks = Vec::new();
        loop {
            match self.next().await {
                Next::Chunk(chunk) => chunks.push(chunk),
                end => return Whole { status: self.status, headers: self.headers, chunks, end },
            }
        }
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    Some(line.trim_end().to_owned())
}
