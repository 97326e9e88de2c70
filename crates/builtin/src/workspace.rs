//! The one directory that file tools reach, held by its handle.
//!
//! Every path is walked by the kernel relative to that handle and refused when it would leave it (`openat2` with
//! `RESOLVE_BENEATH`, through `cap-std`). There are no checks on texts of paths that something could slip past between check
//! and use.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use pincer_catalog::nearest;
use pincer_tools::ToolError;
use uuid::Uuid;

use crate::walk::{Walk, WalkOptions};

/// How many entries are looked at to find what was perhaps meant.
const MOST_LOOKED_AT: usize = 5000;

/// The workspace.
pub struct Workspace {
    root: PathBuf,
    dir: Dir,
    /// One change at a time: an edit reads, thinks and writes.
    changing: Mutex<()>,
    /// What may be read but not changed: absolute paths, links followed.
    protected: Vec<PathBuf>,
}

/// What git keeps here says what it runs. Compared without case: some file systems do so too.
const GITS_OWN: &str = ".git";

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("{path} is an absolute path; paths are relative to the workspace{}", hint(inside))]
    Absolute { path: String, inside: Option<String> },
    #[error("{path} leads out of the workspace, or through a link that does; only files within it can be used")]
    Outside { path: String },
    #[error("{path} does not exist{}", meant(near))]
    Missing { path: String, near: Vec<String> },
    #[error("{path} is {kind}, not a file")]
    NotAFile { path: String, kind: &'static str },
    #[error("{path} is not a directory")]
    NotADirectory { path: String },
    #[error("{path} can be read but not changed by this tool: {why}")]
    Protected { path: String, why: &'static str },
    #[error("{path} is read-only")]
    ReadOnly { path: String },
    #[error("`{path}` is not a path: it is empty or has a NUL in it")]
    Unusable { path: String },
    #[error("{path}: {error}")]
    Io { path: String, error: io::Error },
}

fn hint(inside: &Option<String>) -> String {
    inside.as_ref().map(|inside| format!(": use {inside}")).unwrap_or_default()
}

fn meant(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        ToolError::before(error.to_string())
    }
}

/// A file to be written, and what it is now.
pub(crate) struct Target {
    workspace: Dir,
    /// The path from the workspace, links followed.
    pub path: PathBuf,
    pub existing: Option<Metadata>,
}

