//! `pincer tools call`: one tool through the door, from a terminal or a script.

use std::io::{Read, stdin};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pincer_catalog::{Catalog, Policy};
use pincer_store::{Approval, ApprovalId, ApprovalState, Approvals};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Call, Context, Door, ErrorCode, Event, EventKind, Outcome, RunCatalog};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::asking::{ask, somebody_is_here};
use crate::assembly::Assembly;
use crate::codemode::user;
use crate::interrupt::Interruptions;
use crate::print::{chain, line, note, streamed};
use crate::tokio_runtime::StartError;
use crate::{DONE, FAILED, INTERRUPTED, WAITING, WRONG_USAGE, state};

/// What was asked for.
pub(crate) struct Asked<'a> {
    pub tool: &'a str,
    pub input: &'a str,
    pub session: &'a str,
    pub agent: Option<String>,
    pub sandboxed: bool,
}

/// How it ended.
enum Ended {
    Outcome(Outcome),
    /// A person must answer this question, and nobody is here.
    Waiting(Box<Approval>),
    Interrupted,
}

pub(crate) fn run(assembly: Assembly, catalog: &Catalog, asked: &Asked<'_>, json: bool) -> u8 {
    let input = match read(asked.input) {
        Ok(input) => input,
        Err(error) => {
            note(&format!("error: {error}"));
            return WRONG_USAGE;
        }
    };
    let started = crate::tokio_runtime::small().and_then(|runtime| Ok((runtime, reporter()?)));
    let (runtime, (report_update, reporting)) = match started {
        Ok(started) => started,
        Err(error) => {
            note(&format!("error: the call cannot be made: {}", chain(&error)));
            return FAILED;
        }
    };
    let Assembly { door, builtin, plugins, mcp, store } = assembly;
    let (tell, questions) = unbounded_channel();
    let events = move |event: Event| match event.what {
        EventKind::Update { update } => drop(report_update.try_send(update)),
        EventKind::ApprovalRequested { approval } => drop(tell.send(approval)),
        _ => {}
    };
    let door = Arc::new(door.events(Arc::new(events)).build(store.clone()));
    let scope = RunCatalog::new(catalog, &Policy::open());
    let ended = runtime.block_on(async {
        mcp.attach(&door);
        let ended = attend(&door, &scope, &store, asked, input, questions).await;
        mcp.end().await;
        builtin.processes().end().await;
        for plugin in &plugins {
            plugin.end().await;
        }
        state::fold(&store);
        ended
    });
    // A question at a terminal may still wait for a line.
    runtime.shutdown_background();
    drop(door);
    // Everything has been shown, unless nobody reads it.
    let deadline = Instant::now() + Duration::from_millis(500);
    while !reporting.is_finished() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    report(ended, json)
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
    door: &Door,
    scope: &RunCatalog,
    store: &Arc<SqliteStore>,
    asked: &Asked<'_>,
    input: Value,
    mut events: UnboundedReceiver<ApprovalId>,
) -> Ended {
    let mut interrupted = Interruptions::listen();
    let abort = CancellationToken::new();
    let context = Context {
        session: asked.session.into(),
        user: user(),
        agent: asked.agent.clone(),
        sandboxed: asked.sandboxed,
        abort: abort.clone(),
        ..Context::default()
    };
    let id = format!("call_{}", Uuid::now_v7());
    let call = Call { id: id.into(), tool: asked.tool.into(), input: input.into(), ..Call::default() };
    let call = door.call(scope, &context, call, Arc::new(()));
    tokio::pin!(call);
    loop {
        tokio::select! {
            biased;
            _ = interrupted.next() => {
                abort.cancel();
                let _ = call.await;
                return Ended::Interrupted;
            }
            Some(question) = events.recv() => {
                let Ok(approval) = store.approval(&question).await else { continue };
                if approval.state != ApprovalState::Pending {
                    continue;
                }
                if !somebody_is_here() {
                    return Ended::Waiting(Box::new(approval));
                }
                tokio::select! {
                    () = ask(door, &approval) => {}
                    _ = interrupted.next() => {
                        abort.cancel();
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
