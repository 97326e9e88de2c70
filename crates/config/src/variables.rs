//! `${NAME}` and `${secret:NAME}` in strings: values that do not stand in the file.

use std::collections::BTreeMap;
use std::error::Error;

use pincer_secrecy::is_secret;
use serde_json::Value;

use crate::Problem;
use crate::check::Path;
use crate::keys::{McpServer, SecretSource};

/// The text before the name of a secret.
const SECRET: &str = "secret:";

/// Secrets, by their names.
pub type Sources = BTreeMap<String, SecretSource>;

/// The values that strings of a config can name. `source` is the config's entry for a secret; a secret without one is kept by Pincer.
pub trait Values {
    /// Returns a variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns whether a secret is likely to be there. Nothing is started for that.
    fn has_secret(&self, name: &str, source: Option<&SecretSource>) -> bool;

    /// Returns a secret. May take as long as a person needs to unlock something.
    fn secret(&self, name: &str, source: Option<&SecretSource>) -> Result<String, SecretError>;
}

/// The reason why a secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is nothing to look secrets up in.
    #[error("no secrets are kept here")]
    NotKept,
    /// Pincer keeps none of this name.
    #[error("it is not set; run `pincer secrets set {name}`")]
    Unset {
        /// The name.
        name: String,
    },
    /// It is named in the entry of another secret.
    #[error("a secret cannot name another one")]
    Nested,
    /// It could not be looked up.
    #[error(transparent)]
    LookUp(Box<dyn Error + Send + Sync>),
}

/// The reason why an MCP server cannot be used, as a sentence that begins behind its name.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Variables or secrets that it names are not there.
    #[error("{0}")]
    Missing(String),
    /// A reference of its strings cannot be read.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// With the secrets in place it is no server.
    #[error("cannot be used: {0}")]
    Server(#[from] serde_json::Error),
}

/// The reason why a `${…}` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// Its end is missing.
    #[error("`${{` is never closed: write `${{NAME}}`, or `$${{` for the characters themselves")]
    Unclosed,
    /// There is no name in it.
    #[error("`${{{reference}}}` does not name a variable: write `${{NAME}}`, or `$${{` for the characters themselves")]
    NoName {
        /// The text in the braces.
        reference: String,
    },
}

/// Variables of the environment, and no secrets.
pub struct Environment<'e>(pub &'e dyn Fn(&str) -> Option<String>);

impl Values for Environment<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    fn has_secret(&self, _: &str, _: Option<&SecretSource>) -> bool {
        false
    }

    fn secret(&self, _: &str, _: Option<&SecretSource>) -> Result<String, SecretError> {
        Err(SecretError::NotKept)
    }
}

/// A string that had variables in it, and its place.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub path: Path,
    pub text: String,
    /// The variables in it, and their values: not to be shown.
    pub values: Vec<(String, String)>,
}

/// A string of an MCP server that names secrets, which are looked up when the server is started, or something that is not there. It
/// stands in the config as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The place within the server.
    pub(crate) path: Path,
    /// The missing thing.
    pub(crate) missing: Vec<Missing>,
}

/// Something that a string names and that is not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Missing {
    Variable(String),
    Secret { name: String, why: String },
}

impl Missing {
    /// Returns the problem of a string that names it.
    pub(crate) fn problem(&self, path: &Path) -> Problem {
        let message = match self {
            Self::Variable(name) => {
                format!("the environment variable {name} is not set: set it, or replace `${{{name}}}`")
            }
            Self::Secret { name, why } => format!("the secret {name} cannot be had: {why}"),
        };
        Problem::new(path.to_string(), message)
    }

    /// Returns the missing thing as a part of a sentence about a server.
    pub(crate) fn needed(&self) -> String {
        match self {
            Self::Variable(name) => format!("the environment variable {name}, which is not set"),
            Self::Secret { name, why } => format!("the secret {name}: {why}"),
        }
    }
}

/// The results of filling in the variables of a config.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    /// The strings that changed, as they were written: only those may be shown.
    pub written: Vec<Written>,
    /// The strings of MCP servers that could not be changed, by the server's name.
    pub unresolved: BTreeMap<String, Vec<Unresolved>>,
    pub problems: Vec<Problem>,
}

/// Puts values in place of every `${NAME}` and `${secret:NAME}`; `$${` stands for `${` itself.
pub(crate) fn expand(value: &mut Value, values: &dyn Values, sources: &Sources) -> Expansion {
    let mut expansion = Expansion::default();
    walk(value, &mut Path::default(), &Look { values, sources }, &mut expansion);
    expansion
}

/// Reads what a config says of its secrets, as far as it is right: the rest is reported when the whole is checked.
pub(crate) fn sources(config: &Value, values: &dyn Values) -> Sources {
    let mut section = config.get("secrets").cloned().unwrap_or_default();
    expand(&mut section, values, &Sources::new());
    let Value::Object(members) = section else { return Sources::new() };
    members.into_iter().filter_map(|(name, source)| Some((name, serde_json::from_value(source).ok()?))).collect()
}

/// The places where values are looked up.
struct Look<'l> {
    values: &'l dyn Values,
    sources: &'l Sources,
}

impl Look<'_> {
    fn secret(&self, name: &str) -> Result<String, SecretError> {
        self.values.secret(name, self.sources.get(name))
    }

    /// Returns an empty text if a secret is likely to be there. Nothing is looked up.
    fn promised(&self, name: &str) -> Result<String, SecretError> {
        match self.values.has_secret(name, self.sources.get(name)) {
            true => Ok(String::new()),
            false => Err(SecretError::Unset { name: name.to_owned() }),
        }
    }
}

