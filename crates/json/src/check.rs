//! The rules for JSON text that go beyond its grammar.

use crate::JsonError;

/// Nesting a [`Json`](crate::Json) may have. Below what `serde_json` and other common parsers accept, with room for an envelope.
pub const MAX_DEPTH: usize = 100;

/// Nodes a [`Json`](crate::Json) may have: every value is one, and so is every key.
///
/// The largest values, of 8 MiB, have half as many if they are prose and about this many if they are records of short fields. As
/// a tree a node takes 30 to 100 bytes, and an object with a single member 230 for each of its three nodes, so that this bounds
/// what a value of any shape can cost.
pub const MAX_NODES: usize = 1_000_000;

pub(crate) const RESERVED_KEY: &str = "$serde_json::private::RawValue";
/// Its longest spelling: every character escaped, in quotes.
const RESERVED_SPELLING_BYTES: usize = 6 * RESERVED_KEY.len() + 2;

/// Checks everything that the grammar allows and we do not. `json` follows the grammar.
///
/// By hand, because a deserializer would decode every string into a buffer, and a value may be as large as a cell's whole
/// allowance on the host.
pub(crate) fn inspect(json: &[u8], most_depth: usize) -> Result<(), JsonError> {
    let (mut depth, mut nodes, mut at) = (0, 1, 0);
    while let Some(byte) = json.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > most_depth {
                    return Err(JsonError::TooDeep);
                }
                nodes += usize::from(!is_closed(&json[at..]));
            }
            b']' | b'}' => depth -= 1,
            b',' | b':' => nodes += 1,
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
        if nodes > MAX_NODES {
            return Err(JsonError::TooManyNodes);
        }
    }
    Ok(())
}

/// Returns whether a text has more nodes than a [`Json`](crate::Json) may have. For texts that come from outside and are about to
/// be parsed; they need not be JSON.
pub fn has_too_many_nodes(text: &[u8]) -> bool {
    // Every node but the first has a byte before it.
    text.len() >= MAX_NODES && nodes(text) > MAX_NODES
}

/// Returns the number of nodes of a JSON text: the first one, one behind each comma and each colon, and one in each array or
/// object that is not empty.
pub fn nodes(text: &[u8]) -> usize {
    let (mut nodes, mut at) = (1, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => nodes += usize::from(!is_closed(&text[at..])),
            b',' | b':' => nodes += 1,
            b'"' => at = end_of_string(text, at),
            _ => {}
        }
    }
    nodes
}

/// Returns whether an array or object ends where it has begun.
fn is_closed(rest: &[u8]) -> bool {
    matches!(rest.trim_ascii_start().first(), Some(b']' | b'}'))
}

/// Returns where the string that has begun before `at` is over.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    loop {
        match json.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return (at + 1).min(json.len()),
            Some(_) => at += 1,
        }
    }
}

/// Returns a JSON text with `\ufffd` in the place of every surrogate that stands alone, so that every parser takes its strings. For
/// texts of which only parts become a [`Json`](crate::Json), which does the same.
pub fn without_lone_surrogates(text: String) -> String {
    let mut bytes = text.into_bytes();
    mend_lone_surrogates(&mut bytes);
    // Digits were replaced by digits, so it is the text that it was.
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// `"\ud800"` alone is valid JSON that no UTF-8 string can hold. JavaScript writes it; `\ufffd` takes its place, which has
/// the same length.
pub(crate) fn mend_lone_surrogates(json: &mut [u8]) {
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
    use serde_json::Value;

    use super::*;

    fn of_tree(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(of_tree).sum::<usize>(),
            Value::Object(members) => 1 + members.values().map(|member| 1 + of_tree(member)).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn values_and_keys_are_counted_and_what_is_in_strings_is_not() {
        for (text, expected) in [
            ("0", 1),
            ("[]", 1),
            ("[ ]", 1),
            ("{ \n}", 1),
            ("[[],[],[]]", 4),
            (r#"{"a":0}"#, 3),
            (r#"{"a":[1,{"b":null}],"c":"x,y:[z]"}"#, 9),
            (r#"["\"[,,,", "\\", 3]"#, 4),
        ] {
            assert_eq!(nodes(text.as_bytes()), expected, "{text}");
            assert_eq!(of_tree(&serde_json::from_str(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_json_are_counted_without_harm() {
        for text in ["", "\"", "\"\\", "]]]]", "{", "[", ",,,,", "\u{1}"] {
            nodes(text.as_bytes());
        }
        assert!(has_too_many_nodes(",".repeat(MAX_NODES).as_bytes()));
        assert!(!has_too_many_nodes(",".repeat(MAX_NODES - 1).as_bytes()));
        assert!(!has_too_many_nodes("x".repeat(4 * MAX_NODES).as_bytes()));
    }
}
