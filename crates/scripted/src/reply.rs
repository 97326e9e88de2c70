//! Answers to one request.

use std::collections::BTreeMap;

use axum::http::{HeaderName, HeaderValue};

use crate::error::Flaw;
use crate::expect::Expect;
use crate::message::{Fault, Message};
use crate::take::Take;
use crate::wire::Wire;

/// The answer to one request: a [`Message`], a [`Failure`] or a [`Recorded`] exchange, and how it travels.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub(crate) expect: Expect,
    pub(crate) answer: Answer,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) wire: Wire,
    pub(crate) repeat: bool,
    pub(crate) take: Take,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Message(Message),
    Failure(Failure),
    Recorded(Recorded),
}

/// An HTTP error, in the shape of the request's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(crate) status: u16,
    pub(crate) fault: Fault,
}

/// An exchange that was recorded elsewhere, replayed byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Failure {
    /// Makes the provider's usual error for a status from 400 to 599.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, fault: Fault::default() }
    }

    /// Sets type, code and message.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Reply {
        Reply::from(self).header(name, value)
    }
}

impl Recorded {
    /// Makes a reply of a recorded status and body. Headers are added with [`Reply::header`].
    #[must_use]
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: body.into() }
    }
}

impl Reply {
    fn new(answer: Answer) -> Self {
        let (expect, take) = (Expect::default(), Take::default());
        Self { expect, answer, headers: BTreeMap::new(), wire: Wire::default(), repeat: false, take }
    }

    /// Refuses requests that do not meet `expect`.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Adds a header, in place of the server's own if it has the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_ascii_lowercase(), value.to_owned());
        self
    }

    /// Sets how the bytes travel.
    #[must_use]
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Gives this reply to all further requests too. Only the last reply of a script may have this.
    #[must_use]
    pub fn repeat(mut self) -> Self {
        self.repeat = true;
        self
    }

    /// Puts words of the request into the arguments of calls: `{name}` stands for the last word that begins with `start`.
    #[must_use]
    pub fn take(mut self, name: &str, start: &str) -> Self {
        self.take.insert(name, start);
        self
    }

    /// Checks what the types do not show.
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        match &self.answer {
            Answer::Failure(failure) if !(400..600).contains(&failure.status) => {
                return Err(Flaw::NoError(failure.status));
            }
            Answer::Recorded(recorded) if !(200..600).contains(&recorded.status) => {
                return Err(Flaw::Status(recorded.status));
            }
            Answer::Recorded(_) => {
                if let Some(key) = self.wire.needs_events() {
                    return Err(Flaw::Mixed { key, kind: "recorded" });
                }
            }
            Answer::Failure(_) | Answer::Message(_) => {}
        }
        for (name, value) in &self.headers {
            if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err() {
                return Err(Flaw::Header(name.clone()));
            }
        }
        Ok(())
    }
}

impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Self::new(Answer::Message(message))
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Self::new(Answer::Failure(failure))
    }
}

impl From<Recorded> for Reply {
    fn from(recorded: Recorded) -> Self {
        Self::new(Answer::Recorded(recorded))
    }
}
