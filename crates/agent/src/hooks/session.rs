//! Hooks about the beginning and the end of sessions.

use pincer_hooks::events::{BeforeReset, SessionEnd, SessionStart};
use pincer_store::{Clock, Session, SessionId, Sessions};

use super::{RunHooks, stored_messages};
use crate::inner::Inner;
use crate::request::Request;

/// The hooks about one session.
pub(crate) struct SessionHooks {
    hooks: RunHooks,
    session: Session,
}

impl SessionHooks {
    /// Returns the hooks about a session.
    pub(crate) fn new(agent: &Inner, session: &Session) -> Self {
        let request = Request { agent: session.agent.clone(), ..Request::default() };
        let hooks = RunHooks::new(agent, &session.user, &session.key, &request).in_session(&session.id);
        Self { hooks, session: session.clone() }
    }

    /// Tells hooks that the session is about to begin anew, and waits for them.
    pub(crate) async fn before_reset(&self, agent: &Inner, reason: &str) {
        if !self.hooks.has::<BeforeReset>() {
            return;
        }
        let entries = agent.store.context(&self.session.id).await.unwrap_or_else(|error| {
            tracing::warn!(session = %self.session.key, "hooks do not see the messages before a reset: {error}");
            Vec::new()
        });
        let (reason, messages) = (reason.to_owned(), stored_messages(&entries));
        self.hooks.tell_now(&BeforeReset { context: self.hooks.context(), reason, messages }).await;
    }

    /// Tells hooks that the session has ended.
    pub(crate) fn ended(&self, agent: &Inner, reason: &str, next: Option<&SessionId>) {
        if !self.hooks.has::<SessionEnd>() {
            return;
        }
        let event = SessionEnd {
            context: self.hooks.context(),
            message_count: self.session.entries,
            duration_ms: agent.store.now().saturating_sub(self.session.created_at),
            reason: reason.to_owned(),
            next_session_id: next.map(ToString::to_string),
        };
        self.hooks.tell(agent, event);
    }

    /// Tells hooks that the first run of the session begins.
    pub(crate) fn started(&self, agent: &Inner) {
        let resumed_from = self.session.parent.as_ref().map(ToString::to_string);
        self.hooks.tell(agent, SessionStart { context: self.hooks.context(), resumed_from });
    }
}