impl Workspace {
    /// Opens a directory as the workspace. Of `protected`, what lies in it can be read but not changed.
    pub fn open(root: &Path, protected: &[PathBuf]) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        // What is not there yet is protected under the name it will have.
        let real = |path: &PathBuf| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
        let protected = protected.iter().filter_map(real).collect();
        Ok(Self { root: root.canonicalize()?, dir, changing: Mutex::new(()), protected })
    }

    /// Refuses paths that must not be changed, whatever links lead to them.
    fn check_protected(&self, path: &str, relative: &Path) -> Result<(), PathError> {
        let mut existing = relative;
        let resolved = loop {
            match self.dir.canonicalize(existing) {
                Ok(resolved) => break resolved.join(relative.strip_prefix(existing).unwrap_or(Path::new(""))),
                Err(_) => match existing.parent() {
                    Some(parent) => existing = parent,
                    None => break relative.to_owned(),
                },
            }
        };
        let gits = |path: &Path| path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(GITS_OWN));
        if gits(&resolved) || gits(relative) {
            return Err(PathError::Protected { path: path.into(), why: "git runs what stands there" });
        }
        let absolute = self.root.join(resolved);
        if self.protected.iter().any(|protected| absolute.starts_with(protected)) {
            return Err(PathError::Protected { path: path.into(), why: "it decides what may be done here" });
        }
        Ok(())
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Held while something is read, changed and written.
    pub(crate) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A path as it was given, as far as its text can be judged. Where it leads is for the kernel to say.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, PathError> {
        if path.is_empty() || path.contains('\0') {
            return Err(PathError::Unusable { path: path.replace('\0', "\\0") });
        }
        let given = Path::new(path);
        if given.is_absolute() {
            let inside = given.strip_prefix(&self.root).ok().map(|inside| inside.display().to_string());
            return Err(PathError::Absolute { path: path.into(), inside: inside.filter(|inside| !inside.is_empty()) });
        }
        Ok(given.to_owned())
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &str) -> Result<(File, Metadata), PathError> {
        let relative = self.relative(path)?;
        open_regular(&self.dir, &relative).map_err(|error| {
            match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(Irregular(kind)) => PathError::NotAFile { path: path.into(), kind },
                None => self.because(path, error),
            }
        })
    }

    /// Opens a directory.
    pub(crate) fn open_dir(&self, path: &str) -> Result<Dir, PathError> {
        let relative = self.relative(path)?;
        self.dir.open_dir(&relative).map_err(|error| self.because(path, error))
    }

    /// Finds out where a file is to be written. Links within the workspace are followed, so that they stay links.
    pub(crate) fn target(&self, path: &str) -> Result<Target, PathError> {
        let given = self.relative(path)?;
        let of = |error| self.because(path, error);
        let links = match self.dir.symlink_metadata(&given) {
            Ok(metadata) if metadata.is_symlink() => true,
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(of(error)),
        };
        let path_now = if links { self.dir.canonicalize(&given).map_err(of)? } else { given };
        self.check_protected(path, &path_now)?;
        if path_now.file_name().is_none() {
            return Err(PathError::NotAFile { path: path.into(), kind: "a directory" });
        }
        let existing = match self.dir.symlink_metadata(&path_now) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(PathError::NotAFile { path: path.into(), kind: kind(&metadata) });
            }
            Ok(metadata) if metadata.permissions().readonly() => return Err(PathError::ReadOnly { path: path.into() }),
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(of(error)),
        };
        let workspace = self.dir.try_clone().map_err(of)?;
        Ok(Target { workspace, path: path_now, existing })
    }

    /// Says what an error of the system means for a path.
    pub(crate) fn because(&self, path: &str, error: io::Error) -> PathError {
        let path = path.to_owned();
        match error.kind() {
            // `cap-std` says so in its own words; the system's own refusals have a number.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => PathError::Outside { path },
            io::ErrorKind::NotFound => {
                let near = self.near(&path);
                PathError::Missing { path, near }
            }
            io::ErrorKind::NotADirectory => PathError::NotADirectory { path },
            io::ErrorKind::IsADirectory => PathError::NotAFile { path, kind: "a directory" },
            _ => PathError::Io { path, error },
        }
    }

    /// Files whose path or name is spelt like what was asked for.
    fn near(&self, asked: &str) -> Vec<String> {
        const MOST: usize = 2;
        let options = WalkOptions { most: MOST_LOOKED_AT, ..WalkOptions::default() };
        let Ok(walk) = Walk::new(&self.dir, options) else { return Vec::new() };
        let paths: Vec<String> = walk.filter(|found| found.is_file).map(|found| found.path).collect();
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let by_path = nearest(asked, paths.iter().map(|path| (path.clone(), path.clone())), MOST);
        if !by_path.is_empty() {
            return by_path;
        }
        nearest(&name(asked), paths.iter().map(|path| (name(path), path.clone())), MOST)
    }
}

/// Something that is no regular file.
#[derive(Debug, thiserror::Error)]
#[error("it is {0}")]
struct Irregular(&'static str);

/// Opens a regular file for reading, and nothing else: not to hang on a pipe that nobody writes to.
pub(crate) fn open_regular(dir: &Dir, path: &Path) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = dir.open_with(path, &options)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata)),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, Irregular(kind(&metadata)))),
    }
}

impl Target {
    /// Puts `bytes` in place at once: whoever reads the file sees the old or the new one, and other names of the old one (hard
    /// links) keep what they have. Permissions stay. Directories on the way are made.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(true)?;
        let temporary = PathBuf::from(format!(".pincer-{}.tmp", Uuid::now_v7().simple()));
        let written = self.fill(&parent, &temporary, bytes).and_then(|()| parent.rename(&temporary, &parent, name));
        if written.is_err() {
            let _ = parent.remove_file(&temporary);
        }
        written
    }

    fn fill(&self, parent: &Dir, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = parent.open_with(temporary, options.write(true).create_new(true))?;
        file.write_all(bytes)?;
        if let Some(existing) = &self.existing {
            file.set_permissions(Permissions::from_mode(existing.permissions().mode()))?;
        }
        file.sync_all()
    }

    pub fn remove(&self) -> io::Result<()> {
        let (parent, name) = self.parent(false)?;
        parent.remove_file(name)
    }

    /// The directory it is in, by a handle, and its name there.
    fn parent(&self, make: bool) -> io::Result<(Dir, &Path)> {
        let name = self.path.file_name().map(Path::new).ok_or(io::ErrorKind::IsADirectory)?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if make {
            self.workspace.create_dir_all(parent)?;
        }
        Ok((self.workspace.open_dir(parent)?, name))
    }
}

fn kind(metadata: &Metadata) -> &'static str {
    match () {
        () if metadata.is_dir() => "a directory",
        () if metadata.is_symlink() => "a link",
        () => "a special file (a pipe, socket or device)",
    }
}

/// A path for people and models: `/` between the parts, no `.` in it.
pub(crate) fn shown(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    if parts.is_empty() { ".".into() } else { parts.join("/") }
}
