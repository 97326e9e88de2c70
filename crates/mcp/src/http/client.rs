//! Requests to one server: what proves who we are, what is tried again, what is refused.

use std::sync::Arc;
use std::time::Duration;

use pincer_http::{client, excerpt, failure, shown};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, Url};
use rmcp::transport::WWWAuthenticateParams;

use super::cause::failed;
use super::error::HttpError;
use super::remote::{Proof, Remote};
use crate::auth::{Logins, Tokens};
use crate::limits::MOST_MESSAGE_BYTES;

/// How much of an answer is read, and how large an event may be.
pub(crate) const MOST_ANSWER_BYTES: usize = MOST_MESSAGE_BYTES;
/// How much of a failure's body is read, and for how long.
const MOST_FAILURE_BYTES: usize = 64 << 10;
const FAILURE_PATIENCE: Duration = Duration::from_secs(5);
pub(super) const EXCERPT_CHARS: usize = 200;
/// How often and how long we wait when a server has had too many requests.
const MOST_WAITS: usize = 2;
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const USUAL_WAIT: Duration = Duration::from_secs(1);
const MOST_REDIRECTS: usize = 5;
/// A text as short as this says nothing when it is left out of a message, and is in many words.
const SHORTEST_SECRET: usize = 6;

/// A client for one server. Clones are the same client.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Inner>);

struct Inner {
    client: Client,
    remote: Remote,
    /// Set if a login is what proves who we are.
    tokens: Option<Arc<Tokens>>,
}

/// One request. It may be sent more than once.
pub(crate) struct Call {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Call {
    pub(crate) fn new(method: Method, url: Url, accept: &'static str) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        Self { method, url, headers, body: None }
    }

    pub(crate) fn json(mut self, message: &impl serde::Serialize) -> Result<Self, HttpError> {
        let body = serde_json::to_vec(message)
            .map_err(|error| HttpError::NoMessage { reason: excerpt(&error.to_string(), EXCERPT_CHARS) })?;
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = Some(body);
        Ok(self)
    }

    pub(crate) fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }
}

impl HttpClient {
    /// A client for `remote`. It reads all certificates of the system, if it needs them: make it when there is something to ask.
    pub(crate) fn new(remote: &Remote, logins: Option<&Logins>) -> Result<Self, HttpError> {
        let tokens = match (&remote.proof, logins) {
            (Proof::Login, Some(logins)) => Some(Arc::new(Tokens::new(remote, logins.clone()))),
            _ => None,
        };
        let client = client(&remote.url)
            .redirect(within_origin())
            .connect_timeout(remote.connect_timeout)
            .build()
            .map_err(HttpError::Client)?;
        Ok(Self(Arc::new(Inner { client, remote: remote.clone(), tokens })))
    }

    pub(crate) fn remote(&self) -> &Remote {
        &self.0.remote
    }

    /// Sends a request until it is neither refused for a token that can be renewed, nor put off for a short while. What comes
    /// back is anything but a redirect, 401, 403 and 429.
    pub(crate) async fn send(&self, call: Call) -> Result<Response, HttpError> {
        let (mut waits, mut renewed) = (0, Renewed::NotYet);
        let mut token = self.token().await?;
        loop {
            let response = self.attempt(&call, token.as_deref()).await?;
            match response.status() {
                StatusCode::UNAUTHORIZED => {
                    let Some(tokens) = self.0.tokens.as_ref().filter(|_| renewed == Renewed::NotYet) else {
                        return Err(self.unauthorized(token.as_deref()));
                    };
                    renewed = Renewed::Once;
                    token = Some(tokens.renew(token.as_deref()).await?.ok_or_else(|| self.unauthorized(None))?);
                }
                StatusCode::FORBIDDEN => match self.newer(token.as_deref()).await? {
                    Some(newer) if renewed == Renewed::NotYet => {
                        renewed = Renewed::Once;
                        token = Some(newer);
                    }
                    _ => return Err(self.forbidden(response, token.as_deref()).await),
                },
                StatusCode::TOO_MANY_REQUESTS => {
                    let after = retry_after(&response);
                    let wait = after.unwrap_or(USUAL_WAIT);
                    if waits == MOST_WAITS || wait > LONGEST_WAIT {
                        return Err(HttpError::TooMany { after });
                    }
                    waits += 1;
                    drop(response);
                    tokio::time::sleep(wait).await;
                }
                status if status.is_redirection() => return Err(redirected(&response)),
                _ => return Ok(response),
            }
        }
    }

