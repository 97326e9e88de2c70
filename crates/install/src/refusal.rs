//! The reasons for which a source is refused.

use pincer_tools::one_line;

/// The most characters of a name that a message shows.
const SHOWN_NAME: usize = 120;

/// The reason for which a source is refused. Names are escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// One entry cannot be taken.
    #[error("the entry `{entry}` {problem}")]
    Entry {
        /// Which, escaped.
        entry: String,
        /// The problem with it.
        problem: EntryProblem,
    },
    /// There are too many files.
    #[error("it has more than {0} files")]
    TooManyFiles(usize),
    /// There are too many entries.
    #[error("it has more than {0} entries")]
    TooManyEntries(usize),
    /// All files together are too large.
    #[error("its files have more than {0} bytes in all")]
    TooLarge(u64),
    /// The archive itself is too large.
    #[error("the archive has more than {0} bytes")]
    ArchiveTooLarge(u64),
    /// The archive grows too much when it is unpacked.
    #[error(
        "it becomes more than {0} times as large when it is unpacked, as an archive does that is made to fill a disk"
    )]
    Bomb(u64),
    /// The file is no archive.
    #[error("it is no archive that can be read: it must be a .tar, .tar.gz or .zip")]
    NoArchive,
    /// The archive is broken, or can be read in two ways.
    #[error("the archive cannot be used: {0}")]
    Archive(ArchiveProblem),
    /// The source is neither a folder nor a file.
    #[error("it is neither a folder nor a file")]
    NeitherFolderNorFile,
    /// The state directory is in the source.
    #[error("the state directory lies in it")]
    HoldsState,
    /// There is no manifest.
    #[error("there is no {0} in it, nor in a single folder in it")]
    NoManifest(&'static str),
    /// There are several manifests.
    #[error("`{first}` and `{second}` are both in it: install one at a time")]
    TwoManifests {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// The manifest is where it means nothing.
    #[error("`{0}` must be at the top, or in a single folder that holds everything")]
    ManifestTooDeep(String),
    /// The skill's name cannot be a folder's.
    #[error(
        "its name is `{0}`, which cannot be a folder's: set `name:` in SKILL.md to lower-case letters, digits, `-` and `_`, at most 64"
    )]
    SkillName(String),
}

impl Refusal {
    pub(crate) fn entry(name: &[u8], problem: EntryProblem) -> Self {
        Self::Entry { entry: shown(&String::from_utf8_lossy(name)), problem }
    }
}

/// Returns a name as a person may see it.
pub(crate) fn shown(name: &str) -> String {
    one_line(name, SHOWN_NAME)
}

/// The reason for which an entry cannot be taken, as the end of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// No name.
    #[error("has no name")]
    Nameless,
    /// Not UTF-8.
    #[error("has a name that is not UTF-8")]
    NotUtf8,
    /// The path begins at the root.
    #[error("has an absolute path")]
    Absolute,
    /// The path leads up.
    #[error("leads out of its folder with `..`")]
    LeadsOut,
    /// An empty part, a `.` or a backslash.
    #[error("has a path that systems read in different ways")]
    UnclearPath,
    /// A character that does not show.
    #[error("has a character in its name that is not visible")]
    HiddenCharacter,
    /// The path is too long.
    #[error("has a path that is too long")]
    TooLong,
    /// Too many folders.
    #[error("lies in more than {0} folders")]
    TooDeep(usize),
    /// The same name again.
    #[error("is there twice")]
    Twice,
    /// The same name but for its case.
    #[error("has the same name as `{0}` but for its case")]
    SameButForCase(String),
    /// A file where a folder must be.
    #[error("is a file and a folder")]
    FileAndFolder,
    /// A symbolic link.
    #[error("is a symbolic link")]
    SymbolicLink,
    /// A hard link.
    #[error("is a hard link")]
    HardLink,
    /// A device, a pipe, a socket.
    #[error("is {0}, not a file or a folder")]
    Special(&'static str),
    /// setuid, setgid or sticky.
    #[error("has the setuid, setgid or sticky bit")]
    SetId,
    /// Too large.
    #[error("has more than {0} bytes")]
    TooLarge(u64),
    /// The content is shorter or longer than its entry says.
    #[error("has another size than the archive says")]
    OtherSize,
    /// Not what the archive promised.
    #[error("has another checksum than the archive says")]
    OtherChecksum,
    /// Encrypted.
    #[error("is encrypted")]
    Encrypted,
    /// A method of compression that is not read.
    #[error("is compressed with a method that is not read (only stored and deflated entries are)")]
    Method,
    /// Two headers of an entry contradict each other.
    #[error("has two headers that contradict each other")]
    TwoHeaders,
    /// A sparse file.
    #[error("is a sparse file, as those are that are made to fill a disk")]
    Sparse,
    /// The source was changed while it was read.
    #[error("was changed while it was read")]
    Changed,
    /// A folder with content.
    #[error("is a folder with content of its own")]
    FolderWithContent,
}

/// The reason for which an archive cannot be used as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveProblem {
    /// The archive ends early.
    #[error("it ends in the middle")]
    EndsEarly,
    /// A checksum is wrong.
    #[error("a checksum in it is wrong")]
    Checksum,
    /// A header means nothing.
    #[error("a header in it cannot be read")]
    Header,
    /// An extension of an entry is too large.
    #[error("the name or the attributes of an entry are too long")]
    Extension,
    /// Something follows its end.
    #[error("something follows its end")]
    Trailing,
    /// Entries overlap, or something lies between them.
    #[error("its entries overlap, or have something between them")]
    Layout,
    /// Several disks, or the large format.
    #[error("it is made of several parts or in the format for large archives (zip64)")]
    Unusual,
    /// The compressed data is damaged.
    #[error("its compressed data is damaged")]
    Compression,
}
