//! The server that misbehaves. It is written on bare lines and bare HTTP, because a library would not let it.
//!
//! [`Liar`] decides what to do with a message, as a list of [`Act`]s; the transports do it.

mod calls;
mod catalog;
mod floods;
mod http;
mod lists;
mod stdio;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

pub use catalog::{serve_catalog, tools as catalog_tools};
pub use http::serve_http;
pub use stdio::serve_stdio;

/// What is wrong with this server. The crate's documentation has the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Schemas that refer to themselves, are deep, or have huge enums.
    Cycles,
    /// 5000 tools over pages of 100.
    Many,
    /// Tool names that are no identifiers.
    Names,
    /// One name twice, and pages without end.
    Duplicates,
    /// A tool that replaces another.
    Changing,
    /// A result of 50 MB.
    Huge,
    /// An answer that is no JSON.
    InvalidJson,
    /// Calls are not answered.
    Silent,
    /// The handshake is not answered.
    SilentInit,
    /// Ends in the middle of a call.
    Crash,
    /// Ends before it said anything.
    CrashStart,
    /// Log lines between the messages.
    Noise,
    /// A byte every 20 ms.
    Drip,
    /// Answers to questions that nobody asked.
    WrongIds,
    /// Some tools of the list are no tools.
    BadTools,
    /// Results that are no results.
    BadResult,
    /// Sends the client to another address.
    Redirect,
    /// Wants to be paid in tokens.
    Unauthorized,
    /// Takes each token twice.
    Expired,
    /// Two refusals with a time to wait.
    Rate,
    /// An error with a body.
    Error500,
    /// Takes three seconds to start.
    SlowStart,
    /// Asks the user.
    Elicit,
    /// Asks the model.
    Sample,
    /// Images, sounds and blobs.
    Binary,
    /// Lists its tools at the second request only.
    FlakyList,
    /// Reads no more once it has been called.
    Deaf,
    /// Says the same thing very often.
    Flood,
    /// Pages without end, each with a cursor of its own.
    Endless,
    /// Descriptions that are books.
    Fat,
    /// Says that its list has changed whenever it was asked for it.
    Restless,
    /// Tools that call themselves harmless, or something that is no tool.
    Hints,
}

/// All modes by the names they have on the command line.
pub const MODES: [(&str, Mode); 32] = [
    ("cycles", Mode::Cycles),
    ("many", Mode::Many),
    ("names", Mode::Names),
    ("duplicates", Mode::Duplicates),
    ("changing", Mode::Changing),
    ("huge", Mode::Huge),
    ("invalid-json", Mode::InvalidJson),
    ("silent", Mode::Silent),
    ("silent-init", Mode::SilentInit),
    ("crash", Mode::Crash),
    ("crash-start", Mode::CrashStart),
    ("noise", Mode::Noise),
    ("drip", Mode::Drip),
    ("wrong-ids", Mode::WrongIds),
    ("bad-tools", Mode::BadTools),
    ("bad-result", Mode::BadResult),
    ("redirect", Mode::Redirect),
    ("unauthorized", Mode::Unauthorized),
    ("expired", Mode::Expired),
    ("rate", Mode::Rate),
    ("error500", Mode::Error500),
    ("slow-start", Mode::SlowStart),
    ("elicit", Mode::Elicit),
    ("sample", Mode::Sample),
    ("binary", Mode::Binary),
    ("flaky-list", Mode::FlakyList),
    ("deaf", Mode::Deaf),
    ("flood", Mode::Flood),
    ("endless", Mode::Endless),
    ("fat", Mode::Fat),
    ("restless", Mode::Restless),
    ("hints", Mode::Hints),
];

impl Mode {
    /// The mode of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        MODES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// What it does is done with HTTP statuses, so it is nothing over standard input and output.
    #[must_use]
    pub fn needs_http(self) -> bool {
        matches!(self, Self::Redirect | Self::Unauthorized | Self::Expired | Self::Rate | Self::Error500)
    }

