//! The reasons why a server cannot be used. Each is a sentence that begins behind the name of the server.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rmcp::service::ClientInitializeError;

use crate::connection::ENDED;
use crate::http::{HttpError, RemoteError};

/// The reason why a server cannot be used now, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Pincer has ended it.
    #[error("{ENDED}")]
    Ended,
    /// The config names something that is not there.
    #[error("{0}")]
    Unusable(String),
    /// It could not be connected to.
    #[error("{0}")]
    Unreachable(String),
    /// It has fallen too often to be tried again already.
    #[error("{why} (it is tried again in {} s)", wait.as_secs() + 1)]
    TriedLater {
        /// The reason why it was down the last time.
        why: String,
        /// The time until it is tried again.
        wait: Duration,
    },
    /// It does not list its tools.
    #[error("{0}")]
    Unlisted(String),
}

/// The reason why a server's settings cannot be completed. Secrets of the server may be in it.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The config names something that is not there.
    #[error("{0}")]
    Unusable(String),
    /// The secrets could not be looked up, or cannot be used.
    #[error(transparent)]
    Secrets(#[from] Box<dyn Error + Send + Sync>),
}

/// The reason why a server was not connected to. Secrets of the server may be in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Secrets(#[from] ResolveError),
    #[error("needs secrets, which could not be looked up")]
    SecretsLost,
    #[error("cannot be started: its directory {} is not there", .0.display())]
    NoDirectory(PathBuf),
    #[error("cannot be started: there is no program `{0}`. Install it, or correct `command`")]
    NoProgram(String),
    #[error("cannot be started ({program}): {source}")]
    NotStarted { program: String, source: io::Error },
    #[error("has no pipes")]
    NoPipes,
    /// The program has ended: how, and its last words.
    #[error("{0}")]
    Over(String),
    #[error("refused to start: {0}")]
    Refused(String),
    #[error("did not start as an MCP server does: {0}")]
    Handshake(#[source] Box<ClientInitializeError>),
    #[error(
        "did not answer `{method}` within {} ms{said}; if it needs longer, raise its `connectTimeoutMs`",
        limit.as_millis()
    )]
    ProgramLate { method: &'static str, limit: Duration, said: String },
    #[error("cannot be used: {0}")]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A server at an address was not greeted: what it did instead.
    #[error("{0}")]
    NotGreeted(String),
    #[error("did not answer `{method}` within {} ms", limit.as_millis())]
    AddressLate { method: &'static str, limit: Duration },
    #[error("did not say who it is")]
    NoInfo,
}
