//! The HTTP of old servers (MCP 2024-11-05): one stream of events from them, and posts to them beside it.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use pincer_http::shown;
use pincer_json::JsonError;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Url};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client::{Call, HttpClient, MOST_ANSWER_BYTES};
use super::error::HttpError;
use super::events::{EventError, events};
use super::raw;
use super::wire::Trouble;

/// A connection to an old server. It ends with its stream.
pub(super) struct Sse {
    http: HttpClient,
    /// Where messages are sent.
    endpoint: Url,
    events: Option<Events>,
    /// The greeting is rmcp's to read; what comes after is taken as it is.
    greeted: bool,
    trouble: Trouble,
    over: CancellationToken,
    _over: DropGuard,
}

impl Sse {
    /// Opens the stream, and waits until the server has said where it wants messages.
    pub(super) async fn open(http: HttpClient, trouble: Trouble) -> Result<Self, HttpError> {
        let limit = http.remote().connect_timeout;
        let opened = tokio::time::timeout(limit, opened(&http)).await;
        let (endpoint, events) = opened.unwrap_or(Err(HttpError::Timeout { limit }))?;
        let over = CancellationToken::new();
        Ok(Self {
            http,
            endpoint,
            events: Some(events),
            greeted: false,
            trouble,
            _over: over.clone().drop_guard(),
            over,
        })
    }

    fn read(&mut self, text: &str) -> Result<ServerJsonRpcMessage, JsonError> {
        if self.greeted {
            return raw::sealed(text);
        }
        let message = serde_json::from_str(text).map_err(JsonError::Syntax)?;
        self.greeted = matches!(message, JsonRpcMessage::Response(_));
        Ok(message)
    }
}

type Events = BoxStream<'static, Result<sse_stream::Sse, EventError>>;

async fn opened(http: &HttpClient) -> Result<(Url, Events), HttpError> {
    let url = &http.remote().url;
    let response = http.send(Call::new(Method::GET, url.clone(), "text/event-stream")).await?;
    if !response.status().is_success() {
        return Err(http.failed(response).await);
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    if !kind.as_ref().is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return Err(HttpError::ContentType { kind, wanted: "events" });
    }
    let mut events = events(response, MOST_ANSWER_BYTES);
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| HttpError::Broken { reason: error.to_string() })?;
        if event.event.as_deref() != Some("endpoint") {
            continue;
        }
        let endpoint = url.join(event.data.unwrap_or_default().trim()).map_err(|_| HttpError::NoEndpoint)?;
        // What is sent there has our headers and our token with it.
        if endpoint.origin() != url.origin() {
            return Err(HttpError::OtherOrigin { to: shown(&endpoint) });
        }
        return Ok((endpoint, events));
    }
    Err(HttpError::NoEndpoint)
}

impl Transport<RoleClient> for Sse {
    type Error = HttpError;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        let (http, over) = (self.http.clone(), self.over.clone());
        let call = Call::new(Method::POST, self.endpoint.clone(), "*/*").json(&message);
        async move {
            let response = tokio::select! {
                biased;
                () = over.cancelled() => return Err(HttpError::Closed),
                response = http.send(call?) => response?,
            };
            if response.status().is_success() { Ok(()) } else { Err(http.failed(response).await) }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = match self.events.as_mut()?.next().await {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    self.trouble.note(&error);
                    self.events = None;
                    return None;
                }
                None => {
                    self.trouble.note(&"ended its stream of events");
                    self.events = None;
                    return None;
                }
            };
            if !matches!(event.event.as_deref(), None | Some("" | "message")) {
                continue;
            }
            match self.read(&event.data.unwrap_or_default()) {
                Ok(message) => return Some(message),
                Err(error) => {
                    tracing::warn!(server = self.http.remote().name, %error, "an event is not an MCP message")
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.over.cancel();
        self.events = None;
        Ok(())
    }
}
