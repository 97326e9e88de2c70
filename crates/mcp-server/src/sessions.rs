//! The HTTP sessions of one user: so many, and each as long as it is used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

/// The most sessions of a user. A client that goes without a word leaves one behind.
pub(crate) const MOST: usize = 256;
/// A session that is not used for so long is over. A person may take an hour over a question.
const IDLE: Duration = Duration::from_secs(2 * 3600);

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionsError {
    #[error("this user has {MOST} sessions with requests under way: end one (DELETE), or try again later")]
    Full,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// The sessions of one user. Where there are too many, a new one takes the place of the one that was used least recently and for
/// which nothing is under way.
#[derive(Default)]
pub(crate) struct Sessions {
    local: LocalSessionManager,
    used: Mutex<HashMap<SessionId, Used>>,
}

struct Used {
    last: Instant,
    /// Shared with the streams of its requests.
    streams: Arc<()>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(IDLE);
        Self { local, used: Mutex::default() }
    }

    /// A map that no panic can leave half-changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Used>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one more session. Returns the one that must go.
    fn room(&self) -> Result<Option<SessionId>, SessionsError> {
        let mut used = self.lock();
        if used.len() < MOST {
            return Ok(None);
        }
        let unused = used.iter().filter(|(_, used)| Arc::strong_count(&used.streams) == 1);
        let (id, _) = unused.min_by_key(|(_, used)| used.last).ok_or(SessionsError::Full)?;
        let id = id.clone();
        used.remove(&id);
        Ok(Some(id))
    }

    /// Notes that a session is used. Returns a token that its stream keeps.
    fn touch(&self, id: &SessionId) -> Option<Arc<()>> {
        let mut used = self.lock();
        let used = used.get_mut(id)?;
        used.last = Instant::now();
        Some(Arc::clone(&used.streams))
    }
}

/// A stream that keeps its session from being taken for an unused one.
fn kept(
    stream: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    token: Option<Arc<()>>,
) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    stream.map(move |message| {
        let _ = &token;
        message
    })
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        if let Some(oldest) = self.room()? {
            self.local.close_session(&oldest).await?;
        }
        let (id, transport) = self.local.create_session().await?;
        self.lock().insert(id.clone(), Used { last: Instant::now(), streams: Arc::default() });
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.lock().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let token = self.touch(id);
        Ok(kept(self.local.create_stream(id, message).await?, token))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.touch(id);
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        // Clients keep this one open for as long as they live, so it says nothing of what is under way. It ends with its session.
        self.touch(id);
        Ok(self.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let token = self.touch(id);
        Ok(kept(self.local.resume(id, last_event_id).await?, token))
    }
}
