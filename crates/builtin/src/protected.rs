//! The paths in the workspace that file tools must not change: they decide what may be done here, or git runs them.
//!
//! Where a change happens is decided by the directory that was opened for it, not by the text of a path: names on the way may be
//! links, may not exist yet, and may change in between.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, Metadata, MetadataExt};
use pincer_process::real;

/// The directory that tells git what to run. Its name is compared without case, as some file systems do.
const GITS_OWN: &str = ".git";

/// Configs of ours: one in any directory rules a start there.
const CONFIG: &str = "pincer.json5";

/// Why something must not be changed.
#[derive(Debug, thiserror::Error)]
#[error("it can be read but not changed by this tool: {0}")]
pub(crate) struct Guarded(pub &'static str);

/// Paths that must not be changed.
pub(crate) struct Protected {
    /// The workspace.
    root: PathBuf,
    paths: Vec<PathBuf>,
    /// Paths that must not be read either.
    hidden: Vec<PathBuf>,
}

impl Protected {
    /// Protects these paths. A path that is not there yet is protected under the name that it will have. `root` has no links in it.
    pub(crate) fn new(root: PathBuf, paths: &[PathBuf], hidden: &[PathBuf]) -> Self {
        let real = |paths: &[PathBuf]| paths.iter().filter_map(|path| real(path)).collect();
        Self { root, paths: real(paths), hidden: real(hidden) }
    }

    /// Returns whether an open file must not be read, by whatever name it was opened.
    pub(crate) fn hides(&self, file: &File, found: &Metadata) -> bool {
        let place = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        self.hidden.iter().any(|hidden| place.starts_with(hidden) || is_same(hidden, found))
    }

    /// Returns why a file must not be changed. The path is absolute, and no link leads through it.
    pub(crate) fn complaint(&self, path: &Path) -> Option<Guarded> {
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        if inside.components().any(|part| part.as_os_str().eq_ignore_ascii_case(GITS_OWN)) {
            return Some(Guarded("git runs what stands there"));
        }
        if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(CONFIG)) {
            return Some(Guarded("it decides what may be done here"));
        }
        let decides = self.paths.iter().any(|protected| path.starts_with(protected));
        decides.then_some(Guarded("it decides what may be done here"))
    }

    /// Fails if the entry of an opened directory must not be changed.
    pub(crate) fn check(&self, directory: &Dir, name: &Path) -> io::Result<()> {
        let place = std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        let complaint = self.complaint(&place.join(name)).or_else(|| {
            // It may have another name: in other letters, or through a mount.
            let found = directory.symlink_metadata(name).ok()?;
            self.paths.iter().any(|path| is_same(path, &found)).then_some(Guarded("it decides what may be done here"))
        });
        match complaint {
            Some(guarded) => Err(io::Error::new(io::ErrorKind::PermissionDenied, guarded)),
            None => Ok(()),
        }
    }
}

fn is_same(path: &Path, found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    path.symlink_metadata().is_ok_and(|there| (there.dev(), there.ino()) == (found.dev(), found.ino()))
}
