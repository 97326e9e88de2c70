//! Texts that leave this machine: without secrets, wherever and however these are written, and without the places of this machine.
//!
//! [`Redactor`](crate::Redactor) is for events and logs, where it must be cheap. This takes more time and takes out more: values that are
//! known to be secret, secrets behind their names in text of any kind, secrets that are written with escapes, literals of programs.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{NoExpand, Regex, RegexBuilder};
use sha2::{Digest, Sha256};

use crate::escapes::unescaped;
use crate::recognise::looks_secret;
use crate::{REDACTED, named, shown_address, without_tokens};

/// Shorter values are parts of other words.
const LEAST_VALUE: usize = 5;
/// The size of the pattern of all known secrets. With more of them they are looked for one by one.
const MOST_PATTERN: usize = 64 << 20;
/// The letters of Base64 in a row that are taken for binary data.
const LEAST_BINARY: usize = 256;

static ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"[A-Za-z][A-Za-z0-9+.\-]*://[^\s"'`<>\\]+"#).ok());
static BINARY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let data = r"data:[a-zA-Z0-9.+/;=\-]{0,100};base64,[A-Za-z0-9+/=_%\-]*";
    Regex::new(&format!(r"{data}|[A-Za-z0-9+/_\-]{{{LEAST_BINARY},}}={{0,2}}")).ok()
});
/// A literal of a program, on one line.
static LITERAL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`"#).ok());
static UUID: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^(?:[a-z]{2}_)?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$").ok());

/// Takes out of texts what must not leave this machine.
#[derive(Clone, Debug, Default)]
pub struct Cleaner {
    /// Known secrets in every form in which they may be written, the longest first.
    values: Vec<String>,
    /// Finds all of them in one go.
    known: Option<Regex>,
    /// Places of this machine, and the names that take their place. The longest first.
    places: Vec<(String, String)>,
    /// Secrets of one's own: what these match is not shown.
    patterns: Vec<Regex>,
}

impl Cleaner {
    /// Adds values that are secret, whatever they look like.
    #[must_use]
    pub fn knowing(mut self, values: impl IntoIterator<Item = String>) -> Self {
        for value in values {
            let value = value.trim();
            if value.len() < LEAST_VALUE || ["[redacted]", "false", "undefined"].contains(&value) {
                continue;
            }
            self.values.extend(forms(value));
        }
        self.values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        self.values.dedup();
        let all: Vec<String> = self.values.iter().map(|value| regex::escape(value)).collect();
        // Where several begin, the longest is the first one.
        self.known = (!all.is_empty())
            .then(|| RegexBuilder::new(&all.join("|")).size_limit(MOST_PATTERN).build().ok())
            .flatten();
        self
    }

    /// Adds a place of this machine, and the name that takes its place.
    #[must_use]
    pub fn placing(mut self, place: &str, name: &str) -> Self {
        let place = place.trim_end_matches('/');
        // The root stands in every path.
        if !place.is_empty() {
            self.places.push((place.to_owned(), name.to_owned()));
            self.places.sort_by_key(|(place, _)| std::cmp::Reverse(place.len()));
        }
        self
    }

    /// Adds patterns of secrets of one's own.
    #[must_use]
    pub fn matching(mut self, patterns: impl IntoIterator<Item = Regex>) -> Self {
        self.patterns.extend(patterns);
        self
    }

    /// Returns a text as it may leave this machine.
    pub fn text(&self, text: &str) -> String {
        let mut shown = Cow::Borrowed(text);
        match &self.known {
            Some(known) => shown = known.replace_all(text, NoExpand(REDACTED)),
            None => self.values.iter().for_each(|value| shown = Cow::Owned(shown.replace(value.as_str(), REDACTED))),
        }
        let mut shown = without_escaped(shown.into_owned(), |word| self.is_hidden(word));
        if let Some(address) = ADDRESS.as_ref().filter(|_| shown.contains("://")) {
            let hidden = address.replace_all(&shown, |found: &regex::Captures<'_>| shown_address(&found[0]));
            shown = hidden.into_owned();
        }
        shown = named::hide(&shown);
        if let Cow::Owned(hidden) = without_tokens(&shown) {
            shown = hidden;
        }
        for pattern in &self.patterns {
            if let Cow::Owned(hidden) = pattern.replace_all(&shown, REDACTED) {
                shown = hidden;
            }
        }
        for (place, name) in &self.places {
            if shown.contains(place.as_str()) {
                shown = without_place(&shown, place, name);
            }
        }
        without_binary(shown)
    }

    /// Returns the text of a program as it may leave this machine: without the literals in it that look like secrets.
    pub fn code(&self, text: &str) -> String {
        let Some(literal) = &*LITERAL else { return REDACTED.into() };
        let hidden = literal.replace_all(text, |found: &regex::Captures<'_>| {
            let whole = &found[0];
            let inner = &whole[1..whole.len() - 1];
            let is_id = UUID.as_ref().is_some_and(|uuid| uuid.is_match(inner));
            let is_secret = !is_id && inner.split_whitespace().any(|word| looks_secret(&unescaped(word)));
            match is_secret {
                true => format!("{}{REDACTED}{}", &whole[..1], &whole[..1]),
                false => whole.to_owned(),
            }
        });
        self.text(&hidden)
    }

    /// Returns whether a text has a known secret in it.
    fn knows(&self, text: &str) -> bool {
        match &self.known {
            Some(known) => known.is_match(text),
            None => self.values.iter().any(|value| text.contains(value.as_str())),
        }
    }

    /// Returns whether a text, as it is meant, has a secret in it.
    fn is_hidden(&self, text: &str) -> bool {
        self.knows(text)
            || named::hide(text) != text
            || without_tokens(text) != text
            || self.patterns.iter().any(|pattern| pattern.is_match(text))
    }
}

/// Returns the forms in which a value may be written: as it is, as JSON, in an address, and in Base64.
fn forms(value: &str) -> Vec<String> {
    let json = serde_json::Value::from(value).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let twice = serde_json::Value::from(json.as_str()).to_string();
    let twice = twice[1..twice.len() - 1].to_owned();
    let percent = value.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    let mut forms = vec![value.to_owned(), json, twice, percent.collect()];
    // In Base64 a value looks different behind one or two other bytes. The letters at its ends depend on what stands beside it.
    for before in 0..3 {
        let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(value.bytes()).collect();
        let encoded = base64(&bytes);
        forms.push(encoded[(before * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned());
    }
    forms.retain(|form| form.len() >= LEAST_VALUE);
    forms
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut number = 0u32;
        (0..3).for_each(|index| number = number << 8 | u32::from(chunk.get(index).copied().unwrap_or(0)));
        for index in 0..=chunk.len() {
            let letter = number >> (18 - 6 * index) & 63;
            text.push(char::from(LETTERS[letter as usize]));
        }
    }
    text
}

/// Hides the words that are secret once their escapes are read.
fn without_escaped(text: String, is_hidden: impl Fn(&str) -> bool) -> String {
    if !text.contains(['\\', '%']) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let meant = if word.contains(['\\', '%']) { unescaped(word) } else { Cow::Borrowed(word) };
        // A word that is secret as it stands is hidden later, and less of it.
        if meant != word && is_hidden(&meant) && !is_hidden(word) {
            shown.push_str(REDACTED);
            shown.push_str(&piece[word.len()..]);
        } else {
            shown.push_str(piece);
        }
    }
    shown
}

/// Renames a place where it stands as a path, and not as the beginning of a longer name.
fn without_place(text: &str, place: &str, name: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(place) {
        let after = &rest[at + place.len()..];
        let goes_on = after.chars().next().is_some_and(|next| next.is_alphanumeric() || "_-".contains(next));
        shown.push_str(&rest[..at]);
        shown.push_str(if goes_on { place } else { name });
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// Puts the size and the digest of binary data in its place.
fn without_binary(text: String) -> String {
    if text.len() < LEAST_BINARY && !text.contains(";base64,") {
        return text;
    }
    let Some(binary) = &*BINARY else { return text };
    match binary.replace_all(&text, |found: &regex::Captures<'_>| binary_mark(&found[0])) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) => text,
    }
}

/// Returns the size and the digest of data that is left out.
pub(crate) fn binary_mark(data: &str) -> String {
    let digest = Sha256::digest(data.as_bytes());
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("[binary, {} characters, sha256:{digest}]", data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaner() -> Cleaner {
        Cleaner::default()
            .knowing(["correct horse \"battery\"".to_owned(), "tr0ub4dor&3".to_owned(), "abc".to_owned()])
            .placing("/home/me", "~")
            .placing("/home/me/work", "$WORKSPACE_DIR")
            .matching(Regex::new(r"\bacme-\d{4}\b"))
    }

    #[test]
    fn secrets_are_taken_out_wherever_and_however_they_are_written() {
        let cleaner = cleaner();
        for (text, expected) in [
            // Known values, in every form.
            ("it is tr0ub4dor&3!", "it is [redacted]!"),
            (r#"{"a":"correct horse \"battery\""}"#, r#"{"a":"[redacted]"}"#),
            ("?q=tr0ub4dor%263", "?q=[redacted]"),
            ("dHIwdWI0ZG9yJjM=", "[redacted]M="),
            // By their looks.
            ("use sk-abcdefgh12345678, please", "use [redacted], please"),
            ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: [redacted]"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[redacted]"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----", "[redacted]"),
            ("postgres://me:hunter2@db/x", "postgres://me:[redacted]@db/x"),
            ("https://h/cb?code=1&access_token=hunter2&x=2", "https://h/cb?code=1&access_token=[redacted]&x=2"),
            // By their names.
            ("password=hunter2", "password=[redacted]"),
            (r#"{"client_secret": "a\"b", "x": 1}"#, r#"{"client_secret": "[redacted]", "x": 1}"#),
            (r#""{\"apiKey\":\"hunter2\",\"b\":\"c\"}""#, r#""{\"apiKey\":\"[redacted]\",\"b\":\"c\"}""#),
            ("export DB_PASSWORD='a b c'; ls", "export DB_PASSWORD='[redacted]'; ls"),
            ("curl --token hunter2 -u me:hunter2 https://h", "curl --token [redacted] -u [redacted] https://h"),
            // With escapes.
            (r"s\u006b-abcdefgh12345678", "[redacted]"),
            ("a %73k-abcdefgh12345678 b", "a [redacted] b"),
            // Of one's own.
            ("the key is acme-1234, not acme-12", "the key is [redacted], not acme-12"),
            // Places.
            ("/home/me/work/a /home/me/.ssh /home/mean /home/me", "$WORKSPACE_DIR/a ~/.ssh /home/mean ~"),
        ] {
            assert_eq!(cleaner.text(text), expected, "{text}");
            assert_eq!(cleaner.text(expected), expected, "again: {expected}");
        }
    }

    #[test]
    fn harmless_texts_stay_as_they_are() {
        for text in [
            "max_tokens: 4096, totalTokens=12",
            "const token = await getToken(); key: 'Enter'",
            "the token is not valid, and the password was wrong",
            "https://example.com:8080/a@b?page=2",
            "abc \\n \\d+ 100% %20 C:\\users",
            "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        ] {
            assert_eq!(cleaner().text(text), text);
        }
    }

    #[test]
    fn literals_of_programs_that_look_like_secrets_are_taken_out() {
        let cleaner = cleaner();
        let shown = cleaner.code(
            "const a = 'kJ8s+2Lq0vXy7Zt3Bn5Rw9Pd';\nawait tools.x({ id: '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', p: \"./a\", q: `s\\u006b-abcdefgh12345678` })",
        );
        let expected = "const a = '[redacted]';\nawait tools.x({ id: '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', p: \"./a\", q: `[redacted]` })";
        assert_eq!(shown, expected);
    }

    #[test]
    fn binary_data_becomes_its_size_and_digest() {
        let data = "QUJD".repeat(100);
        let shown = cleaner().text(&format!("before {data} behind data:image/png;base64,AAAA end"));
        assert!(shown.starts_with("before [binary, 400 characters, sha256:"), "{shown}");
        assert!(shown.contains("] behind [binary, 26 characters, sha256:") && shown.ends_with("] end"), "{shown}");
    }
}
