//! The moment in which what is staged takes its place, as steps that a later process can finish or undo.
//!
//! The journal says what is about to happen. It is written before anything is moved and removed when all is done, so a process that
//! finds one knows that another died in between. The folders tell how far it came: a name is there or not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::InstallError;
use crate::places::{Exclusive, Places};
use crate::records::{Record, Records, write_whole};
use crate::stage::{Stage, sync_names};
use crate::target::Kind;

/// A change of one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub(crate) enum Change {
    /// `new` takes the place of the target. The old folder is put aside.
    Put {
        /// The record of what is put.
        record: Record,
        /// The folder in the stage, as seen from the work folder: a state directory may be moved before a journal is read.
        new: PathBuf,
        /// The place for the old folder, seen from there too.
        old: PathBuf,
    },
    /// The target is taken away.
    Remove {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
        /// The place for the old folder.
        old: PathBuf,
    },
}

impl Change {
    fn target(&self, places: &Places) -> PathBuf {
        match self {
            Self::Put { record, .. } => places.target(record.kind, &record.id),
            Self::Remove { kind, id, .. } => places.target(*kind, id),
        }
    }

    pub(crate) fn old(&self, places: &Places) -> PathBuf {
        match self {
            Self::Put { old, .. } | Self::Remove { old, .. } => places.work().join(old),
        }
    }
}

/// A step of a commit. Each can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Journal,
    MoveOldAside,
    MoveNewIn,
    Record,
    ForgetJournal,
}

const STEPS: [Step; 5] = [Step::Journal, Step::MoveOldAside, Step::MoveNewIn, Step::Record, Step::ForgetJournal];

/// Makes a change. If a step fails, the change is undone or finished, and what cannot be done now is done by the next command.
pub(crate) fn commit(lock: &Exclusive, stage: &mut Stage, change: &Change) -> Result<(), InstallError> {
    let done = STEPS.iter().try_for_each(|step| apply(lock.places(), change, *step));
    if let Err(failure) = done {
        match recover(lock) {
            Ok(Some(Recovered::Finished)) => return Ok(()),
            Ok(_) => {}
            // The journal is still there: the stage has to be there too.
            Err(_) => stage.keep(),
        }
        return Err(failure);
    }
    Ok(())
}

fn apply(places: &Places, change: &Change, step: Step) -> Result<(), InstallError> {
    let target = change.target(places);
    match (step, change) {
        (Step::Journal, _) => {
            places.make_folder_of(&target)?;
            write_whole(&places.journal(), &places.work(), change)
        }
        (Step::MoveOldAside, _) => match is_there(&target)? {
            true => {
                let old = change.old(places);
                places.make_folder_of(&old)?;
                shift(&target, &old)
            }
            false => Ok(()),
        },
        (Step::MoveNewIn, Change::Put { new, .. }) => shift(&places.work().join(new), &target),
        (Step::MoveNewIn, Change::Remove { .. }) => Ok(()),
        (Step::Record, _) => {
            let mut records = Records::read(&places.records())?;
            match change {
                Change::Put { record, .. } => records.put(record.clone()),
                Change::Remove { kind, id, .. } => records.take(*kind, id),
            }
            records.write(&places.records(), &places.work())
        }
        (Step::ForgetJournal, _) => {
            let journal = places.journal();
            fs::remove_file(&journal).map_err(InstallError::write(&journal))?;
            sync_names(journal.parent().unwrap_or(Path::new("."))).map_err(InstallError::write(journal))
        }
    }
}

fn is_there(path: &Path) -> Result<bool, InstallError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(InstallError::read(path)(error)),
    }
}

/// Renames a folder, and sees that this is on the disk before the next step.
fn shift(from: &Path, to: &Path) -> Result<(), InstallError> {
    fs::rename(from, to).map_err(InstallError::write(to))?;
    for path in [from, to] {
        sync_names(path.parent().unwrap_or(Path::new("."))).map_err(InstallError::write(path))?;
    }
    Ok(())
}

/// The outcome of a change that a process left unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// The change was finished.
    Finished,
    /// The change was undone.
    Undone,
}

/// Finishes or undoes the change that a dead process left, if there is one.
pub(crate) fn recover(lock: &Exclusive) -> Result<Option<Recovered>, InstallError> {
    let places = lock.places();
    let journal = places.journal();
    let text = match fs::read(&journal) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(InstallError::read(journal)(error)),
    };
    let change: Change =
        serde_json::from_slice(&text).map_err(|reason| InstallError::Damaged { path: journal, reason })?;
    let target = change.target(places);
    let old = change.old(places);
    let (moved_aside, there) = (is_there(&old)?, is_there(&target)?);
    let finish = match &change {
        // The new folder has left the stage, so it is in its place.
        Change::Put { new, .. } => there && !is_there(&places.work().join(new))?,
        Change::Remove { .. } => !there,
    };
    if finish {
        apply(places, &change, Step::Record)?;
    } else if moved_aside && !there {
        shift(&old, &target)?;
    }
    apply(places, &change, Step::ForgetJournal)?;
    Ok(Some(if finish { Recovered::Finished } else { Recovered::Undone }))
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
