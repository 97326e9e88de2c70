//! The one writer of a session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_store::{
    Changes, Clock, Committed, Fence, Leases, Reply, Safety, Session, SessionCommit, SessionId, SessionKey, Sessions,
    StoreError,
};
use tokio::sync::Mutex;

/// How often a session that another process writes to is looked up.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often it is looked whether that process is alive: its death changes nothing in the store.
const LOOK_ALIVE: Duration = Duration::from_millis(250);

/// What writers need of a store.
pub trait SessionStore: Sessions + Clock + Changes + Send + Sync {}
impl<T: Sessions + Clock + Changes + Send + Sync> SessionStore for T {}

/// Why a session cannot be written to.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// Another writer has it.
    #[error(
        "session busy: {key} is being written to by {}, and was not free within {} ms. Wait for it, or stop it with `pincer sessions abort {key}`",
        if *is_here { "this process" } else { "another process" },
        waited.as_millis()
    )]
    Busy {
        /// The session.
        key: SessionKey,
        /// Whether the other writer is in this process.
        is_here: bool,
        /// How long it was waited for.
        waited: Duration,
    },
    /// There is no such session.
    #[error("there is no session {0}: `pincer sessions list` shows those there are")]
    Missing(SessionKey),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether a writer may share the right that this process has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reentry {
    /// It waits like any other.
    #[default]
    Refused,
    /// It shares it, and leaves giving it up to the other.
    Allowed,
}

/// The right to write to a session. It is proved in every commit, so that a writer that was thought dead changes nothing.
pub struct Writer {
    store: Arc<dyn SessionStore>,
    /// The session as it was when it was taken.
    session: Session,
    fence: Fence,
    is_shared: bool,
    released: Mutex<bool>,
}

impl Writer {
    /// Takes a session, and waits for as long as `timeout` while another writer has it. The writer of a process that is gone is
    /// followed at once.
    pub async fn acquire(
        store: Arc<dyn SessionStore>,
        leases: &dyn Leases,
        user: &str,
        key: &SessionKey,
        timeout: Duration,
        reentry: Reentry,
    ) -> Result<Self, AcquireError> {
        let began = Instant::now();
        let own = leases.hold().await?;
        let mut changes = None;
        loop {
            let found = store.current_session(user, key).await?;
            let session = found.ok_or_else(|| AcquireError::Missing(key.clone()))?;
            let is_here = session.owner.as_ref() == Some(&own);
            if is_here && reentry == Reentry::Allowed {
                let fence = session.fence;
                return Ok(Self { store, session, fence, is_shared: true, released: Mutex::new(false) });
            }
            let is_free = match &session.owner {
                None => true,
                Some(owner) => !is_here && !leases.is_alive(owner).await?,
            };
            if is_free {
                let first = SessionCommit { now: store.now(), ..SessionCommit::default() };
                match store.claim_session(&session.id, session.fence, &own, first).await {
                    Ok(fence) => {
                        return Ok(Self { store, session, fence, is_shared: false, released: Mutex::new(false) });
                    }
                    // Another writer was faster.
                    Err(StoreError::SessionFenced { .. } | StoreError::Missing { .. }) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(AcquireError::Busy { key: key.clone(), is_here, waited: timeout });
            }
            let changes = changes.get_or_insert_with(|| store.watch(LOOK_AGAIN));
            let pause = if is_here { LOOK_AGAIN } else { LOOK_ALIVE };
            tokio::select! {
                () = changes.changed() => {}
                () = tokio::time::sleep(pause.min(left)) => {}
            }
        }
    }

    /// Returns the session as it was when it was taken.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the proof.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Stores a change.
    pub fn commit(&self, commit: SessionCommit, safety: Safety) -> Reply<Committed> {
        self.store.commit_session(&self.session.id, self.fence, commit, safety)
    }

    /// Begins another session under the same key, and writes to that from now on.
    pub async fn reset(&mut self, next: SessionId, reason: &str) -> Result<(), StoreError> {
        let now = self.store.now();
        self.session = self.store.reset_session(&self.session.id, self.fence, next, reason, now).await?;
        self.fence = self.session.fence;
        Ok(())
    }

    /// Forgets the session. If that fails, the session is given up.
    pub async fn delete(self) -> Result<(), StoreError> {
        self.store.delete_session(&self.session.id, self.fence).await?;
        *self.released.lock().await = true;
        Ok(())
    }

    /// Gives the session up.
    pub async fn release(self) -> Result<(), StoreError> {
        let mut released = self.released.lock().await;
        if self.is_shared || std::mem::replace(&mut *released, true) {
            return Ok(());
        }
        let last = SessionCommit { release: true, now: self.store.now(), ..SessionCommit::default() };
        self.store.commit_session(&self.session.id, self.fence, last, Safety::Process).await.map(drop)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_shared && !*self.released.get_mut() {
            let last = SessionCommit { release: true, now: self.store.now(), ..SessionCommit::default() };
            // The work of a store goes on when its reply is dropped.
            drop(self.store.commit_session(&self.session.id, self.fence, last, Safety::Process));
        }
    }
}
