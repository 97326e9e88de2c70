//! What a plugin brings: tools, hooks and namespaces under one id, registered together and taken back together.

use std::collections::HashSet;
use std::sync::Arc;

use pincer_catalog::{Entry, Source, ToolId};

use crate::hooks::{Hook, Observer, PersistHook, Registration};
use crate::{Namespace, NamespaceError, RegisterError, Tool};

/// The longest id.
const MOST_ID: usize = 64;

/// What a plugin brings.
#[derive(Default)]
pub struct Plugin {
    /// Its id, see [`Plugin::is_id`].
    pub id: String,
    /// Its tools. Their ids are `plugin:<id>:<name>`.
    pub tools: Vec<(Entry, Arc<dyn Tool>)>,
    /// The hooks that have a say before calls.
    pub hooks: Vec<Hook>,
    /// The observers that are told of calls.
    pub observers: Vec<Observer>,
    /// The hooks that change results before they are stored.
    pub persisting: Vec<PersistHook>,
    /// All other hooks.
    pub others: Vec<Registration>,
    /// What programs get beside `tools`.
    pub namespaces: Vec<Namespace>,
}

/// The reason why what a plugin brings cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// It cannot be called that.
    #[error(
        "`{0}` is not an id: an id has lower-case letters, digits and single dashes, begins with a letter, is not `core` and \
         has at most {MOST_ID} characters"
    )]
    Id(String),
    /// A tool has the id of another owner.
    #[error("the tool {0} is not its own")]
    ForeignTool(ToolId),
    /// A namespace is wrong.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A namespace has the name of another one.
    #[error("there is a namespace `{0}` already")]
    NamespaceTaken(String),
}

impl Plugin {
    /// Returns a plugin that brings nothing yet.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Returns whether a text can be the id of a plugin: lower-case letters, digits and single dashes, beginning with a letter.
    pub fn is_id(text: &str) -> bool {
        let letters = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
        letters && begins && !text.ends_with('-') && !text.contains("--") && text.len() <= MOST_ID && text != "core"
    }

    pub(crate) fn check<'n>(
        &self,
        others: impl Iterator<Item = (&'n str, &'n Namespace)>,
    ) -> Result<(), RegisterError> {
        let wrong = |source: PluginError| RegisterError::Plugin { plugin: self.id.clone(), source };
        if !Self::is_id(&self.id) {
            return Err(wrong(PluginError::Id(self.id.clone())));
        }
        for (entry, _) in &self.tools {
            if entry.id.source() != Source::Plugin || entry.id.owner() != self.id {
                return Err(wrong(PluginError::ForeignTool(entry.id.clone())));
            }
        }
        check_namespaces(&self.id, self.tools.iter().map(|(entry, _)| entry), &self.namespaces, others)
    }
}

/// Checks that namespaces can be a plugin's, beside those that are there.
pub(crate) fn check_namespaces<'t, 'n>(
    plugin: &str,
    tools: impl Iterator<Item = &'t Entry>,
    namespaces: &[Namespace],
    others: impl Iterator<Item = (&'n str, &'n Namespace)>,
) -> Result<(), RegisterError> {
    let wrong = |source: PluginError| RegisterError::Plugin { plugin: plugin.to_owned(), source };
    let own: HashSet<&str> = tools.map(|entry| entry.id.name()).collect();
    let mut taken: HashSet<String> = HashSet::new();
    for (_, namespace) in others {
        taken.extend([namespace.id.clone(), namespace.global.clone()]);
    }
    for namespace in namespaces {
        namespace.check(&own).map_err(|error| wrong(error.into()))?;
        for name in [&namespace.id, &namespace.global].into_iter().collect::<HashSet<_>>() {
            if !taken.insert(name.clone()) {
                return Err(wrong(PluginError::NamespaceTaken(name.clone())));
            }
        }
    }
    Ok(())
}
