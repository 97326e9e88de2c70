//! The most that is taken from a source.

/// The most that is taken from a source.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Files.
    pub files: usize,
    /// Entries, folders among them.
    pub entries: usize,
    /// Folders within folders.
    pub depth: usize,
    /// Bytes of one path.
    pub path_bytes: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files, and of an archive.
    pub bytes: u64,
    /// Times that an archive may grow when it is unpacked, beyond [`Limits::bytes_of_any_ratio`].
    pub ratio: u64,
    /// Bytes that may come out of an archive, however small it is: short texts compress well.
    pub bytes_of_any_ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 10_000,
            entries: 20_000,
            depth: 32,
            path_bytes: 1024,
            file_bytes: 64 << 20,
            bytes: 256 << 20,
            ratio: 200,
            bytes_of_any_ratio: 8 << 20,
        }
    }
}

/// Bytes of the names and extensions of one entry of an archive.
pub(crate) const EXTENSION_BYTES: u64 = 64 << 10;
