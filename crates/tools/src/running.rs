//! The work of a tool, from its input to its value: bounded by the tool's own limit and by the abort of its call.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_json::Payload;
use pincer_store::CallId;
use serde_json::Value;

use crate::door::Failed;
use crate::registry::Registered;
use crate::{CallError, CatchPanic, Context, Effect, ErrorCode, ToolCall, UpdateSink};

/// The time that a tool has to end by itself when its call is aborted or late.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a tool until it has a value or fails, its time is over, or its call is aborted.
pub(crate) async fn run(
    registered: &Registered,
    entry: &Arc<Entry>,
    input: Value,
    call: &CallId,
    context: &Context,
    updates: Arc<dyn UpdateSink>,
) -> Result<Payload, Failed> {
    let looks_only = |effect| if entry.flags.read_only { Effect::None } else { effect };
    let abort = context.abort.child_token();
    let mut inner = context.clone();
    inner.parent_call = Some(call.clone());
    inner.abort = abort.clone();
    inner.nesting.within_sequential |= entry.flags.sequential;
    let tool = Arc::clone(&registered.tool);
    let limit = tool.timeout();
    let tool_call = ToolCall { input, context: inner, updates, abort: abort.clone() };
    // A tool that panics harms its call only.
    let mut running = Box::pin(CatchPanic(tool.call(tool_call)));
    let deadline = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let stopped = tokio::select! {
        biased;
        () = context.abort.cancelled() => (ErrorCode::Aborted, "the call was aborted while the tool ran".to_owned()),
        done = &mut running => {
            return match done {
                Some(Ok(value)) => Ok(value),
                Some(Err(error)) => Err(Failed {
                    error: CallError { detail: error.detail, ..CallError::new(ErrorCode::ToolFailed, error.message) },
                    effect: looks_only(error.effect),
                }),
                None => Err(Failed {
                    error: CallError::new(ErrorCode::ToolFailed, format!("{} broke down: this is a bug of the tool", entry.id)),
                    effect: looks_only(Effect::Unknown),
                }),
            };
        }
        () = deadline => {
            let limit = limit.unwrap_or_default().as_millis();
            (ErrorCode::Timeout, format!("{} did not finish within {limit} ms", entry.id))
        }
    };
    // A tool that listens cleans up after itself; one that does not is dropped.
    abort.cancel();
    let _ = tokio::time::timeout(GRACE, &mut running).await;
    Err(Failed { error: CallError::new(stopped.0, stopped.1), effect: looks_only(Effect::Unknown) })
}
