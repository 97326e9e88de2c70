//! The events of a response.

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use pincer_http::{EventDecoder, EventTooLarge, last_cause};
use reqwest::Response;
use sse_stream::Sse;

/// Why there are no more events.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventError {
    #[error("sent {0}, which is refused")]
    TooLarge(#[from] EventTooLarge),
    #[error("broke off its stream of events: {}", last_cause(.0))]
    Broken(#[source] reqwest::Error),
}

/// The events of a response. After an error there are no more.
pub(super) fn events(response: Response, most: usize) -> BoxStream<'static, Result<Sse, EventError>> {
    let reading = Reading { response, decoder: EventDecoder::new(most), end: None };
    stream::unfold(reading, |mut reading| async move {
        let event = reading.next().await?;
        Some((event, reading))
    })
    .boxed()
}

struct Reading {
    response: Response,
    decoder: EventDecoder,
    /// Set when nothing more is read: with what is still to be said.
    end: Option<Option<EventError>>,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Sse, EventError>> {
        loop {
            if let Some(event) = self.decoder.pop() {
                return Some(Ok(event));
            }
            if let Some(end) = &mut self.end {
                return end.take().map(Err);
            }
            self.end = match self.response.chunk().await {
                Ok(Some(bytes)) => self.decoder.push(&bytes).err().map(|error| Some(error.into())),
                Ok(None) => Some(None),
                Err(error) => Some(Some(EventError::Broken(error.without_url()))),
            };
        }
    }
}
