//! Programs that run on a thread of the async runtime, and do not keep it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{House, code_of, house};
use pincer_codemode::{CodeMode, CodeModeResult, ExecInput, RunScope, fair_turns};
use pincer_sandbox::{Engine, LongTurn, Options};
use pincer_store_sqlite::FileLeases;
use pincer_tools::EventKind;
use serde_json::json;
use tokio::task::JoinHandle;

/// A program that calls a tool and then computes for ever.
const ENDLESS: &str = "await tools.echo({}); for (;;) {}";

fn patient(house: &House) -> RunScope {
    let scope = house.scope();
    RunScope { settings: scope.settings.clone().timeout_ms(60_000), ..scope }
}

/// Starts it, and waits until it computes, or is about to.
async fn endless(house: &House, scope: &RunScope) -> JoinHandle<CodeModeResult> {
    let (mode, scope) = (house.mode.clone(), scope.clone());
    let running = tokio::spawn(async move { mode.exec(&scope, ExecInput::javascript(ENDLESS)).await });
    let has_ended = || house.events.lock().unwrap().iter().any(|event| matches!(event.what, EventKind::End { .. }));
    while !has_ended() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running
}

/// Waits for a task that needs the workers of the runtime, and its clock.
async fn others_go_on() {
    let ticking = tokio::spawn(async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    ticking.await.unwrap();
}

/// Aborts it. It hears that.
async fn is_aborted(scope: &RunScope, running: JoinHandle<CodeModeResult>) {
    scope.context.abort.cancel();
    let result = serde_json::to_value(running.await.unwrap()).unwrap();
    assert_eq!(code_of(&result), "aborted", "{result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_program_that_computes_for_ever_gives_back_the_only_worker_there_is() {
    let house = house();
    let scope = patient(&house);
    let running = endless(&house, &scope).await;
    // Tasks, timers and other programs go on beside it.
    others_go_on().await;
    assert_eq!(house.value("return (await tools.echo({ a: 1 })).a").await, json!(1));
    assert!(!running.is_finished(), "it computes");
    // And whoever does not want it any more is heard.
    is_aborted(&scope, running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn its_time_is_over_when_it_is_over() {
    let house = house();
    let result = house.exec_in(&house.brief(), ENDLESS).await;
    assert_eq!(code_of(&result), "timeout", "{result}");
    assert_eq!(house.value("return 1").await, json!(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_goes_on_while_its_program_does() {
    let house = house();
    // It is the only one when the program goes on to something else.
    let code = "const call = tools.count({}); await null; const from = Date.now();
        while (Date.now() - from < 20) {}
        await new Promise((go) => setTimeout(go, 1)); return await call";
    assert_eq!(house.value(code).await, json!(1));
    assert_eq!(house.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_program_of_many_short_turns_lets_others_have_theirs() {
    let mut house = house();
    // No turn of it lasts.
    let long_turn = LongTurn { after: Duration::from_secs(3600), ..fair_turns() };
    let cache_dir = Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine-cache"));
    let options = Options { cache_dir, live_cells: 4, long_turn: Some(long_turn), ..Options::default() };
    let leases = Arc::new(FileLeases::new(house.directory.path().join("owners")));
    let engine = Engine::load(options).unwrap();
    house.mode = CodeMode::new(engine, 4, Arc::clone(&house.door), house.store.clone(), leases);
    for code in [
        "for (;;) await tools.search('echo')",
        "for (;;) await new Promise((go) => setTimeout(go, 0))",
        "for (;;) await tools.echo({})",
    ] {
        let scope = patient(&house);
        let (mode, asked) = (house.mode.clone(), scope.clone());
        let running = tokio::spawn(async move { mode.exec(&asked, ExecInput::javascript(code)).await });
        others_go_on().await;
        assert!(!running.is_finished(), "{code} goes on");
        is_aborted(&scope, running).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_is_made_although_its_program_only_looks_whether_it_was() {
    let house = house();
    let code = "let done = false; tools.count({}).then(() => { done = true });
        while (!done) await new Promise((go) => setTimeout(go, 0)); return done";
    assert_eq!(house.value(code).await, json!(true));
}

/// A runtime that has no thread to spare: then programs have one of their own.
#[tokio::test]
async fn a_runtime_of_one_thread_is_left_in_peace() {
    let house = house();
    assert_eq!(house.value("return (await tools.echo({ a: 1 })).a").await, json!(1));
    let scope = patient(&house);
    let running = endless(&house, &scope).await;
    is_aborted(&scope, running).await;
}
