//! The one place where entries of a source become files: each name, size and kind is checked here, whatever the source is.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt};
use sha2::{Digest as _, Sha256};

use crate::InstallError;
use crate::digest::{Tree, TreeFile};
use crate::limits::Limits;
use crate::refusal::{EntryProblem, Refusal};
use crate::source::names::{EntryPath, Names};

/// The bits that let a program run with the rights of its owner.
const SET_ID_BITS: u32 = 0o7000;
const OWNER_EXECUTES: u32 = 0o100;
const PIECE: usize = 64 << 10;

/// Takes entries, and writes them below one folder if there is one.
pub(crate) struct Sink<'a> {
    /// The source, for messages.
    source: &'a Path,
    limits: &'a Limits,
    /// The folder, by its handle: a path that was checked wrongly still could not lead out of it.
    target: Option<(PathBuf, Dir)>,
    names: Names,
    entries: usize,
    bytes: u64,
    tree: Tree,
    left_out: usize,
    buffer: Vec<u8>,
}

/// The entries that were taken.
pub(crate) struct Taken {
    pub tree: Tree,
    /// Entries that are never taken along, such as those of `.git`.
    pub left_out: usize,
}

impl<'a> Sink<'a> {
    /// Writes into a folder that is there, and empty.
    pub(crate) fn into(source: &'a Path, limits: &'a Limits, folder: &Path) -> Result<Self, InstallError> {
        let opened = Dir::open_ambient_dir(folder, cap_std::ambient_authority());
        let opened = opened.map_err(InstallError::write(folder))?;
        Ok(Self { target: Some((folder.to_owned(), opened)), ..Self::reading(source, limits) })
    }

    /// Writes nothing: the tree alone is wanted.
    pub(crate) fn reading(source: &'a Path, limits: &'a Limits) -> Self {
        Self {
            source,
            limits,
            target: None,
            names: Names::default(),
            entries: 0,
            bytes: 0,
            tree: Tree::new(),
            left_out: 0,
            buffer: vec![0; PIECE],
        }
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        self.limits
    }

    pub(crate) fn refused(&self, refusal: Refusal) -> InstallError {
        InstallError::Refused { path: self.source.to_owned(), refusal }
    }

    pub(crate) fn refused_entry(&self, name: &[u8], problem: EntryProblem) -> InstallError {
        self.refused(Refusal::entry(name, problem))
    }

    /// Returns the error of a read: the source's own, or a refusal on the way through it.
    pub(crate) fn unread(&self, error: io::Error) -> InstallError {
        match error.downcast::<Refusal>() {
            Ok(refusal) => self.refused(refusal),
            Err(source) => InstallError::Read { path: self.source.to_owned(), source },
        }
    }

    /// Takes a folder. Its mode is not taken along: all folders are for their owner alone.
    pub(crate) fn folder(&mut self, name: &[u8]) -> Result<(), InstallError> {
        self.count()?;
        let Some(path) = self.path(name)? else { return Ok(()) };
        self.names.add_folder(&path).map_err(|refusal| self.refused(refusal))?;
        // It is made with the first file in it: an empty one is no part of a tree.
        Ok(())
    }

    /// Takes a file of exactly `size` bytes.
    pub(crate) fn file(
        &mut self,
        name: &[u8],
        size: u64,
        mode: u32,
        mut content: impl Read,
    ) -> Result<(), InstallError> {
        self.count()?;
        if mode & SET_ID_BITS != 0 {
            return Err(self.refused_entry(name, EntryProblem::SetId));
        }
        let Some(path) = self.path(name)? else {
            return Err(self.refused_entry(name, EntryProblem::UnclearPath));
        };
        self.names.add_file(&path).map_err(|refusal| self.refused(refusal))?;
        if size > self.limits.file_bytes {
            return Err(self.refused_entry(name, EntryProblem::TooLarge(self.limits.file_bytes)));
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.limits.bytes {
            return Err(self.refused(Refusal::TooLarge(self.limits.bytes)));
        }
        let executable = mode & OWNER_EXECUTES != 0;
        let left_out = path.is_left_out();
        let mut file = match &self.target {
            Some((folder, opened)) if !left_out => {
                let made = create(opened, path.as_str(), executable);
                Some((made.map_err(InstallError::write(folder.join(path.as_str())))?, folder.clone()))
            }
            _ => None,
        };
        let mut hash = Sha256::new();
        let mut taken = 0;
        loop {
            let count = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unread(error)),
            };
            taken += count as u64;
            if taken > size {
                break;
            }
            hash.update(&self.buffer[..count]);
            if let Some((file, folder)) = &mut file {
                file.write_all(&self.buffer[..count]).map_err(InstallError::write(folder.join(path.as_str())))?;
            }
        }
        if taken != size {
            return Err(self.refused_entry(name, EntryProblem::OtherSize));
        }
        if left_out {
            self.left_out += 1;
            return Ok(());
        }
        self.tree
            .insert(path.as_str().to_owned(), TreeFile { bytes: size, executable, content: hash.finalize().into() });
        match self.tree.len() > self.limits.files {
            true => Err(self.refused(Refusal::TooManyFiles(self.limits.files))),
            false => Ok(()),
        }
    }

    fn count(&mut self) -> Result<(), InstallError> {
        self.entries += 1;
        match self.entries > self.limits.entries {
            true => Err(self.refused(Refusal::TooManyEntries(self.limits.entries))),
            false => Ok(()),
        }
    }

    fn path(&self, name: &[u8]) -> Result<Option<EntryPath>, InstallError> {
        EntryPath::parse(name, self.limits).map_err(|refusal| self.refused(refusal))
    }

    pub(crate) fn finish(self) -> Taken {
        Taken { tree: self.tree, left_out: self.left_out }
    }
}

/// Makes a file that is not there yet, with the folders above it, for the owner alone.
fn create(folder: &Dir, path: &str, executable: bool) -> io::Result<cap_std::fs::File> {
    let mut private = DirBuilder::new();
    private.mode(0o700);
    for (end, _) in path.match_indices('/') {
        match folder.create_dir_with(&path[..end], &private) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(if executable { 0o700 } else { 0o600 });
    folder.open_with(path, &options)
}
