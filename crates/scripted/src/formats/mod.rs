//! The three wire formats.

mod chat;
mod messages;
mod models;
mod responses;

use serde_json::{Value, json};

pub(crate) use models::{model, models};

use crate::frame::Frame;
use crate::message::{Fault, Message, StreamError};

/// The time of creation in every reply: the same script gives the same bytes.
const CREATED: u64 = 1_767_225_600;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// The facts of a request that its reply repeats.
pub(crate) struct Ask<'a> {
    /// The request's number, counted from 1; ids are made of it.
    pub(crate) number: usize,
    /// The model as the reply names it.
    pub(crate) model: &'a str,
    pub(crate) body: &'a Value,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// Returns the path of its requests.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// Returns what the official client puts between the server's address and the rest of a path.
    pub(crate) fn base(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "/v1",
            Self::Messages => "",
        }
    }

    /// Returns the header that carries the id of a request.
    pub(crate) fn id_header(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "x-request-id",
            Self::Messages => "request-id",
        }
    }

    /// Makes the events of a streamed reply.
    pub(crate) fn frames(self, ask: &Ask<'_>, message: &Message) -> Vec<Frame> {
        let mut frames = match self {
            Self::Chat => chat::frames(ask, message),
            Self::Responses => responses::frames(ask, message),
            Self::Messages => messages::frames(ask, message),
        };
        if let Some(error) = &message.stream_error {
            // The last event would say that all is well.
            let after = error.after.min(frames.len() - 1);
            frames.truncate(after);
            frames.push(self.error_frame(ask, error, after));
        }
        frames
    }

    /// Makes a reply that is not streamed.
    pub(crate) fn whole(self, ask: &Ask<'_>, message: &Message) -> Value {
        match self {
            Self::Chat => chat::whole(ask, message),
            Self::Responses => responses::whole(ask, message),
            Self::Messages => messages::whole(ask, message),
        }
    }

    fn error_frame(self, ask: &Ask<'_>, error: &StreamError, after: usize) -> Frame {
        match self {
            Self::Chat => Frame::data(self.error(ask.number, 500, &error.fault)),
            Self::Responses => responses::error_frame(ask, error, after),
            Self::Messages => Frame::named(&self.error(ask.number, 500, &error.fault)),
        }
    }

    /// Makes the body of an error.
    pub(crate) fn error(self, number: usize, status: u16, fault: &Fault) -> Value {
        let kind = fault.kind.as_deref().unwrap_or(self.error_kind(status));
        let message = message_of(status, fault);
        match self {
            Self::Chat | Self::Responses => {
                json!({ "error": { "message": message, "type": kind, "param": null, "code": fault.code } })
            }
            Self::Messages => json!({
                "type": "error",
                "error": { "type": kind, "message": message },
                "request_id": request_id(number),
            }),
        }
    }

    /// Returns the type that the provider gives errors with this status.
    fn error_kind(self, status: u16) -> &'static str {
        match (self, status) {
            (Self::Messages, 401) => "authentication_error",
            (Self::Messages, 403) => "permission_error",
            (Self::Messages, 404) => "not_found_error",
            (Self::Messages, 413) => "request_too_large",
            (Self::Messages, 429) => "rate_limit_error",
            (Self::Messages, 529) => "overloaded_error",
            (Self::Messages, 500..) => "api_error",
            (_, 429) => "requests",
            (_, 500..) => "server_error",
            _ => "invalid_request_error",
        }
    }
}

/// Returns the id of a request, as headers and errors have it.
pub(crate) fn request_id(number: usize) -> String {
    format!("req_{number}")
}

fn message_of(status: u16, fault: &Fault) -> String {
    fault.message.clone().unwrap_or_else(|| format!("The script answers this request with status {status}."))
}
