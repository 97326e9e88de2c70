//! The stored part of the instructions of models: the skills that a session's list has, the tools that it shows, the frames
//! that its model was sent, and the workspaces that have begun.
//!
//! All are stored with a commit of the session ([`SessionCommit`](crate::SessionCommit)), so only the writer of the session changes them.

use crate::{Frame, Reply, SessionId};

/// The stored part of the instructions of models.
pub trait Instructions {
    /// Returns the list of skills that was stored last for a session.
    fn listed_skills(&self, session: &SessionId) -> Reply<Option<String>>;
    /// Returns the tools that were stored last for a session: those whose schemas stand beside the list of the others.
    fn shown_tools(&self, session: &SessionId) -> Reply<Option<String>>;
    /// Returns the frames of a session behind one with this number, without their bodies, the oldest first.
    fn frames(&self, session: &SessionId, after: i64, limit: u32) -> Reply<Vec<Frame>>;
    /// Returns the instructions and the tools with this digest, as JSON, for as long as a session has them.
    fn frame_body(&self, digest: &[u8]) -> Reply<Option<String>>;
    /// Returns whether a run has completed that was shown how to begin in a workspace.
    fn is_begun(&self, workspace: &str) -> Reply<bool>;
}
