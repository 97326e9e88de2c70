//! The directory that file tools and commands work in.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pincer_config::Loaded;
use pincer_process::{holds, real};
use pincer_tools::WorkspaceChoice;

use crate::user_directories::user_directory;

/// Returns the workspace: as the config says, seen from where the config is; otherwise the current directory. A directory that has the
/// user's home in it is the workspace only if the config says so, or lies there: clients start us in one without a thought. Then it
/// is a directory of our own.
pub fn workspace(loaded: &Loaded) -> PathBuf {
    let file = loaded.file.as_deref();
    match loaded.parsed.config.workspace.as_deref() {
        Some(said) => beside(file, said),
        None if is_accidental(file) => own().unwrap_or_else(|| PathBuf::from(".")),
        None => PathBuf::from("."),
    }
}

/// Returns whether files can be written to a workspace, as far as permissions say. One that is made on demand is judged by the directory
/// that it is made in.
pub(crate) fn may_write(choice: &WorkspaceChoice, usual: &Path) -> bool {
    let own = choice.path();
    let mut places = own.as_deref().unwrap_or(usual).ancestors();
    let made = match choice {
        WorkspaceChoice::Usual => 0,
        WorkspaceChoice::Directory(_) => 1,
        WorkspaceChoice::Sandbox { .. } => usize::MAX,
    };
    let is_missing = |path: &&Path| path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let nearest = places.by_ref().enumerate().find(|(above, path)| *above >= made || !is_missing(path));
    let found = nearest.and_then(|(_, path)| path.metadata().ok());
    found.is_some_and(|found| found.is_dir() && !found.permissions().readonly())
}

/// Makes the directory of our own if it is the workspace. Without a home there is none.
pub(crate) fn prepare(workspace: &Path, loaded: &Loaded) -> io::Result<()> {
    if loaded.parsed.config.workspace.is_some() || !is_accidental(loaded.file.as_deref()) {
        return Ok(());
    }
    match own() {
        Some(_) => DirBuilder::new().recursive(true).mode(0o700).create(workspace),
        None => Err(io::Error::other("there is no home directory, and this one is no place for it: set `workspace`")),
    }
}

/// Returns a sentence for a person who may expect another workspace.
pub(crate) fn moved_workspace(loaded: &Loaded) -> Option<String> {
    let is_moved = loaded.parsed.config.workspace.is_none() && is_accidental(loaded.file.as_deref());
    is_moved.then(|| {
        let workspace = workspace(loaded);
        format!(
            "file tools and commands work in {}, not in this directory: set `workspace` to choose",
            workspace.display()
        )
    })
}

/// Returns a path of the config, seen from where the config is.
pub(crate) fn beside(file: Option<&Path>, path: &str) -> PathBuf {
    match file.and_then(Path::parent) {
        Some(directory) => directory.join(path),
        None => PathBuf::from(path),
    }
}

fn own() -> Option<PathBuf> {
    Some(user_directory("XDG_DATA_HOME", ".local/share")?.join("workspace"))
}

fn is_accidental(file: Option<&Path>) -> bool {
    let here = Path::new(".");
    let beside = file.and_then(Path::parent).map(|directory| here.join(directory));
    let is_meant = beside.is_some_and(|directory| real(&directory) == real(here));
    let is_root = real(here).is_some_and(|here| here.parent().is_none());
    !is_meant && (is_root || std::env::home_dir().is_some_and(|home| holds(here, &home)))
}
