//! Recognises secrets, and shows the rest without them.

use std::ops::Range;

use serde_json::Value;

use crate::keys::{CommandLine, McpServer};

/// The word in the place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// Words that names of secrets end with, part by part.
const NAMES: [&str; 16] = [
    "token",
    "key",
    "apikey",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "pass",
    "authorization",
    "auth",
    "credential",
    "credentials",
    "cookie",
    "pat",
    "signature",
];

/// How the tokens of well-known services begin.
const PREFIXES: [&str; 38] = [
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "npm_",
    "pypi-",
    "hf_",
    "SG.",
    "dop_v1_",
    "lin_api_",
    "ntn_",
    "secret_",
    "shpat_",
    "figd_",
    "tvly-",
    "pplx-",
    "gsk_",
    "r8_",
    "eyJ",
    "ATATT",
    "whsec_",
    "-----BEGIN",
];

/// Whether a value is probably a secret, by its name or by its looks. Rather one too many: all that it costs is a variable.
pub fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim();
    let harmless = value.is_empty()
        || ["true", "false", "none", "null"].iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    !harmless && (looks_secret(value) || named_secret(name) && !is_path(value))
}

/// Whether a value is a secret whatever it is called.
pub fn looks_secret(value: &str) -> bool {
    let value = value.rsplit(' ').next().unwrap_or(value);
    let prefix = PREFIXES.iter().any(|prefix| value.starts_with(prefix) && value.len() >= prefix.len() + 8);
    prefix || has_password(value) || is_random(value)
}

/// `postgres://me:hunter2@host`.
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, word)| !word.is_empty()))
}

fn named_secret(name: &str) -> bool {
    parts(name).iter().any(|part| NAMES.contains(&part.as_str()) || part.ends_with("token") || part.ends_with("key"))
        // The name of a file with a secret in it is none.
        && !parts(name).last().is_some_and(|last| ["file", "path", "dir", "url", "name"].contains(&last.as_str()))
}

