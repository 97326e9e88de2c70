//! Sessions as JSON Lines: a header, then an entry per line. Version 3 of the reference's format; versions 1 and 2 are read too.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, SecondsFormat};
use pincer_json::Json;
use pincer_store::{Attach, Entry, EntryId, EntryKind, Millis, NewEntry, Session};
use serde::{Deserialize, Serialize};

use crate::body::Custom;
use crate::new_entry_id;

/// The version that is written.
pub const VERSION: u32 = 3;
/// The kind of note that a nested call is for other readers.
const NESTED: &str = "pincer.nested-call";

/// Why a file is no session.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The first line is no header.
    #[error("line 1 is not the header of a session: {0}")]
    Header(String),
    /// The version is not known.
    #[error("the file is of version {0}, and this version of Pincer reads 1 to {VERSION}")]
    Version(u32),
    /// A line is no entry.
    #[error("line {line} is not an entry: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// An entry names a parent that is not before it.
    #[error("line {line}: the parent {parent} is not in a line before it")]
    Parent {
        /// The line, from 1.
        line: usize,
        /// The id.
        parent: String,
    },
    /// Two entries have the same id.
    #[error("line {line}: there is another entry with the id {id}")]
    Twice {
        /// The line, from 1.
        line: usize,
        /// The id.
        id: String,
    },
}

/// A session that was read from a file.
#[derive(Debug)]
pub struct Imported {
    /// Its id in the file.
    pub id: Option<String>,
    /// When it began.
    pub created_at: Option<Millis>,
    /// Its name.
    pub name: Option<String>,
    /// Its entries, to be stored from position 1 on.
    pub entries: Vec<NewEntry>,
    /// The first entry that a model is sent.
    pub context_from: u32,
    /// Oddities that were passed over, in words.
    pub warnings: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default = "first_version")]
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_session: Option<String>,
}

fn first_version() -> u32 {
    1
}

/// Members of ours, which other readers pass over.
#[derive(Default, Serialize, Deserialize)]
struct Own {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<String>,
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

/// Reads a file. A last line that was cut off is passed over; anything else that is wrong is an error.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    let (_, first) = lines.next().ok_or_else(|| ImportError::Header("the file is empty".into()))?;
    let header: Header = serde_json::from_str(first).map_err(|error| ImportError::Header(error.to_string()))?;
    if header.kind != "session" {
        return Err(ImportError::Header(format!("its type is {:?}", header.kind)));
    }
    if !(1..=VERSION).contains(&header.version) {
        return Err(ImportError::Version(header.version));
    }
    let created_at = header.timestamp.as_deref().and_then(millis);
    let mut imported =
        Imported { id: header.id, created_at, name: None, entries: Vec::new(), context_from: 1, warnings: Vec::new() };
    let mut positions: HashMap<String, u32> = HashMap::new();
    let mut at = created_at.unwrap_or_default();
    while let Some((number, line)) = lines.next() {
        let members = match serde_json::from_str::<BTreeMap<String, Json>>(line) {
            Ok(members) => members,
            Err(error) if lines.peek().is_none() && error.is_eof() => {
                imported.warnings.push(format!("line {} is cut off and was left out", number + 1));
                break;
            }
            Err(error) => return Err(ImportError::Line { line: number + 1, reason: error.to_string() }),
        };
        let read = read(members, number + 1, &positions, header.version, &mut imported.warnings)?;
        at = read.at.unwrap_or(at);
        let position = imported.entries.len() as u32 + 1;
        if positions.insert(read.id.clone(), position).is_some() {
            return Err(ImportError::Twice { line: number + 1, id: read.id });
        }
        if read.kind == EntryKind::SessionInfo {
            #[derive(Deserialize)]
            struct Info {
                name: Option<String>,
            }
            imported.name = serde_json::from_str::<Info>(&read.body).ok().and_then(|info| info.name);
        }
        imported.entries.push(NewEntry {
            id: read.id.into(),
            attach: read.attach,
            kind: read.kind,
            run: read.own.run.map(Into::into),
            call: read.own.call,
            body: read.body.into(),
            events: None,
            at,
        });
    }
    imported.context_from = context_from(&imported.entries, &positions);
    Ok(imported)
}

/// Returns the first entry that a model is sent: what the last compaction of the branch in use keeps, or the first of all.
fn context_from(entries: &[NewEntry], positions: &HashMap<String, u32>) -> u32 {
    let at = |position: u32| entries.get(position as usize - 1);
    let is_leaf = |entry: &NewEntry| !matches!(entry.attach, Attach::Beside(_));
    let mut next = entries.iter().rposition(is_leaf).map(|index| index as u32 + 1);
    while let Some((position, entry)) = next.and_then(|position| Some((position, at(position)?))) {
        if entry.kind == EntryKind::Compaction
            && let Ok(compaction) = serde_json::from_str::<crate::Compaction>(&entry.body)
        {
            return positions.get(&compaction.first_kept_entry_id).copied().unwrap_or(position);
        }
        next = match entry.attach {
            Attach::Under(parent) => parent,
            Attach::Beside(_) | Attach::Leaf => None,
        };
    }
    1
}

