//! What a tool is, to the door.

use std::sync::Arc;
use std::time::Duration;

use pincer_json::Payload;
use pincer_store::ApprovalId;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{BoxFuture, Context};

/// Something that can be done. Only the door calls it.
pub trait Tool: Send + Sync {
    /// Does it. When the call is aborted or takes too long, `call.abort` says so, and half a second later the future is
    /// dropped. A tool that has its value as text returns the text.
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>>;

    /// Returns where the tool is executed.
    fn made_by(&self) -> Maker {
        Maker::Door
    }

    /// How long it may take. `None` leaves it to the caller's abort.
    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(120))
    }
}

/// The part that executes a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The door, by [`Tool::call`].
    Door,
    /// The caller of an agent's run: its result is waited for in the store.
    Caller,
}

/// One call, as the tool sees it.
pub struct ToolCall {
    /// The input, checked against the tool's schema.
    pub input: Value,
    /// For whom. A tool that calls others passes this on.
    pub context: Context,
    /// Where to report progress.
    pub updates: Arc<dyn UpdateSink>,
    /// Cancelled when the call is to end.
    pub abort: CancellationToken,
}

/// Takes what is told of a call while it is made. Must not block.
pub trait UpdateSink: Send + Sync {
    /// The tool reports something.
    fn update(&self, update: Value);

    /// A person is asked whether the call may be made. This is the question's id.
    fn asked(&self, _approval: &ApprovalId) {}

    /// The caller of the agent's run is asked to make the call itself.
    fn asked_caller(&self) {}

    /// The call is about to be dispatched. `false` withdraws it: the caller has given it up.
    fn may_dispatch(&self) -> bool {
        true
    }

    /// The call could not be dispatched yet, after all: a person must be asked again.
    fn not_dispatched(&self) {}

    /// The call is noted, and its tool runs from now on.
    fn begun(&self) {}

    /// A person is about to be asked, and the program is not stored up to this call: it must be first.
    fn needs_checkpoint(&self) {}

    /// The tool asks whoever called it for something, such as an answer to a question of its own. `None` if nobody is there
    /// to give it.
    fn ask(&self, _request: Request) -> BoxFuture<'_, Option<Value>> {
        Box::pin(std::future::ready(None))
    }
}

/// What a tool asks its caller for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who asks: the name of an MCP server.
    pub from: String,
    /// For what, in the words of MCP: `elicitation/create`, `sampling/createMessage`.
    pub method: &'static str,
    /// With which parameters.
    pub params: Value,
}

/// Ignores all reports.
impl UpdateSink for () {
    fn update(&self, _update: Value) {}
}

/// A failure that a tool reports of itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// For the caller: what happened, to what, what to do.
    pub message: String,
    /// Whether something may have been changed all the same.
    pub effect: Effect,
    /// What else there is to know, for callers that understand it: the error of an MCP server, as it was sent.
    pub detail: Option<Value>,
}

impl ToolError {
    /// A failure before anything was done.
    pub fn before(message: impl Into<String>) -> Self {
        Self { message: message.into(), effect: Effect::None, detail: None }
    }

    /// A failure in the middle: nobody knows what was done.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { message: message.into(), effect: Effect::Unknown, detail: None }
    }
}

/// What a call may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing: it never started, or only looked.
    None,
    /// Perhaps something.
    Unknown,
    /// What it was asked to do.
    Done,
}

impl Effect {
    /// Returns its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unknown => "unknown",
            Self::Done => "done",
        }
    }
}

/// A closure as a tool, for tests and small things.
pub struct FnTool<F>(pub F);

impl<F, Fut, T> Tool for FnTool<F>
where
    F: Fn(ToolCall) -> Fut + Send + Sync,
    Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    T: Into<Payload>,
{
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>> {
        let done = (self.0)(call);
        Box::pin(async move { done.await.map(Into::into) })
    }
}
