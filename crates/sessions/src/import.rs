//! Reads sessions from JSON Lines: versions 1 to 3 of the format.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use pincer_json::{Json, JsonError, without_lone_surrogates};
use pincer_store::{Attach, EntryKind, Millis, NewEntry};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::body::{BranchSummary, Compaction, Custom, CustomMessage, MessageBody, NestedCall};
use crate::exchange::{Header, NESTED, Own, VERSION, millis};
use crate::new_entry_id;

/// How deep the values are that the loop checks as values of their own: in `message`, in `content`, in a part.
const LEVELS_OF_MESSAGE: u32 = 3;
/// How deep the values of a nested call are: in `data`.
const LEVELS_OF_NESTED: u32 = 1;

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
    /// Its name.
    pub name: Option<String>,
    /// Its entries, to be stored from position 1 on.
    pub entries: Vec<NewEntry>,
    /// The first entry that a model is sent.
    pub context_from: u32,
    /// Oddities that were passed over, in words.
    pub warnings: Vec<String>,
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
    let began_at = header.timestamp.as_deref().and_then(millis);
    let mut imported =
        Imported { id: header.id, name: None, entries: Vec::new(), context_from: 1, warnings: Vec::new() };
    let mut positions: HashMap<String, u32> = HashMap::new();
    let mut at = began_at.unwrap_or_default();
    while let Some((number, line)) = lines.next() {
        let line = match line.contains("\\u") {
            true => Cow::Owned(without_lone_surrogates(line.to_owned())),
            false => Cow::Borrowed(line),
        };
        let members = match serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(&line) {
            Ok(members) => members,
            Err(error) if lines.peek().is_none() && error.is_eof() => {
                imported.warnings.push(format!("line {} is cut off and was left out", number + 1));
                break;
            }
            Err(error) => return Err(ImportError::Line { line: number + 1, reason: error.to_string() }),
        };
        let members = with_kept_id(members, &imported.entries);
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
    imported.context_from = context_from(&imported.entries);
    Ok(imported)
}

/// Returns the first entry that a model is sent: the one that the last compaction of the branch in use keeps, its last reset, or the
/// first of all.
///
/// A compaction keeps entries of its own branch since the last reset. If it names none of them, nothing before it is sent.
fn context_from(entries: &[NewEntry]) -> u32 {
    let is_leaf = |entry: &NewEntry| !matches!(entry.attach, Attach::Beside(_));
    let leaf = entries.iter().rposition(is_leaf).map(|index| index as u32 + 1);
    let branch = std::iter::successors(leaf, |position| match entries.get(*position as usize - 1)?.attach {
        Attach::Under(parent) => parent,
        Attach::Beside(_) | Attach::Leaf => None,
    });
    let mut branch = branch.filter_map(|position| Some((position, entries.get(position as usize - 1)?)));
    let mark = branch.find(|(_, entry)| matches!(entry.kind, EntryKind::Compaction | EntryKind::Reset));
    let Some((position, entry)) = mark else { return 1 };
    let compaction =
        (entry.kind == EntryKind::Compaction).then(|| serde_json::from_str::<Compaction>(&entry.body).ok());
    let Some(Compaction { first_kept_entry_id: kept, .. }) = compaction.flatten() else { return position };
    let mut since = branch.take_while(|(_, before)| before.kind != EntryKind::Reset);
    since.find(|(_, before)| before.id == kept.as_str()).map_or(position, |(first, _)| first)
}

