//! Images and compiled code on disk, so that only the first start ever pays for them.
//!
//! Compiled code runs outside the sandbox, so whoever can write it owns the process. A directory that anybody else may
//! write is not used, a file that anybody else may write is not read, and every file carries a checksum: what is damaged
//! counts as absent and is made again. Files appear under their final name complete or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sha2::{Digest, Sha256};

const CHECKSUM_BYTES: usize = 32;
/// No image and no compiled engine comes near this; a larger file is not ours.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Why the cache is not used. The engine works without it, only each start is slower.
#[derive(Debug, thiserror::Error)]
pub enum CacheProblem {
    /// Somebody else may write there, and could so put code into this process.
    #[error(
        "the cache directory {} is not used, because others may write to {} (mode {mode:o}, owner {owner}): \
         make it yours alone with `chmod go-w`, or choose another one",
        directory.display(), at.display()
    )]
    NotPrivate {
        /// The cache directory.
        directory: PathBuf,
        /// The directory at fault: the cache directory itself, or one above it.
        at: PathBuf,
        /// Its permissions.
        mode: u32,
        /// The user it belongs to.
        owner: u32,
    },
    /// It cannot be made or read.
    #[error("the cache directory {} cannot be used, so each start is slower: {source}", directory.display())]
    Unusable {
        /// The cache directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It can be read, but something could not be stored in it.
    #[error("{} cannot be stored in the cache, so the next start is slower too: {source}", file.display())]
    NotStored {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A directory that only this user can write.
pub(crate) struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// Opens the directory, making it if need be.
    pub(crate) fn open(directory: &Path) -> Result<Self, CacheProblem> {
        let unusable = |source| CacheProblem::Unusable { directory: directory.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unusable)?;
        let directory = directory.canonicalize().map_err(unusable)?;
        for at in directory.ancestors() {
            let metadata = fs::metadata(at).map_err(unusable)?;
            let private = if at == directory { ours_alone(&metadata) } else { safe_above(&metadata) };
            if !private {
                let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
                return Err(CacheProblem::NotPrivate { directory: directory.clone(), at: at.to_owned(), mode, owner });
            }
        }
        Ok(Self { directory })
    }

    /// The content stored under `name`; `None` if there is none that can be trusted.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let mut file = File::open(self.directory.join(name)).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || !ours_alone(&metadata) || metadata.len() > MAX_FILE_BYTES {
            return None;
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        file.read_exact(&mut checksum).ok()?;
        let mut content = Vec::with_capacity(metadata.len() as usize);
        file.read_to_end(&mut content).ok()?;
        (Sha256::digest(&content).as_slice() == checksum).then_some(content)
    }

    /// Stores `content` under `name`, replacing what is there.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), CacheProblem> {
        let file = self.directory.join(name);
        let mut random = [0; 8];
        let stored = getrandom::fill(&mut random).map_err(io::Error::other).and_then(|()| {
            let temporary = self.directory.join(format!(".{name}.{:016x}", u64::from_le_bytes(random)));
            let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            write_whole(created, content).and_then(|()| fs::rename(&temporary, &file)).inspect_err(|_| {
                // Nobody reads a temporary file; one that stays behind only takes room.
                let _ = fs::remove_file(&temporary);
            })
        });
        stored.map_err(|source| CacheProblem::NotStored { file, source })
    }
}

/// The directory itself, and every file in it, must be ours.
fn ours_alone(metadata: &fs::Metadata) -> bool {
    metadata.uid() == geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

/// Directories above it may be root's, and may be open to others only if they are sticky, as `/tmp` is: then nobody else can
/// put another directory in the place of ours.
fn safe_above(metadata: &fs::Metadata) -> bool {
    let root = metadata.uid() == 0;
    let sticky = metadata.mode() & 0o1000 != 0;
    ours_alone(metadata) || (root || metadata.uid() == geteuid().as_raw()) && (sticky || metadata.mode() & 0o022 == 0)
}

fn write_whole(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(&Sha256::digest(content))?;
    file.write_all(content)?;
    file.sync_all()
}
