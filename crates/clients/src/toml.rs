//! TOML as a value, and changes to its text that keep comments and layout.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value as Toml};

/// A text that is not TOML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: this is not TOML: {reason}")]
pub struct TomlError {
    line: usize,
    column: usize,
    reason: String,
}

/// Reads a text.
pub(crate) fn value(text: &str) -> Result<Value, TomlError> {
    Ok(table_value(document(text)?.as_table()))
}

/// Takes tables out of the one that `key` names, and sets one in it. `None` if the text is written in a way that forbids it.
pub(crate) fn changed(text: &str, key: &str, out: &[&str], name: &str, to: &Map<String, Value>) -> Option<String> {
    let mut document = document(text).ok()?;
    let parent = document.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        // Without a header of its own.
        table.set_implicit(true);
        Item::Table(table)
    });
    let inline = parent.is_inline_table();
    let servers = parent.as_table_like_mut()?;
    for gone in out {
        servers.remove(gone);
    }
    let new = if inline { Item::Value(Toml::InlineTable(inline_table(to))) } else { Item::Table(table(to)) };
    // One that stands there keeps its place, and the comments above it.
    match (servers.get_mut(name), new) {
        (Some(Item::Table(old)), Item::Table(mut new)) => {
            *new.decor_mut() = old.decor().clone();
            new.set_position(old.position());
            *old = new;
        }
        (_, new) => drop(servers.insert(name, new)),
    }
    Some(like(text, &document.to_string()))
}

/// Returns a block to paste.
pub(crate) fn block(key: &str, name: &str, to: &Map<String, Value>) -> String {
    changed("", key, &[], name, to).unwrap_or_default().trim_start().to_owned()
}

fn document(text: &str) -> Result<DocumentMut, TomlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The parser knows how deep it may go.
    text.parse::<DocumentMut>().map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        TomlError { line, column, reason: error.message().trim().replace('\n', "; ") }
    })
}

/// Lines end as they did: the parser writes `\n` only.
fn like(old: &str, new: &str) -> String {
    let new = if old.contains("\r\n") { new.replace("\r\n", "\n").replace('\n', "\r\n") } else { new.to_owned() };
    if old.starts_with('\u{feff}') { format!("\u{feff}{new}") } else { new }
}

fn table_value(table: &dyn TableLike) -> Value {
    table.iter().map(|(key, item)| (key.to_owned(), item_value(item))).collect::<Map<_, _>>().into()
}

fn item_value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain_value(value),
        Item::Table(table) => table_value(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| table_value(table)).collect::<Vec<_>>().into(),
    }
}

fn plain_value(value: &Toml) -> Value {
    match value {
        Toml::String(text) => text.value().as_str().into(),
        Toml::Integer(number) => (*number.value()).into(),
        Toml::Float(number) => (*number.value()).into(),
        Toml::Boolean(flag) => (*flag.value()).into(),
        Toml::Datetime(time) => time.value().to_string().into(),
        Toml::Array(items) => items.iter().map(plain_value).collect::<Vec<_>>().into(),
        Toml::InlineTable(table) => table_value(table),
    }
}

fn table(members: &Map<String, Value>) -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    // `command` before `args`, as people write it.
    let mut all: Vec<(&String, &Value)> = members.iter().collect();
    all.sort_by_key(|(key, _)| key.as_str() != "command");
    for (key, value) in all {
        table.insert(key, Item::Value(toml_value(value)));
    }
    table
}

fn inline_table(members: &Map<String, Value>) -> InlineTable {
    members.iter().map(|(key, value)| (key.as_str(), toml_value(value))).collect()
}

fn toml_value(value: &Value) -> Toml {
    match value {
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => number.as_i64().map_or_else(|| number.as_f64().unwrap_or_default().into(), Toml::from),
        Value::Array(items) => Toml::Array(items.iter().map(toml_value).collect::<Array>()),
        Value::Object(members) => Toml::InlineTable(inline_table(members)),
        Value::String(text) => text.as_str().into(),
        // TOML has no null, and no value here is one.
        Value::Null => "".into(),
    }
}
