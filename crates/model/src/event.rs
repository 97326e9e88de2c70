//! A reply on its way, and the whole of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::message::Assistant;
use crate::thinking::Level;

/// One step of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The model cannot think as it was asked to, and thinks the nearest it can.
    Adjusted {
        /// The level of the request.
        asked: Level,
        /// The level that was sent.
        given: Level,
    },
    /// The request failed and is made again.
    Retrying {
        /// The failure.
        error: Box<ModelError>,
        /// The wait before it.
        after: Duration,
        /// The number of the next attempt, from 2.
        attempt: u32,
    },
    /// The request failed, and another model is asked.
    FallingBack {
        /// The failure.
        error: Box<ModelError>,
        /// The next model, as `provider/model`.
        to: String,
    },
    /// The reply begins.
    Began {
        /// The provider's id of it.
        id: Option<String>,
        /// The model, as the provider names it.
        model: Option<String>,
    },
    /// More text for the user.
    Text(String),
    /// More of the model's thoughts.
    Thinking(String),
    /// More of the reason why the model declines.
    Refusal(String),
    /// The model begins to write a call.
    CallBegan {
        /// The position among the calls of this reply, from 0.
        index: usize,
        /// Its id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of the arguments of a call. They are JSON when they are complete, and not before.
    CallArguments {
        /// The position among the calls of this reply.
        index: usize,
        /// The next piece.
        json: String,
    },
    /// The reply is complete.
    Done(Box<Reply>),
}

/// A complete reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The message, to be kept and sent back.
    pub message: Assistant,
    /// Why it ends.
    pub stop: Stop,
    /// The tokens it took.
    pub usage: Usage,
    /// The provider's id of it.
    pub id: Option<String>,
    /// Calls that the end of the reply cut off, by name. They cannot be made.
    pub cut_calls: Vec<String>,
}

/// Why a reply ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// The model has said what it has to say.
    End,
    /// It waits for the results of its calls.
    Calls,
    /// The most tokens of a reply are reached.
    Length,
    /// The conversation has filled the model's window.
    Window,
    /// The model or its provider declines.
    Refusal,
    /// The provider pauses: sent back as it is, the reply goes on.
    Pause,
    /// One of the stop words of the request.
    Word,
    /// A reason that is not known here.
    Other(String),
}

/// Tokens of a request and its reply. No token is counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The prompt, without what came from or went to the cache.
    pub input: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
    /// The reply, with the thoughts.
    pub output: u64,
    /// The thoughts, as far as they are counted apart. Part of `output`.
    pub thinking: u64,
}

impl Usage {
    /// Returns all tokens of the prompt.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}
