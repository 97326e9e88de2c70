//! Runs whose process is gone: they wait to be continued, or are over.

use std::time::Duration;

use pincer_store::{Call, CallState, Leases, Millis, Repeat, Run, RunEnd, RunState, Safety, StoreError};

use crate::codemode::failed;
use crate::outcome::RunError;
use crate::result::{CodeModeResult, ErrorCode};
use crate::shared::CodeModeStore;
use crate::telemetry::Telemetry;

/// Calls that the end of a lost run lists at most.
const MOST_LISTED: usize = 50;

/// Gives every run whose process is gone its place: one with a checkpoint waits for its lifetime, and can be continued; one
/// without is over, with a list of what it had done. Returns how many there were.
pub async fn settle_orphans(
    store: &dyn CodeModeStore,
    leases: &dyn Leases,
    lifetime: Duration,
) -> Result<usize, StoreError> {
    let mut count = 0;
    for run in store.running().await? {
        if leases.is_alive(&run.owner).await? {
            continue;
        }
        match settle(store, &run, lifetime.as_millis() as Millis).await {
            Ok(settled) => count += usize::from(settled),
            // Another process continues it just now.
            Err(StoreError::Fenced { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

async fn settle(store: &dyn CodeModeStore, run: &Run, lifetime: Millis) -> Result<bool, StoreError> {
    if !run.power_cut && store.let_wait(&run.id, run.fence, store.now() + lifetime).await? {
        return Ok(true);
    }
    let calls = store.calls(&run.id).await?;
    // A request that is sent again under its key begins it anew.
    if run.key.is_some() && may_begin_again(&calls) && store.now() < run.created_at + lifetime {
        return Ok(false);
    }
    let result = failed(lost(run, &calls), Telemetry::default());
    let end = RunEnd::new(RunState::Aborted, written(&result));
    store.finish_run(&run.id, run.fence, end, store.now(), Safety::Power).await?;
    Ok(true)
}

/// Returns whether a run without a checkpoint has done nothing that beginning it again would repeat.
pub(crate) fn may_begin_again(calls: &[Call]) -> bool {
    calls.iter().all(|call| call.repeat == Repeat::Pure)
}

/// Reports the end of a run that cannot be continued, with what it had done.
pub(crate) fn lost(run: &Run, calls: &[Call]) -> RunError {
    let why = match run.power_cut {
        true => "the machine went down while this program ran, so what it did last may not have been stored",
        false => "the process that ran this program ended, and nothing is stored from which it could be continued",
    };
    ended(why, calls)
}

/// Returns the result of a run that had not ended in a backup when that was restored, with what it had done by then, as JSON.
pub fn ended_by_restore(calls: &[Call]) -> String {
    let why = "the store was restored from a backup in which this program had not ended; it may have gone on after the backup";
    written(&failed(ended(why, calls), Telemetry::default()))
}

fn ended(why: &str, calls: &[Call]) -> RunError {
    let of = |state: CallState| -> Vec<&str> {
        calls.iter().filter(|call| call.state == state).map(|call| call.tool.as_str()).collect()
    };
    let mut error = format!("{why}: check what it has done before you run it again");
    for (what, tools) in
        [("settled calls", of(CallState::Settled)), ("calls that may have happened", of(CallState::Dispatched))]
    {
        if tools.is_empty() {
            continue;
        }
        let listed = tools.iter().take(MOST_LISTED).copied().collect::<Vec<_>>().join(", ");
        let more = tools.len().saturating_sub(MOST_LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        error.push_str(&format!("; {what}: {listed}{more}"));
    }
    RunError::failed(ErrorCode::Aborted, error)
}

/// Returns a result as it is stored.
pub(crate) fn written(result: &CodeModeResult) -> String {
    serde_json::to_string(result).unwrap_or_else(|_| "null".into())
}
