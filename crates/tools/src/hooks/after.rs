//! Hooks that are told what came of a call. They can change nothing, and their failures do no harm.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_hooks::events::RunContext;
use pincer_hooks::{Handle, HookName, Nothing, Point, asked};
use pincer_store::CallId;
use serde::Serialize;
use serde_json::Value;

use super::run_context;
use crate::{CallError, Context, Effect, Matcher, Outcome};

/// What a hook is told when a call is over.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AfterToolCall {
    /// The run, the session and the sender.
    #[serde(flatten)]
    pub context: RunContext,
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
}

impl Point for AfterToolCall {
    const NAME: HookName = HookName::AfterToolCall;
    type Answer = Nothing;
}

/// A hook and when it is told.
#[derive(Clone)]
pub struct Observer {
    /// Which tools it is told about.
    pub matcher: Matcher,
    /// How long it may take.
    pub timeout: Duration,
    /// The hook itself.
    pub hook: Arc<dyn Handle<AfterToolCall>>,
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
        context: run_context(context),
        tool_name: entry.id.name().into(),
        tool_id: entry.id.to_string(),
        tool_call_id: call.clone(),
        result: outcome.result.as_ref().ok().and_then(|value| value.tree().ok()),
        error: outcome.result.as_ref().err().cloned(),
        effect: outcome.effect,
        duration_ms: outcome.duration.as_millis() as u64,
    };
    for observer in matching {
        if let Err(error) = asked(&*observer.hook, &event, observer.timeout).await {
            tracing::warn!(tool = event.tool_id, "a hook after_tool_call is skipped: {error}");
        }
    }
}
