//! JSON text that has been checked, and nothing more: not parsed into a tree, because most of it only passes through.

use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Nesting a [`Json`] may have. Below what `serde_json` and other common parsers accept, with room for an envelope.
pub const MAX_DEPTH: usize = 100;

/// A JSON document as text. Valid, at most [`MAX_DEPTH`] deep, and free of lone surrogates, so that every parser takes it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

/// Why a text is not a [`Json`].
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// It does not follow the grammar.
    #[error("not JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// It has a key with which `serde_json` marks text of its own, so that Rust code would read something else than it says.
    #[error("an object with the reserved key {RESERVED_KEY}")]
    ReservedKey,
    /// It is valid, but nested so deeply that other programs could not read it.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl Json {
    /// Checks a text.
    pub fn parse(text: impl Into<String>) -> Result<Self, JsonError> {
        let mut bytes = text.into().into_bytes();
        mend_lone_surrogates(&mut bytes);
        let text = String::from_utf8(bytes).map_err(|error| JsonError::Syntax(serde::de::Error::custom(error)))?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(JsonError::Syntax)?;
        inspect(text.as_bytes())?;
        Ok(Self(text.into_boxed_str()))
    }

    /// The JSON form of a Rust value.
    pub fn of(value: &impl Serialize) -> Result<Self, JsonError> {
        Self::parse(serde_json::to_string(value).map_err(JsonError::Syntax)?)
    }

    /// `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads it as a Rust value, for instance as [`serde_json::Value`].
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(&self.0).map_err(JsonError::Syntax)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Written into the surrounding document as it is.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

const RESERVED_KEY: &str = "$serde_json::private::RawValue";
/// Its longest spelling: every character escaped, in quotes.
const RESERVED_SPELLING_BYTES: usize = 6 * RESERVED_KEY.len() + 2;

/// Looks at everything that the grammar allows and we do not. `json` follows the grammar.
///
/// By hand, because a deserializer would decode every string into a buffer, and a value may be as large as a cell's whole
/// allowance on the host.
fn inspect(json: &[u8]) -> Result<(), JsonError> {
    let (mut depth, mut at) = (0, 0);
    while let Some(byte) = json.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(JsonError::TooDeep);
                }
            }
            b']' | b'}' => depth -= 1,
            b'"' => {
                at = end_of_string(json, at);
                let is_key = json[at..].trim_ascii_start().starts_with(b":");
                if is_key && at - start <= RESERVED_SPELLING_BYTES {
                    let key = serde_json::from_slice::<String>(&json[start..at]).map_err(JsonError::Syntax)?;
                    if key == RESERVED_KEY {
                        return Err(JsonError::ReservedKey);
                    }
                }
            }
            b'-' | b'0'..=b'9' => {
                at += json[at..]
                    .iter()
                    .take_while(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
                    .count();
                serde_json::from_slice::<f64>(&json[start..at]).map_err(JsonError::Syntax)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where the string that has begun before `at` is over.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    loop {
        match json.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return (at + 1).min(json.len()),
            Some(_) => at += 1,
        }
    }
}

/// `"\ud800"` alone is valid JSON that no UTF-8 string can hold. JavaScript writes it; `\ufffd` takes its place, which has
/// the same length.
fn mend_lone_surrogates(json: &mut [u8]) {
    let unit = |json: &[u8], at: usize| -> Option<u16> {
        let hex = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let mut at = 0;
    while at + 1 < json.len() {
        if json[at] != b'\\' {
            at += 1;
            continue;
        }
        match (unit(json, at), unit(json, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                json[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            (Some(_), _) => at += 6,
            (None, _) => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_are_kept() {
        let mended = |text: &str| Json::parse(text).unwrap().to::<String>().unwrap();
        assert_eq!(mended(r#""a\ud83d\ude00b""#), "a😀b");
        assert_eq!(mended(r#""\ud800""#), "\u{fffd}");
        assert_eq!(mended(r#""\udc00\ud800x""#), "\u{fffd}\u{fffd}x");
        assert_eq!(mended(r#""\\ud800""#), "\\ud800");
    }

    #[test]
    fn depth_is_counted_outside_strings_only() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Json::parse(nested(MAX_DEPTH)).is_ok());
        assert!(matches!(Json::parse(nested(MAX_DEPTH + 1)), Err(JsonError::TooDeep)));
        assert!(Json::parse(format!("\"{}\\\"{}\"", "[".repeat(500), "[".repeat(500))).is_ok());
    }

    #[test]
    fn the_reserved_key_is_refused_and_the_same_text_elsewhere_is_not() {
        for text in
            [r#"{"$serde_json::private::RawValue":"1"}"#, r#"[{"a":{"\u0024serde_json::private::RawValue":"1"}}]"#]
        {
            assert!(matches!(Json::parse(text), Err(JsonError::ReservedKey)), "{text}");
        }
        assert!(Json::parse(r#"{"a":"$serde_json::private::RawValue"}"#).is_ok());
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["", "{", "[1,]", "undefined", "1 2", "\"\u{1}\"", "[1E400]"] {
            assert!(matches!(Json::parse(text), Err(JsonError::Syntax(_))), "{text:?}");
        }
    }
}
