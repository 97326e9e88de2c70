//! Images and compiled code on disk, so that only the first start ever pays for them.
//!
//! Compiled code runs outside the sandbox, so whoever can write it owns the process. A directory that anybody else may
//! write is not used, a file that anybody else may write is not read, and every file carries a checksum: what is damaged
//! counts as absent and is made again. Files appear under their final name complete or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

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
    #[error("the cache directory {} cannot be used: {source}", directory.display())]
    Unusable {
        /// The cache directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It can be read, but something could not be stored in it.
    #[error("{} cannot be stored in the cache: {source}", file.display())]
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
    pub fn open(directory: &Path) -> Result<Self, CacheProblem> {
        let unusable = |source| CacheProblem::Unusable { directory: directory.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unusable)?;
        let directory = directory.canonicalize().map_err(unusable)?;
        for at in directory.ancestors() {
            let metadata = fs::metadata(at).map_err(unusable)?;
            if !private(&metadata, at == directory) {
                let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
                return Err(CacheProblem::NotPrivate { directory: directory.clone(), at: at.to_owned(), mode, owner });
            }
        }
        Ok(Self { directory })
    }

    /// The content stored under `name`; `None` if there is none that can be trusted.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let mut file = File::open(self.directory.join(name)).ok()?;
        let metadata = file.metadata().ok()?;
        let sound = metadata.is_file()
            && metadata.uid() == geteuid().as_raw()
            && metadata.mode() & 0o022 == 0
            && metadata.len() <= MAX_FILE_BYTES;
        if !sound {
            return None;
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        file.read_exact(&mut checksum).ok()?;
        let mut content = Vec::with_capacity(metadata.len() as usize);
        file.read_to_end(&mut content).ok()?;
        (Sha256::digest(&content).as_slice() == checksum).then_some(content)
    }

    /// Stores `content` under `name`, replacing what is there.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), CacheProblem> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unique = format!(".{name}.{}.{}", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let (temporary, file) = (self.directory.join(unique), self.directory.join(name));
        let stored = write_whole(&temporary, content).and_then(|()| fs::rename(&temporary, &file));
        stored.map_err(|source| {
            // Nobody reads a temporary file; one that stays behind only takes room.
            let _ = fs::remove_file(&temporary);
            CacheProblem::NotStored { file, source }
        })
    }
}

/// The directory itself must be ours. Those above it may be root's, and may be open to others only if they are sticky, as
/// `/tmp` is: then nobody else can put another directory in the place of ours.
fn private(metadata: &fs::Metadata, itself: bool) -> bool {
    let (owner, mode) = (metadata.uid(), metadata.mode());
    let ours = owner == geteuid().as_raw();
    if itself {
        return ours && mode & 0o022 == 0;
    }
    (ours || owner == 0) && (mode & 0o022 == 0 || mode & 0o1000 != 0)
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&Sha256::digest(content))?;
    file.write_all(content)?;
    file.sync_all()
}
