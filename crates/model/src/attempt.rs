//! One request, from its connection to the end of its reply.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pincer_http::{EventDecoder, Failure, excerpt, failure, shown};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};

use crate::debug::Watch;
use crate::error::{ErrorKind, ModelError};
use crate::event::Event;
use crate::failure::{answered, in_stream};
use crate::gate::Sealed;
use crate::keys::Secret;
use crate::limits::{MOST_EVENT_BYTES, MOST_FAILURE_BYTES, MOST_RAW_CHARS, MOST_STREAM_BYTES};
use crate::message::{Api, Origin};
use crate::settings::{Provider, Target};
use crate::timeouts::within;
use crate::wire::Reader;

/// How long the body of a failure is waited for.
const FAILURE_PATIENCE: Duration = Duration::from_secs(5);
/// The version of Anthropic's format.
const VERSION: &str = "2023-06-01";

/// The limits of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The longest silence.
    pub window: Option<Duration>,
    pub deadline: Option<Instant>,
}

/// A reply that is being read. Dropped, it closes its connection.
pub(crate) struct Attempt {
    origin: Origin,
    response: Response,
    decoder: EventDecoder,
    reader: Reader,
    bytes: u64,
    limits: Limits,
    watch: Watch,
    has_shown: bool,
}

impl Attempt {
    /// Sends a request and waits for the beginning of its answer.
    pub(crate) async fn begin(
        client: &Client,
        target: &Target,
        key: Option<&Secret>,
        body: &Sealed,
        limits: Limits,
        mut watch: Watch,
    ) -> Result<Self, ModelError> {
        let url = target.provider.endpoint();
        let headers = headers(&target.provider, key)?;
        watch.request(target, &url, body.text());
        let request = client.post(url.clone()).headers(headers).body(body.text().to_owned());
        let sent = within(request.send(), limits.window, limits.deadline, "the provider has not answered").await?;
        let mut response = sent.map_err(|error| unreachable(failure(error, &url), limits.window))?;
        watch.response(&response);
        let status = response.status();
        if !status.is_success() {
            return Err(refused(response, limits, |bytes| watch.chunk(bytes)).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.to_ascii_lowercase().starts_with("text/event-stream") {
            let kind = excerpt(kind, MOST_RAW_CHARS);
            let at = shown(&url);
            let message = match kind.is_empty() {
                true => format!("{at} answered with something that is not a stream of events"),
                false => format!("{at} answered with `{kind}` instead of a stream of events"),
            };
            let body = beginning(&mut response, limits, |bytes| watch.chunk(bytes)).await;
            // Some say what is wrong with status 200.
            let told =
                serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|value| value.get("error").is_some());
            return Err(match told {
                true => in_stream(&String::from_utf8_lossy(&body)),
                false => ModelError::new(ErrorKind::Malformed, message).retry(crate::Retry::No),
            });
        }
        let origin =
            Origin { provider: target.provider.id.clone(), api: target.provider.api, model: target.model.id.clone() };
        Ok(Self {
            origin,
            response,
            decoder: EventDecoder::new(MOST_EVENT_BYTES),
            reader: Reader::new(target.provider.api),
            bytes: 0,
            limits,
            watch,
            has_shown: false,
        })
    }

    /// Reads on until there is something to tell. Returns whether the reply is complete.
    pub(crate) async fn next(&mut self, out: &mut VecDeque<Event>) -> Result<bool, ModelError> {
        let mut events = Vec::new();
        loop {
            while let Some(event) = self.decoder.pop() {
                self.watch.event(&event);
                let is_last = self.reader.take(&event, &mut events)?;
                out.extend(events.drain(..));
                if is_last {
                    return self.finish(out);
                }
            }
            if !out.is_empty() {
                return Ok(false);
            }
            let Limits { window, deadline } = self.limits;
            let chunk = within(self.response.chunk(), window, deadline, "the provider has sent nothing").await?;
            match chunk {
                Ok(Some(bytes)) => {
                    self.bytes += bytes.len() as u64;
                    if self.bytes > MOST_STREAM_BYTES {
                        let message = format!("the stream of events has more than {} MiB", MOST_STREAM_BYTES >> 20);
                        return Err(ModelError::new(ErrorKind::TooLarge, message));
                    }
                    self.watch.chunk(&bytes);
                    self.decoder
                        .push(&bytes)
                        .map_err(|error| ModelError::new(ErrorKind::TooLarge, format!("the provider sent {error}")))?;
                }
                Ok(None) if self.reader.is_complete() => return self.finish(out),
                Ok(None) => return Err(ModelError::new(ErrorKind::CutOff, "the reply broke off before its end")),
                Err(error) => {
                    let cause = pincer_http::last_cause(&error.without_url());
                    let message = format!("the reply broke off: {}", excerpt(&cause, MOST_RAW_CHARS));
                    return Err(ModelError::new(ErrorKind::CutOff, message));
                }
            }
        }
    }

    fn finish(&mut self, out: &mut VecDeque<Event>) -> Result<bool, ModelError> {
        self.has_shown |= self.reader.draft().has_shown();
        let reader = std::mem::replace(&mut self.reader, Reader::new(self.origin.api));
        let reply = reader.into_draft().finish(self.origin.clone())?;
        self.watch.end(&reply);
        out.push_back(Event::Done(Box::new(reply)));
        Ok(true)
    }

    /// Returns whether something of the reply has been told.
    pub(crate) fn has_shown(&self) -> bool {
        self.has_shown || self.reader.draft().has_shown()
    }
}

/// The headers of a request. A header of the settings outweighs one of ours.
pub(crate) fn headers(provider: &Provider, key: Option<&Secret>) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let unusable = |what: String| ModelError::new(ErrorKind::Authentication, what);
    let secret = |text: &str, what: &str| {
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| unusable(format!("{what} has characters that no header can carry")))?;
        value.set_sensitive(true);
        Ok::<_, ModelError>(value)
    };
    if let Some(key) = key {
        let what = format!("the key of the provider `{}`", provider.id);
        match provider.api {
            Api::Messages => headers.insert("x-api-key", secret(key.expose(), &what)?),
            Api::ChatCompletions | Api::Responses => {
                headers.insert(AUTHORIZATION, secret(&format!("Bearer {}", key.expose()), &what)?)
            }
        };
    }
    if provider.api == Api::Messages {
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
    }
    for (name, value) in &provider.headers {
        let what = format!("models.providers.{}.headers.{name}", provider.id);
        let name: HeaderName = name.parse().map_err(|_| unusable(format!("{what} is not the name of a header")))?;
        headers.insert(name, secret(value, &what)?);
    }
    Ok(headers)
}

