//! What looks like a secret, and where it is kept instead.

use std::collections::BTreeMap;
use std::fmt;

/// What becomes of secrets that stand in a client's config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// They stand in our config too.
    Keep,
    /// Our config names variables of the environment; [`crate::Reading::variables`] has what must be in them.
    Variables,
}

/// A text that is not shown by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: whoever calls this means to show it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

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
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim();
    let harmless = value.is_empty()
        || ["true", "false", "none", "null"].iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    !harmless && (looks_secret(value) || named_secret(name) && !is_path(value))
}

/// Whether a value is a secret whatever it is called.
pub(crate) fn looks_secret(value: &str) -> bool {
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

/// Variables that we have invented, and what must be in them.
#[derive(Debug, Default)]
pub(crate) struct Vault {
    values: BTreeMap<String, Hidden>,
}

impl Vault {
    /// The variable for a value: by the name it has, or with the server's in front if that stands for something else already.
    /// `fits` says whether a variable of the environment may stand for a value.
    pub fn variable(&mut self, server: &str, name: &str, value: &str, fits: &dyn Fn(&str, &str) -> bool) -> String {
        let (name, server) = (variable_name(name), variable_name(server));
        let others = (2..).map(|number| format!("{server}_{name}_{number}"));
        let mut names = [name.clone(), format!("{server}_{name}")].into_iter().chain(others);
        let free = names.find(|name| match self.values.get(name) {
            Some(known) => known.reveal() == value,
            None => fits(name, value),
        });
        // There are more numbers than variables.
        let chosen = free.unwrap_or(name);
        self.values.insert(chosen.clone(), Hidden::new(value));
        chosen
    }

    pub fn value(&self, variable: &str) -> Option<&Hidden> {
        self.values.get(variable)
    }
}

/// A name that a variable can have, out of any text.
pub(crate) fn variable_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        if !(c == '_' && name.ends_with('_')) {
            name.push(c);
        }
    }
    let name = name.trim_matches('_');
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name.to_owned() } else { format!("MCP_{name}") }
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
    fn a_variable_stands_for_one_value_only() {
        let mut vault = Vault::default();
        let fits = |name: &str, value: &str| name != "SET" || value == "elsewhere";
        for (server, name, value, expected) in [
            ("a", "TOKEN", "1", "TOKEN"),
            ("b", "TOKEN", "1", "TOKEN"),
            ("b", "TOKEN", "hunter", "B_TOKEN"),
            ("b", "TOKEN", "3", "B_TOKEN_2"),
            ("c", "SET", "1", "C_SET"),
            ("c", "SET", "elsewhere", "SET"),
            ("my-server.1", "x-api key", "4", "X_API_KEY"),
            ("d", "1st", "5", "MCP_1ST"),
        ] {
            assert_eq!(vault.variable(server, name, value, &fits), expected);
        }
        assert_eq!(vault.value("B_TOKEN").unwrap().reveal(), "hunter");
        assert!(!format!("{vault:?}").contains("hunter"));
    }
}
