//! All workspaces in which calls of this process work, opened when they are needed.
//!
//! Which one a call has is part of its site, which its caller's rights are made of: no tool and no model chooses one.

use std::collections::HashMap;
use std::fmt;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pincer_tools::{Site, ToolError, WorkspaceChoice};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::Workspace;

/// The workspaces besides the usual one that are kept open while no call uses them.
const MOST_IDLE: usize = 64;

type Find = dyn Fn(&WorkspaceChoice, &Path) -> Vec<PathBuf> + Send + Sync;

/// Finds the paths that file tools must not change in a workspace.
#[derive(Clone)]
pub struct Guard(Arc<Find>);

impl Guard {
    /// Guards what `find` returns for a workspace at a path.
    pub fn new(find: impl Fn(&WorkspaceChoice, &Path) -> Vec<PathBuf> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub(crate) fn paths(&self, choice: &WorkspaceChoice, root: &Path) -> Vec<PathBuf> {
        (self.0)(choice, root)
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::new(|_, _| Vec::new())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// An error that makes a workspace unusable.
#[derive(Debug, thiserror::Error)]
#[error("the workspace {} cannot be used: {reason}", path.display())]
pub struct WorkspaceError {
    path: PathBuf,
    #[source]
    reason: io::Error,
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        ToolError::before(error.to_string())
    }
}

/// All workspaces of this process.
pub struct Workspaces {
    usual: Arc<Workspace>,
    guard: Guard,
    hidden: Vec<PathBuf>,
    opened: Mutex<Opened>,
}

#[derive(Default)]
struct Opened {
    /// Two calls in one workspace take turns when they change it, so they must share it for as long as one of them has it.
    all: HashMap<PathBuf, Weak<Workspace>>,
    /// The ones that were used last, the newest at the end.
    kept: Vec<Arc<Workspace>>,
}

impl Workspaces {
    pub(crate) fn new(usual: Arc<Workspace>, guard: Guard, hidden: Vec<PathBuf>) -> Self {
        Self { usual, guard, hidden, opened: Mutex::default() }
    }

    /// Returns the workspace of calls that have none of their own.
    pub fn usual(&self) -> &Arc<Workspace> {
        &self.usual
    }

    /// Returns the workspace of a site.
    pub fn of(&self, site: &Site) -> Result<Arc<Workspace>, WorkspaceError> {
        self.get(&site.workspace)
    }

    /// Returns a workspace, made and opened if it must be.
    pub fn get(&self, choice: &WorkspaceChoice) -> Result<Arc<Workspace>, WorkspaceError> {
        let Some(path) = choice.path() else { return Ok(Arc::clone(&self.usual)) };
        let mut opened = self.lock();
        let known = opened.all.get(&path).and_then(Weak::upgrade).filter(|known| known.is_at(&path));
        let workspace = match known {
            Some(known) => known,
            None => {
                let made = self.open(choice, &path).map_err(|reason| WorkspaceError { path: path.clone(), reason })?;
                let made = Arc::new(made);
                opened.all.retain(|_, known| known.strong_count() > 0);
                opened.all.insert(path, Arc::downgrade(&made));
                made
            }
        };
        opened.kept.retain(|kept| !Arc::ptr_eq(kept, &workspace));
        opened.kept.push(Arc::clone(&workspace));
        if opened.kept.len() > MOST_IDLE {
            opened.kept.remove(0);
        }
        Ok(workspace)
    }

    /// Returns a workspace if it is there. Nothing is made.
    pub fn existing(&self, choice: &WorkspaceChoice) -> Result<Option<Arc<Workspace>>, WorkspaceError> {
        match choice.path() {
            Some(path) if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) => {
                Ok(None)
            }
            _ => self.get(choice).map(Some),
        }
    }

    fn open(&self, choice: &WorkspaceChoice, path: &Path) -> io::Result<Workspace> {
        let file = match choice {
            WorkspaceChoice::Sandbox { root, name } => sandbox(root, name)?,
            WorkspaceChoice::Directory(_) | WorkspaceChoice::Usual => directory(path)?,
        };
        Workspace::of(file, path, &self.guard.paths(choice, path), &self.hidden)
    }

    fn lock(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a directory of the config, and makes it if its parent is there: a missing parent is a typing error, or a disk that is not mounted.
fn directory(path: &Path) -> io::Result<File> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    opened(path, OFlags::empty())
}

/// Opens the directory of a sandboxed session, and makes it for its owner alone. A link in its place would lead to another session's.
fn sandbox(root: &Path, name: &str) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(root)?;
    let root = opened(root, OFlags::empty())?;
    match rustix::fs::mkdirat(&root, name, Mode::RWXU) {
        Err(error) if error != rustix::io::Errno::EXIST => return Err(error.into()),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(&root, name, flags, Mode::empty())?);
    let found = file.metadata()?;
    if found.uid() != rustix::process::getuid().as_raw() {
        let message = "it belongs to another user of this machine: remove it, or set `sandbox.workspaceRoot`";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    if found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o700))?;
    }
    Ok(file)
}

fn opened(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}
