//! The site of a call: the directories and variables that its caller has.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The directories and variables of a call. They belong to the rights of its caller: nothing that a model says changes them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// The workspace.
    pub workspace: WorkspaceChoice,
    /// Folders outside the workspace that may be read.
    pub readable: Vec<ReadableFolder>,
    /// Variables that commands get. Their values are secrets.
    pub environment: BTreeMap<String, String>,
}

/// The workspace of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum WorkspaceChoice {
    /// The one of all calls that have none of their own.
    #[default]
    Usual,
    /// This directory. It is made if only its last part is missing.
    Directory(PathBuf),
    /// A directory for one sandboxed session, made on demand. Commands cannot write outside it.
    Sandbox {
        /// The directory in which it is made.
        root: PathBuf,
        /// Its name there: one part of a path.
        name: String,
    },
}

/// A folder that may be read. It is opened through `root`, so that no link leads out of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadableFolder {
    /// A directory that only the operator chooses.
    pub root: PathBuf,
    /// The folder, seen from there.
    pub folder: PathBuf,
}

impl WorkspaceChoice {
    /// Returns the path of a workspace other than the usual one.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Usual => None,
            Self::Directory(path) => Some(path.clone()),
            Self::Sandbox { root, name } => Some(root.join(name)),
        }
    }
}

impl ReadableFolder {
    /// Returns the whole path of the folder.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.folder)
    }

    /// Returns the part of `path` behind the folder, if it lies in there by its text.
    pub fn inside<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(self.path()).ok().filter(|inside| !inside.as_os_str().is_empty())
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workspace, readable, environment } = self;
        let names: Vec<&String> = environment.keys().collect();
        f.debug_struct("Site")
            .field("workspace", workspace)
            .field("readable", readable)
            .field("environment", &names)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_not_shown() {
        let environment = BTreeMap::from([("TOKEN".to_owned(), "hunter22".to_owned())]);
        let shown = format!("{:?}", Site { environment, ..Site::default() });
        assert!(shown.contains("TOKEN") && !shown.contains("hunter22"), "{shown}");
    }
}
