//! A directory that file tools reach, held by its handle.
//!
//! Every path is walked by the kernel relative to that handle and refused when it would leave it (`openat2` with
//! `RESOLVE_BENEATH`, through `cap-std`). There are no checks on texts of paths that something could slip past between check
//! and use.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use pincer_catalog::nearest;
use pincer_tools::{ReadableFolder, ToolError};
use uuid::Uuid;

use crate::protected::{Guarded, Protected};
use crate::walk::{Walk, WalkOptions};

/// How many entries are looked at to find what was perhaps meant.
const MOST_LOOKED_AT: usize = 5000;

/// The workspace.
pub struct Workspace {
    root: PathBuf,
    dir: Dir,
    /// One change at a time: an edit reads, thinks and writes.
    changing: Mutex<()>,
    /// Paths that may be read but not changed.
    protected: Arc<Protected>,
}

/// The beginning of a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The text.
    pub text: String,
    /// The bytes of the whole file.
    pub size: u64,
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("{path} is an absolute path; paths are relative to the workspace{}", hint(inside))]
    Absolute { path: String, inside: Option<String> },
    #[error("{path} leads out of the workspace, or through a link that does; only files within it can be used")]
    Outside { path: String },
    #[error("{path} leads out of its folder, or through a link that does; only files within it can be read")]
    OutsideFolder { path: String },
    #[error("{path} does not exist{}", meant(near))]
    Missing { path: String, near: Vec<String> },
    #[error("{path} leads up again from {missing}, which does not exist: name the file by its shortest path")]
    NoWayUp { path: String, missing: String },
    #[error("{path} is {kind}, not a file")]
    NotAFile { path: String, kind: &'static str },
    #[error("{path} is not a directory")]
    NotADirectory { path: String },
    #[error("{path} can be read but not changed by this tool: {why}")]
    Protected { path: String, why: &'static str },
    #[error("{path} holds secrets of Pincer, which tools do not read")]
    Hidden { path: String },
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
    protected: Arc<Protected>,
    /// The path from the workspace, without links.
    pub path: PathBuf,
    pub existing: Option<Metadata>,
}

impl Workspace {
    /// Opens a directory as the workspace. Of `protected`, what lies in it can be read but not changed; of `hidden`, not read either.
    pub fn open(root: &Path, protected: &[PathBuf], hidden: &[PathBuf]) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        Self::of(dir.into_std_file(), root, protected, hidden)
    }

    /// Takes an open directory, which is at `root`.
    pub(crate) fn of(dir: std::fs::File, root: &Path, protected: &[PathBuf], hidden: &[PathBuf]) -> io::Result<Self> {
        let dir = Dir::from_std_file(dir);
        let root = root.canonicalize()?;
        let protected = Arc::new(Protected::new(root.clone(), protected, hidden));
        Ok(Self { root, dir, changing: Mutex::new(()), protected })
    }

    /// Returns whether the directory is still the one at this path.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        use cap_std::fs::MetadataExt as _;
        use std::os::unix::fs::MetadataExt as _;
        match (path.metadata(), self.dir.dir_metadata()) {
            (Ok(there), Ok(own)) => (there.dev(), there.ino()) == (own.dev(), own.ino()),
            _ => false,
        }
    }

    /// Returns a handle of the directory. It leads to everything beneath, and nowhere else.
    pub fn handle(&self) -> io::Result<Dir> {
        self.dir.try_clone()
    }

    /// Reads the beginning of a text file, at most so many bytes. Returns `None` if there is no such file.
    pub fn beginning(&self, path: &str, most: usize) -> io::Result<Option<Beginning>> {
        let (file, metadata) = match self.open_file(path) {
            Ok(opened) => opened,
            Err(PathError::Missing { .. } | PathError::NotADirectory { .. }) => return Ok(None),
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut bytes = Vec::new();
        file.take(most as u64).read_to_end(&mut bytes)?;
        // The last character may be cut in its middle: it is left out then, and only then.
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            bytes.truncate(error.valid_up_to());
        }
        Ok(Some(Beginning { text: String::from_utf8_lossy(&bytes).into_owned(), size: metadata.len() }))
    }

    /// Opens a regular file of a folder that may be read besides the workspace. `path` is its name for people.
    pub(crate) fn open_beside(
        &self,
        folder: &ReadableFolder,
        inside: &Path,
        path: &str,
    ) -> Result<(File, Metadata), PathError> {
        let opened = Dir::open_ambient_dir(&folder.root, ambient_authority())
            .and_then(|root| root.open_dir(&folder.folder))
            .and_then(|dir| open_regular(&dir, inside));
        let path = || path.to_owned();
        let (file, metadata) =
            opened.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(Irregular(kind)) => PathError::NotAFile { path: path(), kind },
                None if error.kind() == io::ErrorKind::NotFound => {
                    PathError::Missing { path: path(), near: Vec::new() }
                }
                None if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() => {
                    PathError::OutsideFolder { path: path() }
                }
                None => PathError::Io { path: path(), error },
            })?;
        match self.protected.hides(&file, &metadata) {
            true => Err(PathError::Hidden { path: path() }),
            false => Ok((file, metadata)),
        }
    }

    /// Finds out where a path leads, as far as it exists: links are followed. Names that do not exist yet are to be made, and
    /// nothing leads back up from them.
    fn resolved(&self, path: &str, given: &Path) -> Result<PathBuf, PathError> {
        let mut real = PathBuf::from(".");
        let mut parts = given.components();
        while let Some(part) = parts.next() {
            let next = real.join(part);
            match self.dir.canonicalize(&next) {
                Ok(found) => real = found,
                // A link that leads nowhere is there all the same.
                Err(error) if error.kind() != io::ErrorKind::NotFound || self.dir.symlink_metadata(&next).is_ok() => {
                    return Err(self.because(path, error));
                }
                Err(_) => {
                    let rest = parts.as_path();
                    if !rest.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
                        return Err(PathError::NoWayUp { path: path.into(), missing: shown(&next) });
                    }
                    real = next.join(rest);
                    break;
                }
            }
        }
        Ok(real.components().filter(|part| !matches!(part, Component::CurDir)).collect())
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
        let (file, metadata) = open_regular(&self.dir, &relative).map_err(|error| {
            match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(Irregular(kind)) => PathError::NotAFile { path: path.into(), kind },
                None => self.because(path, error),
            }
        })?;
        if self.protected.hides(&file, &metadata) {
            return Err(PathError::Hidden { path: path.into() });
        }
        Ok((file, metadata))
    }

    /// Opens a directory.
    pub(crate) fn open_dir(&self, path: &str) -> Result<Dir, PathError> {
        let relative = self.relative(path)?;
        self.dir.open_dir(&relative).map_err(|error| self.because(path, error))
    }

    /// Finds out where a file is to be written. Links within the workspace are followed, so that they stay links. Whether it may
    /// be changed is decided again at the moment of the change.
    pub(crate) fn target(&self, path: &str) -> Result<Target, PathError> {
        let given = self.relative(path)?;
        let of = |error| self.because(path, error);
        let path_now = self.resolved(path, &given)?;
        if let Some(Guarded(why)) = self.protected.complaint(&self.root.join(&path_now)) {
            return Err(PathError::Protected { path: path.into(), why });
        }
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
        Ok(Target { workspace, protected: Arc::clone(&self.protected), path: path_now, existing })
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
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
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

    pub(crate) fn remove(&self) -> io::Result<()> {
        let (parent, name) = self.parent(false)?;
        parent.remove_file(name)
    }

    /// The directory it is in, by a handle, and its name there, if that may be changed.
    fn parent(&self, make: bool) -> io::Result<(Dir, &Path)> {
        let name = self.path.file_name().map(Path::new).ok_or(io::ErrorKind::IsADirectory)?;
        let mut directory = self.workspace.try_clone()?;
        for part in self.path.parent().into_iter().flat_map(Path::components) {
            let part = Path::new(part.as_os_str());
            directory = match directory.open_dir(part) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    self.protected.check(&directory, part)?;
                    match directory.create_dir(part) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => directory.open_dir(part)?,
                    }
                }
                opened => opened?,
            };
        }
        self.protected.check(&directory, name)?;
        match directory.symlink_metadata(name) {
            Ok(there) if there.permissions().readonly() && !there.is_symlink() => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"))
            }
            _ => Ok((directory, name)),
        }
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
