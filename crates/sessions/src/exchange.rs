//! Sessions as JSON Lines: a header, then an entry per line. Version 3 of the reference's format. `import.rs` reads it.

use std::collections::HashMap;

use chrono::{DateTime, SecondsFormat};
use pincer_store::{Entry, EntryId, EntryKind, Millis, Session};
use serde::{Deserialize, Serialize};

/// The version that is written.
pub const VERSION: u32 = 3;
/// The kind of note that a nested call is for other readers.
pub(crate) const NESTED: &str = "pincer.nested-call";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default = "first_version")]
    pub(crate) version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent_session: Option<String>,
}

fn first_version() -> u32 {
    1
}

/// Members of ours, which other readers pass over.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Own {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<String>,
}

/// Returns the first line of a session's file.
pub fn header_line(session: &Session, cwd: &str) -> String {
    let header = Header {
        kind: "session".into(),
        version: VERSION,
        id: Some(session.id.to_string()),
        cwd: Some(cwd.to_owned()),
        timestamp: Some(iso(session.created_at)),
        parent_session: session.parent.as_ref().map(ToString::to_string),
    };
    serde_json::to_string(&header).unwrap_or_default()
}

/// Names the entries that were exported before, for those that follow.
#[derive(Default)]
pub struct Exported(HashMap<u32, EntryId>);

/// Returns the line of an entry. Entries must come in their order.
///
/// Models may write the arguments of a call on several lines, and a body keeps that. Line breaks of valid JSON are between its
/// tokens, where they mean nothing, so they are left out.
pub fn export_line(known: &mut Exported, entry: &Entry) -> String {
    let parent = entry.parent.and_then(|parent| known.0.get(&parent).cloned());
    known.0.insert(entry.position, entry.id.clone());
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let (kind, body) = match entry.kind {
        EntryKind::NestedCall => ("custom", format!("{{\"customType\":{},\"data\":{}}}", quoted(NESTED), entry.body)),
        kind => (kind.as_str(), entry.body.clone()),
    };
    let body = body.replace(['\n', '\r'], "");
    let mut line = format!(
        "{{\"type\":{},\"id\":{},\"parentId\":{},\"timestamp\":{}",
        quoted(kind),
        quoted(entry.id.as_str()),
        parent.map_or_else(|| "null".to_owned(), |parent| quoted(parent.as_str())),
        quoted(&iso(entry.at)),
    );
    if entry.run.is_some() || entry.call.is_some() {
        let own = Own { run: entry.run.as_ref().map(ToString::to_string), call: entry.call.clone() };
        line.push_str(",\"pincer\":");
        line.push_str(&serde_json::to_string(&own).unwrap_or_default());
    }
    let members = body.trim().trim_start_matches('{');
    match members.trim_start() {
        "}" | "" => line.push('}'),
        _ => {
            line.push(',');
            line.push_str(members);
        }
    }
    line
}

fn iso(at: Millis) -> String {
    let time = DateTime::from_timestamp_millis(at).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

pub(crate) fn millis(text: &str) -> Option<Millis> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis())
}

#[cfg(test)]
mod tests;