fn walk(value: &mut Value, path: &mut Path, look: &Look<'_>, expansion: &mut Expansion) {
    match value {
        Value::String(text) if text.contains("${") => {
            if path.is_late() {
                // Looked up when the provider is asked: another one must not be kept from being used.
                if let Err(error) = expanded(text, look.values, &|name| look.promised(name)) {
                    expansion.problems.push(Problem::new(path.to_string(), error.to_string()));
                }
                return;
            }
            let server = path.within_server();
            let secret = |name: &str| match &server {
                // Looked up when the server is started: a keychain may ask a person to unlock it.
                Some(_) => look.promised(name),
                None if path.is_within("secrets") => Err(SecretError::Nested),
                None => look.secret(name),
            };
            match expanded(text, look.values, &secret) {
                // One server that cannot be used must not keep the others from being used.
                Ok(Expanded { missing, secrets, .. }) if server.is_some() && (secrets > 0 || !missing.is_empty()) => {
                    if let Some((name, path)) = server {
                        expansion.unresolved.entry(name.to_owned()).or_default().push(Unresolved { path, missing });
                    }
                }
                Ok(Expanded { text: with_values, values, missing, .. }) if missing.is_empty() => {
                    let written = std::mem::replace(text, with_values);
                    expansion.written.push(Written { path: path.clone(), text: written, values });
                }
                Ok(Expanded { missing, .. }) => {
                    expansion.problems.extend(missing.iter().map(|missing| missing.problem(path)));
                }
                Err(error) => expansion.problems.push(Problem::new(path.to_string(), error.to_string())),
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.within_item(index, |path| walk(item, path, look, expansion));
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                path.within_key(key, |path| walk(member, path, look, expansion));
            }
        }
        _ => {}
    }
}

impl McpServer {
    /// Returns a copy with all secrets in place. May take as long as a person needs to unlock something.
    pub fn resolved(&self, values: &dyn Values, sources: &Sources) -> Result<Self, ResolveError> {
        if let Some(why) = self.unusable() {
            return Err(ResolveError::Missing(why));
        }
        let (look, mut server) = (Look { values, sources }, serde_json::to_value(self).unwrap_or_default());
        let mut given = self.given.clone();
        for Unresolved { path, .. } in &self.unresolved {
            let Some(Value::String(text)) = path.find(&mut server) else { continue };
            let expanded = expanded(text, values, &|name| look.secret(name))?;
            if let Some(missing) = expanded.missing.first() {
                return Err(ResolveError::Missing(format!("needs {}", missing.needed())));
            }
            *text = expanded.text;
            let secrets =
                expanded.values.into_iter().filter(|(name, value)| name.starts_with(SECRET) || is_secret(name, value));
            given.extend(secrets.map(|(_, value)| value));
        }
        let server: Self = serde_json::from_value(server)?;
        Ok(Self { given, ..server })
    }
}

/// Puts values in place of every `${NAME}` and `${secret:NAME}` of a text that was left as it was written. Returns the text, and the
/// secrets in it.
pub fn resolve(text: &str, values: &dyn Values, sources: &Sources) -> Result<(String, Vec<String>), ResolveError> {
    let look = Look { values, sources };
    let expanded = expanded(text, values, &|name| look.secret(name))?;
    match expanded.missing.first() {
        Some(missing) => Err(ResolveError::Missing(format!("needs {}", missing.needed()))),
        None => Ok((expanded.text, expanded.values.into_iter().map(|(_, value)| value).collect())),
    }
}

/// A text with values in it.
struct Expanded {
    text: String,
    /// Which values those are.
    values: Vec<(String, String)>,
    /// How many of them are secrets.
    secrets: usize,
    /// The variables without a value.
    missing: Vec<Missing>,
}

fn expanded(
    text: &str,
    values: &dyn Values,
    secret: &dyn Fn(&str) -> Result<String, SecretError>,
) -> Result<Expanded, ReferenceError> {
    let mut out = Expanded { text: String::new(), values: Vec::new(), secrets: 0, missing: Vec::new() };
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
        let end = inner.find('}').ok_or(ReferenceError::Unclosed)?;
        let reference = &inner[..end];
        let value = match reference.strip_prefix(SECRET) {
            Some(name) if is_secret_name(name) => {
                out.secrets += 1;
                secret(name).map_err(|error| Missing::Secret { name: name.to_owned(), why: error.to_string() })
            }
            None if is_variable_name(reference) => {
                values.variable(reference).ok_or_else(|| Missing::Variable(reference.to_owned()))
            }
            _ => return Err(ReferenceError::NoName { reference: reference.to_owned() }),
        };
        match value {
            Ok(value) => {
                out.text.push_str(&value);
                out.values.push((reference.to_owned(), value));
            }
            Err(missing) if out.missing.contains(&missing) => {}
            Err(missing) => out.missing.push(missing),
        }
        rest = &inner[end + 1..];
    }
    out.text.push_str(rest);
    Ok(out)
}

fn is_variable_name(name: &str) -> bool {
    let fits = |(index, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || index > 0 && c.is_ascii_digit();
    !name.is_empty() && name.char_indices().all(fits)
}

/// Returns whether a secret can have this name: letters, digits, `_`, `-` and `.`, and a letter or `_` first.
pub fn is_secret_name(name: &str) -> bool {
    const MOST: usize = 128;
    let begins = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    begins && name.len() <= MOST && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}