struct ReadEntry {
    id: String,
    attach: Attach,
    kind: EntryKind,
    own: Own,
    body: String,
    at: Option<Millis>,
}

fn read(
    mut members: BTreeMap<String, Json>,
    line: usize,
    positions: &HashMap<String, u32>,
    version: u32,
    warnings: &mut Vec<String>,
) -> Result<ReadEntry, ImportError> {
    let wrong = |reason: &str| ImportError::Line { line, reason: reason.to_owned() };
    let mut text = |name: &str| members.remove(name).and_then(|value| value.to::<Option<String>>().ok().flatten());
    let word = text("type").ok_or_else(|| wrong("it has no type"))?;
    let id = text("id").unwrap_or_else(|| new_entry_id().to_string());
    let at = text("timestamp").as_deref().and_then(millis);
    let has_parent = members.contains_key("parentId");
    let parent = members.remove("parentId").and_then(|value| value.to::<Option<String>>().ok().flatten());
    let own = members.remove("pincer").and_then(|own| own.to::<Own>().ok()).unwrap_or_default();
    let parent = match parent {
        Some(parent) => Some(*positions.get(&parent).ok_or(ImportError::Parent { line, parent })?),
        // The first version had a list, not a tree.
        None if version == 1 && !has_parent => u32::try_from(positions.len()).ok().filter(|last| *last > 0),
        None => None,
    };
    let body = serde_json::to_string(&members).unwrap_or_default();
    let custom = || serde_json::from_str::<Custom>(&body).ok();
    let (kind, body) = match EntryKind::from_word(&word) {
        Some(EntryKind::Custom) if parent.is_some() && custom().is_some_and(|custom| custom.custom_type == NESTED) => {
            let data = custom().and_then(|custom| custom.data);
            (EntryKind::NestedCall, data.map(|data| data.to_string()).unwrap_or_default())
        }
        Some(EntryKind::NestedCall) | None => {
            warnings
                .push(format!("line {line} is of the type {word:?}, which is not known here: it was kept as a note"));
            let data = Json::parse(body).map_err(|error| wrong(&error.to_string()))?;
            let custom = Custom { custom_type: format!("imported.{word}"), data: Some(data) };
            (EntryKind::Custom, serde_json::to_string(&custom).unwrap_or_default())
        }
        Some(EntryKind::Message) => {
            crate::Message::parse(&body).map_err(|error| wrong(&error.to_string()))?;
            (EntryKind::Message, body)
        }
        Some(kind) => (kind, body),
    };
    let attach = match (kind, parent) {
        (EntryKind::NestedCall, Some(parent)) => Attach::Beside(parent),
        (_, parent) => Attach::Under(parent),
    };
    Ok(ReadEntry { id, attach, kind, own, body, at })
}

