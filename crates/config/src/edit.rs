//! Changes to the text of a JSON5 file that leave the rest of it as it is, byte for byte.
//!
//! A change is a few insertions and deletions at places that `layout.rs` finds; nothing is written anew. What came out is
//! read again and compared with what was wanted, so that a text which is laid out in an unforeseen way is refused, not damaged.

use serde_json::{Map, Value};

use crate::layout::{self, Kind, Member, Object};
use crate::read::loose;
use crate::render::Style;
use crate::{EditError, Keys, Problems};

/// Returns the value of a JSON5 text; an object without members if there is nothing in it but comments. Of a key that stands twice
/// the last counts.
pub fn value(text: &str) -> Result<Value, Problems> {
    if is_blank(text) { Ok(Value::Object(Map::new())) } else { loose(text) }
}

/// Sets the member at a path of keys, and makes the objects on the way if they are not there.
pub fn set(text: &str, path: &[&str], to: &Value, keys: Keys) -> Result<String, EditError> {
    let mut wanted = value(text)?;
    *place(&mut wanted, path)? = to.clone();
    let changed = with_value(text, path, to, keys);
    checked(changed, &wanted).ok_or_else(|| EditError::ByHand { block: block(path, to, keys) })
}

/// Takes the member at a path of keys out, with the comment behind it on its line. It may be absent.
pub fn remove(text: &str, path: &[&str]) -> Result<String, EditError> {
    let mut wanted = value(text)?;
    let Some((last, parents)) = path.split_last() else { return Ok(text.to_owned()) };
    let pointer: String = parents.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect();
    let parent = wanted.pointer_mut(&pointer).and_then(Value::as_object_mut);
    if parent.and_then(|members| members.remove(*last)).is_none() {
        return Ok(text.to_owned());
    }
    let mut changed = Some(text.to_owned());
    // The same key may stand several times.
    while let Some((object, index)) = changed.as_deref().and_then(|text| find(text, parents, last)) {
        changed = changed.map(|text| without_member(&text, &object, index));
    }
    checked(changed, &wanted).ok_or_else(|| EditError::Remove { path: path.join(".") })
}

/// The keys of the object at a path, in the order in which they stand; twice if they stand twice.
pub fn keys(text: &str, path: &[&str]) -> Vec<String> {
    let object = path.iter().try_fold(layout::root(text), |object, key| {
        let member = object.as_ref()?.member(key)?;
        Some(layout::object(text, member.value.start))
    });
    object.flatten().map_or_else(Vec::new, |object| object.members.into_iter().map(|member| member.key).collect())
}

/// The text with which a path can be set by hand.
pub fn block(path: &[&str], to: &Value, keys: Keys) -> String {
    let style = Style { keys, unit: "  ", newline: "\n" };
    match path {
        [] => style.block(to, ""),
        [first, rest @ ..] => format!("{}: {}", style.key(first), style.block(&wrapped(rest, to), "")),
    }
}

/// Whether there is nothing in a text but comments.
pub(crate) fn is_blank(text: &str) -> bool {
    layout::tokens(text, layout::bom(text)).all(|token| matches!(token.kind, Kind::LineComment | Kind::BlockComment))
}

/// Without quotes if that is how the file has them, or if it has none yet.
pub(crate) fn keys_of(text: &str) -> Keys {
    let Some(root) = layout::root(text) else { return Keys::Plain };
    let quoted = |member: &Member| text[member.at..].starts_with(['"', '\'']);
    if root.members.iter().any(quoted) && root.members.iter().all(quoted) { Keys::Quoted } else { Keys::Plain }
}

fn checked(changed: Option<String>, wanted: &Value) -> Option<String> {
    changed.filter(|text| value(text).is_ok_and(|value| value == *wanted))
}

pub(crate) fn place<'v>(value: &'v mut Value, path: &[&str]) -> Result<&'v mut Value, EditError> {
    let mut here = value;
    for (index, key) in path.iter().enumerate() {
        let here_is = || if index == 0 { ".".to_owned() } else { path[..index].join(".") };
        let not_an_object = || EditError::NotAnObject { path: here_is() };
        here = here.as_object_mut().ok_or_else(not_an_object)?.entry(*key).or_insert_with(|| Map::new().into());
    }
    Ok(here)
}

fn wrapped(path: &[&str], value: &Value) -> Value {
    path.iter().rfold(value.clone(), |inner, key| Map::from_iter([((*key).to_owned(), inner)]).into())
}

