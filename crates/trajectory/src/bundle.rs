//! A bundle on its way to the disk: files in a folder beside its place, which gets its name when it is whole.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::error::ExportError;
use crate::manifest::FileSum;

/// How the names of folders begin that are not whole.
const PARTIAL: &str = ".partial-trajectory-";

/// A bundle that is being written. It is gone when this is dropped before it is whole.
pub(crate) struct Bundle {
    place: PathBuf,
    folder: TempDir,
    pub sums: BTreeMap<String, FileSum>,
}

impl Bundle {
    /// Makes the folder for a bundle that is to stand at `place`.
    pub(crate) fn begin(place: &Path) -> Result<Self, ExportError> {
        check_free(place)?;
        let failed = |source| ExportError::Write { place: place.to_owned(), source };
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        let private = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PARTIAL).permissions(private).tempdir_in(parent);
        Ok(Self { place: place.to_owned(), folder: folder.map_err(failed)?, sums: BTreeMap::new() })
    }

    /// Begins a file.
    pub(crate) fn file(&self, name: &str) -> Result<Summed, ExportError> {
        let path = self.folder.path().join(name);
        let made = || {
            if let Some(folder) = path.parent().filter(|folder| *folder != self.folder.path()) {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)
        };
        let file = made().map_err(|source| self.failed(source))?;
        Ok(Summed { name: name.to_owned(), out: BufWriter::new(file), digest: Sha256::new(), bytes: 0 })
    }

    /// Ends a file, and notes its sum.
    pub(crate) fn end(&mut self, file: Summed) -> Result<(), ExportError> {
        let Summed { name, mut out, digest, bytes } = file;
        let ended = out.flush().and_then(|()| out.get_ref().sync_all());
        ended.map_err(|source| self.failed(source))?;
        let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.sums.insert(name, FileSum { bytes, sha256 });
        Ok(())
    }

    /// Writes a whole file.
    pub(crate) fn put(&mut self, name: &str, text: &str) -> Result<(), ExportError> {
        let mut file = self.file(name)?;
        file.add(text).map_err(|source| self.failed(source))?;
        self.end(file)
    }

    pub(crate) fn failed(&self, source: io::Error) -> ExportError {
        ExportError::Write { place: self.place.clone(), source }
    }

    /// Gives the bundle its place.
    pub(crate) fn publish(self) -> Result<PathBuf, ExportError> {
        check_free(&self.place)?;
        let failed = |source| ExportError::Write { place: self.place.clone(), source };
        File::open(self.folder.path()).and_then(|folder| folder.sync_all()).map_err(failed)?;
        // An empty folder in its place gives way; anything else stays, and this fails.
        fs::rename(self.folder.path(), &self.place).map_err(failed)?;
        let _ = self.folder.keep();
        Ok(self.place)
    }
}

/// Fails unless there is nothing at a place, or an empty folder.
fn check_free(place: &Path) -> Result<(), ExportError> {
    match fs::symlink_metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(found) if found.is_dir() && fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none()) => Ok(()),
        Ok(_) => Err(ExportError::Taken(place.to_owned())),
        Err(source) => Err(ExportError::Write { place: place.to_owned(), source }),
    }
}

/// A file whose sum is taken while it is written.
pub(crate) struct Summed {
    name: String,
    out: BufWriter<File>,
    digest: Sha256,
    bytes: u64,
}

impl Summed {
    pub(crate) fn add(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.digest.update(text.as_bytes());
        self.bytes += text.len() as u64;
        Ok(())
    }
}

/// An array that is written item by item.
pub(crate) struct List {
    pub file: Summed,
    is_empty: bool,
}

impl List {
    /// Begins an array behind a text.
    pub(crate) fn begin(mut file: Summed, before: &str) -> io::Result<Self> {
        file.add(before)?;
        file.add("[")?;
        Ok(Self { file, is_empty: true })
    }

    pub(crate) fn add(&mut self, item: &str) -> io::Result<()> {
        self.file.add(if self.is_empty { "\n" } else { ",\n" })?;
        self.is_empty = false;
        self.file.add(item)
    }

    /// Ends the array, with a text behind it.
    pub(crate) fn end(mut self, behind: &str) -> io::Result<Summed> {
        self.file.add("\n]")?;
        self.file.add(behind)?;
        self.file.add("\n")?;
        Ok(self.file)
    }
}
