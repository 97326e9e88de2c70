//! Streamable HTTP, as rmcp's worker wants it done.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use pincer_http::excerpt;
use pincer_json::JsonError;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransport,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{Call, EXCERPT_CHARS, HttpClient, MOST_ANSWER_BYTES, failure_body, read};
use super::error::HttpError;
use super::events::{EventError, events};
use super::raw::{sealed, sealed_text};
use super::wire::Trouble;
use crate::params::ParamHeaders;
use crate::sealed::wrong;

const BOTH: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
/// How long at most until a stream of the server's own is asked for again, when it cannot be had.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// Streams are not asked for more often than this. rmcp waits not at all after an error, or if the server says so.
const BETWEEN_STREAMS: Duration = Duration::from_millis(200);
/// How long a first call waits for the stream of the server's own. What a server sends there before, it sends to nobody.
const STREAM_PATIENCE: Duration = Duration::from_millis(500);
/// How many requests may be without an answer at once.
const MOST_CONCURRENT: usize = 64;

type Failure = StreamableHttpError<HttpError>;

/// The transport of a server that speaks streamable HTTP.
pub(super) fn transport(http: HttpClient, trouble: Trouble) -> StreamableHttpClientTransport<Streamable> {
    let mut backoff = ExponentialBackoff::default();
    backoff.max_delay = Some(LONGEST_BACKOFF);
    let mut config = StreamableHttpClientTransportConfig::with_uri(http.remote().url.as_str())
        .max_sse_event_size(MOST_ANSWER_BYTES)
        .max_concurrent_requests(MOST_CONCURRENT);
    config.retry_config = Arc::new(backoff);
    let streams = Arc::new(Streams {
        last: tokio::sync::Mutex::new(None),
        oversized: AtomicBool::new(false),
        answered: watch::channel(false).0,
    });
    StreamableHttpClientTransport::with_client(Streamable { http, trouble, streams }, config)
}

/// What rmcp's worker sends with.
#[derive(Clone)]
pub(super) struct Streamable {
    http: HttpClient,
    trouble: Trouble,
    streams: Arc<Streams>,
}

/// What is known of the streams that were asked for.
struct Streams {
    last: tokio::sync::Mutex<Option<Instant>>,
    /// A stream had an event that is too large. It would have it again.
    oversized: AtomicBool,
    /// One was asked for, and there was an answer, whatever it was.
    answered: watch::Sender<bool>,
}

impl Streams {
    /// Waits until the first one is there, or is known not to be; once, and not for long.
    async fn first_answer(&self) {
        let mut answered = self.answered.subscribe();
        if tokio::time::timeout(STREAM_PATIENCE, answered.wait_for(|answered| *answered)).await.is_err() {
            self.answered.send_replace(true);
        }
    }
}

impl Streamable {
    fn call(&self, method: Method, uri: &str, accept: &'static str) -> Result<Call, HttpError> {
        let url = Url::parse(uri).map_err(|error| HttpError::NoMessage { reason: error.to_string() })?;
        Ok(Call::new(method, url, accept))
    }

