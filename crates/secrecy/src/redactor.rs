//! What may stand in events and logs of an input or an output.

use regex::Regex;
use serde_json::{Map, Value};

use crate::REDACTED;
use crate::recognise::PREFIXES;

const STRING_CHARS: usize = 32_768;
const ITEMS: usize = 64;
const DEPTH: usize = 6;

/// Parts of a property's name that make its value a secret. Compared without case and separators.
const SECRET_NAMES: [&str; 12] = [
    "apikey",
    "accesskey",
    "authorization",
    "bearer",
    "clientsecret",
    "cookie",
    "credential",
    "passphrase",
    "password",
    "privatekey",
    "secret",
    "token",
];

/// Makes values safe to show: secrets and binary data out, paths of this machine renamed, everything bounded.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// Text to replace, and what by: the workspace by `$WORKSPACE_DIR`, for instance. Longer ones first.
    pub replacements: Vec<(String, String)>,
    /// Secrets of one's own: what these match is not shown.
    pub patterns: Vec<Regex>,
}

impl Redactor {
    /// A copy that may be shown.
    pub fn redact(&self, value: &Value) -> Value {
        self.value(value, 0)
    }

    fn value(&self, value: &Value, depth: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(_) | Value::Object(_) if depth >= DEPTH => Value::String("[nested too deeply]".into()),
            Value::Array(items) => {
                let mut shown: Vec<Value> = items.iter().take(ITEMS).map(|item| self.value(item, depth + 1)).collect();
                if items.len() > ITEMS {
                    shown.push(Value::String(format!("[{} more]", items.len() - ITEMS)));
                }
                Value::Array(shown)
            }
            Value::Object(members) => {
                let mut shown: Map<String, Value> = members
                    .iter()
                    .take(ITEMS)
                    .map(|(name, value)| {
                        // `max_tokens` is a number of something else.
                        let is_count = value.is_number() && name.to_ascii_lowercase().ends_with("tokens");
                        let secret = is_secret_name(name) && !value.is_null() && !value.is_boolean() && !is_count;
                        let shown = if secret { REDACTED.into() } else { self.value(value, depth + 1) };
                        (name.clone(), shown)
                    })
                    .collect();
                if members.len() > ITEMS {
                    shown.insert("…".into(), format!("[{} more]", members.len() - ITEMS).into());
                }
                Value::Object(shown)
            }
            other => other.clone(),
        }
    }

    /// A copy of a text that may be shown.
    pub fn text(&self, text: &str) -> String {
        if text.starts_with("data:") && text.contains(";base64,") || looks_binary(text) {
            return format!("[binary, {} characters]", text.len());
        }
        let mut shown: String = text.split_inclusive(char::is_whitespace).map(hide_secret).collect();
        for pattern in &self.patterns {
            shown = pattern.replace_all(&shown, REDACTED).into_owned();
        }
        for (from, to) in &self.replacements {
            shown = shown.replace(from, to);
        }
        match shown.char_indices().nth(STRING_CHARS) {
            Some((at, _)) => format!("{}… [{} characters]", &shown[..at], text.chars().count()),
            None => shown,
        }
    }
}

pub(crate) fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_NAMES.iter().any(|secret| plain.contains(secret))
}

/// A word of a text, with what follows it.
pub(crate) fn hide_secret(word: &str) -> String {
    let bare = word.trim_matches(|c: char| c.is_whitespace() || "\"'`,;()[]{}<>".contains(c));
    // `KEY=value` and `header:value` hide a secret behind their sign.
    let value = bare.rsplit(['=', ':']).next().unwrap_or(bare);
    let secret =
        PREFIXES.iter().find(|start| value.starts_with(**start)).is_some_and(|start| value.len() >= start.len() + 8);
    if !secret {
        return word.to_owned();
    }
    // Only the secret itself: what is glued to it may be what matters.
    let end = value.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).unwrap_or(value.len());
    word.replace(&value[..end], REDACTED)
}

/// Long, without a space, and of the letters of Base64 only.
fn looks_binary(text: &str) -> bool {
    const LEAST: usize = 512;
    text.len() >= LEAST && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-\r\n".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_paths_and_binary_data_are_not_shown() {
        let redactor = Redactor {
            replacements: vec![("/home/me/project".into(), "$WORKSPACE_DIR".into())],
            patterns: vec![Regex::new(r"\bacme-\d{4}\b").expect("a pattern")],
        };
        let shown = redactor.redact(&json!({
            "own": "the key is acme-1234, not acme-12",
            "path": "/home/me/project/a.txt",
            "apiKey": "abc", "Access-Token": "x", "client_secret": 5, "hasToken": true, "max_tokens": 9,
            "text": "use sk-abcdefgh12345678 and TOKEN=ghp_0123456789abcdef, please sk-abcdefgh12345678;id",
            "image": format!("data:image/png;base64,{}", "A".repeat(100)),
            "blob": "QUJD".repeat(200),
            "prose": "a plain text ".repeat(60),
        }));
        assert_eq!(shown["own"], "the key is [redacted], not acme-12");
        assert_eq!(shown["path"], "$WORKSPACE_DIR/a.txt");
        for name in ["apiKey", "Access-Token", "client_secret"] {
            assert_eq!(shown[name], "[redacted]", "{name}");
        }
        assert_eq!((&shown["hasToken"], &shown["max_tokens"]), (&true.into(), &9.into()));
        assert_eq!(shown["text"], "use [redacted] and TOKEN=[redacted], please [redacted];id");
        assert_eq!(shown["image"], "[binary, 122 characters]");
        assert_eq!(shown["blob"], "[binary, 800 characters]");
        assert!(shown["prose"].as_str().is_some_and(|text| text.starts_with("a plain text")));
    }

    #[test]
    fn everything_is_bounded() {
        let mut deep = json!("x");
        for _ in 0..50 {
            deep = json!([deep]);
        }
        let shown =
            Redactor::default().redact(&json!({ "deep": deep, "wide": vec![1; 1000], "long": "y ".repeat(100_000) }));
        assert!(shown.to_string().len() < 40_000);
        assert_eq!(shown["wide"].as_array().map(Vec::len), Some(65));
    }
}
