//! Where something is installed from: a folder, or an archive.

mod bounded;
mod directory;
mod names;
mod sink;
mod tar;
mod zip;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use serde::{Deserialize, Serialize};

use crate::InstallError;
use crate::digest::Tree;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::source::bounded::Bounded;
use crate::source::sink::{Sink, Taken};

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The beginning of an archive, by which its kind is known. Its name says nothing.
const BEGINNING: u64 = 512;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A folder.
    Directory,
    /// A `.tar`, `.tar.gz` or `.zip`.
    Archive,
}

/// A place from which something is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it is, absolute and without links.
    pub path: PathBuf,
    /// Its kind.
    pub kind: SourceKind,
}

impl Source {
    /// Returns the last part of its path, without the ending of an archive.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let endings = [".tar.gz", ".tgz", ".tar", ".zip"];
        match self.kind {
            SourceKind::Directory => name,
            SourceKind::Archive => endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name),
        }
    }
}

/// Copies or unpacks a source into an empty folder.
pub(crate) fn unpack(path: &Path, limits: &Limits, folder: &Path) -> Result<(Source, Taken), InstallError> {
    // A link that the person names is followed once, here.
    let path = path.canonicalize().map_err(InstallError::read(path))?;
    let opened = open(&path, OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK), Mode::empty());
    let opened = opened.map_err(|error| InstallError::read(&path)(error.into()))?;
    let about = fstat(&opened).map_err(|error| InstallError::read(&path)(error.into()))?;
    let mut sink = Sink::into(&path, limits, folder)?;
    let kind = match FileType::from_raw_mode(about.st_mode) {
        FileType::Directory => {
            let state = folder.canonicalize().map_err(InstallError::read(folder))?;
            if state.starts_with(&path) {
                return Err(sink.refused(Refusal::HoldsState));
            }
            directory::take(&path, &mut sink)?;
            SourceKind::Directory
        }
        FileType::RegularFile => {
            archive(File::from(opened), &mut sink)?;
            SourceKind::Archive
        }
        _ => return Err(sink.refused(Refusal::NeitherFolderNorFile)),
    };
    let taken = sink.finish();
    Ok((Source { path, kind }, taken))
}

fn archive(mut file: File, sink: &mut Sink) -> Result<(), InstallError> {
    let most = sink.limits().bytes;
    if file.metadata().map_err(|error| sink.unread(error))?.len() > most {
        return Err(sink.refused(Refusal::ArchiveTooLarge(most)));
    }
    let mut beginning = Vec::new();
    let read = file.by_ref().take(BEGINNING).read_to_end(&mut beginning).and_then(|_| file.rewind());
    read.map_err(|error| sink.unread(error))?;
    if beginning.starts_with(&GZIP) {
        let limits = sink.limits();
        return tar::take(Bounded::new(io::BufReader::new(file), MultiGzDecoder::new, limits), sink);
    }
    if beginning.starts_with(&zip::LOCAL) {
        return zip::take(&file, sink);
    }
    if tar::begins_so(&beginning) {
        return tar::take(io::BufReader::new(file), sink);
    }
    Err(sink.refused(Refusal::NoArchive))
}

/// Reads a folder without copying it.
pub(crate) fn tree(folder: &Path, limits: &Limits) -> Result<Tree, InstallError> {
    let mut sink = Sink::reading(folder, limits);
    directory::take(folder, &mut sink)?;
    Ok(sink.finish().tree)
}
