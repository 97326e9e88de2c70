//! Values as the text of a file.

use serde_json::{Map, Value};

/// How keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// In quotes, as JSON wants them.
    Quoted,
    /// Without quotes where JSON5 needs none.
    Plain,
}

/// How a text is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style<'t> {
    pub keys: Keys,
    /// What one more level is indented by.
    pub unit: &'t str,
    pub newline: &'t str,
}

/// Lists longer than this have a line for each item.
const LINE: usize = 100;

/// The order in which people write the keys of a server; others follow by name.
const FIRST: [&str; 8] = ["type", "command", "args", "env", "cwd", "url", "headers", "auth"];

impl Style<'_> {
    pub(crate) fn key(self, key: &str) -> String {
        let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
        let plain = key.starts_with(letter) && key.chars().all(|c| letter(c) || c.is_ascii_digit());
        if plain && self.keys == Keys::Plain { key.to_owned() } else { Value::from(key).to_string() }
    }

    /// A value over several lines, of which the first is indented by `indent` already.
    pub(crate) fn block(self, value: &Value, indent: &str) -> String {
        let inner = format!("{indent}{}", self.unit);
        let items: Vec<String> = match value {
            Value::Object(members) if !members.is_empty() => {
                let member =
                    |(key, value): (&String, &Value)| format!("{}: {}", self.key(key), self.block(value, &inner));
                ordered(members).map(member).collect()
            }
            Value::Array(items) if self.line(value).len() > LINE => {
                items.iter().map(|item| self.block(item, &inner)).collect()
            }
            _ => return self.line(value),
        };
        let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
        let newline = self.newline;
        let separator = format!(",{newline}{inner}");
        format!("{open}{newline}{inner}{}{newline}{indent}{close}", items.join(&separator))
    }

    /// A value on one line.
    pub(crate) fn line(self, value: &Value) -> String {
        match value {
            Value::Object(members) if members.is_empty() => "{}".into(),
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| format!("{}: {}", self.key(key), self.line(value));
                format!("{{ {} }}", ordered(members).map(member).collect::<Vec<_>>().join(", "))
            }
            Value::Array(items) => {
                format!("[{}]", items.iter().map(|item| self.line(item)).collect::<Vec<_>>().join(", "))
            }
            other => other.to_string(),
        }
    }
}

fn ordered(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let first = FIRST.iter().filter_map(|key| members.get_key_value(*key));
    first.chain(members.iter().filter(|(key, _)| !FIRST.contains(&key.as_str())))
}