/// Names the entry that a compaction of the first version keeps. That version gave its line, counted from 0.
fn with_kept_id(mut members: BTreeMap<String, Box<RawValue>>, before: &[NewEntry]) -> BTreeMap<String, Box<RawValue>> {
    const ID: &str = "firstKeptEntryId";
    if members.contains_key(ID) {
        return members;
    }
    if let Some(line) = members.remove("firstKeptEntryIndex") {
        let line = to::<usize>(&line).and_then(|line| line.checked_sub(1));
        // Without such a line, it keeps nothing that came before it.
        let kept = line.and_then(|line| before.get(line)).map_or("", |entry| entry.id.as_str());
        members.extend(serde_json::value::to_raw_value(kept).ok().map(|kept| (ID.to_owned(), kept)));
    }
    members
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
    mut members: BTreeMap<String, Box<RawValue>>,
    line: usize,
    positions: &HashMap<String, u32>,
    version: u32,
    warnings: &mut Vec<String>,
) -> Result<ReadEntry, ImportError> {
    let wrong = |reason: &str| ImportError::Line { line, reason: reason.to_owned() };
    let mut text = |name: &str| members.remove(name).and_then(|value| to::<Option<String>>(&value).flatten());
    let word = text("type").ok_or_else(|| wrong("it has no type"))?;
    let id = text("id").unwrap_or_else(|| new_entry_id().to_string());
    let at = text("timestamp").as_deref().and_then(millis);
    let has_parent = members.contains_key("parentId");
    let parent = members.remove("parentId").and_then(|value| to::<Option<String>>(&value).flatten());
    let own = members.remove("pincer").and_then(|own| to::<Own>(&own)).unwrap_or_default();
    let parent = match parent {
        Some(parent) => Some(*positions.get(&parent).ok_or(ImportError::Parent { line, parent })?),
        // The first version had a list, not a tree.
        None if version == 1 && !has_parent => u32::try_from(positions.len()).ok().filter(|last| *last > 0),
        None => None,
    };
    let is_nested = parent.is_some()
        && word == EntryKind::Custom.as_str()
        && members.get("customType").and_then(|kind| to::<String>(kind)).is_some_and(|kind| kind == NESTED);
    let levels = match EntryKind::from_word(&word) {
        Some(EntryKind::Message) => LEVELS_OF_MESSAGE,
        Some(EntryKind::Custom) if is_nested => LEVELS_OF_NESTED,
        _ => 0,
    };
    for value in members.values() {
        check(value, levels).map_err(|error| wrong(&error.to_string()))?;
    }
    let body = serde_json::to_string(&members).unwrap_or_default();
    let (kind, body) = match EntryKind::from_word(&word) {
        Some(EntryKind::Custom) if is_nested => {
            let data = members.get("data").map_or("null", |data| data.get());
            sound::<NestedCall>(data)
                .map_err(|reason| wrong(&format!("a nested call whose data is wrong: {reason}")))?;
            (EntryKind::NestedCall, data.to_owned())
        }
        Some(EntryKind::NestedCall) | None => {
            warnings
                .push(format!("line {line} is of the type {word:?}, which is not known here: it was kept as a note"));
            let data = Json::parse(body).map_err(|error| wrong(&error.to_string()))?;
            let custom = Custom { custom_type: format!("imported.{word}"), data: Some(data) };
            (EntryKind::Custom, serde_json::to_string(&custom).unwrap_or_default())
        }
        // Whatever a model is sent must be readable by the next message.
        Some(kind) => {
            let sound = match kind {
                EntryKind::Message => sound::<MessageBody>(&body),
                EntryKind::CustomMessage => sound::<CustomMessage>(&body),
                EntryKind::Compaction => sound::<Compaction>(&body),
                EntryKind::BranchSummary => sound::<BranchSummary>(&body),
                _ => Ok(()),
            };
            sound.map_err(|reason| wrong(&reason))?;
            (kind, body)
        }
    };
    let attach = match (kind, parent) {
        (EntryKind::NestedCall, Some(parent)) => Attach::Beside(parent),
        (_, parent) => Attach::Under(parent),
    };
    Ok(ReadEntry { id, attach, kind, own, body, at })
}

/// Fails unless the body of an entry is of this type.
fn sound<T: DeserializeOwned>(body: &str) -> Result<(), String> {
    serde_json::from_str::<T>(body).map(drop).map_err(|error| error.to_string())
}

/// Reads a member, if it is of this type.
fn to<T: DeserializeOwned>(value: &RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

/// Fails unless all values so many levels down can be a [`Json`] each, as those are that the loop stores.
fn check(value: &RawValue, levels: u32) -> Result<(), JsonError> {
    let text = value.get();
    match (levels, text.as_bytes().first()) {
        (1.., Some(b'[')) => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(JsonError::Syntax)?;
            items.into_iter().try_for_each(|item| check(item, levels - 1))
        }
        (1.., Some(b'{')) => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(JsonError::Syntax)?;
            members.into_values().try_for_each(|member| check(member, levels - 1))
        }
        _ => Json::parse(text).map(drop),
    }
}
