//! Where everything is in a state directory, and the lock on it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pincer_config::trust;

use crate::InstallError;
use crate::commit::{Recovered, recover};
use crate::stage::sweep;
use crate::target::Kind;

const RECORDS: &str = "installs.json";
const WORK: &str = "installs";
const JOURNAL: &str = "journal.json";
const LOCK: &str = "lock";
const KEPT: &str = "kept";

/// Where everything is in a state directory.
#[derive(Clone, Debug)]
pub(crate) struct Places(PathBuf);

impl Places {
    pub(crate) fn new(state: &Path) -> Self {
        Self(state.to_owned())
    }

    pub(crate) fn state(&self) -> &Path {
        &self.0
    }

    pub(crate) fn target(&self, kind: Kind, id: &str) -> PathBuf {
        self.0.join(kind.folder()).join(id)
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.0.join(RECORDS)
    }

    /// The folder of the stages, the journal and the lock.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.join(WORK)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.work().join(JOURNAL)
    }

    /// The folder of what was changed by hand before it was replaced or removed.
    pub(crate) fn kept(&self) -> PathBuf {
        self.work().join(KEPT)
    }

    fn lock(&self) -> PathBuf {
        self.work().join(LOCK)
    }

    pub(crate) fn make_folder_of(&self, target: &Path) -> Result<(), InstallError> {
        make_private(target.parent().unwrap_or(&self.0))
    }
}

fn make_private(folder: &Path) -> Result<(), InstallError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(InstallError::write(folder))?;
    // Another user who can write there could put something else in place.
    trust(folder)?;
    Ok(())
}

/// The right to change what is installed. Held for moments only, never while a person or a hook is asked.
#[derive(Debug)]
pub(crate) struct Exclusive {
    places: Places,
    lock: File,
}

impl Exclusive {
    /// Waits for other processes, finishes or undoes what a dead one left, and removes its stages.
    pub(crate) fn new(places: &Places) -> Result<Self, InstallError> {
        let exclusive = Self::without_recovery(places)?;
        recover(&exclusive)?;
        sweep(&places.work())?;
        Ok(exclusive)
    }

    pub(crate) fn without_recovery(places: &Places) -> Result<Self, InstallError> {
        make_private(&places.0)?;
        make_private(&places.work())?;
        let path = places.lock();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = opened.map_err(InstallError::write(&path))?;
        lock.lock().map_err(InstallError::write(&path))?;
        Ok(Self { places: places.clone(), lock })
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        // A child that was just started has this file open too until its own program begins, and with it the lock.
        let _ = self.lock.unlock();
    }
}

/// The right to look at what is installed: no folder is moved while it is held.
#[derive(Debug)]
pub struct Reading(Option<File>);

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(lock) = &self.0 {
            let _ = lock.unlock();
        }
    }
}

/// Waits until no process changes what is installed, and finishes or undoes what a dead one left. Every reader of the installed
/// folders does this first: between two steps of an update a plugin that guards something would be missing.
///
/// Makes nothing if nothing was ever installed.
pub fn read_installed(state: &Path) -> Result<(Reading, Option<Recovered>), InstallError> {
    let places = Places::new(state);
    let mut recovered = None;
    loop {
        let lock = match File::open(places.lock()) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Reading(None), recovered)),
            Err(error) => return Err(InstallError::read(places.lock())(error)),
        };
        lock.lock_shared().map_err(InstallError::read(places.lock()))?;
        let reading = Reading(Some(lock));
        if fs::symlink_metadata(places.journal()).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok((reading, recovered));
        }
        drop(reading);
        recovered = recover(&Exclusive::without_recovery(&places)?)?.or(recovered);
    }
}
