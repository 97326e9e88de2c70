//! The things that are installed in a state directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::InstallError;
use crate::contents::Contents;
use crate::digest::{Digest, Tree, digest};
use crate::limits::Limits;
use crate::places::{Exclusive, Places, read_installed};
use crate::records::{Record, Records};
use crate::source::{self, unpack};
use crate::stage::Stage;
use crate::steps::{Case, Removal, Staged, absolute};
use crate::target::{Kind, Request};

/// The present content of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    Nothing,
    Installed { record: Record, files: Files },
}

/// The files of something that was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// They were removed by hand.
    Missing,
    /// They are no tree that could be installed: there is a link among them, or too many.
    Unreadable,
    /// Their digest.
    There(Digest),
}

impl Present {
    /// Returns whether there are files that are not those that were installed.
    pub(crate) fn has_changed_files(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Installed { files: Files::Missing, .. } => false,
            Self::Installed { files: Files::Unreadable, .. } => true,
            Self::Installed { record, files: Files::There(digest) } => *digest != record.digest,
        }
    }
}

/// The things that are installed in a state directory.
#[derive(Clone, Debug)]
pub struct Installs {
    places: Places,
    limits: Limits,
    stages: Stages,
}

/// Where things are made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stages {
    /// In the state directory, from where they can be moved in place.
    InState,
    /// In the system's directory for temporary files.
    Elsewhere,
}

impl Installs {
    /// Looks at a state directory, which may not be there yet.
    pub fn new(state: &Path) -> Self {
        Self { places: Places::new(&absolute(state)), limits: Limits::default(), stages: Stages::InState }
    }

    /// Takes no more than this of a source.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Makes things ready outside the state directory, in which then nothing is changed: for a look at what would be installed.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        Self { stages: Stages::Elsewhere, ..self }
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the records of all that was installed, by name.
    pub fn list(&self, kind: Kind) -> Result<Vec<Record>, InstallError> {
        let _reading = read_installed(self.places.state())?;
        Ok(Records::read(&self.places.records())?.of(kind).cloned().collect())
    }

    /// Returns whether the files of something are no longer those that were installed.
    pub fn has_changed(&self, record: &Record) -> bool {
        self.tree(&self.places.target(record.kind, &record.id)).map(|tree| digest(&tree)).ok()
            != Some(record.digest.clone())
    }

    /// Copies or unpacks what is to be installed. Nothing of it is run.
    pub fn stage(&self, kind: Kind, path: &Path) -> Result<Staged, InstallError> {
        let staged = self.staged(kind, path, Request::Install)?;
        match &staged.0.present {
            Present::Nothing => Ok(staged),
            Present::Installed { record, .. } => {
                let id = record.id.clone();
                Err(InstallError::Installed { kind, id, source_path: staged.0.source.path.clone() })
            }
        }
    }

    /// Copies or unpacks what is to take the place of something. Without a path, it comes from where it came from the last time.
    pub fn stage_update(&self, kind: Kind, id: &str, path: Option<&Path>) -> Result<Staged, InstallError> {
        let record = self.record(kind, id)?;
        let path = path.unwrap_or(&record.source);
        let staged = self.staged(kind, path, Request::Update)?;
        let found = staged.id();
        if found != id {
            let found = found.to_owned();
            return Err(InstallError::OtherTarget { path: path.to_owned(), kind, id: id.to_owned(), found });
        }
        match staged.0.present {
            // Removed in between.
            Present::Nothing => Err(InstallError::Changed { kind, id: id.to_owned() }),
            Present::Installed { .. } => Ok(staged),
        }
    }

    /// Looks at what is to be removed. Only what was installed can be.
    pub fn removal(&self, kind: Kind, id: &str) -> Result<Removal, InstallError> {
        let record = self.record(kind, id)?;
        let present = self.present(kind, id)?;
        Ok(Removal { installs: self.clone(), record, present })
    }

    fn staged(&self, kind: Kind, path: &Path, request: Request) -> Result<Staged, InstallError> {
        let stage = match self.stages {
            Stages::Elsewhere => Stage::new(&std::env::temp_dir())?,
            Stages::InState => {
                let _lock = Exclusive::new(&self.places)?;
                Stage::new(&self.places.work())?
            }
        };
        let (source, taken) = unpack(path, &self.limits, &stage.content())?;
        let contents = Contents::new(kind, &source, &stage.content(), taken.tree)?;
        let _reading = read_installed(self.places.state())?;
        let present = self.present(kind, &contents.id)?;
        Ok(Staged(Box::new(Case {
            installs: self.clone(),
            digest: digest(&contents.tree),
            stage,
            kind,
            contents,
            source,
            request,
            present,
            left_out: taken.left_out,
        })))
    }

    /// Looks at the place of something. The caller holds a lock.
    pub(crate) fn present(&self, kind: Kind, id: &str) -> Result<Present, InstallError> {
        let records = Records::read(&self.places.records())?;
        let folder = self.places.target(kind, id);
        let there = match fs::symlink_metadata(&folder) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(InstallError::read(folder)(error)),
        };
        match (records.find(kind, id), there) {
            (None, false) => Ok(Present::Nothing),
            (None, true) => Err(InstallError::Foreign { folder }),
            (Some(record), false) => Ok(Present::Installed { record: record.clone(), files: Files::Missing }),
            (Some(record), true) => {
                let files = match self.tree(&folder) {
                    Ok(tree) => Files::There(digest(&tree)),
                    Err(InstallError::Refused { .. }) => Files::Unreadable,
                    Err(error) => return Err(error),
                };
                Ok(Present::Installed { record: record.clone(), files })
            }
        }
    }

    pub(crate) fn tree(&self, folder: &Path) -> Result<Tree, InstallError> {
        source::tree(folder, &self.limits)
    }

    fn record(&self, kind: Kind, id: &str) -> Result<Record, InstallError> {
        let _reading = read_installed(self.places.state())?;
        let records = Records::read(&self.places.records())?;
        if let Some(record) = records.find(kind, id) {
            return Ok(record.clone());
        }
        let known = records.of(kind).map(|record| (record.id.clone(), record.id.clone()));
        let near = pincer_catalog::nearest(id, known, 1).pop();
        Err(InstallError::NotInstalled { kind, id: pincer_tools::one_line(id, 80), near })
    }

    /// Returns where something is or would be.
    pub fn place(&self, kind: Kind, id: &str) -> PathBuf {
        self.places.target(kind, id)
    }
}
