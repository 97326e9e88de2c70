//! The list of what was installed, from where, and with which digest: `installs.json` in the state directory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::InstallError;
use crate::digest::Digest;
use crate::source::SourceKind;
use crate::target::Kind;

/// The form of the file. A later form is refused.
const VERSION: u32 = 1;

/// Something that was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Its name, and that of its folder.
    pub id: String,
    /// Its version, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it came from. An update without a source looks there.
    pub source: PathBuf,
    /// The kind of the source.
    pub source_kind: SourceKind,
    /// The digest of its files.
    pub digest: Digest,
    /// When it was installed or updated last, in RFC 3339.
    pub at: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    version: u32,
    installs: Vec<Record>,
}

/// All records. They are changed by a commit only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Records(Vec<Record>);

impl Records {
    pub(crate) fn read(file: &Path) -> Result<Self, InstallError> {
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(InstallError::read(file)(error)),
        };
        let document: Document =
            serde_json::from_slice(&text).map_err(|reason| InstallError::Damaged { path: file.to_owned(), reason })?;
        match document.version {
            VERSION => Ok(Self(document.installs)),
            _ => Err(InstallError::Later { path: file.to_owned() }),
        }
    }

    pub(crate) fn write(&self, file: &Path, work: &Path) -> Result<(), InstallError> {
        write_whole(file, work, &Document { version: VERSION, installs: self.0.clone() })
    }

    pub(crate) fn find(&self, kind: Kind, id: &str) -> Option<&Record> {
        self.0.iter().find(|record| record.kind == kind && record.id == id)
    }

    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Record> {
        self.0.iter().filter(move |record| record.kind == kind)
    }

    /// Puts a record in the place of the one of the same name.
    pub(crate) fn put(&mut self, record: Record) {
        self.take(record.kind, &record.id);
        self.0.push(record);
        self.0.sort_by(|one, other| (one.kind, &one.id).cmp(&(other.kind, &other.id)));
    }

    pub(crate) fn take(&mut self, kind: Kind, id: &str) {
        self.0.retain(|record| !(record.kind == kind && record.id == id));
    }
}

/// The beginning of the names of files that are not whole yet.
pub(crate) const UNFINISHED: &str = "new-";

/// Writes a document, whole or not at all, for its owner only. It is made in the folder `work`, where the next command removes it if
/// this process dies.
pub(crate) fn write_whole(file: &Path, work: &Path, document: &impl Serialize) -> Result<(), InstallError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = || -> io::Result<()> {
        let mut new = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(work)?;
        serde_json::to_writer_pretty(&mut new, document)?;
        new.write_all(b"\n")?;
        new.as_file().sync_all()?;
        new.persist(file)?;
        crate::stage::sync_names(folder)
    };
    written().map_err(InstallError::write(file))
}
