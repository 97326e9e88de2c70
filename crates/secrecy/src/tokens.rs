//! Secrets in the middle of a text of any kind: JSON, events, logs.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::REDACTED;
use crate::recognise::PREFIXES;

static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let prefixes = PREFIXES.iter().filter(|prefix| !prefix.starts_with('-')).map(|prefix| regex::escape(prefix));
    let prefixes = prefixes.collect::<Vec<_>>().join("|");
    let alternatives = [
        // A key in the form of a file; its lines may end in `\n` as JSON writes it.
        r"(?P<file>-----BEGIN [A-Z0-9 ]+-----(?s:.*?)(?:-----END [A-Z0-9 ]+-----|$))".to_owned(),
        r"(?P<scheme>(?i:bearer|basic)\s+)[A-Za-z0-9_\-.~+/]{8,}=*".to_owned(),
        r"(?P<user>[A-Za-z][A-Za-z0-9+.\-]*://[^\s/@:]*:)[^\s/@]+@".to_owned(),
        format!(r"(?P<before>^|[^A-Za-z0-9])(?:{prefixes})[A-Za-z0-9_\-.]{{8,}}"),
    ];
    Regex::new(&alternatives.join("|")).ok()
});

/// Returns a text without tokens, keys and passwords that are known by their form, wherever they stand.
pub fn without_tokens(text: &str) -> Cow<'_, str> {
    let Some(tokens) = &*TOKENS else { return REDACTED.into() };
    tokens.replace_all(text, |found: &Captures<'_>| {
        let part = |name: &str| found.name(name).map(|part| part.as_str());
        match (part("scheme").or(part("before")), part("user")) {
            (_, Some(user)) => format!("{user}{REDACTED}@"),
            (Some(before), _) => format!("{before}{REDACTED}"),
            (None, None) => REDACTED.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_wherever_they_stand() {
        for (text, expected) in [
            (r#"{"text":"use sk-abcdefgh12345678, please"}"#, r#"{"text":"use [redacted], please"}"#),
            (r#"["ghp_0123456789abcdef","x"]"#, r#"["[redacted]","x"]"#),
            ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [redacted]"),
            ("authorization: basic dXNlcjpwYXNzd29yZA==", "authorization: basic [redacted]"),
            ("postgres://me:hunter2@db/x", "postgres://me:[redacted]@db/x"),
            (
                r#"{"key":"-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----\n"}"#,
                r#"{"key":"[redacted]\n"}"#,
            ),
            ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[redacted]"),
            ("xsk-abcdefgh12345678 task-list risk-averse-people", "xsk-abcdefgh12345678 task-list risk-averse-people"),
            ("https://example.com:8080/a@b", "https://example.com:8080/a@b"),
        ] {
            assert_eq!(without_tokens(text), expected);
        }
    }
}
