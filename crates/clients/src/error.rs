//! What can go wrong, for the person who must act.

use std::io;
use std::path::PathBuf;

use pincer_config::{EditError, Problems};

use crate::toml::TomlError;

/// The reason why the text of a client's config cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SyntaxError {
    /// It is not JSON.
    #[error(transparent)]
    Json(Problems),
    /// It is not TOML.
    #[error(transparent)]
    Toml(TomlError),
}

/// The reason why a client's config was not read, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be read.
    #[error("{} cannot be read", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written; it is as it was.
    #[error("{} cannot be written, and is as it was", file.display())]
    Write {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is marked as one that is not to be written.
    #[error("{} is read-only: make it writable, or paste the block by hand", file.display())]
    ReadOnly {
        /// Which.
        file: PathBuf,
    },
    /// Another program wrote to the file meanwhile.
    #[error("{} was changed by another program meanwhile, and is left as it is: close that program, and try again", file.display())]
    Changed {
        /// Which.
        file: PathBuf,
    },
    /// The text is not what the file's name promises.
    #[error("{}: {source}", file.display())]
    Syntax {
        /// Which.
        file: PathBuf,
        /// What is wrong, with line and column.
        source: SyntaxError,
    },
    /// Where the servers should stand is something else.
    #[error("{}: {path} is not an object, so there are no servers to be found", file.display())]
    NotServers {
        /// Which file.
        file: PathBuf,
        /// What in it.
        path: String,
    },
    /// No shape that is known.
    #[error("{} has no servers that can be recognised: there should be `mcpServers`, `servers`, or `[mcp_servers.NAME]`", file.display())]
    Unrecognised {
        /// Which.
        file: PathBuf,
    },
    /// Another server has our name.
    #[error("{} has a server `{name}` that is not Pincer: give that another name first", file.display())]
    Taken {
        /// Which file.
        file: PathBuf,
        /// Our name.
        name: String,
    },
    /// The file cannot be changed without changing more than was asked.
    #[error("{} is as it was", file.display())]
    Edit {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: EditError,
    },
    /// A path that cannot stand in a text.
    #[error("{} is not UTF-8, and cannot stand in a config: move it to a path that is", path.display())]
    Path {
        /// Which.
        path: PathBuf,
    },
}
