//! The scripts of the server, and recordings of its replies.

use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use pincer_model::{Debug, Keys, Message, Models, Plan, Profile, Provider, Recorder, Replying, Request, Target};
use pincer_scripted::Server;
use serde_json::{Value, json};

use crate::cells::Outcome;
use crate::print::{chain, line, note};
use crate::usage_bench::StreamFormat;
use crate::{DONE, FAILED};

/// Words of usual lengths. Some need an escape, some have more bytes than letters.
const WORDS: [&str; 12] =
    ["The", "gateway", "reads", "a", "stream", "of", "\"events\",", "größer", "than", "before", "→", "it\\is."];
/// Words of the reply that a client reads before it measures.
const FIRST: usize = 2_000;
/// The pause between two words. The server's timer rounds it up, and sending takes its time too: in all a little under 10 ms.
const PAUSE_MS: u64 = 8;
/// A write for each event would take the server longer than its reader.
const BYTES_AT_ONCE: usize = 16 << 10;

/// How fast a reply is sent.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// As fast as it is read.
    AtOnce,
    /// At least 100 words per second, unless the machine is busy; each in a write of its own.
    HundredPerSecond,
}

/// A script in a file, and the text of its replies in another: a reply to warm up with, then the same reply to every request.
/// The replies are recordings, so that the server has nothing to do but send them.
pub(super) struct Script {
    pub file: PathBuf,
    pub text: PathBuf,
}

impl Script {
    pub(super) async fn write(directory: &Path, format: StreamFormat, words: usize, pace: Pace) -> Outcome<Self> {
        let script = Self { file: directory.join("script.json5"), text: directory.join("said.txt") };
        let first = reply(&recorded(format, FIRST).await?, Pace::AtOnce)?;
        let mut further = reply(&recorded(format, words).await?, pace)?;
        further["repeat"] = true.into();
        std::fs::write(&script.file, json!({ "replies": [first, further] }).to_string())?;
        std::fs::write(&script.text, text(words))?;
        Ok(script)
    }
}

fn reply(body: &[u8], pace: Pace) -> Outcome<Value> {
    let headers = json!({ "content-type": "text/event-stream" });
    let mut recorded = json!({ "status": 200, "headers": headers, "body": str::from_utf8(body)? });
    let wire = match pace {
        Pace::AtOnce => json!({ "cut": BYTES_AT_ONCE }),
        Pace::HundredPerSecond => {
            let ends = events(body).into_iter().scan(0, |end, event| {
                *end += event.len();
                Some(*end)
            });
            recorded["cuts"] = ends.collect();
            json!({ "everyMs": PAUSE_MS })
        }
    };
    Ok(json!({ "recorded": recorded, "wire": wire }))
}

/// Serves a script until the standard input ends, and prints its address.
pub(crate) fn serve(script: &Path) -> u8 {
    match pincer_scripted::Script::from_file(script).and_then(Server::start) {
        Ok(server) => {
            line(&server.url());
            // Ends with the process that holds the other end, however that ends.
            let _ = stdin().read_to_end(&mut Vec::new());
            DONE
        }
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            FAILED
        }
    }
}

/// Sends a request, to which the server answers with its next reply.
pub(super) fn ask(format: StreamFormat, url: &str, models: &Models) -> Outcome<Replying> {
    let provider = Arc::new(Provider {
        id: "bench".into(),
        base_url: format!("{url}/v1").parse()?,
        api: format.api(),
        headers: [].into(),
        timeout: None,
        models: Vec::new(),
    });
    let request = Request { messages: vec![Message::user("Say something long.")], ..Request::default() };
    Ok(models.ask(Plan::new(Target::new(&provider, "scripted")), request))
}

/// Returns a way to the server, which writes exchanges to a directory if there is one.
pub(super) fn models(record_to: Option<&Path>) -> Models {
    let keys = Keys::new([("bench".into(), vec![Profile { id: "bench".into(), find: None }])].into());
    Models::new(keys, Debug::default(), record_to.map(Recorder::new))
}

/// Returns the body of a reply of so many words, as it comes over the wire.
pub(super) async fn recorded(format: StreamFormat, words: usize) -> Outcome<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let reply = pincer_scripted::Message::new().text(text(words));
    let server = Server::start(pincer_scripted::Script::new().reply(reply))?;
    let mut reply = ask(format, &server.url(), &models(Some(directory.path())))?;
    while let Some(event) = reply.next().await {
        event?;
    }
    drop(reply);
    let file = std::fs::read_dir(directory.path())?.next().ok_or("nothing was recorded")??.path();
    let recording: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let body = recording["replies"][0]["recorded"]["body"].as_str().ok_or("nothing was recorded")?;
    Ok(body.as_bytes().to_vec())
}

/// Cuts a body into its events.
pub(super) fn events(body: &[u8]) -> Vec<&[u8]> {
    let ends = body.windows(2).enumerate().filter(|(_, pair)| pair == b"\n\n").map(|(at, _)| at + 2);
    let mut begin = 0;
    ends.map(|end| &body[std::mem::replace(&mut begin, end)..end]).collect()
}

/// So many words. A server sends each in an event of its own.
fn text(words: usize) -> String {
    let between = |at: usize| if at.is_multiple_of(20) { "\n" } else { " " };
    let word = |at: usize| [if at == 0 { "" } else { between(at) }, WORDS[at % WORDS.len()]];
    (0..words).flat_map(word).collect()
}
