//! `pincer runs`: programs, running and suspended: their state, age, size, and what they wait for.

use std::time::Duration;

use pincer_catalog::shortened;
use pincer_codemode::{Overview, Settings, overview, overviews, settle_orphans};
use pincer_store::{
    Call, CallState, Clock, Journal, Listings, Millis, Page, RunId, Runs, SessionKey, Upkeep, block_on,
};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use serde_json::{Value, json};

use super::replay;
use crate::print::{bytes, chain, time};
use crate::refused::{Refused, report};
use crate::usage::LocationArguments;
use crate::usage_runs::{RunsArguments, RunsCommand};
use crate::{FAILED, WRONG_USAGE, state};

pub(crate) fn run(locations: &LocationArguments, arguments: &RunsArguments) -> u8 {
    if let Some(RunsCommand::Replay(replay)) = &arguments.command {
        // It opens no store that could be written to.
        return replay::run(locations, replay, arguments.json);
    }
    let shown = state::open(locations).map_err(|error| Refused(FAILED, chain(&error))).and_then(|store| {
        let leases = FileLeases::new(state::directory(locations).unwrap_or_default().join("owners"));
        block_on(settle_orphans(&store, &leases, Settings::default().snapshot_lifetime))?;
        act(&store, arguments)
    });
    report(shown, arguments.json)
}

/// What to print, for programs and for people.
fn act(store: &SqliteStore, arguments: &RunsArguments) -> Result<(Value, String), Refused> {
    store.expire_runs(store.now()).wait()?;
    match arguments.command.as_ref().unwrap_or(&RunsCommand::LATEST) {
        RunsCommand::List { limit, before } => {
            let session = arguments.session.as_deref().map(SessionKey::from);
            let page = Page { session, user: None, before: before.as_deref().map(RunId::from), limit: *limit };
            let runs = overviews(store, page).wait()?;
            let mut text = match runs.is_empty() {
                true => "no programs are known".to_owned(),
                false => runs.iter().map(|run| row(run, store.now())).collect::<Vec<_>>().join("\n"),
            };
            if let Some(first) = runs.first().filter(|_| runs.len() as u32 == *limit) {
                text = format!("(earlier ones: pincer runs list --before {})\n{text}", first.run_id);
            }
            Ok((json!(runs), text))
        }
        RunsCommand::Show { id } => {
            let run = only(store, id)?;
            let calls = store.calls(&run.run_id).wait()?;
            let result = store.run_result(&run.run_id).wait()?;
            let result = result.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            let mut text = row(&run, store.now());
            if let Some(first) = calls.first().filter(|call| call.seq > 0) {
                text.push_str(&format!("\n  (calls before {} are not in the journal)", first.seq));
            }
            calls.iter().for_each(|call| text.push_str(&format!("\n  {}", call_row(call))));
            if let Some(result) = &result {
                text.push_str(&format!("\n  last result: {}", shortened(&brief(result), MOST_RESULT)));
            }
            let mut document = json!(run);
            document["calls"] = calls.iter().map(call_json).collect();
            document["result"] = result.unwrap_or_default();
            Ok((document, text))
        }
        // `run` has seen to it.
        RunsCommand::Replay(_) => Ok((Value::Null, String::new())),
        RunsCommand::Abort { id } => {
            let run = only(store, id)?;
            if !store.abort_run(&run.run_id, store.now()).wait()?.0 {
                return Err(Refused(FAILED, format!("{} has ended before: it is {}", run.run_id, run.state)));
            }
            Ok((json!({ "runId": run.run_id, "state": "aborted" }), format!("aborted {}", run.run_id)))
        }
    }
}

/// Shorter beginnings of an id are slips: an empty variable in a script, for instance.
pub(crate) const LEAST_PREFIX: usize = 4;

/// The one run whose id begins so.
fn only(store: &SqliteStore, prefix: &str) -> Result<Overview, Refused> {
    if prefix.len() < LEAST_PREFIX {
        return Err(Refused(WRONG_USAGE, format!("`{prefix}` is too short for an id: `pincer runs list` shows them")));
    }
    match &store.runs_named(prefix).wait()?[..] {
        [id] => Ok(overview(store, id).wait()?),
        [] => Err(Refused(WRONG_USAGE, format!("there is no run {prefix}: `pincer runs list` shows them"))),
        [first, ..] if *first == prefix => Ok(overview(store, first).wait()?),
        several => {
            Err(Refused(WRONG_USAGE, format!("{} runs begin with {prefix}: give more of the id", several.len())))
        }
    }
}

/// Of a result, what a line has room for.
const MOST_RESULT: usize = 400;

/// What a result comes to, without its figures.
fn brief(result: &Value) -> String {
    let status = result["status"].as_str().unwrap_or_default();
    match status {
        "completed" => format!("completed {}", result["value"]),
        "failed" => format!("failed: {}", result["error"].as_str().unwrap_or_default()),
        other => other.to_owned(),
    }
}

fn row(run: &Overview, now: Millis) -> String {
    let age = |since: Millis| time(Duration::from_millis(u64::try_from(now - since).unwrap_or(0)));
    let mut row = format!("{}  {:9}  {}  {} old", run.run_id, run.state, run.session, age(run.created_at));
    if run.snapshot_bytes > 0 {
        row.push_str(&format!("  {}", bytes(run.snapshot_bytes as usize)));
    }
    if let Some(expires) = run.expires_at {
        let left = Duration::from_millis(u64::try_from(expires - now).unwrap_or(0));
        row.push_str(&format!("  {} left", time(left)));
    }
    for call in &run.pending {
        let what = call.tool_id.as_deref().unwrap_or(&call.method);
        let approval = call.approval_id.as_ref().map_or_else(String::new, |id| format!(" {id}"));
        row.push_str(&format!("\n    waits for {what} ({}{approval})", call.state.as_str()));
    }
    row
}

fn succeeded(call: &Call) -> Option<bool> {
    let outcome = call.outcome.as_deref().filter(|outcome| !outcome.is_empty())?;
    Some(pincer_tools::recorded(outcome).is_ok_and(|(result, _)| result.is_ok()))
}

fn call_row(call: &Call) -> String {
    let how = match (call.state, succeeded(call)) {
        (CallState::Dispatched, _) => "has not settled",
        (CallState::Settled, Some(true)) => "done",
        (CallState::Settled, Some(false)) => "failed",
        (CallState::Settled, None) => "settled; its outcome is no longer kept",
    };
    format!("{}  {}  {how}", call.seq, call.tool)
}

fn call_json(call: &Call) -> Value {
    json!({ "seq": call.seq, "tool": call.tool, "state": call.state.as_str(), "succeeded": succeeded(call) })
}
