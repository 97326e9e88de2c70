//! Command lines and addresses without the secrets in them.

use std::ops::Range;

use crate::REDACTED;
use crate::recognise::{looks_secret, named_secret};

/// Words of a command line, without the secrets among them.
pub fn shown_words(words: &[String]) -> Vec<String> {
    let parts = secret_parts(words);
    let mut shown = words.to_vec();
    // From behind, so that positions stay as they are.
    for (word, part) in parts.into_iter().rev() {
        shown[word].replace_range(part, REDACTED);
    }
    shown
}

/// Returns the secrets in the words of a command line, in order.
pub fn secret_parts(words: &[String]) -> Vec<(usize, Range<usize>)> {
    let mut parts = Vec::new();
    let mut before = Before::Other;
    for (index, word) in words.iter().enumerate() {
        let (found, after) = in_argument(word, before);
        parts.extend(found.into_iter().map(|part| (index, part)));
        before = after;
    }
    parts
}

/// The kind of the word before a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The name of a secret: `--token`, `Authorization:`.
    Name,
    Other,
}

/// The secrets in one argument, which may be a whole command for a shell.
fn in_argument(text: &str, before: Before) -> (Vec<Range<usize>>, Before) {
    if before == Before::Name {
        return (Some(0..text.len()).into_iter().collect(), Before::Other);
    }
    // `Authorization: Bearer x` is one value with a space in it.
    if let Some(value) = value_of_secret(text) {
        return (vec![value], Before::Other);
    }
    let (mut parts, mut before, mut at) = (Vec::new(), Before::Other, 0);
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_matches(|c: char| c.is_whitespace() || "\"'`".contains(c));
        let start = at + piece.find(word).unwrap_or_default();
        at += piece.len();
        if word.is_empty() {
            continue;
        }
        let is_scheme = ["bearer", "basic", "token"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        let names = word.ends_with(['=', ':']) || word.starts_with('-') && !word.contains('=');
        match before {
            Before::Name if is_scheme => {}
            Before::Name => {
                parts.push(start..start + word.len());
                before = Before::Other;
            }
            Before::Other if names && named_secret(word) => before = Before::Name,
            Before::Other => {
                parts.extend(in_word(word).into_iter().map(|part| start + part.start..start + part.end));
            }
        }
    }
    (parts, before)
}

/// The value of `--token=x`, `API_KEY=x` and `Authorization: x`, if that is all there is.
fn value_of_secret(text: &str) -> Option<Range<usize>> {
    let at = text.find(['=', ':'])?;
    let (name, value) = (&text[..at], text[at + 1..].trim_start());
    let is_name = !name.contains(char::is_whitespace) && named_secret(name);
    (is_name && !value.is_empty() && !value.starts_with("//")).then(|| text.len() - value.len()..text.len())
}

/// The secrets in a word without spaces.
fn in_word(word: &str) -> Vec<Range<usize>> {
    if let Some(value) = value_of_secret(word) {
        return vec![value];
    }
    if word.contains("://") {
        return address_parts(word);
    }
    let value = word.rfind('=').map_or(0, |at| at + 1);
    looks_secret(&word[value..]).then_some(value..word.len()).into_iter().collect()
}

/// The user, the password and the parts that look like secrets in an address, which may have a name before it.
pub fn address_parts(text: &str) -> Vec<Range<usize>> {
    let Some(scheme) = text.find("://") else { return Vec::new() };
    let begin = scheme + 3;
    let end = text[begin..].find(['/', '?', '#']).map_or(text.len(), |at| begin + at);
    let mut parts = Vec::new();
    if let Some(at) = text[begin..end].rfind('@') {
        // A user without a password may be a token.
        let user = begin..begin + at;
        let password = text[user.clone()].find(':').map_or(user.clone(), |colon| begin + colon + 1..user.end);
        parts.push(password);
    }
    let mut at = end;
    for piece in text[end..].split_inclusive(['/', '?', '#', '&', ';']) {
        let word = piece.trim_end_matches(['/', '?', '#', '&', ';']);
        let secret = match word.split_once('=') {
            Some((name, value)) => {
                (named_secret(name) || looks_secret(value)).then(|| at + name.len() + 1..at + word.len())
            }
            None => looks_secret(word).then(|| at..at + word.len()),
        };
        parts.extend(secret.filter(|part| !part.is_empty()));
        at += piece.len();
    }
    parts
}

/// An address without what is secret in it.
pub fn shown_address(url: &str) -> String {
    let mut shown = url.to_owned();
    for part in address_parts(url).into_iter().rev() {
        shown.replace_range(part, REDACTED);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_arguments_and_addresses_are_not_shown() {
        for (words, expected) in [
            (&["--token", "abc", "run"][..], &["--token", "[redacted]", "run"][..]),
            (&["--password=hunter2"], &["--password=[redacted]"]),
            (&["-e", "API_KEY=x"], &["-e", "API_KEY=[redacted]"]),
            (&["--header", "Authorization: Bearer abc def"], &["--header", "Authorization: [redacted]"]),
            (&["ghp_0123456789abcdefghijABCDEFGHIJ012345"], &["[redacted]"]),
            (&["postgres://me:hunter2@db/x"], &["postgres://me:[redacted]@db/x"]),
            (&["DB=postgres://me:hunter2@db/x"], &["DB=postgres://me:[redacted]@db/x"]),
            (&["https://tok@h/?api_key=1&q=2#x"], &["https://[redacted]@h/?api_key=[redacted]&q=2#x"]),
            (
                &["curl -H 'Authorization: Bearer abc' https://u:p@h --token t"],
                &["curl -H 'Authorization: Bearer [redacted]' https://u:[redacted]@h --token [redacted]"],
            ),
            // Not these.
            (
                &["--port", "80", "-y", "@scope/server-x", "/home/me"],
                &["--port", "80", "-y", "@scope/server-x", "/home/me"],
            ),
            (&["--token-file", "/run/token"], &["--token-file", "/run/token"]),
            (&["https://h:8080/mcp?page=2"], &["https://h:8080/mcp?page=2"]),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(shown_words(&words), expected);
        }
    }
}
