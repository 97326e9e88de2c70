//! From a request to the bytes of its answer.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::Value;

use crate::chunks::chunks;
use crate::exchange::{End, Mark, Stage};
use crate::formats::{Ask, Format, request_id};
use crate::frame;
use crate::message::Fault;
use crate::reply::{Answer, Reply};
use crate::wire::{Sent, Wire};

/// Headers of a connection. A recorded exchange had another one.
const OF_THE_CONNECTION: [HeaderName; 3] = [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// An answer that is ready to be sent.
pub(crate) struct Prepared {
    status: StatusCode,
    headers: HeaderMap,
    chunks: Vec<Bytes>,
    headers_after: Duration,
    every: Duration,
    sent: Sent,
}

impl Prepared {
    /// Makes an answer of JSON that travels in the usual way.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let mut prepared = Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            chunks: vec![body.to_string().into()],
            headers_after: Duration::ZERO,
            every: Duration::ZERO,
            sent: Sent::Whole,
        };
        prepared.header("content-type", "application/json");
        prepared
    }

    /// Makes an error in the shape of a format.
    pub(crate) fn error(format: Format, number: usize, status: u16, fault: &Fault) -> Self {
        let mut prepared = Self::json(status, &format.error(number, status, fault));
        prepared.header(format.id_header(), &request_id(number));
        prepared
    }

    /// Sets a header, if HTTP can carry it: scripts are checked before a server starts.
    pub(crate) fn header(&mut self, name: &str, value: &str) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.headers.insert(name, value);
        }
    }

    /// Makes the answer that the script has for a request.
    pub(crate) fn scripted(format: Format, ask: &Ask<'_>, reply: &Reply) -> io::Result<Self> {
        let is_streamed = ask.body["stream"] == true;
        let wire = &reply.wire;
        let (mut prepared, body) = match &reply.answer {
            Answer::Message(message) => match &message.stream_error {
                Some(error) if !is_streamed => whole(Self::error(format, ask.number, 500, &error.fault)),
                _ if is_streamed => {
                    let mut frames = format.frames(ask, message);
                    if wire.omit_done && message.stream_error.is_none() {
                        frames.pop();
                    }
                    let mut prepared = Self::json(200, &Value::Null);
                    prepared.header("content-type", "text/event-stream; charset=utf-8");
                    prepared.header("cache-control", "no-cache");
                    (prepared, frame::body(format, &frames, wire))
                }
                _ => whole(Self::json(200, &format.whole(ask, message))),
            },
            Answer::Failure(failure) => whole(Self::error(format, ask.number, failure.status, &failure.fault)),
            Answer::Recorded(recorded) => {
                let mut prepared = Self::json(recorded.status, &Value::Null);
                prepared.headers.clear();
                (prepared, vec![recorded.body.clone().into_bytes()])
            }
        };
        if !matches!(reply.answer, Answer::Recorded(_)) {
            prepared.header(format.id_header(), &request_id(ask.number));
        }
        prepared.travel(body, wire, &reply.headers)?;
        Ok(prepared)
    }

    fn travel(&mut self, body: Vec<Vec<u8>>, wire: &Wire, headers: &BTreeMap<String, String>) -> io::Result<()> {
        self.chunks = chunks(body, wire)?;
        if wire.gzip {
            self.header("content-encoding", "gzip");
        }
        for (name, value) in headers {
            self.header(name, value);
        }
        for name in OF_THE_CONNECTION {
            self.headers.remove(name);
        }
        (self.headers_after, self.every, self.sent) = (wire.headers_after, wire.every, wire.sent);
        Ok(())
    }

    /// Sends the answer. `mark` goes where the body goes, so that it notices when the client leaves.
    pub(crate) async fn send(self, mark: Mark) -> Response {
        if !self.headers_after.is_zero() {
            tokio::time::sleep(self.headers_after).await;
        }
        let Self { status, headers, chunks, every, sent, .. } = self;
        let state = Sending { chunks: chunks.into_iter(), is_first: true, every, sent, mark };
        let mut response = Response::new(Body::from_stream(stream::unfold(state, Sending::next)));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Takes the one chunk of a whole answer as its body.
fn whole(mut prepared: Prepared) -> (Prepared, Vec<Vec<u8>>) {
    let body = std::mem::take(&mut prepared.chunks).into_iter().map(Into::into).collect();
    (prepared, body)
}

/// A body on its way.
struct Sending {
    chunks: std::vec::IntoIter<Bytes>,
    is_first: bool,
    every: Duration,
    sent: Sent,
    mark: Mark,
}

impl Sending {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if !std::mem::take(&mut self.is_first) {
            // The server writes to the socket when the body has nothing for it: each chunk becomes a write of its own, and
            // none is lost when the connection is closed next.
            tokio::task::yield_now().await;
        }
        if let Some(chunk) = self.chunks.next() {
            if !self.every.is_zero() {
                tokio::time::sleep(self.every).await;
            }
            return Some((Ok(chunk), self));
        }
        match self.sent {
            Sent::Whole => {
                self.mark.reached(Stage::Ended(End::Sent));
                None
            }
            Sent::StallAfter(_) => {
                self.mark.reached(Stage::Stalled);
                std::future::pending().await
            }
            Sent::TruncateAfter(_) => {
                tokio::task::yield_now().await;
                self.mark.reached(Stage::Ended(End::Truncated));
                Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), self))
            }
        }
    }
}
