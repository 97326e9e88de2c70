//! What a server can do wrong, or refuse.

use std::time::Duration;

use pincer_json::JsonError;

use crate::auth::AuthError;

/// Why there is no answer. The messages go on from the server's name, which the caller says.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// There is no client.
    #[error("cannot be asked: there can be no web client: {0}")]
    Client(#[source] reqwest::Error),
    /// Nobody has logged in.
    #[error("needs a login: run `pincer mcp login {server}`")]
    NeedsLogin {
        /// The server.
        server: String,
    },
    /// The token of the config is not accepted.
    #[error("refused the token: check `auth.token` of the config")]
    TokenRefused,
    /// The header of the config is not accepted.
    #[error("refused the header `Authorization`: check `headers` of the config")]
    HeaderRefused,
    /// A login that is not accepted though it was just renewed.
    #[error("does not accept the login: run `pincer mcp login {server}`")]
    LoginRefused {
        /// The server.
        server: String,
    },
    /// The login cannot be used.
    #[error("cannot be used: {0}")]
    Login(#[from] AuthError),
    /// The login is for less than what was asked.
    #[error("wants a login with more rights{}: run `pincer mcp login {server}`", scopes(.needed))]
    Scopes {
        /// The server.
        server: String,
        /// What it wants.
        needed: Option<String>,
    },
    /// We may not.
    #[error("does not allow this (403 Forbidden){}", said(.excerpt))]
    Forbidden {
        /// What it said.
        excerpt: String,
    },
    /// There is nothing at its address.
    #[error("has nothing at its address (404 Not Found): check `url` of the config")]
    NotFound,
    /// Too many requests.
    #[error("has had too many requests (429){}", wait(.after))]
    TooMany {
        /// How long it wants us to wait.
        after: Option<Duration>,
    },
    /// Any other failure.
    #[error("answered {status}{}", said(.excerpt))]
    Status {
        /// The status, with its name.
        status: reqwest::StatusCode,
        /// What it said.
        excerpt: String,
    },
    /// It sends us elsewhere.
    #[error("redirects to {to}, which is not followed: if it has moved, change `url` of the config")]
    Redirect {
        /// Where, without what may be secret.
        to: String,
    },
    /// It names another origin where it should name its own.
    #[error("wants messages to be sent to {to}, which is not its own origin; that is refused")]
    OtherOrigin {
        /// Where.
        to: String,
    },
    /// More than is read.
    #[error("answered with more than {} MiB, which is refused", most >> 20)]
    TooLarge {
        /// How much is read.
        most: usize,
    },
    /// Neither JSON nor events.
    #[error("answered with {}, not with {wanted}: check `url` of the config", what(.kind))]
    ContentType {
        /// What it says it is.
        kind: Option<String>,
        /// What should have come.
        wanted: &'static str,
    },
    /// JSON that is no message.
    #[error("answered with what is not an MCP message: {reason}")]
    NoMessage {
        /// Why.
        reason: String,
    },
    /// A message of a hostile shape.
    #[error("answered with a message {}: ask it for less", JsonError::TooManyNodes)]
    TooManyNodes,
    /// An old server that does not say where it wants messages.
    #[error("did not say where it wants messages to be sent")]
    NoEndpoint,
    /// It takes too long.
    #[error("did not answer within {} ms", limit.as_millis())]
    Timeout {
        /// How long it had.
        limit: Duration,
    },
    /// There is no such host.
    #[error("cannot be reached: there is no address for {host}")]
    Unknown {
        /// The host.
        host: String,
    },
    /// Nobody listens.
    #[error("refused the connection: nothing listens at {at}")]
    Refused {
        /// The host and port.
        at: String,
    },
    /// Its certificate is none for us.
    #[error("has a certificate that is not accepted: {reason}")]
    Certificate {
        /// Why.
        reason: String,
    },
    /// TLS fails.
    #[error("does not speak TLS as it should: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
    /// There is no connection.
    #[error("cannot be connected to: {reason}")]
    Connect {
        /// Why.
        reason: String,
    },
    /// The connection ended too early.
    #[error("broke off: {reason}")]
    Broken {
        /// Why.
        reason: String,
    },
    /// The connection is over.
    #[error("is not connected any more")]
    Closed,
}

impl HttpError {
    /// Whether an old server may have said this to a message it does not know what to do with.
    pub(crate) fn is_of_old_server(&self) -> bool {
        match self {
            Self::NotFound => true,
            // These say something about the request, not about its kind.
            Self::Status { status, .. } => status.is_client_error() && !matches!(status.as_u16(), 407 | 408),
            _ => false,
        }
    }

    /// Whether another try could not go better.
    pub(crate) fn is_about_login(&self) -> bool {
        matches!(
            self,
            Self::NeedsLogin { .. }
                | Self::TokenRefused
                | Self::HeaderRefused
                | Self::LoginRefused { .. }
                | Self::Login(_)
                | Self::Scopes { .. }
                | Self::Forbidden { .. }
        )
    }
}

fn said(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") }
}

fn scopes(needed: &Option<String>) -> String {
    needed.as_ref().map(|needed| format!(" (`{needed}`)")).unwrap_or_default()
}

fn wait(after: &Option<Duration>) -> String {
    after.map(|after| format!(": it asks to wait for {} seconds", after.as_secs())).unwrap_or_default()
}

fn what(kind: &Option<String>) -> String {
    kind.as_ref().map_or_else(|| "something without a type".to_owned(), |kind| format!("`{kind}`"))
}
