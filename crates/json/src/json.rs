//! Checked JSON text.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::check::{MAX_DEPTH, MAX_NODES, RESERVED_KEY, inspect, mend_lone_surrogates};

/// A JSON document as text. Valid, at most [`MAX_DEPTH`] deep (one more for a list of arguments), of at most [`MAX_NODES`] nodes, and free of lone surrogates, so
/// that every parser takes it. Clones share the text.
#[derive(Clone, PartialEq, Eq, Hash)]
// Not `Arc<str>`: a text of megabytes would be copied to become one.
pub struct Json(Arc<String>);

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
    /// It is valid, but would take too much memory as a tree.
    #[error("made of more than {MAX_NODES} values and keys")]
    TooManyNodes,
}

impl Json {
    /// Checks a text.
    pub fn parse(text: impl Into<String>) -> Result<Self, JsonError> {
        Self::parse_to(text, MAX_DEPTH)
    }

    /// Checks a list of which every item may be as deep as a document: see [`items`](Self::items).
    pub fn parse_list(text: impl Into<String>) -> Result<Self, JsonError> {
        Self::parse_to(text, MAX_DEPTH + 1)
    }

    fn parse_to(text: impl Into<String>, depth: usize) -> Result<Self, JsonError> {
        let mut bytes = text.into().into_bytes();
        mend_lone_surrogates(&mut bytes);
        let mut text = String::from_utf8(bytes).map_err(|error| JsonError::Syntax(serde::de::Error::custom(error)))?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(JsonError::Syntax)?;
        inspect(text.as_bytes(), depth)?;
        text.shrink_to_fit();
        Ok(Self(text.into()))
    }

    /// The JSON form of a Rust value.
    pub fn of(value: &impl Serialize) -> Result<Self, JsonError> {
        Self::parse(serde_json::to_string(value).map_err(JsonError::Syntax)?)
    }

    /// `null`.
    pub fn null() -> Self {
        Self(String::from("null").into())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self(String::from("{}").into())
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text itself, shared.
    pub fn shared(&self) -> Arc<String> {
        Arc::clone(&self.0)
    }

    /// Reads it as a Rust value, for instance as [`serde_json::Value`].
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(&self.0).map_err(JsonError::Syntax)
    }

    /// Returns the items of an array, each as text. `None` if it is no array.
    pub fn items(&self) -> Option<Vec<Self>> {
        let items: Vec<&RawValue> = serde_json::from_str(&self.0).ok()?;
        // A part of a checked text needs no check.
        Some(items.into_iter().map(|item| Self(Arc::new(item.get().to_owned()))).collect())
    }

    /// Returns whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.0.trim_ascii() == "null"
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
        Self::parse(Box::<str>::from(raw)).map_err(serde::de::Error::custom)
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
    fn hostile_shapes_are_refused_by_their_count_to_the_node() {
        let list = |item: &str, count: usize| format!("[{}{item}]", format!("{item},").repeat(count - 1));
        for (item, each) in [("0", 1), ("[]", 1), (r#"{"a":0}"#, 3)] {
            let most = (MAX_NODES - 1) / each;
            assert!(Json::parse(list(item, most)).is_ok(), "{item}");
            assert!(matches!(Json::parse(list(item, most + 1)), Err(JsonError::TooManyNodes)), "{item}");
        }
        assert_eq!(JsonError::TooManyNodes.to_string(), "made of more than 1000000 values and keys");
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

    #[test]
    fn the_items_of_an_array_are_parts_of_its_text() {
        let items = |text: &str| Json::parse(text).unwrap().items();
        let texts: Vec<String> =
            items(r#"["a, b", { "c" : [1] }, null]"#).unwrap().iter().map(Json::to_string).collect();
        assert_eq!(texts, [r#""a, b""#, r#"{ "c" : [1] }"#, "null"]);
        assert!(items("{}").is_none());
    }
}
