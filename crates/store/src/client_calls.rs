//! Calls of tools that the caller of a run executes itself.

use std::sync::Arc;

use crate::{AgentRunId, Millis, Reply};

/// A call that waits for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    /// The id that the caller answers with.
    pub id: String,
    /// The run of the agent.
    pub run: AgentRunId,
    /// The tool's name, as the caller knows it.
    pub name: String,
    /// The arguments, as JSON.
    pub arguments: String,
    /// When it was made.
    pub created_at: Millis,
    /// The result, as JSON, once the caller has given it.
    pub result: Option<String>,
}

/// Calls that callers answer.
pub trait ClientCalls {
    /// Stores a call, unless it is there already, and returns it as it stands. Fails with
    /// [`StoreError::Missing`](crate::StoreError::Missing) if its run has ended.
    fn ask_client(&self, call: ClientCall) -> Reply<ClientCall>;
    /// Stores the result of a call. `false` if it had one, which stays. The calls of a run go with its end.
    fn answer_client(&self, run: &AgentRunId, id: &str, result: Arc<str>) -> Reply<bool>;
    /// Returns the calls of a run, in the order in which they were made.
    fn client_calls(&self, run: &AgentRunId) -> Reply<Vec<ClientCall>>;
}
