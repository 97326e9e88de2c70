//! Where logins are kept: a file for each server, for this user alone.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::answer::Granted;
use super::error::AuthError;
use crate::clock::unix_seconds;
use crate::http::Remote;
use crate::private::private_directory;

const VERSION: u32 = 1;
/// Longer than a renewal can take, which is what the lock is held for.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
/// There is no event for a lock of another process that can be given up.
const LOCK_LOOK: Duration = Duration::from_millis(20);
/// How long before its end a token is renewed, if it lives long enough.
const MARGIN: u64 = 30;
const USUAL_PATIENCE: Duration = Duration::from_secs(300);

/// The folder of logins.
#[derive(Clone, Debug)]
pub struct Logins {
    directory: PathBuf,
    patience: Duration,
}

/// Whether somebody is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginStatus {
    /// Nobody is.
    LoggedOut,
    /// There is a login for another address, or of another client. It is not used.
    Other {
        /// That address.
        url: String,
    },
    /// Somebody is.
    LoggedIn {
        /// Until when, if that is known.
        expires: Option<SystemTime>,
        /// Whether it is renewed then.
        renewable: bool,
        /// What it is good for.
        scopes: Vec<String>,
    },
    /// Somebody was.
    Expired,
}

/// Whether somebody is logged in to `remote`.
pub fn status(remote: &Remote, logins: &Logins) -> Result<LoginStatus, AuthError> {
    let Some(stored) = logins.read(&remote.name)? else { return Ok(LoginStatus::LoggedOut) };
    if !stored.fits(remote) {
        return Ok(LoginStatus::Other { url: stored.url });
    }
    let renewable = stored.refresh_token.is_some();
    if !renewable && stored.is_over() {
        return Ok(LoginStatus::Expired);
    }
    Ok(LoginStatus::LoggedIn { expires: stored.expires(), renewable, scopes: stored.scopes })
}

/// Forgets a login. Returns whether there was one.
pub async fn logout(server: &str, logins: &Logins) -> Result<bool, AuthError> {
    let path = logins.path(server)?;
    if !path.exists() {
        return Ok(false);
    }
    // Otherwise whoever is about to renew it would bring it back.
    let _lock = logins.lock(server).await?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(AuthError::File { path, source }),
    }
}

/// A login, as it is stored.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Stored {
    pub version: u32,
    /// The address of the server. The login is for no other.
    pub url: String,
    /// What it calls itself.
    pub resource: String,
    pub token_endpoint: String,
    pub client_id: String,
    /// The secret of a client that registered itself. That of a client in the config stays there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    pub secret_in: SecretIn,
    pub scopes: Vec<String>,
    /// What the server has asked for since: the next login asks for it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<String>,
    pub access_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When the token came, in seconds since 1970, and how long it lives.
    pub received: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<u64>,
}

/// Where a client's secret is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SecretIn {
    Header,
    Body,
}

impl Stored {
    pub(super) const VERSION: u32 = VERSION;

    /// Whether this is a login to `remote` as it is configured now.
    pub(super) fn fits(&self, remote: &Remote) -> bool {
        self.url == remote.url.as_str() && remote.oauth.client_id.as_ref().is_none_or(|id| *id == self.client_id)
    }

    /// The same login, with what was granted anew.
    pub(super) fn renewed(&self, granted: Granted) -> Self {
        let mut stored = self.clone();
        stored.access_token = granted.access_token;
        // Nothing said means that nothing has changed.
        stored.refresh_token = granted.refresh_token.or(stored.refresh_token);
        if let Some(scope) = granted.scope {
            stored.scopes = scope.split_whitespace().map(str::to_owned).collect();
        }
        (stored.received, stored.lifetime) = (unix_seconds(), granted.expires_in);
        stored
    }

    pub(super) fn expires(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.received.saturating_add(self.lifetime?)))
    }

    pub(super) fn is_over(&self) -> bool {
        self.lifetime.is_some_and(|lifetime| unix_seconds() >= self.received.saturating_add(lifetime))
    }

    /// Whether it is time for a new token.
    pub(super) fn is_due(&self) -> bool {
        self.lifetime.is_some_and(|lifetime| {
            unix_seconds() >= self.received.saturating_add(lifetime).saturating_sub(MARGIN.min(lifetime / 2))
        })
    }
}

/// Held while a login is changed. Ends when it is dropped, or with the process.
pub(super) struct Lock(#[allow(dead_code, reason = "closing it gives it back")] File);

impl Logins {
    /// The logins of a state directory.
    pub fn new(state: &Path) -> Self {
        Self { directory: state.join("mcp-auth"), patience: USUAL_PATIENCE }
    }

    /// How long somebody has for logging in.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn path(&self, server: &str) -> Result<PathBuf, AuthError> {
        // The config has checked it; a path out of this folder must not hang on that.
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !server.starts_with(|first: char| first.is_ascii_alphabetic()) || !server.bytes().all(allowed) {
            return Err(AuthError::Name { server: server.into() });
        }
        Ok(self.directory.join(format!("{server}.json")))
    }

    pub(super) fn read(&self, server: &str) -> Result<Option<Stored>, AuthError> {
        let path = self.path(server)?;
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(AuthError::File { path, source }),
        };
        // serde's message would quote what it does not like, which may be a token.
        let unreadable =
            |reason: &str| AuthError::Unreadable { path: path.clone(), server: server.into(), reason: reason.into() };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|_| unreadable("it is not JSON"))?;
        if value.get("version").and_then(serde_json::Value::as_u64) != Some(u64::from(VERSION)) {
            return Err(unreadable("it is of another version"));
        }
        serde_json::from_value(value).map(Some).map_err(|_| unreadable("something is missing or too much in it"))
    }

    /// Writes a login, whole or not at all. Whoever changes one holds its lock.
    pub(super) async fn write(&self, server: &str, stored: &Stored) -> Result<(), AuthError> {
        let (directory, path, text) = (self.directory.clone(), self.path(server)?, serde_json::to_vec_pretty(stored));
        let written = {
            let path = path.clone();
            tokio::task::spawn_blocking(move || replace(&directory, &path, &text.map_err(io::Error::from)?)).await
        };
        written.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|source| AuthError::File { path, source })
    }

    /// Waits until no other process, and nobody else in this one, changes the login of `server`.
    pub(super) async fn lock(&self, server: &str) -> Result<Lock, AuthError> {
        // Not the file itself: that is replaced.
        let path = self.path(server)?.with_file_name(format!("{server}.lock"));
        let failed = |source| AuthError::File { path: path.clone(), source };
        private_directory(&self.directory).map_err(failed)?;
        let file = private_file(&path).map_err(failed)?;
        let give_up = tokio::time::Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::WouldBlock) if tokio::time::Instant::now() < give_up => {
                    tokio::time::sleep(LOCK_LOOK).await;
                }
                Err(TryLockError::WouldBlock) => return Err(AuthError::Locked { path }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }
}

fn replace(directory: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    private_directory(directory)?;
    // Made with 0600.
    let mut file = tempfile::Builder::new().prefix(".login-").tempfile_in(directory)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}
