//! `pincer tools call`: one tool through the door, from a terminal or a script.

use std::io::{Read, stdin};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pincer_runtime::{EngineStart, Runtime, RuntimeOptions, Scope};
use pincer_store::{Approval, ApprovalId, ApprovalState, Approvals};
use pincer_tools::{Call, ErrorCode, Event, EventKind, EventSink, Outcome};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use uuid::Uuid;

use crate::asking::{ask, somebody_is_here};
use crate::interrupt::Interruptions;
use crate::opened::{for_tools, request, told};
use crate::print::{chain, line, note, streamed};
use crate::tokio_runtime::StartError;
use crate::usage::LocationArguments;
use crate::usage_tools::ScopeArguments;
use crate::{DONE, FAILED, INTERRUPTED, WAITING, WRONG_USAGE};

/// How it ended.
enum Ended {
    Outcome(Outcome),
    /// A person must answer this question, and nobody is here.
    Waiting(Box<Approval>),
    Interrupted,
}

/// The call that was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub tool: &'a str,
    pub input: &'a str,
    pub session: &'a str,
}

pub(crate) fn run(locations: &LocationArguments, scope: &ScopeArguments, asked: Asked<'_>, json: bool) -> u8 {
    let started = crate::tokio_runtime::small().and_then(|tokio| Ok((tokio, reporter()?)));
    let (tokio, (report_update, reporting)) = match started {
        Ok(started) => started,
        Err(error) => {
            note(&format!("error: the call cannot be made: {}", chain(&error)));
            return FAILED;
        }
    };
    let (tell, questions) = unbounded_channel();
    let events = move |event: &Event| match &event.what {
        EventKind::Update { update } => drop(report_update.try_send(update.clone())),
        EventKind::ApprovalRequested { approval } => drop(tell.send(approval.clone())),
        _ => {}
    };
    let ended = tokio.block_on(called(locations, scope, asked, Arc::new(events), questions));
    // A question at a terminal may still wait for a line.
    tokio.shutdown_background();
    // Everything has been shown, unless nobody reads it.
    let deadline = Instant::now() + Duration::from_millis(500);
    while !reporting.is_finished() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    match ended {
        Ok(ended) => report(ended, json),
        Err(code) => code,
    }
}

/// Opens a runtime and makes the call. A failure before the call is told, and is this exit code.
async fn called(
    locations: &LocationArguments,
    scope: &ScopeArguments,
    asked: Asked<'_>,
    events: Arc<dyn EventSink>,
    questions: UnboundedReceiver<ApprovalId>,
) -> Result<Ended, u8> {
    let engine = EngineStart::WhenNeeded;
    let runtime = for_tools(locations, |options| RuntimeOptions { engine, ..options })?;
    runtime.events().observe(events);
    if let Some(moved) = runtime.moved_workspace() {
        note(&format!("note: {moved}"));
    }
    let scope = runtime.scope(&request(asked.session, scope)).map_err(|error| told(&error))?;
    let input = read(asked.input).map_err(|error| {
        note(&format!("error: {error}"));
        WRONG_USAGE
    })?;
    runtime.know_servers(Some(asked.tool)).await;
    let ended = attend(&runtime, &scope, asked.tool, input, questions).await;
    runtime.shutdown(Duration::ZERO).await;
    Ok(ended)
}

fn read(input: &str) -> Result<Value, String> {
    let mut text = input.to_owned();
    if input == "-" {
        text.clear();
        stdin().read_to_string(&mut text).map_err(|error| format!("standard input cannot be read: {error}"))?;
    }
    serde_json::from_str(&text)
        .map_err(|error| format!("the input is not JSON: {error}; for instance '{{\"path\": \"README.md\"}}'"))
}

/// Makes the call, and stays with it: reports, questions, interruptions.
async fn attend(
    runtime: &Runtime,
    scope: &Scope,
    tool: &str,
    input: Value,
    mut events: UnboundedReceiver<ApprovalId>,
) -> Ended {
    let mut interrupted = Interruptions::listen();
    let id = format!("call_{}", Uuid::now_v7());
    let call = Call { id: id.into(), tool: tool.into(), input: input.into(), ..Call::default() };
    let call = runtime.call(scope, call);
    tokio::pin!(call);
    loop {
        tokio::select! {
            biased;
            _ = interrupted.next() => {
                scope.abort().cancel();
                let _ = call.await;
                return Ended::Interrupted;
            }
            Some(question) = events.recv() => {
                let Ok(approval) = runtime.store().approval(&question).await else { continue };
                if approval.state != ApprovalState::Pending {
                    continue;
                }
                if !somebody_is_here() {
                    return Ended::Waiting(Box::new(approval));
                }
                tokio::select! {
                    () = ask(runtime, &approval) => {}
                    _ = interrupted.next() => {
                        scope.abort().cancel();
                        let _ = call.await;
                        return Ended::Interrupted;
                    }
                }
            }
            outcome = &mut call => return Ended::Outcome(outcome),
        }
    }
}

/// Shows what a tool reports, as it comes, on a thread of its own: whoever reads it may be slow, or have stopped. What cannot be
/// shown in time is left out.
fn reporter() -> Result<(SyncSender<Value>, JoinHandle<()>), StartError> {
    let (tell, updates) = sync_channel::<Value>(256);
    let show = move || {
        for update in updates {
            match update.get("text").and_then(Value::as_str) {
                Some(text) => streamed(text),
                None => note(&update.to_string()),
            }
        }
    };
    let showing = thread::Builder::new().spawn(show);
    Ok((tell, showing.map_err(|error| StartError::NoThread { reason: error.to_string() })?))
}

fn report(ended: Ended, json: bool) -> u8 {
    match ended {
        // Nothing is said: whoever would read it may have stopped reading, and this must end.
        Ended::Interrupted => INTERRUPTED,
        Ended::Waiting(approval) => {
            let id = &approval.id;
            if json {
                line(&json!({ "status": "waiting", "approvalId": id, "tool": approval.tool }).to_string());
            }
            note(&format!(
                "{} waits for an answer: `pincer approvals allow {id}`, and then call it again",
                approval.tool
            ));
            WAITING
        }
        Ended::Outcome(outcome) => {
            let effect = outcome.effect;
            match outcome.value() {
                Ok(value) => {
                    line(&match (&value, json) {
                        (Value::String(text), false) => text.clone(),
                        (value, false) => serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()),
                        (value, true) => value.to_string(),
                    });
                    DONE
                }
                Err(error) => {
                    if json {
                        line(
                            &json!({ "error": { "code": error.code, "message": error.message, "effect": effect } })
                                .to_string(),
                        );
                    }
                    note(&format!("error: {}", error.message));
                    if matches!(error.code, ErrorCode::UnknownTool | ErrorCode::InvalidInput) {
                        WRONG_USAGE
                    } else {
                        FAILED
                    }
                }
            }
        }
    }
}
