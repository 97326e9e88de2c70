//! Names and literals in TypeScript.

use serde_json::Value;

use crate::names::is_identifier;

/// A property's name, quoted where it must be.
pub fn property_key(name: &str) -> String {
    if is_identifier(name) { name.into() } else { quoted(name) }
}

/// A JSON string is a TypeScript string, also with line separators in it.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A literal type, or `None` for values that have none: objects and arrays.
pub(super) fn literal_type(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("null".into()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(quoted(text)),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// `create_issue` → `CreateIssue`. Never empty, never starting with a digit.
pub(super) fn type_name(name: &str) -> String {
    let mut out = String::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        let mut letters = part.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.extend(letters);
    }
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) { format!("T{out}") } else { out }
}
