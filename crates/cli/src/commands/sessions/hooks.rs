//! Hooks about sessions that change without an agent.

use pincer_hooks::events::{RunContext, SessionEnd};
use pincer_runtime::ConfiguredHooks;
use pincer_store::{Millis, Session};

use crate::print::{chain, note};
use crate::usage::LocationArguments;
use crate::{notices, settings, state};

/// Tells hooks that a session was deleted. The session is gone, so a config that cannot be used is only a note.
pub(super) async fn tell_deleted(locations: &LocationArguments, session: &Session, now: Millis) {
    let loaded = match settings::read(locations) {
        Ok(loaded) => loaded,
        Err(error) => return note(&format!("note: no hook was told of this: {}", chain(&error))),
    };
    let hooks = match ConfiguredHooks::load(&loaded, state::directory(locations).as_deref(), &notices::observer()) {
        Ok(hooks) => hooks,
        Err(error) => return note(&format!("note: no hook was told of this: {}", chain(&error))),
    };
    if hooks.table().has::<SessionEnd>() {
        let context = RunContext {
            session_key: session.key.to_string(),
            session_id: Some(session.id.to_string()),
            agent_id: session.agent.clone(),
            ..RunContext::default()
        };
        let event = SessionEnd {
            context,
            message_count: session.entries,
            duration_ms: now.saturating_sub(session.created_at),
            reason: "deleted".into(),
            next_session_id: None,
        };
        hooks.table().tell(&event).await;
    }
    hooks.end().await;
}