    /// Asks the client in the middle of a call, for which the HTTP side here has no stream, or does something to the pipes.
    #[must_use]
    pub fn needs_stdio(self) -> bool {
        matches!(self, Self::Elicit | Self::Sample | Self::Noise | Self::Deaf | Self::Flood)
    }
}

/// One thing that a transport does.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Sends a message.
    Say(Value),
    /// Sends bytes as they are.
    Bytes(Vec<u8>),
    /// Sends a message a byte at a time.
    Drip(Value),
    /// Sends a text so many times, with the number in place of each `NUMBER`.
    Many(String, usize),
    /// Does nothing for a while.
    Wait(Duration),
    /// Does nothing until there is such a file.
    Until(PathBuf),
    /// Ends the process.
    Die,
}

/// What [`Act::Many`] puts a number in place of.
const NUMBER: &str = "{#}";
/// What [`Act::Until`] waits between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// What [`Act::Drip`] waits between two bytes.
const BETWEEN_BYTES: Duration = Duration::from_millis(20);
/// The code that [`Act::Die`] ends with.
const CODE: i32 = 7;
const LAST_WORDS: &str = "mcp-liar: something terrible happened at line 42";

/// Decides what to do with each message.
#[derive(Debug)]
pub struct Liar {
    mode: Mode,
    listed: usize,
    swapped: bool,
    /// The call that waits for the client's answer to [`QUESTION`].
    asking: Option<Value>,
}

/// The id of the one question that is ever open.
const QUESTION: &str = "liar-1";

impl Liar {
    /// A server that has not heard anything yet.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, listed: 0, swapped: false, asking: None }
    }

    /// What to do about a message. Nothing at all is an answer too, and the worst one.
    pub fn on(&mut self, message: &Value) -> Vec<Act> {
        let Some(id) = message.get("id").filter(|id| !id.is_null()) else { return Vec::new() };
        let Some(method) = message.get("method").and_then(Value::as_str) else { return self.on_answer(id, message) };
        let params = message.get("params").cloned().unwrap_or_default();
        let acts = match method {
            "initialize" => self.initialize(id, &params),
            "ping" => vec![Act::Say(result(id, json!({})))],
            "tools/list" => {
                self.listed += 1;
                let cursor = params.get("cursor").and_then(Value::as_str);
                let mut acts = vec![Act::Say(self.list(id, cursor))];
                if self.mode == Mode::Restless {
                    acts.push(Act::Say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })));
                }
                acts
            }
            "tools/call" => self.call(id, &params),
            _ => vec![Act::Say(error(id, -32601, "there is no such method"))],
        };
        if self.mode == Mode::Noise { with_noise(acts) } else { acts }
    }

    fn initialize(&self, id: &Value, params: &Value) -> Vec<Act> {
        let hello = Act::Say(result(
            id,
            json!({
                "protocolVersion": params.get("protocolVersion").cloned().unwrap_or(json!("2025-11-25")),
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "mcp-liar", "version": env!("CARGO_PKG_VERSION") },
            }),
        ));
        match self.mode {
            Mode::SilentInit => Vec::new(),
            Mode::SlowStart => {
                let gate = std::env::var_os("LIAR_UNTIL");
                vec![gate.map_or(Act::Wait(Duration::from_secs(3)), |gate| Act::Until(gate.into())), hello]
            }
            _ => vec![hello],
        }
    }
}

fn with_noise(acts: Vec<Act>) -> Vec<Act> {
    let noise = b"[2026-01-01T00:00:00Z] INFO this is not a message\n\n{ neither is this\n\"nor this\"\n".to_vec();
    acts.into_iter().flat_map(|act| [Act::Bytes(noise.clone()), act]).collect()
}

fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// A result of one block of text.
fn text(id: &Value, text: &str) -> Value {
    result(id, json!({ "content": [{ "type": "text", "text": text }] }))
}