    /// What a response with a status that is no success means.
    pub(crate) async fn failed(&self, response: Response) -> HttpError {
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return HttpError::NotFound;
        }
        let excerpt = self.excerpt(&failure_body(response).await, None);
        HttpError::Status { status, excerpt }
    }

    /// As [`Self::failed`], with the body as it was already read.
    pub(crate) fn failed_with(&self, status: StatusCode, body: &[u8]) -> HttpError {
        match status {
            StatusCode::NOT_FOUND => HttpError::NotFound,
            status => HttpError::Status { status, excerpt: self.excerpt(body, None) },
        }
    }

    /// The challenge with which the server answers `call` when nobody says who asks.
    pub(crate) async fn challenge(&self, call: Call) -> Result<Option<String>, HttpError> {
        let response = self.attempt(&call, None).await?;
        if response.status().is_redirection() {
            return Err(redirected(&response));
        }
        let refused = response.status() == StatusCode::UNAUTHORIZED;
        Ok(header(&response, WWW_AUTHENTICATE).filter(|_| refused).map(str::to_owned))
    }

    /// What a request failed of, before or after it had an answer.
    pub(crate) fn failure(&self, error: reqwest::Error) -> HttpError {
        failed(failure(error, &self.0.remote.url), self.0.remote.connect_timeout)
    }

    async fn token(&self) -> Result<Option<String>, HttpError> {
        match &self.0.tokens {
            Some(tokens) => Ok(tokens.current().await?),
            None => Ok(None),
        }
    }

    /// The token of a login that was made since, which may be good for more.
    async fn newer(&self, refused: Option<&str>) -> Result<Option<String>, HttpError> {
        match &self.0.tokens {
            Some(tokens) => Ok(tokens.newer(refused).await?),
            None => Ok(None),
        }
    }

    async fn attempt(&self, call: &Call, token: Option<&str>) -> Result<Response, HttpError> {
        let remote = &self.0.remote;
        // Whoever made the call should have looked; what is secret must not hang on it.
        if call.url.origin() != remote.url.origin() {
            return Err(HttpError::OtherOrigin { to: shown(&call.url) });
        }
        let mut request = self.0.client.request(call.method.clone(), call.url.clone());
        request = request.headers(remote.headers.clone()).headers(call.headers.clone());
        if let Proof::Token(value) = &remote.proof {
            request = request.header(AUTHORIZATION, value.clone());
        } else if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| self.failure(error))
    }

    fn unauthorized(&self, token: Option<&str>) -> HttpError {
        let server = self.0.remote.name.clone();
        match (&self.0.remote.proof, token) {
            (Proof::Token(_), _) => HttpError::TokenRefused,
            (Proof::Header, _) => HttpError::HeaderRefused,
            (Proof::Login, Some(_)) => HttpError::LoginRefused { server },
            (Proof::Login, None) => HttpError::NeedsLogin { server },
        }
    }

    async fn forbidden(&self, response: Response, token: Option<&str>) -> HttpError {
        let remote = &self.0.remote;
        let challenge =
            header(&response, WWW_AUTHENTICATE).map(|value| WWWAuthenticateParams::parse(value, &remote.url));
        if let Some(challenge) = challenge.filter(WWWAuthenticateParams::is_insufficient_scope)
            && let Some(tokens) = &self.0.tokens
        {
            let needed = challenge.scope.map(|scope| self.excerpt(scope.as_bytes(), token));
            tokens.want(needed.as_deref().unwrap_or_default()).await;
            return HttpError::Scopes { server: remote.name.clone(), needed };
        }
        HttpError::Forbidden { excerpt: self.excerpt(&failure_body(response).await, token) }
    }

    /// The beginning of what a server said, on one line and without what it should not have repeated.
    fn excerpt(&self, body: &[u8], token: Option<&str>) -> String {
        let text = String::from_utf8_lossy(body);
        // A page says less than its status.
        if text.trim_start().starts_with('<') {
            return String::new();
        }
        let held = self.0.tokens.as_ref().and_then(|tokens| tokens.held());
        let secrets = self.0.remote.secrets().chain(held.as_deref()).chain(token);
        let mut text = text.into_owned();
        for secret in secrets.filter(|secret| secret.len() >= SHORTEST_SECRET) {
            text = text.replace(secret, "…");
        }
        excerpt(&text, EXCERPT_CHARS)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Renewed {
    NotYet,
    Once,
}

/// Only redirects that keep method and body are followed: the others would turn a message into a plain look at a page. And only
/// those that stay where the user wants to be, because headers and tokens are for that origin alone.
fn within_origin() -> Policy {
    Policy::custom(|attempt| {
        let keeps = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let same = attempt.previous().first().is_some_and(|from| from.origin() == attempt.url().origin());
        if keeps && same && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

fn redirected(response: &Response) -> HttpError {
    let to = header(response, LOCATION).and_then(|to| response.url().join(to).ok());
    HttpError::Redirect { to: to.map_or_else(|| "nowhere".to_owned(), |to| shown(&to)) }
}

fn header(response: &Response, name: reqwest::header::HeaderName) -> Option<&str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// How long a server wants us to wait. A date would need a clock that agrees with its own.
fn retry_after(response: &Response) -> Option<Duration> {
    header(response, RETRY_AFTER)?.trim().parse().ok().map(Duration::from_secs)
}

/// The beginning of the body of a failure, if it comes soon.
pub(super) async fn failure_body(response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let _ = tokio::time::timeout(FAILURE_PATIENCE, fill(response, &mut body, MOST_FAILURE_BYTES)).await;
    body
}

/// Reads a whole body.
pub(super) async fn read(http: &HttpClient, response: Response) -> Result<Vec<u8>, HttpError> {
    let most = MOST_ANSWER_BYTES;
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(HttpError::TooLarge { most });
    }
    let mut body = Vec::new();
    match fill(response, &mut body, most).await {
        Ok(Filled::Whole) => Ok(body),
        Ok(Filled::Part) => Err(HttpError::TooLarge { most }),
        Err(error) => Err(http.failure(error)),
    }
}

enum Filled {
    Whole,
    Part,
}

/// Reads what there is room for. It is counted after decompression.
async fn fill(mut response: Response, body: &mut Vec<u8>, most: usize) -> Result<Filled, reqwest::Error> {
    while let Some(chunk) = response.chunk().await? {
        let room = most - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(Filled::Part);
        }
    }
    Ok(Filled::Whole)
}
