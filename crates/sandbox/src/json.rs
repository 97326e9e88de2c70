//! JSON text that has been checked, and nothing more: not parsed into a tree, because most of it only passes through.

use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
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
        if deeper_than(&bytes, MAX_DEPTH) {
            return Err(JsonError::TooDeep);
        }
        mend_lone_surrogates(&mut bytes);
        let text = String::from_utf8(bytes).map_err(|error| JsonError::Syntax(serde::de::Error::custom(error)))?;
        check_all(&text)?;
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

/// Written into the surrounding document as it is, without a second parse.
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

/// Reads everything without keeping anything: also numbers must fit and strings must decode.
fn check_all(text: &str) -> Result<(), JsonError> {
    let mut found_reserved = false;
    let mut reader = serde_json::Deserializer::from_str(text);
    Checker { place: Place::Value, reserved: &mut found_reserved }
        .deserialize(&mut reader)
        .and_then(|()| reader.end())
        .map_err(JsonError::Syntax)?;
    if found_reserved { Err(JsonError::ReservedKey) } else { Ok(()) }
}

/// Visits a value, and sets the flag when it meets the reserved key.
struct Checker<'a> {
    place: Place,
    reserved: &'a mut bool,
}

#[derive(PartialEq)]
enum Place {
    Key,
    Value,
}

impl<'de> DeserializeSeed<'de> for Checker<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Checker<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        *self.reserved |= self.place == Place::Key && text == RESERVED_KEY;
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Checker { place: Place::Value, reserved: self.reserved })?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_key_seed(Checker { place: Place::Key, reserved: self.reserved })?.is_some() {
            entries.next_value_seed(Checker { place: Place::Value, reserved: self.reserved })?;
        }
        Ok(())
    }
}

fn deeper_than(json: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
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
