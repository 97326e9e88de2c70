//! Recognises secrets by their names and by their looks.

use crate::redactor::{hide_secret, is_secret_name};

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
pub(crate) const PREFIXES: [&str; 38] = [
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

/// Returns whether a value is probably a secret, by its name or by its looks. Rather one too many: all that it costs is a variable.
pub fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim();
    let harmless = value.is_empty()
        || ["true", "false", "none", "null"].iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    !harmless && (looks_secret(value) || named_secret(name) && !is_path(value))
}

/// Returns whether a value is a secret, whatever it is called.
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

pub(crate) fn named_secret(name: &str) -> bool {
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

/// Returns whether a variable of the environment is a secret, by its name or by its value.
pub fn is_secret_variable(name: &str, value: &str) -> bool {
    let in_address = value.split_once("://").is_some_and(|(scheme, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.split_once('@').is_some_and(|(user, _)| user.contains(':') || scheme.starts_with("http"))
    });
    let name = name.to_ascii_lowercase();
    let last = name.rsplit('_').next().unwrap_or_default();
    let by_last = ["auth", "pass", "passwd", "pat", "pin", "pwd", "jwt", "dsn", "cred", "creds", "key"].contains(&last);
    let within =
        ["privkey", "webhook", "connectionstring", "connstr"].iter().any(|part| name.replace('_', "").contains(part));
    let assigned =
        ["password=", "pwd=", "secret=", "token="].iter().any(|part| value.to_ascii_lowercase().contains(part));
    // The working directory is no secret.
    let directory = name == "pwd" || name == "oldpwd";
    !directory && (is_secret_name(&name) || by_last || within || assigned || in_address || hide_secret(value) != value)
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
}
