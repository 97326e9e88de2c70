//! Where things stand in a JSON5 text. Knows marks, strings and comments, and nothing of what they mean: any text that the parser
//! accepts can be laid out, and one that it refuses does no harm.

use std::ops::Range;

use json5::char::{is_json5_line_terminator, is_json5_whitespace};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of `{}[]:,`.
    Mark(u8),
    /// A string in quotes.
    Quoted,
    /// A name, a number, `true`.
    Word,
    LineComment,
    BlockComment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

/// The tokens from `at` on, without the whitespace between them. What is not closed ends with the text.
pub(crate) fn tokens(text: &str, at: usize) -> impl Iterator<Item = Token> {
    let mut at = at;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let start = at + rest.find(|c| !is_json5_whitespace(c))?;
        let rest = &text[start..];
        let first = *rest.as_bytes().first()?;
        let (kind, length) = match first {
            b'{' | b'}' | b'[' | b']' | b':' | b',' => (Kind::Mark(first), 1),
            b'"' | b'\'' => (Kind::Quoted, quoted(rest.as_bytes())),
            b'/' if rest.starts_with("//") => {
                (Kind::LineComment, rest.find(is_json5_line_terminator).unwrap_or(rest.len()))
            }
            b'/' if rest.starts_with("/*") => {
                (Kind::BlockComment, rest[2..].find("*/").map_or(rest.len(), |end| end + 4))
            }
            _ => (Kind::Word, word(rest)),
        };
        at = start + length;
        Some(Token { kind, start, end: at })
    })
}

fn quoted(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            // Of a character of several bytes, the others are neither quotes nor backslashes.
            b'\\' => at += 2,
            byte if byte == bytes[0] => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn word(rest: &str) -> usize {
    let ends = |c: char| is_json5_whitespace(c) || "{}[]:,\"'/".contains(c);
    // The first character is part of it whatever it is, so that every token has a length.
    rest.char_indices().skip(1).find(|(_, c)| ends(*c)).map_or(rest.len(), |(at, _)| at)
}

/// An object in a text.
#[derive(Debug)]
pub(crate) struct Object {
    pub open: usize,
    /// Where the closing brace stands.
    pub close: usize,
    pub members: Vec<Member>,
    /// What stands last before the closing brace: the opening one, a member, its comma, or a comment.
    pub last: Token,
}

/// A member of an object.
#[derive(Debug)]
pub(crate) struct Member {
    pub key: String,
    pub at: usize,
    pub value: Range<usize>,
    /// Where the comma behind it stands.
    pub comma: Option<usize>,
}

impl Object {
    /// Of members with the same key the last: so do those who read such a file.
    pub(crate) fn member(&self, key: &str) -> Option<&Member> {
        self.members.iter().rfind(|member| member.key == key)
    }
}

/// The object that is the whole of a text.
pub(crate) fn root(text: &str) -> Option<Object> {
    let is_comment = |token: &Token| matches!(token.kind, Kind::LineComment | Kind::BlockComment);
    let first = tokens(text, bom(text)).find(|token| !is_comment(token))?;
    object(text, first.start)
}

/// The object whose opening brace stands at `at`.
pub(crate) fn object(text: &str, at: usize) -> Option<Object> {
    let mut tokens = tokens(text, at);
    let open = tokens.next().filter(|token| token.kind == Kind::Mark(b'{'))?;
    let (mut members, mut last) = (Vec::new(), open);
    // The member that is being read: its key, and its value as far as it goes.
    let (mut key, mut value): (Option<Token>, Option<Range<usize>>) = (None, None);
    let mut depth = 0_usize;
    let mut finished = |key: &mut Option<Token>, value: &mut Option<Range<usize>>, comma| {
        if let (Some(key), Some(value)) = (key.take(), value.take())
            && let Some(name) = decoded(&text[key.start..key.end])
        {
            members.push(Member { key: name, at: key.start, value, comma });
        }
    };
    for token in tokens {
        match token.kind {
            Kind::LineComment | Kind::BlockComment => {}
            Kind::Mark(b'}') if depth == 0 => {
                finished(&mut key, &mut value, None);
                return Some(Object { open: open.start, close: token.start, members, last });
            }
            Kind::Mark(b',') if depth == 0 => finished(&mut key, &mut value, Some(token.start)),
            Kind::Mark(b':') if depth == 0 => {}
            kind => {
                match kind {
                    Kind::Mark(b'{' | b'[') => depth += 1,
                    Kind::Mark(b'}' | b']') => depth = depth.saturating_sub(1),
                    _ => {}
                }
                match (key, &mut value) {
                    (None, _) => key = Some(token),
                    (Some(_), None) => value = Some(token.start..token.end),
                    (Some(_), Some(value)) => value.end = token.end,
                }
            }
        }
        last = token;
    }
    None
}

/// How long the mark is with which some editors begin a file.
pub(crate) fn bom(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// What a key says, with quotes or without. The parser knows all its spellings.
fn decoded(key: &str) -> Option<String> {
    let one: std::collections::BTreeMap<String, u8> = json5::from_str(&format!("{{{key}:0}}")).ok()?;
    one.into_keys().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_however_they_are_written() {
        let text = "\u{feff}// {\n{ a: 1, 'b\\'': { x: [1, {y: 2}] } /* , z: 1 */, \"c:\\\"\" : '}', \
                    \\u0064: +.5e1, e//,\n:/**/ 'x\\\ny', größe: [], true: null }";
        let object = root(text).unwrap();
        let read: Vec<_> = object.members.iter().map(|m| (m.key.as_str(), &text[m.value.clone()])).collect();
        assert_eq!(
            read,
            [
                ("a", "1"),
                ("b'", "{ x: [1, {y: 2}] }"),
                ("c:\"", "'}'"),
                ("d", "+.5e1"),
                ("e", "'x\\\ny'"),
                ("größe", "[]"),
                ("true", "null")
            ]
        );
        assert_eq!(&text[object.close..], "}");
    }

    #[test]
    fn broken_texts_have_no_object_and_do_no_harm() {
        for text in ["", "{", "{ a: 'x", "{ a: /* }", "[1]", "{ a: [ }", "'\\", "/", "{ a: \"\\", "//", "\u{2028}"] {
            assert!(root(text).is_none(), "{text}");
        }
    }
}
