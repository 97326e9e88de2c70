//! The bytes of a cell that was put aside: in memory if they are few, and otherwise in a file.

use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use uuid::Uuid;

/// More bytes than this go to a file.
const FEW: usize = 64 << 10;

/// Bytes that are kept for a while.
pub(crate) enum Kept {
    Here(Vec<u8>),
    /// In a file that has no name any more: it goes with this process, however that ends.
    File {
        file: File,
        len: usize,
    },
}

impl Kept {
    /// Keeps bytes, in a file in `directory` if they are many. A disk that does not take them leaves them in memory.
    pub(crate) fn new(bytes: Vec<u8>, directory: Option<&Path>) -> Self {
        let Some(directory) = directory.filter(|_| bytes.len() > FEW) else { return Self::Here(bytes) };
        match written(&bytes, directory) {
            Ok(file) => Self::File { file, len: bytes.len() },
            Err(error) => {
                tracing::warn!("a program that is put aside stays in memory: {}: {error}", directory.display());
                Self::Here(bytes)
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::File { len, .. } => *len,
        }
    }

    /// Returns how much memory it takes.
    pub(crate) fn in_memory(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.capacity(),
            Self::File { .. } => 0,
        }
    }

    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Here(bytes) => Ok(bytes.clone()),
            Self::File { file, len } => {
                let mut bytes = vec![0; *len];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes)
            }
        }
    }

    pub(crate) fn into_bytes(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Here(bytes) => Ok(bytes),
            file @ Self::File { .. } => file.read(),
        }
    }
}

fn written(bytes: &[u8], directory: &Path) -> io::Result<File> {
    if !directory.is_dir() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let path = directory.join(format!("cell-{}", Uuid::now_v7()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    remove_file(&path)?;
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_stay_in_memory_and_many_go_to_a_file_without_a_name() {
        let directory = std::env::temp_dir().join(format!("pincer-scratch-{}", Uuid::now_v7()));
        for (len, in_memory) in [(FEW, FEW), (FEW + 1, 0), (3 << 20, 0)] {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
            let kept = Kept::new(bytes.clone(), Some(&directory));
            assert_eq!((kept.len(), kept.in_memory()), (len, in_memory));
            assert!(kept.read().unwrap() == bytes && kept.into_bytes().unwrap() == bytes);
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        std::fs::remove_dir(&directory).unwrap();
        assert_eq!(Kept::new(vec![1; FEW + 1], None).in_memory(), FEW + 1);
    }

    #[test]
    fn bytes_stay_in_memory_if_there_is_no_place_for_the_file() {
        let kept = Kept::new(vec![7; FEW + 1], Some(Path::new("/dev/null/nowhere")));
        assert_eq!(kept.in_memory(), FEW + 1);
    }
}
