//! Just enough of HTTP/1.1 to answer a POST wrongly: a thread and a connection per request, no sessions, no stream of its own.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::stdio::{die, drip, until};
use super::{Act, Liar, Mode};

/// Answers at `address`, which is printed as a line with the port it got.
///
/// # Errors
/// When the address cannot be had.
pub fn serve_http(mode: Mode, address: &str) -> io::Result<()> {
    if mode == Mode::CrashStart {
        die();
    }
    let listener = TcpListener::bind(address)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    let server = Arc::new(Mutex::new(Server { liar: Liar::new(mode), gate: Gate::new(mode) }));
    for stream in listener.incoming() {
        let server = Arc::clone(&server);
        // A client that hangs up has had enough of us; that is not our failure.
        std::thread::spawn(move || stream.and_then(|stream| answer(&server, &stream)));
    }
    Ok(())
}

struct Server {
    liar: Liar,
    gate: Gate,
}

/// Refuses requests before anybody looks at what they say.
struct Gate {
    mode: Mode,
    /// The method that is refused; all are when it is `initialize`.
    at: String,
    refused: u32,
    uses: HashMap<String, u32>,
}

/// A status with its reason, a header and a body.
struct Refusal(&'static str, String, &'static str);

impl Gate {
    fn new(mode: Mode) -> Self {
        let usual = if mode == Mode::Rate { "tools/call" } else { "initialize" };
        let at = std::env::var("LIAR_AT").unwrap_or_else(|_| usual.to_owned());
        Self { mode, at, refused: 0, uses: HashMap::new() }
    }

    fn refuses(&mut self, method: &str, token: &str) -> Option<Refusal> {
        if self.at != "initialize" && self.at != method {
            return None;
        }
        match self.mode {
            Mode::Redirect => {
                let status = match std::env::var("LIAR_STATUS").as_deref() {
                    Ok("302") => "302 Found",
                    _ => "307 Temporary Redirect",
                };
                let target = std::env::var("LIAR_TARGET").unwrap_or_else(|_| "http://127.0.0.1:1/".to_owned());
                Some(Refusal(status, format!("Location: {target}"), ""))
            }
            Mode::Unauthorized => Some(unauthorized(r#"Bearer realm="liar", scope="tools""#)),
            Mode::Expired => {
                // Notifications are free, so that two requests are a handshake and one more.
                let uses = self.uses.entry(token.to_owned()).or_default();
                *uses += u32::from(!method.starts_with("notifications/"));
                (*uses > 2).then(|| unauthorized(r#"Bearer realm="liar", error="invalid_token""#))
            }
            Mode::Rate => {
                self.refused += 1;
                let refusal = Refusal("429 Too Many Requests", "Retry-After: 1".to_owned(), "slow down");
                (self.refused <= 2).then_some(refusal)
            }
            Mode::Error500 => {
                let body = "<html><h1>Oops</h1><p>stack trace at /srv/app/secret.rb:7</p></html>";
                Some(Refusal("500 Internal Server Error", "X-Liar: yes".to_owned(), body))
            }
            _ => None,
        }
    }
}

fn unauthorized(challenge: &str) -> Refusal {
    Refusal("401 Unauthorized", format!("WWW-Authenticate: {challenge}"), "who are you?")
}

fn answer(server: &Mutex<Server>, stream: &TcpStream) -> io::Result<()> {
    let request = Request::read(stream)?;
    let mut to = stream;
    if request.verb != "POST" {
        return respond(&mut to, "405 Method Not Allowed", "Allow: POST", b"");
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let acts = {
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Refusal(status, header, body)) = server.gate.refuses(method, &request.token) {
            drop(server);
            return respond(&mut to, status, &header, body.as_bytes());
        }
        server.liar.on(&message)
    };
    if message.get("id").is_none() || method.is_empty() {
        return respond(&mut to, "202 Accepted", "X-Liar: yes", b"");
    }
    if acts.is_empty() {
        // Silence is a connection that stays open: this returns when the client gives up.
        return io::copy(&mut &*stream, &mut io::sink()).map(drop);
    }
    perform(&mut to, acts)
}

/// One message is a body of JSON, several are events.
fn perform(to: &mut impl Write, acts: Vec<Act>) -> io::Result<()> {
    let as_events = acts.iter().filter(|act| matches!(act, Act::Say(_))).count() > 1;
    let content = if as_events { "text/event-stream" } else { "application/json" };
    // Without a length the body ends with the connection, so nothing has to be known in advance.
    write!(to, "HTTP/1.1 200 OK\r\nContent-Type: {content}\r\nConnection: close\r\n\r\n")?;
    for act in acts {
        match act {
            Act::Say(message) if as_events => write!(to, "data: {message}\n\n")?,
            Act::Say(message) => write!(to, "{message}")?,
            Act::Bytes(bytes) => to.write_all(&bytes)?,
            Act::Drip(message) => drip(to, message.to_string().as_bytes())?,
            // What is said very often is said over standard input and output only.
            Act::Many(..) => {}
            Act::Wait(time) => std::thread::sleep(time),
            Act::Until(file) => until(&file),
            Act::Die => {
                to.flush()?;
                die()
            }
        }
    }
    to.flush()
}

fn respond(to: &mut impl Write, status: &str, header: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    write!(to, "HTTP/1.1 {status}\r\n{header}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    to.write_all(body)?;
    to.flush()
}

struct Request {
    verb: String,
    token: String,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        let verb = first.split(' ').next().unwrap_or_default().to_owned();
        let (mut length, mut token) = (0, String::new());
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().map_err(io::Error::other)?,
                "authorization" => value.trim().clone_into(&mut token),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Self { verb, token, body })
    }
}
