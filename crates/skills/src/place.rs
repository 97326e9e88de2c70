//! The places in which skills are kept, and reading their files without leaving their folders.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

/// The directory of a place that has its skills.
const FOLDER: &str = "skills";
/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// The most bytes of a skill's file that are read as a whole.
pub const MOST_FILE_BYTES: u64 = 256 << 10;

/// The kind of place that a skill is from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The workspace that a run works in.
    Workspace,
    /// The workspace of the agent, for a sandboxed session that has another one.
    Agent,
    /// The state directory.
    State,
    /// A plugin, by its id.
    Plugin(String),
}

/// A directory that has skills in `skills`, held by its handle.
pub struct Place {
    source: Source,
    base: PathBuf,
    dir: Dir,
}

/// An error while a file of a skill is read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A link leads out of the folder.
    #[error("it is a link that leads out of its folder: put the files themselves there")]
    Outside,
    /// The file is no regular file.
    #[error("it is not a regular file")]
    NotAFile,
    /// The system refused.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl Place {
    /// Opens the directory that has `skills` in it.
    pub fn open(source: Source, base: &Path) -> io::Result<Self> {
        Ok(Self::of(source, base, Dir::open_ambient_dir(base, ambient_authority())?))
    }

    /// Takes an open directory, which is at `base`.
    pub fn of(source: Source, base: &Path, dir: Dir) -> Self {
        Self { source, base: base.to_owned(), dir }
    }

    /// Returns the kind of place.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the directory that has `skills` in it.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the path of a folder, seen from [`base`](Self::base).
    pub fn folder(name: &str) -> PathBuf {
        Path::new(FOLDER).join(name)
    }

    /// Returns the names of the folders, at most so many, in their order; and whether there are more.
    pub(crate) fn folders(&self, most: usize) -> io::Result<(Vec<String>, bool)> {
        let dir = match self.dir.open_dir(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), false)),
            opened => opened?,
        };
        let mut names: Vec<String> = Vec::new();
        let mut has_more = false;
        for entry in dir.entries()? {
            let Ok(entry) = entry else { continue };
            // A link is looked at too: it is told about if it leads elsewhere.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !is_folder || name.starts_with('.') {
                continue;
            }
            if names.len() == most {
                has_more = true;
                break;
            }
            names.push(name);
        }
        names.sort();
        Ok((names, has_more))
    }

    /// Reads the beginning of a skill's own file, and tells how many bytes the whole file has. `None` if the folder has no such file.
    pub fn read(&self, folder: &str, most: u64) -> Result<Option<(Vec<u8>, u64)>, ReadError> {
        if !is_plain(folder) {
            return Err(ReadError::Outside);
        }
        let path = Self::folder(folder);
        // Without following a link: the folder itself has to be there.
        if self.dir.symlink_metadata(&path).map_err(told)?.is_symlink() {
            return Err(ReadError::Outside);
        }
        let dir = self.dir.open_dir(&path).map_err(told)?;
        let mut options = OpenOptions::new();
        // Not to hang on a pipe that nothing writes to.
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = match dir.open_with(SKILL_FILE, &options) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(told)?,
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ReadError::NotAFile);
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Some((bytes, metadata.len())))
    }

    /// Reads the text of a skill. Of a very long one, the beginning.
    pub fn text(&self, folder: &str) -> Result<Option<String>, ReadError> {
        let Some((bytes, size)) = self.read(folder, MOST_FILE_BYTES)? else { return Ok(None) };
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if size > MOST_FILE_BYTES {
            text.push_str(&format!("\n[the file has {size} bytes; this is the beginning]"));
        }
        Ok(Some(text))
    }
}

/// Returns whether a name is one part of a path and leads nowhere else.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// `cap-std` refuses what leaves a directory in its own words; the system's own refusals have a number.
fn told(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => ReadError::Outside,
        _ => ReadError::Io(error),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workspace => f.write_str("workspace"),
            Self::Agent => f.write_str("agent"),
            Self::State => f.write_str("state"),
            Self::Plugin(id) => write!(f, "plugin:{id}"),
        }
    }
}

impl Source {
    /// Reads the word for a kind of place.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "workspace" => Some(Self::Workspace),
            "agent" => Some(Self::Agent),
            "state" => Some(Self::State),
            _ => text.strip_prefix("plugin:").map(|id| Self::Plugin(id.to_owned())),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("source", &self.source).field("base", &self.base).finish_non_exhaustive()
    }
}
