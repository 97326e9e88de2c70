//! Programs go on from checkpoints: whatever their inputs depend on, no call that has settled is made again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{House, code_of, echo, entry, house, house_with, says};
use pincer_catalog::Flags;
use pincer_codemode::{Durability, ExecInput, RunScope};
use pincer_store::{Journal, RunId, RunState, Runs, Snapshots};
use pincer_tools::{Answer, ApprovalRule, FnTool, Matcher, RuleDecision, ToolCall, ToolError};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Runs a program in a process that dies while its call of `gate` is under way; the run.
async fn dies_at_the_gate(house: &House, scope: RunScope, code: &str) -> Value {
    dies_at(house, scope, code, ":gate").await
}

/// The same for another tool.
async fn dies_at(house: &House, scope: RunScope, code: &str, tool: &str) -> Value {
    let (mode, code) = (house.mode.clone(), code.to_owned());
    let running = tokio::spawn(async move { mode.exec(&scope, ExecInput::javascript(code)).await });
    let is_at_the_gate = || {
        let runs = house.store.running().wait().unwrap();
        let calls = runs.first().map(|run| house.store.calls(&run.id).wait().unwrap()).unwrap_or_default();
        calls.iter().any(|call| call.tool.ends_with(tool))
    };
    while !is_at_the_gate() {
        tokio::task::yield_now().await;
    }
    let id = house.store.running().await.unwrap().remove(0).id;
    // As far as others can tell: its lock is gone.
    house.mode.release();
    running.abort();
    json!({ "runId": id })
}

