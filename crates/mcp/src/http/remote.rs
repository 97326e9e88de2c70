//! The address of a server, checked.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::settings::{Address, OAuth, Speaks};

/// Headers that are the protocol's own.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// A server that is reached over HTTP.
///
/// It has secrets in it, and so no `Debug`.
#[derive(Clone)]
pub struct Remote {
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) speaks: Speaks,
    pub(crate) headers: HeaderMap,
    pub(crate) proof: Proof,
    pub(crate) oauth: OAuth,
    /// How long a connection may take, and the beginning of a session.
    pub(crate) connect_timeout: Duration,
}

/// What proves to a server who we are.
#[derive(Clone)]
pub(crate) enum Proof {
    /// The token of the config.
    Token(HeaderValue),
    /// A header `Authorization` of the config.
    Header,
    /// What `pincer mcp login` has stored, if it has.
    Login,
}

/// What is wrong with the config of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// Its address cannot be used.
    #[error("mcp.servers.{server}.url {reason}")]
    Url {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("mcp.servers.{server}.headers: `{header}` {reason}")]
    Header {
        /// The server.
        server: String,
        /// The header.
        header: String,
        /// Why.
        reason: &'static str,
    },
    /// A token that no header can carry.
    #[error("mcp.servers.{server}.auth.token has characters that no header can carry")]
    Token {
        /// The server.
        server: String,
    },
    /// Two things that say who we are.
    #[error("mcp.servers.{server} has both `auth.token` and a header `Authorization`: keep one of them")]
    TwoProofs {
        /// The server.
        server: String,
    },
}

impl Remote {
    /// Checks the address of the server `name`, which may take so long to be connected to.
    pub fn new(name: &str, address: &Address, connect_timeout: Duration) -> Result<Self, RemoteError> {
        let url = checked_url(name, &address.url)?;
        let headers = checked_headers(name, &address.headers)?;
        let proof = match &address.token {
            Some(_) if headers.contains_key(AUTHORIZATION) => {
                return Err(RemoteError::TwoProofs { server: name.into() });
            }
            Some(token) => Proof::Token(
                secret(&format!("Bearer {token}")).ok_or_else(|| RemoteError::Token { server: name.into() })?,
            ),
            None if headers.contains_key(AUTHORIZATION) => Proof::Header,
            None => Proof::Login,
        };
        let (oauth, speaks) = (address.oauth.clone(), address.speaks);
        Ok(Self { name: name.into(), url, speaks, headers, proof, oauth, connect_timeout })
    }

    /// The texts that no message may show: what the config gives away to the server and to nobody else.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let token = match &self.proof {
            Proof::Token(value) => value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")),
            Proof::Header | Proof::Login => None,
        };
        // `Bearer x` is as secret without its first word.
        let headers = self.headers.values().filter_map(|value| value.to_str().ok());
        let headers = headers.flat_map(|value| [Some(value), value.rsplit(' ').next()].into_iter().flatten());
        token.into_iter().chain(headers)
    }
}

fn checked_url(name: &str, url: &str) -> Result<Url, RemoteError> {
    let wrong = |reason: String| RemoteError::Url { server: name.into(), reason };
    let mut parsed = Url::parse(url).map_err(|error| wrong(format!("is not an address: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(wrong("must be an http or https address".into()));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(wrong("has a user name or a password in it: put them into `headers`".into()));
    }
    parsed.set_fragment(None);
    Ok(parsed)
}

fn checked_headers(server: &str, given: &BTreeMap<String, String>) -> Result<HeaderMap, RemoteError> {
    let mut headers = HeaderMap::new();
    for (header, value) in given {
        let wrong = |reason| RemoteError::Header { server: server.into(), header: header.clone(), reason };
        let name: HeaderName = header.parse().map_err(|_| wrong("is not the name of a header"))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(wrong("is set by the protocol itself"));
        }
        let value = secret(value).ok_or_else(|| wrong("has a value with characters that no header can carry"))?;
        if headers.insert(name, value).is_some() {
            return Err(wrong("is there twice, in different spellings"));
        }
    }
    Ok(headers)
}

fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}
