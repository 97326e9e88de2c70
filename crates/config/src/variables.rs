//! `${NAME}` in strings: the environment, where secrets belong.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Problem;
use crate::check::Path;

/// A string that had variables in it, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub path: Path,
    pub text: String,
    /// The variables in it, and their values: not to be shown.
    pub values: Vec<(String, String)>,
}

/// A string of an MCP server that names a variable which is not set. The string stands in the config as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// Where, within the server.
    pub(crate) path: Path,
    /// The variables.
    pub(crate) missing: Vec<String>,
}

/// What became of the variables in a config.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    /// The strings that changed, as they were written: only those may be shown.
    pub written: Vec<Written>,
    /// The strings of MCP servers that could not be changed, by the server's name.
    pub unresolved: BTreeMap<String, Vec<Unresolved>>,
    pub problems: Vec<Problem>,
}

/// Puts the environment in place of every `${NAME}`; `$${` stands for `${` itself.
pub(crate) fn expand(value: &mut Value, environment: &dyn Fn(&str) -> Option<String>) -> Expansion {
    let mut expansion = Expansion::default();
    walk(value, &mut Path::default(), environment, &mut expansion);
    expansion
}

fn walk(value: &mut Value, path: &mut Path, environment: &dyn Fn(&str) -> Option<String>, expansion: &mut Expansion) {
    match value {
        Value::String(text) if text.contains("${") => match expanded(text, environment) {
            Ok(Expanded { text: with_values, values, missing }) if missing.is_empty() => {
                let written = std::mem::replace(text, with_values);
                expansion.written.push(Written { path: path.clone(), text: written, values });
            }
            Ok(Expanded { missing, .. }) => match path.within_server() {
                // One server that cannot be used must not keep the others from being used.
                Some((server, path)) => {
                    expansion.unresolved.entry(server.to_owned()).or_default().push(Unresolved { path, missing });
                }
                None => expansion.problems.extend(missing.iter().map(|name| unset(path, name))),
            },
            Err(message) => expansion.problems.push(Problem::new(path.to_string(), message)),
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.within_item(index, |path| walk(item, path, environment, expansion));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                path.within_key(key, |path| walk(member, path, environment, expansion));
            }
        }
        _ => {}
    }
}

/// The problem of a variable that is not set.
pub(crate) fn unset(path: &Path, name: &str) -> Problem {
    let message = format!("the environment variable {name} is not set: set it, or replace `${{{name}}}`");
    Problem::new(path.to_string(), message)
}

/// A text with values in it.
struct Expanded {
    text: String,
    /// Which values those are.
    values: Vec<(String, String)>,
    /// The variables that have none.
    missing: Vec<String>,
}

fn expanded(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Expanded, String> {
    let mut out = Expanded { text: String::new(), values: Vec::new(), missing: Vec::new() };
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.text.push_str(&rest[..at - 1]);
            out.text.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.text.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let end =
            inner.find('}').ok_or("`${` is never closed: write `${NAME}`, or `$${` for the characters themselves")?;
        let name = &inner[..end];
        let fits = |(index, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || index > 0 && c.is_ascii_digit();
        if name.is_empty() || !name.char_indices().all(fits) {
            return Err(format!(
                "`${{{name}}}` does not name a variable: write `${{NAME}}`, or `$${{` for the characters themselves"
            ));
        }
        match environment(name) {
            Some(value) => {
                out.text.push_str(&value);
                out.values.push((name.to_owned(), value));
            }
            None if out.missing.iter().any(|known| known == name) => {}
            None => out.missing.push(name.to_owned()),
        }
        rest = &inner[end + 1..];
    }
    out.text.push_str(rest);
    Ok(out)
}
