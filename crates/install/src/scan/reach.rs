//! Machines and variables that a line names.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;

/// Addresses, and the host in them: `https://user@host:1/…`.
static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:https?|wss?|ftps?|ssh|git|tcp|udp)://(?:[^\s/@]*@)?(\[[0-9a-f:.]+\]|[^\s/:?#\x22'`<>()\[\]{},;\\|]+)").ok()
});
/// Variables, as common languages read them.
static VARIABLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"process\.env(?:\.|\[["'])([A-Za-z_]\w*)|os\.environ(?:\.get\(|\[)\s*["']([A-Za-z_]\w*)|os\.getenv\(\s*["']([A-Za-z_]\w*)|\bENV\[["']([A-Za-z_]\w*)|(?:env::var|Getenv|getenv|Deno\.env\.get)\w*\(\s*["']([A-Za-z_]\w*)|\$\{?([A-Z][A-Z0-9_]{2,})\b"#,
    )
    .ok()
});
/// Variables that say nothing.
const USUAL: [&str; 16] = [
    "HOME",
    "PATH",
    "PWD",
    "USER",
    "SHELL",
    "TMPDIR",
    "LANG",
    "TERM",
    "OLDPWD",
    "LOGNAME",
    "EDITOR",
    "BASH_SOURCE",
    "FUNCNAME",
    "RANDOM",
    "LINENO",
    "ARGUMENTS",
];
/// Machines that are this one.
const HERE: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];

pub(super) fn hosts(line: &str, found: &mut impl FnMut(&str)) {
    let Some(address) = ADDRESS.as_ref().filter(|_| line.contains("://")) else { return };
    for captured in address.captures_iter(line) {
        if let Some(host) = captured.get(1).map(|host| host.as_str().trim_end_matches('.').to_lowercase())
            && !HERE.contains(&host.as_str())
            && !host.is_empty()
        {
            found(&host);
        }
    }
}

pub(super) fn is_bare_address(host: &str) -> bool {
    let number = host.trim_matches(['[', ']']);
    // Browsers and `curl` take one number for an address too.
    number.parse::<IpAddr>().is_ok() || number.len() > 6 && number.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn variables(line: &str, found: &mut impl FnMut(&str)) {
    let Some(variable) = VARIABLE.as_ref().filter(|_| line.contains(['$', '.', '[', '('])) else { return };
    for captured in variable.captures_iter(line) {
        let name = captured.iter().skip(1).flatten().map(|name| name.as_str()).next();
        if let Some(name) = name.filter(|name| !USUAL.contains(name) && name.len() <= 100) {
            found(name);
        }
    }
}
