//! The three wire formats: how a request is written, and how the events of a reply are read.

mod chat;
mod messages;
mod responses;

use std::borrow::Cow;

use pincer_http::excerpt;
use pincer_json::Json;
use serde_json::Value;
use sse_stream::Sse;

use crate::body::Body;
use crate::draft::Draft;
use crate::error::{ErrorKind, ModelError};
use crate::event::Event;
use crate::limits::{MOST_EVENT_NODES, MOST_MESSAGE_CHARS, MOST_TOKENS};
use crate::message::{Api, Content, Image, Message};
use crate::request::Request;
use crate::settings::Target;
use crate::thinking::Level;

/// The longest name of a call that all providers take.
const MOST_NAME: usize = 64;

/// Returns the name of an earlier call as a provider takes it. A model can call anything; a request with a name that no tool could have
/// is refused, and so would be each later one of the conversation.
fn called_name(name: &str) -> Cow<'_, str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !name.is_empty() && name.len() <= MOST_NAME && name.chars().all(fits) {
        return name.into();
    }
    let name: String = name.chars().map(|letter| if fits(letter) { letter } else { '_' }).take(MOST_NAME).collect();
    if name.is_empty() { "_".into() } else { name.into() }
}

/// Writes the body of a request.
pub(crate) fn body(request: &Request, target: &Target, level: Level) -> Result<Body, ModelError> {
    let in_words;
    let request = match target.model.takes_images {
        Some(false) => {
            in_words = without_images(request);
            &in_words
        }
        _ => request,
    };
    let mut body = match target.provider.api {
        Api::ChatCompletions => chat::body(request, target, level),
        Api::Responses => responses::body(request, target, level),
        Api::Messages => messages::body(request, target, level),
    }?;
    body.set_params(&target.model.params)?;
    Ok(body)
}

/// The request for a model that takes text only: a picture becomes a note that there was one.
fn without_images(request: &Request) -> Request {
    const NOTE: &str = "[A picture was left out: this model takes text only.]";
    let mut request = request.clone();
    let contents = request.messages.iter_mut().flat_map(|message| match message {
        Message::User(content) => vec![content],
        Message::Results(results) => results.iter_mut().map(|result| &mut result.content).collect(),
        Message::Assistant(_) => Vec::new(),
    });
    for content in contents.flatten() {
        if matches!(content, Content::Image(_)) {
            *content = NOTE.into();
        }
    }
    request
}

/// Reads the events of one reply.
pub(crate) enum Reader {
    Chat(chat::Reader),
    Responses(responses::Reader),
    Messages(messages::Reader),
}

impl Reader {
    pub(crate) fn new(api: Api) -> Self {
        match api {
            Api::ChatCompletions => Self::Chat(chat::Reader::default()),
            Api::Responses => Self::Responses(responses::Reader::default()),
            Api::Messages => Self::Messages(messages::Reader::default()),
        }
    }

    /// Takes an event in. Returns whether it was the last one.
    pub(crate) fn take(&mut self, event: &Sse, out: &mut Vec<Event>) -> Result<bool, ModelError> {
        // An event without data keeps a connection alive.
        let data = event.data.as_deref().filter(|data| !data.trim().is_empty());
        let Some(data) = data else { return Ok(false) };
        // A text of less cannot have too many.
        if data.len() > MOST_EVENT_NODES && pincer_json::nodes(data.as_bytes()) > MOST_EVENT_NODES {
            return Err(ModelError::new(
                ErrorKind::TooLarge,
                format!("an event has more than {MOST_EVENT_NODES} values"),
            ));
        }
        match self {
            Self::Chat(reader) => reader.take(data, out),
            Self::Responses(reader) => reader.take(data, out),
            Self::Messages(reader) => reader.take(data, out),
        }
    }

    pub(crate) fn draft(&self) -> &Draft {
        match self {
            Self::Chat(reader) => &reader.draft,
            Self::Responses(reader) => &reader.draft,
            Self::Messages(reader) => &reader.draft,
        }
    }

    /// Returns the draft if the reply is complete, although no event has said so.
    pub(crate) fn into_draft(self) -> Draft {
        match self {
            Self::Chat(reader) => reader.draft,
            Self::Responses(reader) => reader.draft,
            Self::Messages(reader) => reader.draft,
        }
    }

    /// Returns whether the end of the stream is the end of the reply.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            // Not every server sends `[DONE]`.
            Self::Chat(reader) => reader.draft.stop.is_some(),
            Self::Responses(_) | Self::Messages(_) => false,
        }
    }
}

/// An event that cannot be read.
fn malformed(what: &str, error: impl std::fmt::Display) -> ModelError {
    // The words of the parser repeat what they are about.
    let error = excerpt(&error.to_string(), MOST_MESSAGE_CHARS);
    ModelError::new(ErrorKind::Malformed, format!("{what} cannot be read: {error}"))
}

/// Text of the provider that is kept as it is.
fn kept(raw: &str) -> Result<Json, ModelError> {
    Json::parse(raw).map_err(|error| malformed("a part of the reply", error))
}

/// `data:image/png;base64,…`, or the address itself.
fn image_url(image: &Image) -> String {
    match image {
        Image::Data { media_type, base64 } => format!("data:{media_type};base64,{base64}"),
        Image::Url(url) => url.clone(),
    }
}

/// The word of a level for OpenAI's formats.
fn effort(level: Level) -> &'static str {
    match level {
        Level::Off => "none",
        Level::Adaptive => Level::Medium.name(),
        level => level.name(),
    }
}

/// Reads a member as a number of tokens, if it is one.
fn told_tokens(value: &Value, path: &[&str]) -> Option<u64> {
    let tokens = path.iter().try_fold(value, |value, key| value.get(key))?.as_u64()?;
    Some(tokens.min(MOST_TOKENS))
}

/// Reads a member as a number of tokens; without one, there are none.
fn tokens(value: &Value, path: &[&str]) -> u64 {
    told_tokens(value, path).unwrap_or(0)
}
