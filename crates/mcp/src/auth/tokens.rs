//! The tokens of one connection.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::error::AuthError;
use super::logins::{Logins, Stored};
use super::refresh::{Refreshed, refresh};
use crate::http::Remote;

/// What proves to a server who we are, as long as it can be renewed.
pub(crate) struct Tokens {
    whose: Arc<Whose>,
    /// Held while it is renewed: all requests need what comes of it.
    held: Mutex<Option<Stored>>,
}

struct Whose {
    remote: Remote,
    logins: Logins,
}

impl Tokens {
    pub(crate) fn new(remote: &Remote, logins: Logins) -> Self {
        Self { whose: Arc::new(Whose { remote: remote.clone(), logins }), held: Mutex::new(None) }
    }

    /// A token for a request, renewed if it is about to end. None if nobody is logged in.
    pub(crate) async fn current(&self) -> Result<Option<String>, AuthError> {
        let mut held = self.held.lock().await;
        if held.is_none() {
            *held = self.whose.stored()?;
        }
        let Some(stored) = &*held else { return Ok(None) };
        if !stored.is_due() || stored.refresh_token.is_none() {
            // Without a way to renew it the server decides whether it is still good.
            return Ok(Some(stored.access_token.clone()));
        }
        match self.whose.renewed(&stored.access_token).await {
            // It is good for a little while yet.
            Err(AuthError::Renew { .. }) if !stored.is_over() => Ok(Some(stored.access_token.clone())),
            renewed => self.keep(&mut held, renewed),
        }
    }

    /// Another token than the one that was refused. None if nobody is logged in.
    pub(crate) async fn renew(&self, refused: Option<&str>) -> Result<Option<String>, AuthError> {
        let mut held = self.held.lock().await;
        if let Some(stored) = &*held
            && refused.is_some_and(|refused| refused != stored.access_token)
        {
            // Another request was faster.
            return Ok(Some(stored.access_token.clone()));
        }
        let renewed = self.whose.renewed(refused.unwrap_or_default()).await;
        self.keep(&mut held, renewed)
    }

    /// Another token than the one that was refused, if somebody has logged in since.
    pub(crate) async fn newer(&self, refused: Option<&str>) -> Result<Option<String>, AuthError> {
        let mut held = self.held.lock().await;
        let Some(stored) = self.whose.stored()?.filter(|stored| Some(stored.access_token.as_str()) != refused) else {
            return Ok(None);
        };
        self.keep(&mut held, Ok(Some(stored)))
    }

    /// Remembers what the server wants a login to be good for.
    pub(crate) async fn want(&self, scopes: &str) {
        if let Err(error) = self.whose.want(scopes).await {
            tracing::warn!(server = self.whose.remote.name, %error, "what the next login should ask for could not be stored");
        }
    }

    /// The token that is in use, to keep it out of messages.
    pub(crate) fn held(&self) -> Option<String> {
        self.held.try_lock().ok()?.as_ref().map(|stored| stored.access_token.clone())
    }

    fn keep(
        &self,
        held: &mut Option<Stored>,
        renewed: Result<Option<Stored>, AuthError>,
    ) -> Result<Option<String>, AuthError> {
        *held = renewed?;
        Ok(held.as_ref().map(|stored| stored.access_token.clone()))
    }
}

impl Whose {
    /// What is stored for this server, if it is for this server.
    fn stored(&self) -> Result<Option<Stored>, AuthError> {
        Ok(self.logins.read(&self.remote.name)?.filter(|stored| stored.fits(&self.remote)))
    }

    /// Another login than that with the token `old`.
    ///
    /// A task of its own: once the server has been asked, the old refresh token may be worthless, and the new one must be stored
    /// though nobody waits for it any more.
    async fn renewed(self: &Arc<Self>, old: &str) -> Result<Option<Stored>, AuthError> {
        let (whose, old) = (Arc::clone(self), old.to_owned());
        let renewing = tokio::spawn(async move { whose.renew(&old).await });
        renewing.await.unwrap_or_else(|error| {
            Err(AuthError::Renew { server: self.remote.name.clone(), reason: error.to_string() })
        })
    }

    async fn renew(&self, old: &str) -> Result<Option<Stored>, AuthError> {
        // Servers to which nobody logs in need no lock.
        if self.stored()?.is_none() {
            return Ok(None);
        }
        let _lock = self.logins.lock(&self.remote.name).await?;
        // Whoever had the lock may have done what we want to do.
        let Some(mut stored) = self.stored()? else { return Ok(None) };
        if stored.access_token != old && !stored.is_due() {
            return Ok(Some(stored));
        }
        let server = self.remote.name.clone();
        let Some(token) = stored.refresh_token.clone() else { return Err(AuthError::Expired { server }) };
        match refresh(&self.remote, &stored, &token).await? {
            Refreshed::Granted(granted) => {
                let renewed = stored.renewed(granted);
                if let Err(error) = self.logins.write(&server, &renewed).await {
                    // It still serves this process.
                    tracing::warn!(server, %error, "a renewed login could not be stored");
                }
                Ok(Some(renewed))
            }
            Refreshed::Refused => {
                // Nobody needs to try it again.
                stored.refresh_token = None;
                self.logins.write(&server, &stored).await?;
                Err(AuthError::Expired { server })
            }
        }
    }

    async fn want(&self, scopes: &str) -> Result<(), AuthError> {
        let _lock = self.logins.lock(&self.remote.name).await?;
        let Some(mut stored) = self.stored()? else { return Ok(()) };
        let missing = |scope: &&str| !stored.wanted.iter().chain(&stored.scopes).any(|known| known == scope);
        let new: Vec<String> = scopes.split_whitespace().filter(missing).map(str::to_owned).collect();
        if new.is_empty() {
            return Ok(());
        }
        stored.wanted.extend(new);
        self.logins.write(&self.remote.name, &stored).await
    }
}
