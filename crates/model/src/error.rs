//! Why there is no reply.

use std::fmt;
use std::time::Duration;

/// A request that failed, or a reply that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// A description of what happened, without secrets.
    pub message: String,
    /// Whether the same request can be made again.
    pub retry: Retry,
    /// The model, as `provider/model`. Empty while that is not known.
    pub target: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// Whether a part of the reply has been shown already.
    pub has_shown: bool,
    /// Whether the failure is a call in the reply whose arguments cannot be read. The message names the tool.
    pub has_broken_call: bool,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The provider does not accept the key.
    Authentication,
    /// No such model, or no such address.
    NotFound,
    /// Too many requests or tokens in a time.
    RateLimit,
    /// Nothing is left to pay with.
    Quota,
    /// The provider has no room or is broken.
    Overloaded,
    /// The conversation is longer than the model's window.
    ContextOverflow {
        /// The tokens of the request, if told.
        used: Option<u64>,
        /// The tokens of the window, if told.
        limit: Option<u64>,
    },
    /// The provider declines.
    Refusal,
    /// The provider finds the request wrong.
    BadRequest,
    /// No connection, or a broken one.
    Network,
    /// Nothing came for too long.
    Idle,
    /// The reply broke off in the middle.
    CutOff,
    /// The answer makes no sense.
    Malformed,
    /// The answer is larger than any reply has reason to be.
    TooLarge,
    /// The tools in the request are not those that the run may show.
    Surface,
    /// The run's own deadline.
    Deadline,
}

/// Whether, and when, the same request can be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It would fail again.
    No,
    /// After a while that grows.
    Backoff,
    /// After this while, which the provider asks for.
    After(Duration),
}

impl Retry {
    /// Returns whether a retry is right.
    pub fn is_right(self) -> bool {
        self != Self::No
    }
}

impl ErrorKind {
    /// Returns the kind's name, for logs and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::NotFound => "not_found",
            Self::RateLimit => "rate_limit",
            Self::Quota => "quota",
            Self::Overloaded => "overloaded",
            Self::ContextOverflow { .. } => "context_overflow",
            Self::Refusal => "refusal",
            Self::BadRequest => "bad_request",
            Self::Network => "network",
            Self::Idle => "idle",
            Self::CutOff => "cut_off",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Surface => "surface",
            Self::Deadline => "deadline",
        }
    }

    fn retry(self) -> Retry {
        match self {
            Self::RateLimit | Self::Overloaded | Self::Network | Self::Idle | Self::CutOff | Self::Malformed => {
                Retry::Backoff
            }
            Self::Authentication
            | Self::NotFound
            | Self::Quota
            | Self::ContextOverflow { .. }
            | Self::Refusal
            | Self::BadRequest
            | Self::TooLarge
            | Self::Surface
            | Self::Deadline => Retry::No,
        }
    }

    /// Returns whether another model may succeed where this one failed.
    pub(crate) fn may_fall_back(self) -> bool {
        !matches!(self, Self::Surface | Self::Deadline)
    }

    /// Returns what to do about it, in a sentence.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Authentication => "check the key of this provider in the config or the environment",
            Self::NotFound => "check the model's name with `pincer models list`, and the provider's `baseUrl`",
            Self::RateLimit => "wait, or add another key or a fallback model",
            Self::Quota => "check the plan and the balance of the account, or add a fallback model",
            Self::Overloaded => "try again later, or add a fallback model",
            Self::ContextOverflow { .. } => {
                "begin a new conversation with `/new`, fork the session before the entry that is too long, or use a model with a \
                 larger window"
            }
            Self::Refusal => "ask in another way, or ask another model",
            Self::BadRequest => {
                "check `api` and the model's settings in the config; if the provider refuses the conversation or a picture in it, \
                 begin anew with `/new`, or fork the session before that entry"
            }
            Self::Network => "check the provider's `baseUrl` and the network",
            Self::Idle => "raise `timeoutSeconds` of the provider if its model is slow",
            Self::CutOff => "try again; if it stays so, check the network and the provider's `baseUrl`",
            Self::Malformed => {
                "try again, or ask another model; if it stays so, check that `api` is the format of this provider"
            }
            Self::TooLarge => "ask for less, or lower `maxTokens`",
            Self::Surface => "look for settings or hooks that add tools to the request",
            Self::Deadline => "raise the timeout of the run",
        }
    }
}

impl ModelError {
    /// Returns an error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry: kind.retry(),
            target: String::new(),
            status: None,
            has_shown: false,
            has_broken_call: false,
        }
    }

    /// Sets when a retry is right.
    pub(crate) fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.target.is_empty() {
            write!(f, "{}: ", self.target)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}
