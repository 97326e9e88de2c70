//! Disks fill, databases are locked, tools misbehave, clocks are set back: each is a clear error, and nothing is lost.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{House, code_of, entry, house, house_with, says, tamper};
use pincer_catalog::Flags;
use pincer_codemode::{ExecInput, RunScope, Settings};
use pincer_store::{CallState, Journal, RunState, Runs, Snapshots};
use pincer_tools::{BoxFuture, FnTool, Payload, Tool, ToolCall, ToolError};
use serde_json::{Value, json};

fn state(house: &House, run: &Value) -> RunState {
    house.store.run(&run["runId"].as_str().unwrap().into()).wait().unwrap().state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_at_park_is_told_and_what_was_there_stays() {
    let house = house();
    let before = house.exec("const kept = 'kept'; await yield_control(); return kept").await;
    house.store.limit_pages(60).unwrap();
    let failed = house.exec("text('said'); const a = Array.from({ length: 50000 }, Math.random); await yield_control(); return a.length").await;
    assert_eq!(code_of(&failed), "runtime_unavailable", "{failed}");
    assert!(says(&failed, "the disk under the store") && says(&failed, "make room"), "{failed}");
    assert_eq!(failed["output"], json!([{ "type": "text", "text": "said" }]));
    // The one before is as it was, and with room everything works again.
    assert_eq!(state(&house, &before), RunState::Waiting);
    house.store.limit_pages(1_000_000).unwrap();
    assert_eq!(house.wait(&before).await["value"], "kept");
    let waiting = house
        .exec("const a = Array.from({ length: 50000 }, Math.random); await yield_control(); return a.length")
        .await;
    assert_eq!(house.wait(&waiting).await["value"], 50_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_cannot_be_noted_is_not_made() {
    let house = house();
    house.store.limit_pages(1).unwrap();
    let caught = house.exec("return await tools.count({ big: 'x'.repeat(100000) })").await;
    assert_eq!(caught["status"], "failed", "{caught}");
    assert_eq!(house.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_another_process_has_locked_is_waited_for() {
    let house = house();
    let script = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\ndb.execute('BEGIN IMMEDIATE')\nprint('locked', flush=True)\nsys.stdin.read()\ndb.execute('COMMIT')";
    let mut other = Command::new("python3");
    other.args(["-c", script]).arg(house.store_file());
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "locked\n");
    let (mode, scope) = (house.mode.clone(), house.scope());
    let code = "const a = await tools.count({}); await yield_control(); return a";
    let running = tokio::spawn(async move { mode.exec(&scope, ExecInput::javascript(code)).await });
    // The runtime is not held up: others who need no store go on.
    assert_eq!(house.value("return 'free'").await, "free");
    assert!(!running.is_finished());
    assert_eq!(house.count(), 0);
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    let waiting = serde_json::to_value(running.await.unwrap()).unwrap();
    assert_eq!(house.wait(&waiting).await["value"], 1);
}

/// Does not listen: neither ends when it is told to, nor says anything more.
struct Deaf(Arc<AtomicU32>);

impl Tool for Deaf {
    fn call(&self, _: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_never_answers_can_be_waited_for_and_aborted() {
    let called = Arc::new(AtomicU32::new(0));
    let deaf = Arc::new(Deaf(Arc::clone(&called)));
    let house = house_with(|door| door.tool(entry("openclaw:core:deaf", Flags::default()), deaf).unwrap());
    let scope = house.brief();
    let waiting = house.exec_in(&scope, "return await tools.deaf({})").await;
    assert_eq!(house.wait_in(&scope, &waiting).await["status"], "waiting");
    assert!(house.mode.abort(&scope, &waiting["runId"].as_str().unwrap().into()).await.unwrap());
    assert_eq!(code_of(&house.wait_in(&scope, &waiting).await), "aborted");
    assert_eq!((called.load(Ordering::SeqCst), state(&house, &waiting)), (1, RunState::Aborted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_after_the_abort_changes_nothing() {
    let house = house();
    let scope = house.brief();
    let waiting = house.exec_in(&scope, "return await tools.gate({ name: 'late' })").await;
    let run = waiting["runId"].as_str().unwrap();
    assert!(house.mode.abort(&scope, &run.into()).await.unwrap());
    house.gates.open("late");
    assert_eq!(code_of(&house.wait_in(&scope, &waiting).await), "aborted");
    assert!(house.store.snapshot(&run.into()).await.unwrap().is_none());
    assert_eq!(state(&house, &waiting), RunState::Aborted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_a_hundred_megabytes_is_refused_and_not_stored() {
    let huge = FnTool(|_: ToolCall| async { Ok::<Value, ToolError>(json!("x".repeat(100 << 20))) });
    let house = house_with(|door| door.tool(entry("openclaw:core:huge", Flags::default()), Arc::new(huge)).unwrap());
    let code = "try { await tools.huge({}) } catch (e) { return [e.code, e.effect, e.message.length < 300] }";
    assert_eq!(house.value(code).await, json!(["invalid_output", "done", true]));
    let run = house.store.runs(None).await.unwrap().remove(0);
    let call = house.store.calls(&run.id).await.unwrap().remove(0);
    assert!(call.state == CallState::Settled && call.outcome.unwrap().len() < 1000);
    // What just fits gets through, and a program's own limit is about what it returns.
    let fits = FnTool(|_: ToolCall| async { Ok::<Value, ToolError>(json!("x".repeat(7 << 20))) });
    let house = house_with(|door| door.tool(entry("openclaw:core:fits", Flags::default()), Arc::new(fits)).unwrap());
    assert_eq!(house.value("return (await tools.fits({})).length").await, 7 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_panics_harms_its_call_only() {
    let broken = FnTool(|call: ToolCall| async move {
        assert!(call.input["fine"] == true, "as the test wants");
        Ok::<Value, ToolError>(json!("fine"))
    });
    let house =
        house_with(|door| door.tool(entry("openclaw:core:broken", Flags::default()), Arc::new(broken)).unwrap());
    let code = "const both = await Promise.allSettled([tools.broken({}), tools.broken({ fine: true })]);
        return [both[0].reason.code, both[0].reason.effect, both[1].value]";
    assert_eq!(house.value(code).await, json!(["tool_failed", "unknown", "fine"]));
}

/// A clock that was set back by an hour while a program was suspended: what was stored lies in the future.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_does_no_harm() {
    let house = house();
    let scope = house.brief();
    let code =
        "const t = Date.now(); await new Promise((r) => setTimeout(r, 500)); await tools.echo({}); return 'on time'";
    let waiting = house.exec_in(&scope, code).await;
    let run = waiting["runId"].as_str().unwrap();
    tamper(&house, run, |snapshot| {
        let mut detail: Value = serde_json::from_str(&snapshot.detail).unwrap();
        detail["at"] = json!(detail["at"].as_i64().unwrap() + 3_600_000);
        snapshot.detail = detail.to_string();
    });
    // The timer has at most what was left of it, not an hour more.
    let done = house.wait(&waiting).await;
    assert_eq!(done["value"], "on time", "{done}");
    assert!(done["telemetry"]["ms"]["parked"].as_f64().unwrap() >= 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_suspends_what_runs_and_another_process_goes_on() {
    let house = house();
    let (mode, scope) = (house.mode.clone(), house.scope());
    let code = "const a = await tools.count({}); const b = await Promise.all([tools.look({ b: 1 }), tools.gate({ name: 'slow' }).catch((e) => e.effect)]); return [a, b]";
    let running = tokio::spawn(async move { mode.exec(&scope, ExecInput::javascript(code)).await });
    while house
        .store
        .runs(None)
        .await
        .unwrap()
        .first()
        .is_none_or(|run| house.store.calls(&run.id).wait().unwrap().len() < 3)
    {
        tokio::task::yield_now().await;
    }
    house.mode.shutdown().await;
    house.mode.release();
    let waiting = serde_json::to_value(running.await.unwrap()).unwrap();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    // The call that went on was ended, and nobody knows how far it had come.
    let done = house.neighbour().wait(&waiting).await;
    assert_eq!(done["value"], json!([1, [{ "b": 1 }, "unknown"]]), "{done}");
    assert_eq!(house.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_nobody_answered_in_time_is_told_to_the_program() {
    let house = house_with(|door| door.approval_lifetime(Duration::from_millis(1)));
    let code = "try { await tools.ask({}) } catch (e) { return [e.code, e.effect] }";
    let mut result = house.exec(code).await;
    if result["status"] == "waiting" {
        tokio::time::sleep(Duration::from_millis(5)).await;
        result = house.neighbour().wait(&result).await;
    }
    assert_eq!(result["value"], json!(["approval_expired", "none"]), "{result}");
}

/// Bug 26 of the reference: a `wait` that fails for a reason of its own does not end the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_refused_leaves_the_run_as_it_is() {
    let house = house();
    let waiting = house.exec("await yield_control(); return 'still here'").await;
    let stranger = house.scope().by("you");
    assert_eq!(code_of(&house.wait_in(&stranger, &waiting).await), "invalid_input");
    let scope = house.scope();
    let hasty =
        RunScope { settings: Settings { timeout: Duration::from_millis(100), ..scope.settings.clone() }, ..scope };
    assert_eq!(house.wait_in(&hasty, &waiting).await["value"], "still here");
}