fn durability(house: &House, durability: Durability) -> RunScope {
    let mut scope = house.scope();
    scope.settings.durability = durability;
    scope
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_that_depend_on_the_clock_are_not_matched_with_anything() {
    for kind in [Durability::Calls, Durability::EveryCall] {
        let house = house();
        let code = "const at = []; for (let i = 0; i < 3; i++) { await tools.look({}); at.push(await tools.count({ at: Date.now() + Math.random() })) }
            try { await tools.gate({ name: 'never', at: Date.now() }) } catch (e) { at.push(e.effect) }
            at.push(await tools.count({ at: Date.now() })); return at";
        let run = dies_at_the_gate(&house, durability(&house, kind), code).await;
        let done = house.neighbour().wait(&run).await;
        assert_eq!(done["value"], json!([1, 2, 3, "unknown", 4]), "{done}");
        assert_eq!(house.count(), 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_never_began_is_made_after_a_crash_and_the_others_are_not() {
    let house = house();
    let mut scope = house.scope();
    scope.settings.pending_calls = 2;
    let code = "const all = await Promise.allSettled([tools.gate({ name: 'never' }), tools.count({}), tools.count({}), tools.count({})]);
        return all.map((one) => one.value ?? one.reason.effect)";
    let run = dies_at_the_gate(&house, scope, code).await;
    let done = house.neighbour().wait(&run).await;
    assert_eq!(done["value"][0], "unknown", "{done}");
    assert_eq!(house.count(), 3, "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_parked_durability_a_crash_ends_the_run_with_what_had_settled() {
    let house = house();
    let scope = durability(&house, Durability::Parked);
    let code = "await yield_control(); await tools.count({}); await tools.gate({ name: 'never' })";
    let waiting = house.exec_in(&scope, code).await;
    let (mode, again) = (house.mode.clone(), scope.clone());
    let id = RunId::from(waiting["runId"].as_str().unwrap());
    let input = pincer_codemode::WaitInput { run_id: id.clone() };
    let running = tokio::spawn(async move { mode.wait(&again, &input).await });
    while house.store.calls(&id).await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(house.store.snapshot(&id).await.unwrap().is_none(), "the first effect retires what was stored");
    house.mode.release();
    running.abort();
    let lost = house.neighbour().wait(&waiting).await;
    assert_eq!(code_of(&lost), "aborted", "{lost}");
    assert!(
        says(&lost, "settled calls: openclaw:core:count; calls that may have happened: openclaw:core:gate"),
        "{lost}"
    );
    assert_eq!(house.count(), 1);
}

/// Two servers on one store, each with a client that continues the same run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_live_processes_never_run_the_same_program_at_once() {
    let house = house();
    let other = house.neighbour();
    const ROUNDS: u32 = 40;
    let code = format!(
        "for (let i = 0; i < {ROUNDS}; i++) {{ await tools.count({{ at: Date.now() }}); await yield_control() }} return 'done'"
    );
    let waiting = house.exec(&code).await;
    let until_done = |house: &House| {
        let (mode, scope) = (house.mode.clone(), house.scope());
        let input = pincer_codemode::WaitInput { run_id: waiting["runId"].as_str().unwrap().into() };
        tokio::spawn(async move {
            loop {
                let result = serde_json::to_value(mode.wait(&scope, &input).await).unwrap();
                if result["status"] != "waiting" {
                    return result;
                }
            }
        })
    };
    let both = (until_done(&house), until_done(&other));
    let (one, two) = (both.0.await.unwrap(), both.1.await.unwrap());
    assert_eq!((&one["value"], &two["value"]), (&json!("done"), &json!("done")), "{one} {two}");
    assert_eq!(house.count(), ROUNDS);
}

/// A race between a call and a timer is decided by their times, also when both are over before the program goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_calls_and_due_timers_are_delivered_in_one_order() {
    let code = "const timer = new Promise((r) => setTimeout(r, 450)).then(() => 'timer');
        return await Promise.race([tools.gate({ name: 'x' }), timer])";
    for (open_first, winner) in [(true, "x"), (false, "timer")] {
        for elsewhere in [false, true] {
            let house = house();
            let waiting = house.exec_in(&house.brief(), code).await;
            assert_eq!(waiting["status"], "waiting", "{waiting}");
            let settled =
                || house.store.calls(&waiting["runId"].as_str().unwrap().into()).wait().unwrap()[0].settled.is_some();
            if !open_first {
                tokio::time::sleep(Duration::from_millis(600)).await;
            }
            house.gates.open("x");
            while !settled() {
                tokio::task::yield_now().await;
            }
            if open_first {
                tokio::time::sleep(Duration::from_millis(600)).await;
            }
            let done = if elsewhere { house.neighbour().wait(&waiting).await } else { house.wait(&waiting).await };
            assert_eq!(done["value"], winner, "{done}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_too_large_for_checkpoints_goes_on_without_them() {
    let house = house();
    let mut scope = house.scope();
    scope.settings.limits.snapshot_bytes = 100_000;
    let code = "const a = [await tools.count({})]; const big = Array.from({ length: 60000 }, Math.random);
        a.push(await tools.count({}), await tools.count({}), big.length); return a";
    let done = house.exec_in(&scope, code).await;
    assert_eq!(done["value"], json!([1, 2, 3, 60_000]), "{done}");
    assert_eq!(
        (&done["telemetry"]["durability"], &done["telemetry"]["checkpointCount"]),
        (&json!("parked"), &json!(1))
    );
    // After a crash it is over, and nothing before the last effect is continued.
    let code = "await tools.count({}); const big = Array.from({ length: 60000 }, Math.random); await tools.count({});
        await tools.gate({ name: 'never' }); return big.length";
    let run = dies_at_the_gate(&house, scope, code).await;
    let lost = house.neighbour().wait(&run).await;
    assert_eq!(code_of(&lost), "aborted", "{lost}");
    assert_eq!(house.count(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_need_no_checkpoint_and_many_effects_at_once_need_one() {
    let house = house();
    let count = |result: &Value| result["telemetry"]["checkpointCount"].clone();
    let reads = house.exec("for (let i = 0; i < 5; i++) await tools.look({ i }); return 1").await;
    assert_eq!(count(&reads), 0, "{reads}");
    let parallel =
        house.exec("return (await Promise.all(Array.from({ length: 200 }, () => tools.count({})))).length").await;
    assert_eq!((count(&parallel), &parallel["value"]), (json!(1), &json!(200)), "{parallel}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_again_is_the_same_run() {
    let house = house();
    let exec = |house: &House, code: &str, key: &str| {
        let (mode, scope) = (house.mode.clone(), house.scope());
        let input = ExecInput::javascript(code).with_key(Some(key.into()));
        async move { serde_json::to_value(mode.exec(&scope, input).await).unwrap() }
    };
    let code = "return [await tools.count({}), Math.random()]";
    let first = exec(&house, code, "a").await;
    assert_eq!(first["status"], "completed", "{first}");
    assert_eq!(exec(&house, code, "a").await["value"], first["value"]);
    assert_eq!(exec(&house.neighbour(), code, "a").await["value"], first["value"]);
    assert_eq!(house.count(), 1);
    let other = exec(&house, "return 2", "a").await;
    assert!(code_of(&other) == "invalid_input" && says(&other, "another program was run under the id a"), "{other}");
    assert_eq!(exec(&house, "return 2", "b").await["value"], 2);
    // At the same time, from two processes.
    let (one, two) = tokio::join!(exec(&house, code, "c"), exec(&house.neighbour(), code, "c"));
    assert_eq!(one["value"], two["value"], "{one} {two}");
    assert_eq!(house.count(), 2);
    // What waits is told again, and not continued.
    let waits = "await yield_control(); return await tools.count({})";
    let waiting = exec(&house, waits, "d").await;
    assert_eq!(exec(&house, waits, "d").await["runId"], waiting["runId"]);
    assert_eq!(house.wait(&waiting).await["value"], 3);
    assert_eq!(exec(&house, waits, "d").await["value"], 3);
    let long = exec(&house, "return 1", &"k".repeat(257)).await;
    assert!(code_of(&long) == "invalid_input" && says(&long, "256 bytes"), "{long}");
    // Another session may use the same key.
    let mut scope = house.scope();
    scope.context.session = "other".into();
    let input = ExecInput::javascript("return 'mine'").with_key(Some("a".into()));
    let mine = serde_json::to_value(house.mode.exec(&scope, input).await).unwrap();
    assert_eq!(mine["value"], "mine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_process_died_goes_on_when_it_is_sent_again() {
    let code = "const seen = await tools.look({ a: 1 }); EFFECT try { await tools.gate({ name: 'never' }) } catch (e) { return [seen, e.effect, EXTRA] }";
    for (effect, extra, expected) in [("", "0", 0), ("await tools.count({});", "'counted'", 1)] {
        let house = house();
        let code = code.replace("EFFECT", effect).replace("EXTRA", extra);
        let (mode, scope) = (house.mode.clone(), house.scope());
        let input = ExecInput::javascript(&*code).with_key(Some("k".into()));
        let (again, running) = (input.clone(), tokio::spawn(async move { mode.exec(&scope, input).await }));
        let calls = || {
            house
                .store
                .running()
                .wait()
                .unwrap()
                .first()
                .map_or(0, |run| house.store.calls(&run.id).wait().unwrap().len())
        };
        while calls() < 2 + expected {
            tokio::task::yield_now().await;
        }
        house.mode.release();
        running.abort();
        let neighbour = house.neighbour();
        let done = serde_json::to_value(neighbour.mode.exec(&neighbour.scope(), again).await).unwrap();
        assert_eq!((&done["value"][0], &done["value"][1]), (&json!({ "a": 1 }), &json!("unknown")), "{done}");
        assert_eq!(house.count(), expected as u32);
        assert_eq!(
            house.store.runs(None).await.unwrap().iter().filter(|run| run.state == RunState::Completed).count(),
            1
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_spare_no_checkpoint_and_a_question_about_a_read_needs_one() {
    let matcher = Matcher::parse("rules", &["openclaw:core:peek"]).unwrap();
    let house = house_with(|door| {
        let hinted = Flags { claims_read_only: true, ..Flags::default() };
        let again = Flags { idempotent: true, ..Flags::default() };
        let reads = Flags { read_only: true, ..Flags::default() };
        [("hinted", hinted), ("again", again), ("peek", reads)]
            .into_iter()
            .fold(door, |door, (name, flags)| {
                door.tool(entry(&format!("openclaw:core:{name}"), flags), echo()).unwrap()
            })
            .rule(ApprovalRule { matcher, decision: RuleDecision::Ask })
    });
    let count = |result: &Value| result["telemetry"]["checkpointCount"].clone();
    for tool in ["hinted", "again"] {
        assert_eq!(count(&house.exec(&format!("return await tools.{tool}({{}})")).await), 1, "{tool}");
    }
    let waiting = house.exec("return await tools.peek({ a: 1 })").await;
    assert_eq!(count(&waiting), 1, "{waiting}");
    // Another process has the same question, not a second one.
    house.mode.shutdown().await;
    house.mode.release();
    let neighbour = house.neighbour();
    let again = neighbour.wait(&waiting).await;
    let question = |result: &Value| result["pendingToolCalls"][0]["approvalId"].clone();
    assert_eq!(question(&again), question(&waiting), "{again}");
    let id = question(&again);
    assert!(house.door.answer(&id.as_str().unwrap().into(), Answer::AllowOnce, "me").await.unwrap());
    assert_eq!(neighbour.wait(&again).await["value"], json!({ "a": 1 }));
}

/// Returns how many calls the journal has of the one run, and their bytes.
fn journal(house: &House) -> (usize, usize) {
    let run = house.store.runs(None).wait().unwrap().remove(0);
    let calls = house.store.calls(&run.id).wait().unwrap();
    (calls.len(), calls.iter().map(|call| call.input.len() + call.outcome.as_ref().map_or(0, String::len)).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_of_a_long_program_is_bounded_and_what_it_waits_for_stays() {
    for (tool, kind) in [("echo", Durability::Calls), ("look", Durability::Calls), ("echo", Durability::Parked)] {
        let house = house();
        let mut scope = durability(&house, kind);
        scope.settings.journal_bytes = 256 << 10;
        let code = format!(
            "const text = 'x'.repeat(20000); for (let i = 0; i < 60; i++) await tools.{tool}({{ text }}); return 1"
        );
        let done = house.exec_in(&scope, &code).await;
        assert_eq!(done["value"], 1, "{done}");
        let (_, bytes) = journal(&house);
        // 60 calls of 40 kB each.
        assert!((50_000..350_000).contains(&bytes), "{tool}, {kind:?}: {bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_whose_old_calls_were_forgotten_goes_on_after_a_crash() {
    let (made, unlocked) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let (count, lock) = (Arc::clone(&made), Arc::clone(&unlocked));
    let late = FnTool(move |_: ToolCall| {
        let (count, lock) = (Arc::clone(&count), Arc::clone(&lock));
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            lock.notified().await;
            Ok::<Value, ToolError>(json!("late"))
        }
    });
    let unlock = FnTool(move |_: ToolCall| {
        unlocked.notify_one();
        async { Ok::<Value, ToolError>(Value::Null) }
    });
    let never = FnTool(|_: ToolCall| std::future::pending::<Result<Value, ToolError>>());
    let looks = Flags { read_only: true, ..Flags::default() };
    let house = house_with(|door| {
        let door = door.tool(entry("openclaw:core:late", Flags::default()), Arc::new(late)).unwrap();
        let door = door.tool(entry("openclaw:core:unlock", looks), Arc::new(unlock)).unwrap();
        door.tool(entry("openclaw:core:stare", looks), Arc::new(never)).unwrap()
    });
    let mut scope = house.scope();
    scope.settings.journal_bytes = 64 << 10;
    // The last checkpoint is that of the last `count`: it waits for `late`. The calls that follow change nothing and need none.
    let code = "const text = 'x'.repeat(20000); const late = tools.late({}); let sum = 0;
        for (let i = 0; i < 20; i++) { await tools.echo({ text }); sum += await tools.count({}) }
        await tools.unlock({}); sum += await late;
        for (let i = 0; i < 20; i++) await tools.look({ text });
        await tools.stare({})";
    let run = dies_at(&house, scope, code, ":stare").await;
    let (calls, bytes) = journal(&house);
    assert!(calls < 50 && bytes < 200_000, "{calls} calls, {bytes} bytes");
    let neighbour = house.neighbour();
    let scope = neighbour.brief();
    // A busy machine may need more than one brief wait to get there again.
    let mut waiting = neighbour.wait_in(&scope, &run).await;
    while waiting["status"] == "waiting" && waiting["pendingToolCalls"][0]["toolId"] != "openclaw:core:stare" {
        waiting = neighbour.wait_in(&scope, &run).await;
    }
    assert_eq!(waiting["pendingToolCalls"][0]["toolId"], "openclaw:core:stare", "{waiting}");
    assert_eq!((house.count(), made.load(Ordering::SeqCst)), (20, 1));
}
