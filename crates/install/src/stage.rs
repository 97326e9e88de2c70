//! The folder in which something is made ready. It lies in the state directory, so that moving it in place is one step.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::InstallError;
use crate::records::UNFINISHED;

const PREFIX: &str = "stage-";
const LOCK: &str = "lock";
const CONTENT: &str = "content";
const OLD: &str = "old";

/// A folder for one installation. It is removed when it is dropped, or by the next command if the process dies.
#[derive(Debug)]
pub(crate) struct Stage {
    folder: PathBuf,
    /// Held while the process lives. The system takes it back, whatever ends the process.
    _alive: File,
    keep: bool,
}

impl Stage {
    /// Makes a stage in the folder of all stages. The caller holds the lock of that folder, so that no sweep takes it for a dead one.
    pub(crate) fn new(stages: &Path) -> Result<Self, InstallError> {
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(stages);
        let folder = made.map_err(InstallError::write(stages))?.keep();
        let alive = lock_file(&folder).and_then(|alive| alive.try_lock().map_err(io::Error::from).map(|()| alive));
        let content = DirBuilder::new().mode(0o700).create(folder.join(CONTENT));
        match content.and(alive) {
            Ok(alive) => Ok(Self { folder, _alive: alive, keep: false }),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(InstallError::write(folder)(error))
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that entries are written into.
    pub(crate) fn content(&self) -> PathBuf {
        self.folder.join(CONTENT)
    }

    /// Returns the place for the old folder.
    pub(crate) fn old(&self) -> PathBuf {
        self.folder.join(OLD)
    }

    /// Leaves the folder as it is when this is dropped: an unfinished commit needs it.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.keep {
            // The next command sweeps the rest.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn lock_file(folder: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK))
}

/// Removes the stages of processes that are dead. The caller holds the lock of the folder of all stages.
pub(crate) fn sweep(stages: &Path) -> Result<(), InstallError> {
    for entry in fs::read_dir(stages).map_err(InstallError::read(stages))? {
        let folder = entry.map_err(InstallError::read(stages))?.path();
        let begins =
            |prefix| folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix));
        if begins(UNFINISHED) {
            let _ = fs::remove_file(&folder);
        }
        if begins(PREFIX) && lock_file(&folder).is_ok_and(|lock| lock.try_lock().is_ok()) {
            // No command needs the folder: the next one tries again.
            let _ = fs::remove_dir_all(&folder);
        }
    }
    Ok(())
}

/// Writes everything in a folder to the disk.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(folder)?)?;
    #[cfg(not(target_os = "linux"))]
    sync_each(folder)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn sync_each(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_each(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    sync_names(folder)
}

/// Writes the names in a folder to the disk, not what they stand for.
pub(crate) fn sync_names(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