    async fn post(
        &self,
        uri: &str,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let mut call =
            self.call(Method::POST, uri, BOTH).and_then(|call| call.json(&message)).map_err(Failure::Client)?;
        call.headers_mut().extend(ParamHeaders::with(&message, &headers));
        add(&mut call, headers, session.as_deref());
        if session.is_some() && may_ask(&message) {
            self.streams.first_answer().await;
        }
        let response = self.http.send(call).await.map_err(Failure::Client)?;
        let status = response.status();
        let id = header(&response, "mcp-session-id").map(str::to_owned);
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return self.refused(response, &message, session.is_some(), id).await;
        }
        let awaited = awaited(&message);
        let kind = header(&response, CONTENT_TYPE.as_str()).map(str::to_owned);
        // Nothing is waited for: whatever came, it is no failure.
        let Some(awaited) = awaited else { return Ok(StreamableHttpPostResponse::Accepted) };
        match kind.as_deref() {
            Some(kind) if kind.starts_with(EVENTS) => {
                let stream = if begins(&message) {
                    bounded(self.greeting(response, awaited), self.patience(&message))
                } else {
                    self.answering(response, awaited)
                };
                Ok(StreamableHttpPostResponse::Sse(stream, id))
            }
            Some(kind) if kind.starts_with(JSON) => {
                let body = read(&self.http, response).await.map_err(Failure::Client)?;
                // The greeting is rmcp's to read.
                let answer = if begins(&message) {
                    serde_json::from_slice(&body).map_err(JsonError::Syntax)
                } else {
                    sealed(&String::from_utf8_lossy(&body))
                };
                match answer {
                    Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, id)),
                    Err(JsonError::TooManyNodes) => Err(Failure::Client(HttpError::TooManyNodes)),
                    Err(error) => Err(Failure::Client(HttpError::NoMessage { reason: told(&error) })),
                }
            }
            _ => Err(Failure::Client(HttpError::ContentType { kind, wanted: "JSON or events" })),
        }
    }

    /// A status that is no success may still have an answer with it.
    async fn refused(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        id: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(Failure::SessionExpired);
        }
        let body = failure_body(response).await;
        let said = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) => Some(error),
            _ => None,
        };
        // rmcp begins with `initialize` if the server does not know this request; it needs an answer with the id to see that.
        if let JsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && status.is_client_error()
        {
            let error = said.map_or_else(
                || ErrorData::invalid_request(format!("server/discover was answered with {status}"), None),
                |said| said.error,
            );
            return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error, Some(request.id.clone())), None));
        }
        match said {
            Some(said) => Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(said), id)),
            None => Err(Failure::Client(self.http.failed_with(status, &body))),
        }
    }

    /// The events that answer a request. What cannot be used becomes an error that answers it: rmcp would only say that the stream
    /// has ended, or ask for the same again, or say nothing and wait.
    fn answering(&self, response: Response, awaited: RequestId) -> BoxStream<'static, Result<Sse, SseError>> {
        let failed = awaited.clone();
        let events = self.greeting(response, awaited);
        let sealed = events.map(move |event| match event {
            Ok(mut event) if carries_message(&event) => match sealed_text(event.data.take().unwrap_or_default()) {
                Ok(data) => Ok(Sse { data: Some(data), ..event }),
                Err(error @ JsonError::TooManyNodes) => instead(&failed, wrong(&error)),
                Err(error) => instead(&failed, format!("sent what is not an MCP message: {}", told(&error))),
            },
            event => event,
        });
        sealed.boxed()
    }

    fn greeting(&self, response: Response, awaited: RequestId) -> BoxStream<'static, Result<Sse, SseError>> {
        let trouble = self.trouble.clone();
        let events = events(response, MOST_ANSWER_BYTES).map(move |event| match event {
            Err(error @ EventError::TooLarge { .. }) => instead(&awaited, error.to_string()),
            event => event.map_err(|error| {
                trouble.note(&error);
                SseError::Body(Box::new(error))
            }),
        });
        events.boxed()
    }

    async fn stream(
        &self,
        uri: &str,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        // This is the answer at which rmcp does not ask again.
        if self.streams.oversized.load(Ordering::Relaxed) {
            return Err(Failure::ServerDoesNotSupportSse);
        }
        self.pace().await;
        let mut call = self.call(Method::GET, uri, EVENTS).map_err(Failure::Client)?;
        add(&mut call, headers, session.as_deref());
        if let Some(value) = last_event.and_then(|id| HeaderValue::from_str(&id).ok()) {
            call.headers_mut().insert("last-event-id", value);
        }
        let response = self.http.send(call).await;
        self.streams.answered.send_replace(true);
        let response = match response {
            Ok(response) => response,
            // At this it does not ask again either.
            Err(error) if error.is_about_login() => {
                return Err(Failure::AuthRequired(AuthRequiredError::new(error.to_string())));
            }
            Err(error) => return Err(Failure::Client(error)),
        };
        let events_come = header(&response, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(EVENTS));
        match response.status() {
            status if status.is_success() && events_come => {}
            // Whoever has no such stream says so in one way or another.
            status if status.is_success() || status.is_client_error() => return Err(Failure::ServerDoesNotSupportSse),
            _ => return Err(Failure::Client(self.http.failed(response).await)),
        }
        let streams = Arc::clone(&self.streams);
        let stream = events(response, MOST_ANSWER_BYTES).map(move |event| {
            if let Err(EventError::TooLarge { .. }) = &event {
                streams.oversized.store(true, Ordering::Relaxed);
            }
            let mut event = event.map_err(|error| SseError::Body(Box::new(error)))?;
            if carries_message(&event) {
                // What is no message is passed over, as rmcp does.
                event.data = event.data.map(|data| sealed_text(data).unwrap_or_default());
            }
            Ok(event)
        });
        Ok(stream.boxed())
    }

    async fn pace(&self) {
        let mut last = self.streams.last.lock().await;
        if let Some(last) = *last {
            tokio::time::sleep_until(last + BETWEEN_STREAMS).await;
        }
        *last = Some(Instant::now());
    }

    /// How long a message may take. Calls are timed by whoever makes them; what begins a session, and what needs no answer, is
    /// awaited by rmcp even when nobody is there any more.
    fn patience(&self, message: &ClientJsonRpcMessage) -> Option<Duration> {
        let waits = matches!(message, JsonRpcMessage::Request(_)) && !begins(message);
        (!waits).then_some(self.http.remote().connect_timeout)
    }
}

