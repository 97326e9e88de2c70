//! Looking at requests and replies on their way, without the secrets in them.

use std::sync::Arc;
use std::time::Instant;

use pincer_http::shown;
use pincer_secrecy::{REDACTED, Redactor};
use reqwest::{Response, Url};
use serde_json::Value;
use sse_stream::Sse;
use tracing::info;

use crate::event::Reply;
use crate::record::{Recorder, Recording};
use crate::settings::Target;

/// The target of these logs. They are shown whatever the level is: each has a switch of its own.
const TARGET: &str = "pincer_model::debug";
/// The characters of a payload that are logged.
const MOST_PAYLOAD_CHARS: usize = 65_536;
/// The characters of an event that are logged.
const MOST_EVENT_CHARS: usize = 2_048;
/// The events that [`Events::Peek`] logs.
const PEEKED: u64 = 5;
/// A shorter text is part of too many words.
const SHORTEST_SECRET: usize = 6;

/// The parts of the way that are logged. Nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debug {
    /// Requests and answers: addresses, sizes, times.
    pub transport: bool,
    /// The bodies of requests.
    pub payload: Payload,
    /// The events of replies.
    pub events: Events,
}

/// How much of a request's body is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    #[default]
    Off,
    /// Counts and sizes.
    Summary,
    /// The names of its tools too.
    Tools,
    /// All of it, capped, without secrets. Prompts and messages are in it.
    FullRedacted,
}

/// How much of a reply's events is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// Nothing.
    #[default]
    Off,
    /// The kind and size of each.
    Events,
    /// The first five, without secrets.
    Peek,
}

impl Debug {
    /// Reads the variables of the environment that switch it on; those that are not set leave it as it is.
    pub fn with_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_on = |value: String| matches!(value.trim(), "1" | "true" | "yes" | "on");
        if let Some(value) = variable("OPENCLAW_DEBUG_MODEL_TRANSPORT") {
            self.transport = is_on(value);
        }
        if let Some(value) = variable("OPENCLAW_DEBUG_MODEL_PAYLOAD") {
            self.payload = match value.trim() {
                "summary" => Payload::Summary,
                "tools" => Payload::Tools,
                "full-redacted" => Payload::FullRedacted,
                _ => Payload::Off,
            };
        }
        if let Some(value) = variable("OPENCLAW_DEBUG_SSE") {
            self.events = match value.trim() {
                "events" => Events::Events,
                "peek" => Events::Peek,
                _ => Events::Off,
            };
        }
        self
    }

    /// Returns whether anything is logged.
    pub fn is_on(&self) -> bool {
        *self != Self::default()
    }
}

/// Takes secrets out of texts.
#[derive(Clone, Default)]
pub(crate) struct Hiding(Arc<Vec<String>>);

impl Hiding {
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|text| text.len() >= SHORTEST_SECRET).collect();
        secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
        secrets.dedup();
        Self(Arc::new(secrets))
    }

    /// Returns the text without the known secrets, and without what looks like one.
    pub(crate) fn text(&self, text: &str) -> String {
        let known = self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), REDACTED));
        pincer_secrecy::without_tokens(&known).into_owned()
    }

    fn json(&self, text: &str) -> String {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        self.text(&Redactor::default().redact(&value).to_string())
    }
}

/// Watches one request.
pub(crate) struct Watch {
    debug: Debug,
    hiding: Hiding,
    recording: Option<Recording>,
    target: String,
    begun: Instant,
    bytes: u64,
    events: u64,
}

impl Watch {
    pub(crate) fn new(debug: Debug, hiding: Hiding, recorder: Option<&Recorder>) -> Self {
        let recording = recorder.map(|recorder| recorder.begin(hiding.clone()));
        Self { debug, hiding, recording, target: String::new(), begun: Instant::now(), bytes: 0, events: 0 }
    }

    pub(crate) fn request(&mut self, target: &Target, url: &Url, body: &str) {
        if let Some(recording) = &mut self.recording {
            recording.request(target.provider.api, body);
        }
        if !self.debug.is_on() {
            return;
        }
        self.target = target.to_string();
        if self.debug.transport {
            info!(target: TARGET, model = %self.target, url = %shown(url), bytes = body.len(), "model request");
        }
        if self.debug.payload == Payload::Off {
            return;
        }
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let count = |key: &str| value[key].as_array().map_or(0, Vec::len);
        let messages = count("messages").max(count("input"));
        let tools = value["tools"].as_array().into_iter().flatten();
        let name = |tool: &Value| tool["function"]["name"].as_str().or(tool["name"].as_str()).map(str::to_owned);
        let names: Vec<String> = tools.filter_map(name).collect();
        match self.debug.payload {
            Payload::Off => {}
            Payload::Summary => {
                info!(target: TARGET, model = %self.target, messages, tools = names.len(), bytes = body.len(), "model payload");
            }
            Payload::Tools => {
                let tools = self.hiding.text(&names.join(","));
                info!(target: TARGET, model = %self.target, messages, tools, bytes = body.len(), "model payload");
            }
            Payload::FullRedacted => {
                let payload = capped(self.hiding.json(body), MOST_PAYLOAD_CHARS);
                info!(target: TARGET, model = %self.target, payload, "model payload");
            }
        }
    }

    pub(crate) fn response(&mut self, response: &Response) {
        if let Some(recording) = &mut self.recording {
            recording.response(response);
        }
        if self.debug.transport {
            let milliseconds = self.begun.elapsed().as_secs_f64() * 1000.0;
            info!(target: TARGET, model = %self.target, status = response.status().as_u16(), ms = milliseconds, "model response");
        }
    }

    pub(crate) fn chunk(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(recording) = &mut self.recording {
            recording.chunk(bytes);
        }
    }

    pub(crate) fn event(&mut self, event: &Sse) {
        self.events += 1;
        let data = event.data.as_deref().unwrap_or_default();
        match self.debug.events {
            Events::Off => {}
            Events::Events => {
                let kind = event.event.clone().unwrap_or_else(|| "message".to_owned());
                let kind = capped(self.hiding.text(&kind), MOST_EVENT_CHARS);
                info!(target: TARGET, model = %self.target, number = self.events, kind, bytes = data.len(), "model event");
            }
            Events::Peek if self.events <= PEEKED => {
                let data = capped(self.hiding.json(data), MOST_EVENT_CHARS);
                info!(target: TARGET, model = %self.target, number = self.events, data, "model event");
            }
            Events::Peek => {}
        }
    }

    pub(crate) fn end(&mut self, reply: &Reply) {
        if self.debug.transport {
            let milliseconds = self.begun.elapsed().as_secs_f64() * 1000.0;
            info!(
                target: TARGET, model = %self.target, events = self.events, bytes = self.bytes, ms = milliseconds,
                stop = ?reply.stop, input = reply.usage.prompt(), output = reply.usage.output, "model reply"
            );
        }
    }
}

fn capped(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}… [{} characters]", &text[..end], text.chars().count()),
        None => text,
    }
}