fn iso(at: Millis) -> String {
    let time = DateTime::from_timestamp_millis(at).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn millis(text: &str) -> Option<Millis> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-02T03:04:05.006Z","cwd":"/w"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06.000Z","message":{"role":"user","content":"hi"}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-02T03:04:07.000Z","pincer":{"run":"ar_1"},"message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"exec","arguments":{"code":"1"}}]}}
{"type":"custom","id":"n","parentId":"b","timestamp":"2026-01-02T03:04:08.000Z","pincer":{"run":"ar_1","call":"c"},"customType":"pincer.nested-call","data":{"program":"cm_1","seq":0,"tool":"t","input":{}}}
{"type":"message","id":"d","parentId":"b","timestamp":"2026-01-02T03:04:09.000Z","message":{"role":"toolResult","toolCallId":"c","content":[]}}
"#;

    fn stored(imported: &Imported) -> Vec<Entry> {
        let mut leaf = None;
        let entries = imported.entries.iter().zip(1..).map(|(new, position)| {
            let parent = match new.attach {
                Attach::Leaf => leaf,
                Attach::Beside(parent) => Some(parent),
                Attach::Under(parent) => parent,
            };
            leaf = Some(position);
            Entry {
                position,
                id: new.id.clone(),
                parent,
                kind: new.kind,
                run: new.run.clone(),
                call: new.call.clone(),
                body: new.body.to_string(),
                events: None,
                at: new.at,
            }
        });
        entries.collect()
    }

    #[test]
    fn a_file_is_read_and_written_back() {
        let imported = import(FILE).expect("a session");
        assert_eq!(imported.warnings, [""; 0]);
        let entries = stored(&imported);
        assert_eq!(
            entries.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(),
            ["message", "message", "nested_call", "message"]
        );
        assert_eq!(entries.iter().map(|entry| entry.parent).collect::<Vec<_>>(), [None, Some(1), Some(2), Some(2)]);
        let mut known = Exported::default();
        let lines: Vec<String> = entries.iter().map(|entry| export_line(&mut known, entry)).collect();
        assert_eq!(lines, FILE.lines().skip(1).collect::<Vec<_>>());
    }

    #[test]
    fn an_entry_is_one_line_however_its_json_was_written() {
        let pretty = "{\r\n  \"code\": \"a\\nb\",\n  \"n\": [\n1,\r2\n]\n}";
        let reply = format!(
            r#"{{"message":{{"role":"assistant","content":[{{"type":"toolCall","id":"c","name":"t","arguments":{pretty},"raw":{pretty}}}]}}}}"#
        );
        let call = format!(r#"{{"program":"p","seq":0,"tool":"t","input":{pretty}}}"#);
        let entry = |position: u32, kind, body: &str| Entry {
            position,
            id: format!("e{position}").into(),
            parent: position.checked_sub(1).filter(|parent| *parent > 0),
            kind,
            run: None,
            call: None,
            body: body.to_owned(),
            events: None,
            at: 0,
        };
        let mut known = Exported::default();
        let entries = [entry(1, EntryKind::Message, &reply), entry(2, EntryKind::NestedCall, &call)];
        let lines: Vec<String> = entries.iter().map(|entry| export_line(&mut known, entry)).collect();
        assert!(lines.iter().all(|line| !line.contains(['\n', '\r'])), "{lines:?}");
        let imported =
            import(&format!("{}\n{}", FILE.lines().next().expect("a line"), lines.join("\n"))).expect("read again");
        for (new, old) in imported.entries.iter().zip(&entries) {
            let [new, old] =
                [&*new.body, &old.body].map(|body| serde_json::from_str::<serde_json::Value>(body).expect("JSON"));
            assert_eq!(new, old);
        }
        assert_eq!(imported.entries.len(), 2);
    }

    #[test]
    fn every_kind_of_damage_has_its_line() {
        let check = |text: &str, told: &str| {
            let error = import(text).expect_err(text).to_string();
            assert!(error.contains(told), "{error}");
        };
        let header = FILE.lines().next().expect("a line");
        check("", "the file is empty");
        check("{\"type\":\"message\"}", "its type is \"message\"");
        check("{\"type\":\"session\",\"version\":9}", "version 9");
        check(&format!("{header}\nnonsense\n{{}}"), "line 2 is not an entry");
        check(&format!("{header}\n{{\"type\":\"custom\",\"id\":\"x\",\"parentId\":\"y\"}}"), "the parent y");
        let twice = "{\"type\":\"custom\",\"id\":\"x\",\"parentId\":null,\"customType\":\"t\"}";
        check(&format!("{header}\n{twice}\n{twice}"), "line 3: there is another entry with the id x");
        check(&format!("{header}\n{{\"type\":\"message\",\"message\":7}}"), "line 2");
        let cut = import(&format!("{header}\n{twice}\n{{\"type\":\"cus")).expect("passed over");
        assert_eq!((cut.entries.len(), cut.warnings.len()), (1, 1));
    }

    #[test]
    fn only_a_compaction_of_the_branch_in_use_shortens_what_is_sent() {
        let line = |id: &str, parent: &str, kind: &str, rest: &str| {
            format!("{{\"type\":\"{kind}\",\"id\":\"{id}\",\"parentId\":{parent}{rest}}}")
        };
        let text = |last: &str| {
            let note = ",\"customType\":\"t\"";
            let compaction = ",\"summary\":\"s\",\"firstKeptEntryId\":\"b\"";
            [
                "{\"type\":\"session\",\"version\":3}".to_owned(),
                line("a", "null", "custom", note),
                line("b", "\"a\"", "custom", note),
                line("c", "\"b\"", "compaction", compaction),
                line("d", last, "custom", note),
            ]
            .join("\n")
        };
        let from = |last: &str| import(&text(last)).expect("a session").context_from;
        assert_eq!((from("\"c\""), from("\"b\"")), (2, 1));
    }

    #[test]
    fn the_first_version_is_a_list() {
        let imported = import(
            "{\"type\":\"session\",\"id\":\"s\"}\n{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"a\"}}\n\
             {\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"b\"}}",
        );
        let entries = stored(&imported.expect("a session"));
        assert_eq!(entries.iter().map(|entry| entry.parent).collect::<Vec<_>>(), [None, Some(1)]);
    }
}
