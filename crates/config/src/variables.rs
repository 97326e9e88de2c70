//! `${NAME}` in strings: the environment, where secrets belong.

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

/// Puts the environment in place of every `${NAME}`; `$${` stands for `${` itself. Gives back the strings that changed, as they
/// were written: only those may be shown.
pub(crate) fn expand(
    value: &mut Value,
    environment: &dyn Fn(&str) -> Option<String>,
    problems: &mut Vec<Problem>,
) -> Vec<Written> {
    let mut changed = Vec::new();
    walk(value, &mut Path::default(), environment, problems, &mut changed);
    changed
}

fn walk(
    value: &mut Value,
    path: &mut Path,
    environment: &dyn Fn(&str) -> Option<String>,
    problems: &mut Vec<Problem>,
    changed: &mut Vec<Written>,
) {
    match value {
        Value::String(text) if text.contains("${") => match expanded(text, environment) {
            Ok((with_values, values)) => {
                let written = std::mem::replace(text, with_values);
                changed.push(Written { path: path.clone(), text: written, values });
            }
            Err(message) => problems.push(Problem::new(path.to_string(), message)),
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.within_item(index, |path| walk(item, path, environment, problems, changed));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                path.within_key(key, |path| walk(member, path, environment, problems, changed));
            }
        }
        _ => {}
    }
}

/// The text with values in it, and which values those are.
fn expanded(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, Vec<(String, String)>), String> {
    let (mut out, mut values) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
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
        let value = environment(name)
            .ok_or_else(|| format!("the environment variable {name} is not set: set it, or replace `${{{name}}}`"))?;
        out.push_str(&value);
        values.push((name.to_owned(), value));
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok((out, values))
}
