//! `pincer approvals`: the open questions, and the grants. Works while the call waits elsewhere.

use std::env;
use std::fmt::Display;

use pincer_store::{
    AgentRuns, Approval, ApprovalState, Approvals, Clock, Grant, GrantKind, Grants, RunId, Runs, Upkeep, block_on,
};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Answer, ApprovalRequest, answer_question, one_line};
use serde_json::{Value, json};

use crate::commands::agent::message::CHANNEL;
use crate::commands::doctor::words::quoted;
use crate::print::chain;
use crate::refused::{Refused, report};
use crate::usage::LocationArguments;
use crate::usage_approvals::{ApprovalsArguments, ApprovalsCommand};
use crate::{FAILED, WRONG_USAGE, state};

/// The most characters that are shown of a grant.
const MOST_SHOWN: usize = 400;
/// The most characters that are shown of a session's key.
const MOST_SESSION: usize = 100;

pub(crate) fn run(locations: &LocationArguments, arguments: &ApprovalsArguments) -> u8 {
    let shown = state::open(locations)
        .map_err(|error| Refused(FAILED, chain(&error)))
        .and_then(|store| act(&store, &arguments.command));
    report(shown, arguments.json)
}

/// Returns what to print, for programs and for people.
fn act(store: &SqliteStore, command: &ApprovalsCommand) -> Result<(Value, String), Refused> {
    match command {
        ApprovalsCommand::List => {
            forget_ended(store)?;
            let pending = store.pending_approvals().wait()?;
            let document = pending.iter().map(approval_json).collect();
            Ok((document, rows(pending.iter().map(approval_row), "nothing waits for an answer")))
        }
        ApprovalsCommand::Grants => {
            let grants = store.grants().wait()?;
            let document = grants.iter().map(grant_json).collect();
            Ok((document, rows(grants.iter().map(grant_row), "nothing has been granted beyond single calls")))
        }
        ApprovalsCommand::Allow { id, always, next } => {
            let answer = match (always, next) {
                (true, _) => Answer::AllowAlways,
                (false, Some(count)) => Answer::AllowNext(*count),
                (false, None) => Answer::AllowOnce,
            };
            settle(store, id, answer, "allowed")
        }
        ApprovalsCommand::Deny { id } => settle(store, id, Answer::Deny, "denied"),
        ApprovalsCommand::Revoke { id } => {
            let id = only(id, "grant", store.grants().wait()?.into_iter().map(|grant| grant.id))?;
            let revoked = store.revoke(&id).wait()?;
            Ok((json!({ "id": id, "revoked": revoked }), format!("revoked {id}")))
        }
    }
}

fn settle(store: &SqliteStore, id: &str, answer: Answer, verb: &str) -> Result<(Value, String), Refused> {
    let id = match store.approval(&id.into()).wait() {
        Ok(approval) => approval.id,
        Err(_) => only(id, "open question", store.pending_approvals().wait()?.into_iter().map(|approval| approval.id))?,
    };
    if let (Answer::AllowNext(_), None) = (answer, &store.approval(&id).wait()?.run) {
        let why = "belongs to no run, so there are no next calls of it: allow it once, or --always";
        return Err(Refused(WRONG_USAGE, format!("{id} {why}")));
    }
    forget_ended(store)?;
    let by = env::var("USER").unwrap_or_else(|_| "command line".into());
    let applied = block_on(answer_question(store, &id, answer, &by))?;
    let approval = store.approval(&id).wait()?;
    if !applied {
        if let (ApprovalState::Cancelled, Some(run)) = (approval.state, &approval.run) {
            let state = store.run(run).wait().map_or("gone", |run| run.state.as_str());
            let error =
                format!("{id} is gone: {run}, which asked, has ended ({state}), so nothing waits for the answer");
            return Err(Refused(FAILED, error));
        }
        let by = approval.decided_by.map_or_else(String::new, |by| format!(" by {by}"));
        return Err(Refused(FAILED, format!("{id} was settled before: it is {}{by}", approval.state.as_str())));
    }
    let mut text = format!("{verb} {id}: {}", approval.tool);
    if let Some(run) = &approval.run {
        text.push_str(&goes_on(store, &approval, run));
    }
    if answer == Answer::AllowAlways {
        let request = ApprovalRequest::of(&approval);
        text.push_str(&match request.grants().is_empty() {
            true => "\nthis once: a command this long is asked about every time".to_owned(),
            false => format!("\nfrom now on: {}", one_line(&request.grants().join(", "), MOST_SHOWN)),
        });
    }
    Ok((approval_json(&approval), text))
}

