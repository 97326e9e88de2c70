//! Why there is no login.

use std::io;
use std::path::PathBuf;

use crate::http::HttpError;

/// The reason why the browser came back without a login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeniedReason {
    /// The server gave one.
    #[error("{0}")]
    Said(String),
    /// There was no code.
    #[error("the browser came back without a code")]
    NoCode,
}

/// The reason why there is no login.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A name that no server has.
    #[error("`{server}` is no name of a server")]
    Name {
        /// The name.
        server: String,
    },
    /// A file of logins cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file that has no login in it.
    #[error("{} is not a login ({reason}): run `pincer mcp login {server}`, which writes it anew", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// Another process renews the login and does not come to an end.
    #[error("{}: another process has held this lock for too long", path.display())]
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// There is no client.
    #[error("there can be no web client: {0}")]
    Client(#[source] reqwest::Error),
    /// The login is over.
    #[error("the login has expired: run `pincer mcp login {server}`")]
    Expired {
        /// The server.
        server: String,
    },
    /// The login is over, and a new one could not be had now.
    #[error("the login could not be renewed: {reason}; try again, or run `pincer mcp login {server}`")]
    Renew {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// The config proves already who we are.
    #[error("`{server}` needs no login: its token or its header `Authorization` is in the config, and is used instead")]
    InConfig {
        /// The server.
        server: String,
    },
    /// The server cannot be asked.
    #[error("`{server}` {source}")]
    Server {
        /// The server.
        server: String,
        /// What it did.
        source: Box<HttpError>,
    },
    /// The server does not want logins.
    #[error("`{server}` does not say where to log in to it: it may need a token instead (`auth.token`), or nothing")]
    NotOffered {
        /// The server.
        server: String,
    },
    /// Where to log in cannot be found out.
    #[error("`{server}` does not say rightly where to log in to it: {reason}")]
    Discovery {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// An address that tokens must not be sent to.
    #[error("`{server}` names {endpoint} for logging in, which is refused: it must be an https address")]
    Endpoint {
        /// The server.
        server: String,
        /// The address.
        endpoint: String,
    },
    /// We cannot register.
    #[error(
        "where one logs in to `{server}`, Pincer cannot register itself ({reason}): register it there by hand, and set `auth.clientId`"
    )]
    Register {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// The browser cannot return.
    #[error("127.0.0.1:{port}, where the browser should return, cannot be listened at: {source}")]
    Port {
        /// The port; 0 is any.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The user, or the server, said no.
    #[error("the login to `{server}` was refused: {reason}")]
    Denied {
        /// The server.
        server: String,
        /// Why.
        reason: DeniedReason,
    },
    /// The browser did not return.
    #[error("nobody logged in to `{server}` within {seconds} seconds")]
    TimedOut {
        /// The server.
        server: String,
        /// How long we waited.
        seconds: u64,
    },
    /// There is no token for the code.
    #[error("the login to `{server}` did not lead to a token: {reason}")]
    Exchange {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
}
