//! Secrets behind their names, in text of any kind: `password=x`, `"apiKey": "x"`, also within quotes within quotes, `--token x`.

use std::sync::LazyLock;

use regex::Regex;

use crate::REDACTED;

/// Words in the names of secrets. Names that are too common for text of any kind are left to the looks of their values.
const WORDS: &str = "api[_-]?key|access[_-]?key|authorization|client[_-]?secret|cookie|credentials?|passphrase|password|passwd|pwd|\
                     private[_-]?key|secret|token|signature|webhook";

/// The end of a name, and what stands between it and its value: a sign, or nothing but a gap. It begins with a word, so that a text without
/// one is passed over fast.
static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let sign = r#"\\*["'`]?\s{0,8}(?:=>|:=|=|:)\s{0,8}"#;
    Regex::new(&format!(r"(?i)(?P<name>(?:{WORDS})[A-Za-z0-9_\-]{{0,64}})(?:(?P<sign>{sign})|\s+)")).ok()
});
/// The user and the password of `curl`.
static CURL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?:^|\s)(?:-u|--user)\s+").ok());

/// Hides the values behind names of secrets.
pub(crate) fn hide(text: &str) -> String {
    let (Some(name), Some(curl)) = (&*NAME, &*CURL) else { return REDACTED.into() };
    let named = hidden(
        text,
        name.captures_iter(text).filter_map(|found| {
            let whole = found.get(0)?;
            let name = found.name("name")?;
            let rest = &text[whole.end()..];
            let value = match found.name("sign") {
                Some(_) => value(rest, &name.as_str().to_ascii_lowercase())?,
                None => (0, word(rest).filter(|_| is_option(&text[..name.start()]))?),
            };
            Some((whole.end() + value.0, whole.end() + value.1))
        }),
    );
    if !named.contains("-u") {
        return named;
    }
    hidden(
        &named,
        curl.find_iter(&named).filter_map(|found| {
            let rest = &named[found.end()..];
            let end = word(rest).filter(|end| rest[..*end].contains(':'))?;
            Some((found.end(), found.end() + end))
        }),
    )
}

/// Returns a text without these parts, which come in their order.
fn hidden(text: &str, parts: impl Iterator<Item = (usize, usize)>) -> String {
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    for (from, to) in parts {
        if from >= at {
            shown.push_str(&text[at..from]);
            shown.push_str(REDACTED);
            at = to;
        }
    }
    shown.push_str(&text[at..]);
    shown
}

/// Returns whether a text ends in the beginning of an option.
fn is_option(before: &str) -> bool {
    let begin = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '-');
    before[begin.len()..].starts_with('-') && begin.chars().next_back().is_none_or(char::is_whitespace)
}

/// Returns the part of a text that is the value of a name.
fn value(rest: &str, name: &str) -> Option<(usize, usize)> {
    let slashes = rest.len() - rest.trim_start_matches('\\').len();
    if let Some(quote) = rest[slashes..].chars().next().filter(|quote| "\"'`".contains(*quote)) {
        let from = slashes + 1;
        let to = from + closing(&rest[from..], quote, slashes);
        return (to > from && &rest[from..to] != REDACTED).then_some((from, to));
    }
    let end = word(rest)?;
    let value = &rest[..end];
    let is_scheme = ["bearer", "basic", "token", "digest"].iter().any(|scheme| value.eq_ignore_ascii_case(scheme));
    if is_scheme {
        let gap = rest[end..].len() - rest[end..].trim_start().len();
        return word(&rest[end + gap..]).filter(|_| gap > 0).map(|more| (0, end + gap + more));
    }
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_count = name.contains("token") && is_number;
    (!is_count && !is_code(value, &rest[end..])).then_some((0, end))
}

/// Returns the end of a value in quotes: at the same quote behind as many backslashes, or at the end of the text.
fn closing(text: &str, quote: char, slashes: usize) -> usize {
    let mut before = 0;
    for (at, c) in text.char_indices() {
        match c {
            '\\' => before += 1,
            c if c == quote && before <= slashes => return at - before,
            _ => before = 0,
        }
    }
    text.len()
}

/// Returns the end of the word at the beginning of a text.
fn word(text: &str) -> Option<usize> {
    if text.starts_with(REDACTED) {
        return None;
    }
    let end = text.find(|c: char| c.is_whitespace() || "\"'`,;&)}]<>\\|".contains(c)).unwrap_or(text.len());
    (end > 0).then_some(end)
}

/// Returns whether a value is a part of a program, or a word that says that there is none.
fn is_code(value: &str, behind: &str) -> bool {
    const NONE: [&str; 14] = [
        "true",
        "false",
        "null",
        "none",
        "undefined",
        "await",
        "new",
        "async",
        "function",
        "string",
        "number",
        "boolean",
        "typeof",
        "this",
    ];
    let is_call = value.contains('(') || behind.starts_with('(');
    let is_path = value.split('.').count() > 1 && value.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_name = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$([{?!=".contains(&byte));
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let opens = value.starts_with(['{', '[', '(', '$', '/', '=', '~', '#', '%', '*']);
    NONE.iter().any(|none| value.eq_ignore_ascii_case(none)) || is_call || opens || is_name && is_path && !has_digit
}
