//! Events as they are written: numbered, cleaned and bounded, a line each.

use chrono::{DateTime, SecondsFormat};
use pincer_secrecy::{Bounds, Cleaner, Cut};
use pincer_store::Millis;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::manifest::{Limits, Truncation};
use crate::{SCHEMA, VERSION};

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// Events of the loop.
    Runtime,
    /// Events of the conversation.
    Transcript,
    /// This export.
    Export,
}

/// An event before it is numbered. Its data has been cleaned.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub source: Source,
    pub kind: &'static str,
    pub at: Millis,
    /// The number of its row in its source.
    pub source_seq: Option<u64>,
    pub run: Option<String>,
    pub model: Model,
    pub entry: Option<String>,
    pub parent: Option<String>,
    pub data: Map<String, Value>,
    pub cut: Cut,
}

/// The model that an event speaks of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub provider: Option<String>,
    pub id: Option<String>,
    pub api: Option<String>,
}

impl Event {
    pub(crate) fn new(source: Source, kind: &'static str, at: Millis, data: Value) -> Self {
        let data = match data {
            Value::Object(data) => data,
            _ => Map::new(),
        };
        Self {
            source,
            kind,
            at,
            source_seq: None,
            run: None,
            model: Model::default(),
            entry: None,
            parent: None,
            data,
            cut: Cut::Whole,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    trace_schema: &'a str,
    schema_version: u32,
    trace_id: &'a str,
    source: Source,
    #[serde(rename = "type")]
    kind: &'a str,
    ts: String,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_seq: Option<u64>,
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<&'a str>,
    workspace_dir: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_api: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_entry_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    data: &'a Map<String, Value>,
}

/// Makes lines of events.
pub(crate) struct Lines {
    pub session: String,
    pub key: String,
    pub workspace: &'static str,
    pub limits: Limits,
    pub truncation: Truncation,
    pub count: u64,
}

/// The longest texts that stay when the data of an event is replaced: by them calls are put together.
const SHORT: usize = 200;

impl Lines {
    /// Numbers an event and returns its line.
    pub(crate) fn line(&mut self, mut event: Event) -> String {
        self.count += 1;
        let line = self.of(&event);
        if line.len() <= self.limits.line_bytes {
            if event.cut == Cut::Shortened {
                self.truncation.shortened_events += 1;
            }
            return line;
        }
        self.truncation.replaced_events += 1;
        let bytes = line.len();
        drop(line);
        event.data = replaced(&event.data, bytes, self.limits.line_bytes, "the event is longer than a line may be");
        self.of(&event)
    }

    fn of(&self, event: &Event) -> String {
        let line = Line {
            trace_schema: SCHEMA,
            schema_version: VERSION,
            trace_id: &self.session,
            source: event.source,
            kind: event.kind,
            ts: iso(event.at),
            seq: self.count,
            source_seq: event.source_seq,
            session_id: &self.session,
            session_key: Some(&self.key),
            run_id: event.run.as_deref(),
            workspace_dir: self.workspace,
            provider: event.model.provider.as_deref(),
            model_id: event.model.id.as_deref(),
            model_api: event.model.api.as_deref(),
            entry_id: event.entry.as_deref(),
            parent_entry_id: event.parent.as_deref(),
            data: &event.data,
        };
        serde_json::to_string(&line).unwrap_or_default()
    }
}

/// Returns what stands in place of data that is too large.
pub(crate) fn replaced(data: &Map<String, Value>, bytes: usize, limit: usize, reason: &str) -> Map<String, Value> {
    let stays = |value: &Value| match value {
        Value::String(text) => text.len() <= SHORT,
        Value::Array(_) | Value::Object(_) => false,
        _ => true,
    };
    let (kept, dropped): (Map<String, Value>, Map<String, Value>) =
        data.clone().into_iter().partition(|(_, value)| stays(value));
    let dropped: Vec<String> = dropped.into_iter().map(|(name, _)| name).collect();
    let mut shown = Map::new();
    for (name, value) in [
        ("truncated", json!(true)),
        ("originalBytes", json!(bytes)),
        ("limitBytes", json!(limit)),
        ("reason", json!(reason)),
        ("droppedFields", json!(dropped)),
    ] {
        shown.insert(name.to_owned(), value);
    }
    shown.extend(kept);
    shown
}

/// Reads and cleans JSON of the store.
pub(crate) struct Reading<'c> {
    pub cleaner: &'c Cleaner,
    pub bounds: Bounds,
}

impl<'c> Reading<'c> {
    pub(crate) fn new(cleaner: &'c Cleaner, limits: &Limits) -> Self {
        let Limits { depth, items, string_chars, line_bytes } = *limits;
        Self { cleaner, bounds: Bounds { depth, items, chars: string_chars, bytes: 4 * line_bytes } }
    }

    /// Returns JSON, cleaned. Anything else is a text.
    pub(crate) fn json(&self, text: &str, cut: &mut Cut) -> Value {
        match self.cleaner.json(text, &self.bounds) {
            Ok((value, shortened)) => {
                if shortened == Cut::Shortened {
                    *cut = Cut::Shortened;
                }
                value
            }
            Err(_) => self.text(text).into(),
        }
    }

    pub(crate) fn text(&self, text: &str) -> String {
        self.cleaner.short(text, self.bounds.chars)
    }

    /// Returns an id or a name, cleaned and short.
    pub(crate) fn name(&self, text: &str) -> String {
        self.cleaner.short(text, 1000)
    }
}

pub(crate) fn iso(at: Millis) -> String {
    DateTime::from_timestamp_millis(at).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}
