//! Requests of a server: within the time that a call may take, which covers its start too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pincer_json::Json;
use pincer_tools::{Effect, ToolError};
use rmcp::model::{ClientRequest, CustomRequest, ErrorCode};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Purpose, Server, refusal};
use crate::connection::{Connection, Failure};
use crate::inflight::Caller;

impl Server {
    /// Makes a request of it.
    pub(crate) async fn request(
        self: &Arc<Self>,
        request: ClientRequest,
        caller: Option<Caller>,
        abort: &CancellationToken,
    ) -> Result<Json, ToolError> {
        let span = tracing::debug_span!("mcp_request", server = self.name(), method = request.method());
        let deadline = Instant::now() + self.settings.call_timeout;
        let making = async {
            let made = self.attempt(request.clone(), caller.clone(), abort, deadline).await;
            // A connection that was found over when it was needed has done nothing.
            match made {
                Err(Failure::NotMade(_)) => self.attempt(request, caller, abort, deadline).await,
                made => made,
            }
        };
        making.instrument(span).await.map_err(|failure| self.explain(failure))
    }

    async fn attempt(
        self: &Arc<Self>,
        request: ClientRequest,
        caller: Option<Caller>,
        abort: &CancellationToken,
        deadline: Instant,
    ) -> Result<Json, Failure> {
        let connection = match self.running() {
            Some(connection) => connection,
            None => self.connection_by(deadline, abort).await?,
        };
        let made = crate::rounds::request(&connection, &self.settings, request, caller, abort, deadline).await;
        if matches!(made, Ok(_) | Err(Failure::Refused(_) | Failure::Garbled(_))) {
            self.falls.store(0, Ordering::Relaxed);
        }
        made
    }

    /// Returns the connection, if there is one and nothing is being done about it.
    fn running(&self) -> Option<Arc<Connection>> {
        let life = self.life.try_lock().ok()?;
        life.running.as_ref().filter(|connection| connection.over().is_none()).cloned()
    }

    /// Returns the connection, or a new one if it is there by then. The time that a call may take is not the server's to start in:
    /// it goes on starting when the call is given up, so that a later call finds it.
    async fn connection_by(
        self: &Arc<Self>,
        deadline: Instant,
        abort: &CancellationToken,
    ) -> Result<Arc<Connection>, Failure> {
        let server = Arc::clone(self);
        let connecting = tokio::spawn(async move { server.connection(Purpose::Call).await });
        tokio::select! {
            biased;
            () = abort.cancelled() => Err(Failure::Aborted),
            connection = connecting => match connection {
                Ok(connection) => connection.map_err(|error| Failure::Down(error.to_string())),
                Err(_) => Err(Failure::Down("could not be connected to: this is a bug".into())),
            },
            () = tokio::time::sleep_until(deadline) => Err(Failure::Starting),
        }
    }

    fn explain(&self, failure: Failure) -> ToolError {
        match failure {
            Failure::Starting => {
                let limit = self.settings.call_timeout.as_millis();
                let late = format!("is still starting: it was not there within {limit} ms");
                ToolError::before(self.says(&format!("{late}. Call it again, or raise its `timeoutMs`")))
            }
            Failure::Down(why) | Failure::NotMade(why) => ToolError::before(self.says(&format!("is down: it {why}"))),
            Failure::TurnedAway(why) => ToolError::before(self.says(&why)),
            Failure::Lost(why) => ToolError::unknown(self.says(&format!("{why}, in the middle of the call"))),
            Failure::Garbled(wrong) => ToolError::unknown(self.says(&wrong)),
            Failure::Late(_) => {
                let late = format!("did not answer within {} ms", self.settings.call_timeout.as_millis());
                ToolError::unknown(self.says(&format!("{late}; if it needs longer, raise its `timeoutMs`")))
            }
            Failure::Aborted => ToolError::unknown("the call was aborted"),
            Failure::Refused(error) => {
                let effect = match error.code {
                    ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_REQUEST => {
                        Effect::None
                    }
                    _ => Effect::Unknown,
                };
                ToolError { message: self.says(&refusal(&error)), effect, detail: serde_json::to_value(&error).ok() }
            }
        }
    }

    /// Tells it from which level on it is to send its log, if it keeps one.
    pub async fn set_log_level(self: &Arc<Self>, level: Value) -> Result<(), ToolError> {
        self.ask_for("logging/setLevel", serde_json::json!({ "level": level })).await
    }

    /// Asks it to tell when a resource changes.
    pub async fn subscribe(self: &Arc<Self>, uri: &str) -> Result<(), ToolError> {
        self.ask_for("resources/subscribe", serde_json::json!({ "uri": uri })).await
    }

    /// Asks it to tell no more.
    pub async fn unsubscribe(self: &Arc<Self>, uri: &str) -> Result<(), ToolError> {
        self.ask_for("resources/unsubscribe", serde_json::json!({ "uri": uri })).await
    }

    async fn ask_for(self: &Arc<Self>, method: &str, params: Value) -> Result<(), ToolError> {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        self.request(request, None, &CancellationToken::new()).await.map(drop)
    }
}
