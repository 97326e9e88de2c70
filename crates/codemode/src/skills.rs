//! The skills of an agent's run, as its programs see them: the global `skills`.

use std::error::Error;
use std::sync::Arc;

use pincer_sandbox::{Global, Library};
use serde::Serialize;

use crate::scope::RunScope;
use crate::tools::RunTools;

/// The global that programs of an agent's run have for its skills.
pub(crate) const GLOBAL: &str = "skills";
/// The methods behind it.
pub(crate) const LIST: &str = "skills.list";
pub(crate) const READ: &str = "skills.read";

/// The skills of an agent's run. They change nothing about the rights of a program.
pub trait SkillTexts: Send + Sync {
    /// Returns all of them, in their order.
    fn list(&self) -> Vec<SkillEntry>;
    /// Returns the text of a skill. It may read a file.
    fn read(&self, name: &str) -> Result<String, SkillError>;
}

/// A skill without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillEntry {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// Where its file is, for the tool `read`.
    pub location: String,
}

/// An error while a program reads a skill.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// There is none of that name.
    #[error("there is no skill `{name}`: skills.list() tells which there are")]
    Unknown {
        /// The name.
        name: String,
    },
    /// Its file is gone.
    #[error("the file of the skill `{name}` is not there any more")]
    Gone {
        /// The name.
        name: String,
    },
    /// Its file cannot be read.
    #[error("the file of the skill `{name}` cannot be used: {source}")]
    Unreadable {
        /// The name.
        name: String,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// The globals that a program of a scope takes while it runs: tools, and the skills if it is an agent's.
struct Globals {
    tools: Arc<RunTools>,
    has_skills: bool,
}

impl Library for Globals {
    fn global(&self, name: &str) -> Option<Global> {
        match name {
            GLOBAL => self.has_skills.then(|| {
                let call = |name: &str, method: &str| (name.to_owned(), Global::Call(method.to_owned()));
                Global::Object(vec![call("list", LIST), call("read", READ)])
            }),
            _ => self.tools.global(name),
        }
    }

    fn file(&self, path: &str) -> Option<Arc<str>> {
        self.tools.file(path)
    }
}

impl RunScope {
    /// Returns what programs of this scope take while they run.
    pub(crate) fn library(&self) -> Arc<dyn Library> {
        Arc::new(Globals { tools: Arc::clone(&self.tools), has_skills: self.skills.is_some() })
    }

    /// Returns the names of a program's globals.
    pub(crate) fn globals(&self) -> impl Iterator<Item = &str> {
        self.tools.globals().chain(self.skills.is_some().then_some(GLOBAL))
    }
}
