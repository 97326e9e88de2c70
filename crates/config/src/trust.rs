//! Files that decide what Pincer does, and who else could change them.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const ROOT: u32 = 0;
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
/// In such a directory only owners rename and remove files.
const STICKY: u32 = 0o1000;

/// Why a file or directory must not decide anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// Another user owns it.
    #[error("{} belongs to another user (uid {owner}), who could change it: make it your own with `chown`", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// The user.
        owner: u32,
    },
    /// Every user can write it.
    #[error("{0} can be changed by every user of this machine: run `chmod o-w {0}`", path.display())]
    Open {
        /// Which.
        path: PathBuf,
    },
}

/// Fails if another user than this one and root owns what is at a path, or if every user can write it or put something else in its
/// place. Returns a warning if a group can. A missing file is no danger.
pub fn trust(path: &Path) -> Result<Option<String>, Distrust> {
    let Ok(link) = fs::symlink_metadata(path) else { return Ok(None) };
    owned(path, &link)?;
    let Ok(itself) = fs::metadata(path) else { return Ok(None) };
    owned(path, &itself)?;
    if itself.mode() & ALL_WRITE != 0 {
        return Err(Distrust::Open { path: path.to_owned() });
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if fs::metadata(directory).is_ok_and(|about| about.mode() & ALL_WRITE != 0 && about.mode() & STICKY == 0) {
        return Err(Distrust::Open { path: directory.to_owned() });
    }
    let warning = || format!("{0} can be changed by its group: run `chmod g-w {0}`", path.display());
    Ok((itself.mode() & GROUP_WRITES != 0).then(warning))
}

fn owned(path: &Path, about: &Metadata) -> Result<(), Distrust> {
    let owner = about.uid();
    match owner == ROOT || owner == rustix::process::getuid().as_raw() {
        true => Ok(()),
        false => Err(Distrust::Foreign { path: path.to_owned(), owner }),
    }
}
