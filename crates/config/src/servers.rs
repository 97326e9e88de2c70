//! Servers that are added to the text of a config.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::keys::{McpServer, SecretSource};
use crate::read::{parse_with, syntax};
use crate::variables::{SecretError, Values};
use crate::{Problems, edit, locate};

/// What becomes of a server that the config has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays as it is.
    Keep,
    /// The new one takes its place, comments within it included.
    Replace,
}

/// A text with servers in it that it did not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new text.
    pub text: String,
    /// Which servers are new.
    pub added: Vec<String>,
    /// Which have taken the place of others, as those are spelled.
    pub replaced: Vec<String>,
    /// Which were there already, and are as they were.
    pub kept: Vec<String>,
}

/// Why a text was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// What stands in it is wrong already.
    #[error("the file cannot be changed before it is right:\n{0}")]
    Wrong(#[from] Problems),
    /// With the change, it would be wrong.
    #[error("with these servers the config would be wrong, so it is left as it is:\n{0}")]
    Refused(Problems),
    /// Something on the way to what is to be changed is no object.
    #[error("`{path}` is not an object, so nothing can be added to it: mend it by hand")]
    NotAnObject {
        /// Where; `.` for the whole file.
        path: String,
    },
    /// The text is laid out in a way that cannot be changed safely.
    #[error("this file is written in a way that cannot be changed safely; add this to it by hand:\n{block}")]
    ByHand {
        /// What to add.
        block: String,
    },
    /// A member cannot be taken out safely.
    #[error("this file is written in a way that cannot be changed safely; take `{path}` out by hand")]
    Remove {
        /// Which.
        path: String,
    },
    /// The text would be longer than a config may be.
    #[error("with these servers the config would have {bytes} bytes, and it may have {most}: add fewer")]
    TooLong {
        /// How long it would be.
        bytes: u64,
        /// How long it may be.
        most: u64,
    },
}

/// Adds servers to the text of a config, which may be empty. Everything else in it stays as it is, comments included; the result has
/// been read again, and says what the old text said and the servers, no more and no less.
///
/// Variables that `environment` does not know are no problem here: they may be set later.
pub fn add_servers(
    text: &str,
    servers: &BTreeMap<String, McpServer>,
    existing: Existing,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Edited, EditError> {
    let values = Lenient(environment);
    let mut wanted: Value =
        if edit::is_blank(text) { Map::new().into() } else { syntax(text).map_err(Problems::from)? };
    if !edit::is_blank(text) {
        parse_with(text, &values)?;
    }
    let keys = edit::keys_of(text);
    let mut edited = Edited { text: text.to_owned(), added: vec![], replaced: vec![], kept: vec![] };
    for (name, server) in servers {
        let servers = wanted.pointer("/mcp/servers").and_then(Value::as_object);
        // Names differ in more than their capitals.
        let there = servers.and_then(|servers| servers.keys().find(|other| other.eq_ignore_ascii_case(name)).cloned());
        let spelled = there.clone().unwrap_or_else(|| name.clone());
        match (&there, existing) {
            (Some(_), Existing::Keep) => {
                edited.kept.push(spelled);
                continue;
            }
            (Some(_), Existing::Replace) => edited.replaced.push(spelled.clone()),
            (None, _) => edited.added.push(spelled.clone()),
        }
        let (path, server) = (["mcp", "servers", &spelled], server.written());
        edited.text = edit::set(&edited.text, &path, &server, keys)?;
        *edit::place(&mut wanted, &path)? = server;
    }
    if edited.text == text {
        return Ok(edited);
    }
    let bytes = edited.text.len() as u64;
    if bytes > locate::MOST_BYTES {
        return Err(EditError::TooLong { bytes, most: locate::MOST_BYTES });
    }
    parse_with(&edited.text, &values).map_err(EditError::Refused)?;
    if syntax(&edited.text).map_err(Problems::from)? != wanted {
        // Shown on a screen: what is secret has to be filled in by hand too.
        let all = servers.iter().map(|(name, server)| (name.clone(), server.shown().written()));
        let block = edit::block(&["mcp", "servers"], &all.collect::<Map<_, _>>().into(), keys);
        return Err(EditError::ByHand { block });
    }
    Ok(edited)
}

/// Has a value for everything that a config can name.
struct Lenient<'e>(&'e dyn Fn(&str) -> Option<String>);

impl Lenient<'_> {
    /// Fits whatever it is likely to stand for.
    const VALUE: &'static str = "https://variable.is.not.set";
}

impl Values for Lenient<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.0)(name).or_else(|| Some(Self::VALUE.into()))
    }

    fn has_secret(&self, _: &str, _: Option<&SecretSource>) -> bool {
        true
    }

    fn secret(&self, _: &str, _: Option<&SecretSource>) -> Result<String, SecretError> {
        Ok(Self::VALUE.into())
    }
}
