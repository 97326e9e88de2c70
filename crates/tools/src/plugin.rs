//! What a plugin brings: tools, hooks and namespaces under one id, registered together and taken back together.

use std::collections::HashSet;
use std::sync::Arc;

use pincer_catalog::{Entry, Source};

use crate::hooks::{Hook, Observer};
use crate::{Namespace, RegisterError, Tool};

/// The longest id.
const MOST_ID: usize = 64;

/// What a plugin brings.
#[derive(Default)]
pub struct Plugin {
    /// Its id, see [`Plugin::is_id`].
    pub id: String,
    /// Its tools. Their ids are `plugin:<id>:<name>`.
    pub tools: Vec<(Entry, Arc<dyn Tool>)>,
    /// Who has a say before calls.
    pub hooks: Vec<Hook>,
    /// Who is told of calls.
    pub observers: Vec<Observer>,
    /// What programs get beside `tools`.
    pub namespaces: Vec<Namespace>,
}

impl Plugin {
    /// A plugin that brings nothing yet.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Whether a text can be the id of a plugin: lower-case letters, digits and single dashes, beginning with a letter.
    pub fn is_id(text: &str) -> bool {
        let letters = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
        letters && begins && !text.ends_with('-') && !text.contains("--") && text.len() <= MOST_ID && text != "core"
    }

    pub(crate) fn check<'n>(
        &self,
        others: impl Iterator<Item = (&'n str, &'n Namespace)>,
    ) -> Result<(), RegisterError> {
        let wrong = |reason: String| RegisterError::Plugin { plugin: self.id.clone(), reason };
        if !Self::is_id(&self.id) {
            let rule = "an id has lower-case letters, digits and single dashes, begins with a letter, is not `core`";
            return Err(wrong(format!("`{}` is not an id: {rule} and has at most {MOST_ID} characters", self.id)));
        }
        for (entry, _) in &self.tools {
            if entry.id.source() != Source::Plugin || entry.id.owner() != self.id {
                return Err(wrong(format!("the tool {} is not its own", entry.id)));
            }
        }
        check_namespaces(&self.id, self.tools.iter().map(|(entry, _)| entry), &self.namespaces, others)
    }
}

/// Whether namespaces can be a plugin's, beside those that are there.
pub(crate) fn check_namespaces<'t, 'n>(
    plugin: &str,
    tools: impl Iterator<Item = &'t Entry>,
    namespaces: &[Namespace],
    others: impl Iterator<Item = (&'n str, &'n Namespace)>,
) -> Result<(), RegisterError> {
    let wrong = |reason: String| RegisterError::Plugin { plugin: plugin.to_owned(), reason };
    let own: HashSet<&str> = tools.map(|entry| entry.id.name()).collect();
    let mut taken: HashSet<String> = HashSet::new();
    for (_, namespace) in others {
        taken.extend([namespace.id.clone(), namespace.global.clone()]);
    }
    for namespace in namespaces {
        namespace.check(&own).map_err(|error| wrong(error.to_string()))?;
        for name in [&namespace.id, &namespace.global].into_iter().collect::<HashSet<_>>() {
            if !taken.insert(name.clone()) {
                return Err(wrong(format!("there is a namespace `{name}` already")));
            }
        }
    }
    Ok(())
}