/// Returns what goes on with a run, as a line of its own.
fn goes_on(store: &SqliteStore, approval: &Approval, run: &RunId) -> String {
    // A run of an agent goes on as a whole; its programs are not continued by themselves.
    let program = store.run(run).wait().ok();
    let of = program.as_ref().and_then(|program| program.agent_run.as_deref());
    let agents = store.agent_run(&of.unwrap_or(run.as_str()).into()).wait().ok();
    if agents.is_none() && of.is_none() {
        return format!("\ncontinue with: pincer wait {run}");
    }
    let command = format!("pincer agent --session {} --continue", quoted(approval.session.as_str()));
    let request: Value = agents.and_then(|run| serde_json::from_str(&run.request).ok()).unwrap_or_default();
    match request["channel"].as_str() {
        Some(channel) if channel != CHANNEL => {
            format!("\na process that runs its channel goes on with it; otherwise: {command}")
        }
        _ => format!("\ncontinue with: {command}"),
    }
}

/// Closes the questions whose time is over, and those of runs that can no longer be continued.
fn forget_ended(store: &SqliteStore) -> Result<(), Refused> {
    store.expire_runs(store.now()).wait()?;
    store.expire_approvals(store.now()).wait()?;
    Ok(())
}

/// The one id that begins so.
fn only<T: Display>(prefix: &str, what: &str, ids: impl Iterator<Item = T>) -> Result<T, Refused> {
    /// Shorter ones are slips: an empty variable in a script, for instance.
    const LEAST: usize = 4;
    let shown = if what == "grant" { "grants" } else { "list" };
    if prefix.len() < LEAST {
        return Err(Refused(
            WRONG_USAGE,
            format!("`{prefix}` is too short for an id: `pincer approvals {shown}` shows them"),
        ));
    }
    let mut found: Vec<T> = ids.filter(|id| id.to_string().starts_with(prefix)).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Refused(WRONG_USAGE, format!("there is no {what} {prefix}: `pincer approvals {shown}` shows them"))),
        _ => {
            let found: Vec<String> = found.iter().map(T::to_string).collect();
            Err(Refused(WRONG_USAGE, format!("{prefix} could be {}: give more of it", found.join(" or "))))
        }
    }
}

fn rows(rows: impl Iterator<Item = String>, nothing: &str) -> String {
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() { nothing.into() } else { rows.join("\n") }
}

fn approval_json(approval: &Approval) -> Value {
    json!({
        "id": approval.id, "tool": approval.tool, "session": approval.session, "user": approval.user, "run": approval.run,
        "state": approval.state.as_str(), "decidedBy": approval.decided_by, "createdAt": approval.created_at,
        "expiresAt": approval.expires_at, "request": ApprovalRequest::of(approval),
    })
}

fn approval_row(approval: &Approval) -> String {
    let session = one_line(approval.session.as_str(), MOST_SESSION);
    format!("{}  in {session}: {}", approval.id, ApprovalRequest::of(approval).text())
}

fn grant_json(grant: &Grant) -> Value {
    let (kind, run, remaining) = match &grant.kind {
        GrantKind::Always => ("always", None, None),
        GrantKind::Next { run, remaining } => ("next", Some(run), Some(remaining)),
    };
    json!({ "id": grant.id, "tool": grant.tool, "kind": kind, "run": run, "remaining": remaining, "user": grant.user, "createdAt": grant.created_at })
}

fn grant_row(grant: &Grant) -> String {
    let holds = match &grant.kind {
        GrantKind::Always => "always".to_owned(),
        GrantKind::Next { run, remaining } => format!("the next {remaining} in {run}"),
    };
    let user = grant.user.as_deref().unwrap_or("every user");
    format!("{}  {}  {holds}  for {}", grant.id, one_line(&grant.tool, MOST_SHOWN), one_line(user, MOST_SHOWN))
}
