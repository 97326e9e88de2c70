//! Characters that are written as escapes.

use std::borrow::Cow;

/// Returns a text with its escapes read: those of JSON and of JavaScript, and those of addresses.
pub(crate) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '%']) {
        return Cow::Borrowed(text);
    }
    let (mut meant, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['\\', '%']) {
        meant.push_str(&rest[..at]);
        rest = &rest[at..];
        let (read, length) = escape(rest);
        meant.push(read);
        rest = &rest[length..];
    }
    meant.push_str(rest);
    Cow::Owned(meant)
}

/// Reads the escape at the beginning of a text. Returns its character and its length; what is none stands for itself.
fn escape(text: &str) -> (char, usize) {
    let hex = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        char::from_u32(u32::from_str_radix(digits, 16).ok()?).map(|read| (read, to))
    };
    let first = text.chars().next().unwrap_or('\\');
    let long = || {
        let end = text.find('}').filter(|end| *end <= 9)?;
        hex(3, end).map(|(read, _)| (read, end + 1))
    };
    let found = match text.as_bytes() {
        [b'%', ..] => hex(1, 3),
        [b'\\', b'u', b'{', ..] => long(),
        [b'\\', b'u', ..] => hex(2, 6),
        [b'\\', b'x', ..] => hex(2, 4),
        [b'\\', b'/' | b'-' | b'_' | b'.', ..] => Some((char::from(text.as_bytes()[1]), 2)),
        _ => None,
    };
    found.unwrap_or((first, first.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_everything_else_stands_for_itself() {
        for (text, meant) in [
            (r"a\u0062\x63\u{64}%65\/f", "abcde/f"),
            (r"\u00", r"\u00"),
            (r"\u{zz}%zz%", r"\u{zz}%zz%"),
            ("%é", "%é"),
            (r"\", r"\"),
            (r"\ud800", r"\ud800"),
        ] {
            assert_eq!(unescaped(text), meant);
        }
    }
}