impl StreamableHttpClient for Streamable {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let patience = self.patience(&message);
        let post = self.post(&uri, message, session_id, custom_headers);
        match patience {
            None => post.await,
            Some(limit) => tokio::time::timeout(limit, post)
                .await
                .unwrap_or_else(|_| Err(Failure::Client(HttpError::Timeout { limit }))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let mut call = self.call(Method::DELETE, &uri, BOTH).map_err(Failure::Client)?;
        add(&mut call, custom_headers, Some(&session_id));
        let response = self.http.send(call).await.map_err(Failure::Client)?;
        // A session that cannot be ended, or has ended, is none of our concern any more.
        if response.status().is_server_error() {
            return Err(Failure::Client(self.http.failed(response).await));
        }
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.stream(&uri, session_id, last_event_id, custom_headers).await
    }
}

fn add(call: &mut Call, headers: HashMap<HeaderName, HeaderValue>, session: Option<&str>) {
    call.headers_mut().extend(headers);
    if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
        call.headers_mut().insert("mcp-session-id", session);
    }
}

/// Whether a server may ask us for something before it answers.
fn may_ask(message: &ClientJsonRpcMessage) -> bool {
    use ClientRequest::{CallToolRequest, GetPromptRequest, ReadResourceRequest};
    matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, CallToolRequest(_) | GetPromptRequest(_) | ReadResourceRequest(_)))
}

/// Whether a message begins a session.
fn begins(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)))
}

fn carries_message(event: &Sse) -> bool {
    matches!(event.event.as_deref(), None | Some("" | "message"))
        && event.data.as_ref().is_some_and(|data| !data.trim().is_empty())
}

/// An event that answers a request in place of what came.
fn instead(request: &RequestId, why: String) -> Result<Sse, SseError> {
    let answer = ServerJsonRpcMessage::error(ErrorData::parse_error(why, None), Some(request.clone()));
    let answer = serde_json::to_string(&answer).map_err(|error| SseError::Body(Box::new(error)))?;
    Ok(Sse::default().data(answer))
}

fn told(error: &JsonError) -> String {
    // The caller's sentence says that it is no JSON.
    let told = match error {
        JsonError::Syntax(error) => error.to_string(),
        error => error.to_string(),
    };
    excerpt(&told, EXCERPT_CHARS)
}

fn awaited(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// Ends a stream when its time is over.
fn bounded(
    stream: BoxStream<'static, Result<Sse, SseError>>,
    patience: Option<Duration>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    match patience {
        None => stream,
        Some(limit) => stream.take_until(tokio::time::sleep(limit)).boxed(),
    }
}
