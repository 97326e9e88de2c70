//! Runs whose process is gone: they wait to be continued, or are over.

use std::time::Duration;

use pincer_store::{Call, CallState, Millis, Run, RunState, Safety, StoreError, now};

use crate::codemode::failed;
use crate::ending::Ending;
use crate::inner::CodeModeStore;
use crate::owner::Owner;
use crate::result::{CodeModeResult, ErrorCode};
use crate::telemetry::Telemetry;

/// Calls that the end of a lost run lists at most.
const MOST_LISTED: usize = 50;

/// Gives every run whose process is gone its place: one that was stored waits for its lifetime, and can be continued; one that was
/// not is over, with a list of what it had done. How many there were.
pub fn settle_orphans(store: &dyn CodeModeStore, owner: &Owner, lifetime: Duration) -> Result<usize, StoreError> {
    let mut count = 0;
    for run in store.running()? {
        if owner.is(&run.owner) || owner.is_alive(&run.owner) {
            continue;
        }
        match settle(store, &run, now() + lifetime.as_millis() as Millis) {
            Ok(()) => count += 1,
            // Somebody continues it just now.
            Err(StoreError::Fenced { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

fn settle(store: &dyn CodeModeStore, run: &Run, expires_at: Millis) -> Result<(), StoreError> {
    if store.let_wait(&run.id, run.fence, expires_at)? {
        return Ok(());
    }
    let result = failed(lost(&store.calls(&run.id)?), Telemetry::default());
    let told = written(&result);
    store.finish_run(&run.id, run.fence, RunState::Failed, &told, now(), Safety::Power)
}

/// The end of a run of which nothing was stored, with what it had done.
pub(crate) fn lost(calls: &[Call]) -> Ending {
    let of = |state: CallState| -> Vec<&str> {
        calls.iter().filter(|call| call.state == state).map(|call| call.tool.as_str()).collect()
    };
    let mut error = String::from(
        "the process that ran this program ended before the program was stored, so it cannot be continued: run it again, and \
         mind what it has done",
    );
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
    Ending::failed(ErrorCode::Aborted, error)
}

/// A result as it is stored.
pub(crate) fn written(result: &CodeModeResult) -> String {
    serde_json::to_string(result).unwrap_or_else(|_| "null".into())
}
