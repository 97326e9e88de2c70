//! Recorded replies, read once more.

use pincer_http::EventDecoder;

use crate::error::{ErrorKind, ModelError};
use crate::event::Event;
use crate::limits::MOST_EVENT_BYTES;
use crate::message::Origin;
use crate::wire::Reader;

/// The bytes that are taken in at a time. A connection reads about so many at once.
const AT_ONCE: usize = 16 << 10;

/// Reads the body of a recorded stream, and returns the events of the reply. The last one is [`Event::Done`].
///
/// Bodies are read exactly as those of a connection are, so that a recording shows what its reply was read as, and a benchmark
/// what reading costs without a socket.
///
/// ```
/// use pincer_model::{Api, Event, Origin, replay};
///
/// let origin = Origin { provider: "local".into(), api: Api::ChatCompletions, model: "small".into() };
/// let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
/// let events = replay(&origin, body.as_bytes())?;
/// assert_eq!(events[1], Event::Text("Hello.".into()));
/// # Ok::<(), pincer_model::ModelError>(())
/// ```
///
/// # Errors
/// When the body breaks off, has an error of the provider in it, or cannot be read.
pub fn replay(origin: &Origin, body: &[u8]) -> Result<Vec<Event>, ModelError> {
    let mut decoder = EventDecoder::new(MOST_EVENT_BYTES);
    let mut reader = Reader::new(origin.api);
    let mut events = Vec::new();
    let mut is_over = false;
    for bytes in body.chunks(AT_ONCE) {
        decoder
            .push(bytes)
            .map_err(|error| ModelError::new(ErrorKind::TooLarge, format!("the recording has {error}")))?;
        while let (false, Some(event)) = (is_over, decoder.pop()) {
            is_over = reader.take(&event, &mut events)?;
        }
        if is_over {
            break;
        }
    }
    if !is_over && !reader.is_complete() {
        return Err(ModelError::new(ErrorKind::CutOff, "the recording breaks off before the end of the reply"));
    }
    let reply = reader.into_draft().finish(origin.clone())?;
    events.push(Event::Done(Box::new(reply)));
    Ok(events)
}
