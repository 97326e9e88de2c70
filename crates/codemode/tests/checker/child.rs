//! A process that runs programs for its parent: one request per line of its standard input, one answer per line of its output.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use pincer_codemode::{CodeMode, CodeModeResult, Durability, ExecInput, RunScope, Settings, WaitInput};
use pincer_sandbox::Limits;
use pincer_store::RunId;
use pincer_store_sqlite::SqliteStore;
use pincer_testkit::faulty::{Fault, FaultyStore};
use pincer_tools::{Answer, Door};
use serde_json::{Value, json};

use crate::effects::{Site, scope};
use crate::processes::{PLACE, SAYS, fault_of};

struct Served {
    mode: CodeMode,
    door: Arc<Door>,
    store: Arc<FaultyStore<SqliteStore>>,
}

/// Serves the parent, if there is one.
pub(crate) fn serve() {
    let Some(directory) = std::env::var_os(PLACE) else { return };
    let place = Site::new(directory.as_ref());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let guard = runtime.enter();
    // Each proof is used by one process: this is where it is written down.
    let noted = place.clone();
    let process = std::process::id();
    let store = FaultyStore::new(SqliteStore::open(&place.store()).unwrap()).observed(Box::new(move |commit| {
        if let (Some(run), Some(fence)) = (commit.run, commit.fence) {
            noted.note("proofs", &format!("{} {run} {fence} {process}", commit.method));
        }
    }));
    let store = Arc::new(store);
    let (mode, door) = place.mode(&store, place.leases());
    let served = Arc::new(Served { mode, door, store });
    say(&json!({ "ready": process }));
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = line.map(|line| serde_json::from_str::<Value>(&line).unwrap()) else { break };
        match request["do"].as_str().unwrap() {
            // On this thread: those of the runtime may all hang in the store.
            "fault" => served.store.plan(fault(&request)),
            "heal" => served.store.heal(),
            _ => {
                let served = Arc::clone(&served);
                runtime.spawn(async move {
                    let result = served.serve(&request).await;
                    say(&json!({ "id": request["id"], "result": result }));
                });
            }
        }
    }
    // Its parent has closed the pipe: it ends as a server does.
    drop(guard);
    runtime.block_on(async {
        served.mode.shutdown().await;
        served.mode.release();
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
}

fn fault(request: &Value) -> Fault {
    fault_of(request["kind"].as_u64().unwrap() as usize, request["at"].as_u64().unwrap())
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    // The harness writes there too.
    let _ = out.write_all(format!("\n{SAYS}{line}\n").as_bytes()).and_then(|()| out.flush());
}

impl Served {
    async fn serve(&self, request: &Value) -> Value {
        let scope = scope(&self.door, settings(request));
        let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
        match request["do"].as_str().unwrap() {
            "exec" => {
                let key = request["key"].as_str().map(str::to_owned);
                shown(self.mode.exec(&scope, ExecInput::javascript(text("code")).with_key(key)).await)
            }
            "wait" => shown(self.mode.wait(&scope, &WaitInput { run_id: text("run").into() }).await),
            "abort" => self.abort(&scope, &text("run").into()).await,
            "answer" => {
                let answer = if request["yes"] == true { Answer::AllowOnce } else { Answer::Deny };
                match self.door.answer(&text("approval").into(), answer, "a child").await {
                    Ok(applied) => json!({ "applied": applied }),
                    Err(error) => json!({ "error": error.to_string() }),
                }
            }
            other => panic!("{other}"),
        }
    }

    async fn abort(&self, scope: &RunScope, run: &RunId) -> Value {
        match self.mode.abort(scope, run).await {
            Ok(aborted) => json!({ "aborted": aborted }),
            Err(result) => shown(result),
        }
    }
}

fn shown(result: CodeModeResult) -> Value {
    let mut shown = serde_json::to_value(result).unwrap();
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("telemetry");
    }
    shown
}

fn settings(request: &Value) -> Settings {
    let usual = Settings::default();
    let number = |key: &str, usual: usize| request[key].as_u64().map_or(usual, |number| number as usize);
    let durability = match request["durability"].as_str() {
        Some("every_call") => Durability::EveryCall,
        Some("parked") => Durability::Parked,
        _ => Durability::Calls,
    };
    Settings {
        durability,
        pending_calls: number("pendingCalls", usual.pending_calls),
        limits: Limits {
            snapshot_bytes: number("snapshotBytes", usual.limits.snapshot_bytes),
            memory_bytes: 128 << 20,
            ..usual.limits
        },
        ..usual
    }
    .timeout_ms(request["timeoutMs"].as_u64().unwrap_or(2000))
}
