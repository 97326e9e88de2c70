//! Hooks that are told what came of a call. They can change nothing, and their failures harm nobody.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_store::{CallId, SessionKey};
use serde::Serialize;
use serde_json::Value;

use crate::{BoxFuture, CallError, Context, Effect, Matcher, Outcome};

/// What a hook is told when a call is over.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AfterToolCall {
    /// The tool's name.
    pub tool_name: String,
    /// The tool's id.
    pub tool_id: String,
    /// The call's id.
    pub tool_call_id: CallId,
    /// The tool's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// What it may have changed.
    pub effect: Effect,
    /// How long it took.
    pub duration_ms: u64,
    /// The session.
    pub session: SessionKey,
}

/// Somebody who wants to know.
pub trait AfterHook: Send + Sync {
    /// A call is over.
    fn after_tool_call<'a>(&'a self, event: &'a AfterToolCall) -> BoxFuture<'a, ()>;
}

/// A closure as a hook.
pub struct FnAfterHook<F>(pub F);

impl<F: Fn(&AfterToolCall) + Send + Sync> AfterHook for FnAfterHook<F> {
    fn after_tool_call<'a>(&'a self, event: &'a AfterToolCall) -> BoxFuture<'a, ()> {
        (self.0)(event);
        Box::pin(std::future::ready(()))
    }
}

/// A hook and when it is told.
#[derive(Clone)]
pub struct Observer {
    /// Which tools it is told about.
    pub matcher: Matcher,
    /// How long it may take.
    pub timeout: Duration,
    /// Who is told.
    pub hook: Arc<dyn AfterHook>,
}

/// Tells all observers that match, one after the other. One that takes too long is left behind.
pub(crate) async fn tell_all(
    observers: impl Iterator<Item = &Observer>,
    entry: &Entry,
    call: &CallId,
    outcome: &Outcome,
    context: &Context,
) {
    let matching: Vec<&Observer> = observers.filter(|observer| observer.matcher.could_mean(entry)).collect();
    if matching.is_empty() {
        return;
    }
    let event = AfterToolCall {
        tool_name: entry.id.name().into(),
        tool_id: entry.id.to_string(),
        tool_call_id: call.clone(),
        result: outcome.result.as_ref().ok().and_then(|value| value.tree().ok()),
        error: outcome.result.as_ref().err().cloned(),
        effect: outcome.effect,
        duration_ms: outcome.duration.as_millis() as u64,
        session: context.session.clone(),
    };
    for observer in matching {
        let _ = tokio::time::timeout(observer.timeout, observer.hook.after_tool_call(&event)).await;
    }
}
