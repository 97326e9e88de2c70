//! Which file is the config.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::variables::{Environment, Values};
use crate::{Distrust, Parsed, Problems, parse_with, trust};

/// A config is written by hand; what is larger is something else.
pub(crate) const MOST_BYTES: u64 = 1 << 20;
/// What a config is called where nobody names one.
pub const FILE_NAME: &str = "pincer.json5";

/// Where a config may be. One that is named counts, and must be there; of the others, the first that exists.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// `--config`, or else `$PINCER_CONFIG`.
    pub named: Option<PathBuf>,
    /// The current directory.
    pub here: PathBuf,
    /// `$XDG_CONFIG_HOME/pincer`.
    pub home: Option<PathBuf>,
}

/// A config, and where it is from.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What it says; the defaults if there is no file.
    pub parsed: Parsed,
    /// The file.
    pub file: Option<PathBuf>,
    /// Warnings about the file itself.
    pub notes: Vec<String>,
}

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the config {} cannot be read", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another user could have written it.
    #[error("the config is not used: {distrust}; or name it with `--config`")]
    Distrusted {
        /// Which.
        file: PathBuf,
        /// Why.
        distrust: Distrust,
    },
    /// What stands in it is wrong.
    #[error("invalid_config: {}\n{problems}", file.display())]
    Wrong {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        problems: Problems,
    },
}

/// Finds and reads the config. No file at all is a config too: the defaults.
pub fn load(candidates: &Candidates, environment: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, ConfigError> {
    load_with(candidates, &Environment(environment))
}

/// The same for a config that may name secrets too.
pub fn load_with(candidates: &Candidates, values: &dyn Values) -> Result<Loaded, ConfigError> {
    let Some(file) = find(candidates) else { return Ok(Loaded::default()) };
    let notes = match trust(&file) {
        Ok(warning) => warning.into_iter().collect(),
        // A config that is named is meant.
        Err(distrust) if candidates.named.is_some() => vec![distrust.to_string()],
        Err(distrust) => return Err(ConfigError::Distrusted { file, distrust }),
    };
    let text = read(&file).map_err(|source| ConfigError::Read { file: file.clone(), source })?;
    match parse_with(&text, values) {
        Ok(parsed) => Ok(Loaded { parsed, file: Some(file), notes }),
        Err(problems) => Err(ConfigError::Wrong { file, problems }),
    }
}

/// Where the config is, if there is one.
pub fn find(candidates: &Candidates) -> Option<PathBuf> {
    let usual = || {
        let home = candidates.home.as_ref().map(|home| home.join(FILE_NAME));
        // A link that leads nowhere is somebody's config all the same: it is reported, not passed over.
        [Some(candidates.here.join(FILE_NAME)), home]
            .into_iter()
            .flatten()
            .find(|file| fs::symlink_metadata(file).is_ok())
    };
    candidates.named.clone().or_else(usual)
}

fn read(file: &Path) -> io::Result<String> {
    use io::Read;

    let mut bytes = Vec::new();
    let mut source = fs::File::open(file)?;
    if source.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    source.by_ref().take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MOST_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() + 1;
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8 text: the first bad byte is number {at}"))
    })
}
