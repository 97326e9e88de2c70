//! For whom a tool is called.

use std::sync::Arc;

use pincer_store::{AgentRunId, CallId, RunId, SessionKey};
use tokio_util::sync::CancellationToken;

use crate::{RunOwner, Site};

/// Who calls, from where, and how to stop it. Cheap to clone; a nested call gets its parent's with itself as parent.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The agent.
    pub agent: Option<String>,
    /// The session.
    pub session: SessionKey,
    /// The user for whom the call is made: of this system, or of a connection. Things of one user (processes, history, answers)
    /// are nothing to another in the same session.
    pub user: String,
    /// Who sent the message that led here.
    pub sender: Option<String>,
    /// Where that message came from.
    pub channel: Option<String>,
    /// The run, if the call belongs to one: its calls are journalled.
    pub run: Option<RunOwner>,
    /// The run of an agent, if the call is part of one. Without a program around it, the call is known by its number in there.
    pub agent_run: Option<AgentRunId>,
    /// The call within which this one is made.
    pub parent_call: Option<CallId>,
    /// Whether the session is sandboxed.
    pub sandboxed: bool,
    /// The workspace, and what else the caller has of directories and variables.
    pub site: Arc<Site>,
    /// Ends the call, and everything it started.
    pub abort: CancellationToken,
    /// What the door keeps of the calls further up. A fresh context has [`Nesting::default`].
    pub nesting: Nesting,
}

impl Context {
    /// Returns the run by which the store knows a call and the questions about it: that of its program, or of its agent.
    pub(crate) fn known_run(&self) -> Option<RunId> {
        let of_program = self.run.as_ref().map(|run| run.id().clone());
        of_program.or_else(|| self.agent_run.as_ref().map(|run| run.as_str().into()))
    }
}

/// What the door keeps of the calls within which a call is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nesting {
    /// A sequential call is in progress: another one would wait for itself.
    pub(crate) within_sequential: bool,
}