/// The words of a name: `X-Api-Key`, `API_KEY` and `apiKey` have the same.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && small {
            parts.push(String::new());
        }
        small = c.is_lowercase();
        if let (true, Some(part)) = (c.is_alphanumeric(), parts.last_mut()) {
            part.extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn is_path(value: &str) -> bool {
    value.starts_with(['/', '~', '.']) || value.get(1..3) == Some(":\\")
}

/// Letters and digits in no order that a person would choose.
fn is_random(value: &str) -> bool {
    const LEAST: usize = 24;
    /// Bits for each character: words have fewer, base64 and long hexadecimal numbers have more.
    const LEAST_BITS: f64 = 3.4;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+=/".contains(&byte);
    let (digits, letters) = (value.bytes().any(|b| b.is_ascii_digit()), value.bytes().any(|b| b.is_ascii_alphabetic()));
    if value.len() < LEAST || !value.bytes().all(fits) || !digits || !letters || is_path(value) {
        return false;
    }
    // Names of packages and models have parts; random text seldom has short ones.
    let longest = value.split(['-', '_', '/']).map(str::len).max().unwrap_or(0);
    let mut counts = [0_u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = value.len() as f64;
    let bits = |count: &u32| -> f64 {
        let share = f64::from(*count) / length;
        -share * share.log2()
    };
    longest >= 12 && counts.iter().filter(|count| **count > 0).map(bits).sum::<f64>() >= LEAST_BITS
}

/// Words of a command line, without the secrets among them.
pub fn shown_words(words: &[String]) -> Vec<String> {
    let parts = secret_parts(words);
    let mut shown = words.to_vec();
    // From behind, so that places stay where they are.
    for (word, part) in parts.into_iter().rev() {
        shown[word].replace_range(part, REDACTED);
    }
    shown
}

/// Where secrets are in the words of a command line, in order.
fn secret_parts(words: &[String]) -> Vec<(usize, Range<usize>)> {
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
        return in_address(word);
    }
    let value = word.rfind('=').map_or(0, |at| at + 1);
    looks_secret(&word[value..]).then_some(value..word.len()).into_iter().collect()
}

/// The user, the password and the parts that look like secrets in an address, which may have a name before it.
fn in_address(text: &str) -> Vec<Range<usize>> {
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
    for part in in_address(url).into_iter().rev() {
        shown.replace_range(part, REDACTED);
    }
    shown
}

impl McpServer {
    /// A copy that may be shown: without the values of its environment and headers, and without secrets in arguments and addresses.
    pub fn shown(&self) -> Self {
        let mut shown = self.clone();
        shown.args = shown_words(&self.args);
        shown.url = self.url.as_deref().map(shown_address);
        let values = shown.env.values_mut().chain(shown.headers.values_mut());
        let secrets = [&mut shown.auth.token, &mut shown.auth.client_secret].into_iter().flatten();
        values.chain(secrets).filter(|value| !value.is_empty()).for_each(|value| *value = REDACTED.into());
        shown
    }

    /// The texts that no message about this server may have in it, the longest first.
    pub fn secrets(&self) -> Vec<String> {
        /// Shorter ones are parts of other words.
        const LEAST: usize = 4;
        let env = self.env.iter().filter(|(name, value)| is_secret(name, value)).map(|(_, value)| value.as_str());
        let headers =
            self.headers.values().flat_map(|value| [Some(value.as_str()), value.rsplit(' ').next()]).flatten();
        let auth = [&self.auth.token, &self.auth.client_secret].into_iter().flatten().map(String::as_str);
        let args = secret_parts(&self.args).into_iter().map(|(word, part)| &self.args[word][part]);
        let url = self.url.iter().flat_map(|url| in_address(url).into_iter().map(|part| &url[part]));
        let given = self.given.iter().map(String::as_str);
        let all = env.chain(headers).chain(auth).chain(args).chain(url).chain(given);
        let mut all: Vec<String> = all.filter(|text| text.len() >= LEAST).map(str::to_owned).collect();
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        all.dedup();
        all
    }
}

/// Takes the secrets out of a whole config that is to be shown.
pub(crate) fn hide(config: &crate::Config, shown: &mut Value) {
    for (name, server) in &config.mcp.servers {
        shown["mcp"]["servers"][name] = serde_json::to_value(server.shown()).unwrap_or_default();
    }
    let environments = config.plugins.entries.keys().map(|id| format!("/plugins/entries/{}/env", pointer(id)));
    for place in environments.chain(["/tools/exec/env".to_owned()]) {
        let values = shown.pointer_mut(&place).and_then(Value::as_object_mut);
        values.into_iter().flatten().for_each(|(_, value)| *value = REDACTED.into());
    }
    for (index, hook) in config.hooks.before_tool_call.iter().enumerate() {
        let place = &mut shown["hooks"]["before_tool_call"][index]["command"];
        *place = match &hook.command {
            CommandLine::Shell(line) => shown_words(std::slice::from_ref(line)).concat().into(),
            CommandLine::Words(words) => shown_words(words).into(),
        };
    }
}

/// A key as a part of a JSON pointer.
fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_or_by_looks() {
        for (name, value, expected) in [
            ("GITHUB_TOKEN", "whatever", true),
            ("apiKey", "abc", true),
            ("X-Api-Key", "abc", true),
            ("DB_PASSWORD", "hunter2", true),
            ("OPENAI_APIKEY", "x", true),
            ("Authorization", "Bearer abc", true),
            ("ANYTHING", "ghp_0123456789abcdefghijABCDEFGHIJ012345", true),
            ("ANYTHING", "Bearer sk-0123456789abcdef", true),
            ("DATABASE_URL", "postgres://me:hunter2@db.example.com/x", true),
            ("ANYTHING", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", true),
            ("ANYTHING", "kJ8s+2Lq0vXy7Zt3Bn5Rw9Pd", true),
            // Not these.
            ("MAX_TOKENS", "4096", false),
            ("TOKEN", "", false),
            ("USE_KEY", "true", false),
            ("KEY_FILE", "id_rsa", false),
            ("SSH_KEY", "/home/me/.ssh/id_rsa", false),
            ("LOG_LEVEL", "debug", false),
            ("KEYBOARD", "qwertz", false),
            ("DATABASE_URL", "postgres://db.example.com/x", false),
            ("MODEL", "some-embedding-3-large-2024-01-01", false),
            ("PACKAGE", "@modelcontextprotocol/server-filesystem", false),
            ("NODE_OPTIONS", "--max-old-space-size=4096", false),
        ] {
            assert_eq!(is_secret(name, value), expected, "{name}={value}");
        }
    }

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
