//! What a model was sent around the conversation: instructions, tools, and what was asked of it.

use std::sync::Arc;

use crate::{AgentRunId, Millis};

/// A frame to be stored with a commit. If it is the one that the session had last, nothing is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFrame {
    /// The digest of `body`. Sessions whose frames have the same body share it.
    pub digest: Vec<u8>,
    /// The instructions and the tools, as JSON.
    pub body: Arc<str>,
    /// The part that differs from session to session, as JSON: the last words of the instructions, and the model.
    pub detail: Arc<str>,
    /// The run that asks the model so.
    pub run: AgentRunId,
}

/// A frame as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number. Those of a session grow.
    pub number: i64,
    /// The position of the first entry behind it.
    pub position: u32,
    /// The digest of its body.
    pub digest: Vec<u8>,
    /// The part that differs from session to session, as JSON.
    pub detail: String,
    /// The first run that asked the model so.
    pub run: AgentRunId,
    /// When it was stored.
    pub at: Millis,
}