/// The error of an answer that is none. `see` is shown its body as it comes.
pub(crate) async fn refused(mut response: Response, limits: Limits, see: impl FnMut(&[u8])) -> ModelError {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    answered(status, &headers, &beginning(&mut response, limits, see).await)
}

/// The beginning of a body, as far as it comes soon.
async fn beginning(response: &mut Response, limits: Limits, mut see: impl FnMut(&[u8])) -> Vec<u8> {
    let mut body = Vec::new();
    let fill = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            see(&bytes);
            let room = MOST_FAILURE_BYTES - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if body.len() == MOST_FAILURE_BYTES {
                break;
            }
        }
    };
    let patience = limits.window.map_or(FAILURE_PATIENCE, |window| window.min(FAILURE_PATIENCE));
    let _ = within(fill, Some(patience), limits.deadline, "").await;
    body
}

/// The error of a request that came to no answer.
pub(crate) fn unreachable(failure: Failure, window: Option<Duration>) -> ModelError {
    let network = |message: String| ModelError::new(ErrorKind::Network, message);
    match failure {
        Failure::Timeout => {
            let limit = window.map(|window| format!(" within {} s", window.as_secs_f32())).unwrap_or_default();
            network(format!("no connection to the provider was made{limit}"))
        }
        Failure::Refused { at } => network(format!("nothing listens at {at}")),
        Failure::UnknownHost { host } => network(format!("there is no host `{host}`")),
        Failure::Certificate { reason } => {
            network(format!("the provider's certificate is not trusted: {reason}")).retry(crate::Retry::No)
        }
        Failure::Tls { reason } => network(format!("no encrypted connection could be made: {reason}")),
        Failure::Connect { reason } => network(format!("no connection could be made: {reason}")),
        Failure::Broken { reason } => network(format!("the connection broke: {reason}")),
    }
}