fn with_value(text: &str, path: &[&str], to: &Value, keys: Keys) -> Option<String> {
    if is_blank(text) {
        let newline = newline_of(text);
        let style = Style { keys, unit: "  ", newline };
        let gap = if text.is_empty() || text.ends_with(['\n', '\u{feff}']) { "" } else { newline };
        return Some(format!("{text}{gap}{}{newline}", style.block(&wrapped(path, to), "")));
    }
    let root = layout::root(text)?;
    let unit = root.members.iter().find_map(|member| indent_before(text, member.at)).filter(|unit| !unit.is_empty());
    let style = Style { keys, unit: unit.unwrap_or("  "), newline: newline_of(text) };
    let mut object = root;
    for (index, key) in path.iter().enumerate() {
        let rest = &path[index + 1..];
        let Some(member) = object.member(key) else {
            return Some(with_member(text, &object, key, &wrapped(rest, to), style));
        };
        if rest.is_empty() {
            let indent = indentation(text, member.at);
            let several = spans_lines(text, object.open..object.close);
            let new = if several { style.block(to, indent) } else { style.line(to) };
            return Some(format!("{}{new}{}", &text[..member.value.start], &text[member.value.end..]));
        }
        object = layout::object(text, member.value.start)?;
    }
    None
}

fn with_member(text: &str, object: &Object, key: &str, value: &Value, style: Style<'_>) -> String {
    let base = indentation(text, object.open);
    let usual = format!("{base}{}", style.unit);
    let indent = object.members.iter().rev().find_map(|member| indent_before(text, member.at)).unwrap_or(&usual);
    let last = object.members.last();
    // An empty object takes the looks of the file around it, and an empty file is one of several lines.
    let whole = || layout::root(text).is_some_and(|root| root.open == object.open) || text.trim().contains('\n');
    let several = spans_lines(text, object.open..object.close) || last.is_none() && whole();
    let name = style.key(key);
    let member = if several {
        format!("{}{indent}{name}: {}", style.newline, style.block(value, indent))
    } else {
        format!(" {name}: {}", style.line(value))
    };
    let at = object.last.end;
    let before_close = &text[at..object.close];
    let Some(last) = last else {
        let end = match several {
            true if before_close.contains(['\n', '\r']) => String::new(),
            true => format!("{}{base}", style.newline),
            false if before_close.is_empty() => " ".into(),
            false => String::new(),
        };
        return format!("{}{member}{end}{}", &text[..at], &text[at..]);
    };
    // A comma where there was none; one behind the new member if there was one behind the last.
    let (comma, trailing) = if last.comma.is_some() { ("", ",") } else { (",", "") };
    let (kept, beside) = (&text[..last.value.end], &text[last.value.end..at]);
    format!("{kept}{comma}{beside}{member}{trailing}{}", &text[at..])
}

fn find(text: &str, parents: &[&str], key: &str) -> Option<(Object, usize)> {
    let mut object = layout::root(text)?;
    for parent in parents {
        object = layout::object(text, object.member(parent)?.value.start)?;
    }
    let index = object.members.iter().rposition(|member| member.key == key)?;
    Some((object, index))
}

fn without_member(text: &str, object: &Object, index: usize) -> String {
    let member = &object.members[index];
    let end = member.comma.map_or(member.value.end, |comma| comma + 1);
    // JSON has no comma behind the last member: with the last, the comma before it goes.
    let comma = member.comma.is_none().then(|| index.checked_sub(1).and_then(|index| object.members[index].comma));
    let blank = |c: char| c == ' ' || c == '\t';
    let cut = match (indent_before(text, member.at), line_end(text, end)) {
        (Some(indent), Some(end)) => member.at - indent.len()..end,
        _ if member.comma.is_some() => member.at..text.len() - text[end..].trim_start_matches(blank).len(),
        _ => text[..member.at].trim_end_matches(blank).len()..end,
    };
    let before = match comma.flatten() {
        Some(comma) => format!("{}{}", &text[..comma], &text[(comma + 1).min(cut.start)..cut.start]),
        None => text[..cut.start].to_owned(),
    };
    format!("{before}{}", &text[cut.end..])
}

/// The end of the line, if nothing but a line comment is left of it.
fn line_end(text: &str, at: usize) -> Option<usize> {
    let rest = text[at..].trim_start_matches([' ', '\t']);
    let rest = if rest.starts_with("//") { &rest[rest.find(['\n', '\r'])?..] } else { rest };
    let after = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    Some(text.len() - after.len())
}

/// What a place is indented by, if it is the first on its line.
fn indent_before(text: &str, at: usize) -> Option<&str> {
    let line = text[..at].rfind(['\n', '\r']).map(|newline| newline + 1)?;
    let before = &text[line..at];
    before.chars().all(|c| c == ' ' || c == '\t').then_some(before)
}

/// What the line of a place is indented by.
fn indentation(text: &str, at: usize) -> &str {
    let line = text[..at].rfind(['\n', '\r']).map_or_else(|| layout::bom(text), |newline| newline + 1);
    let rest = &text[line..at];
    &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
}

fn spans_lines(text: &str, range: std::ops::Range<usize>) -> bool {
    text[range].contains(['\n', '\r'])
}

fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
