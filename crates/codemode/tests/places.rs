//! Places for live cells: a program that waits holds none, and users share them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{House, engine, house};
use pincer_codemode::{CodeMode, RunScope};
use pincer_store_sqlite::FileLeases;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A house in which so few cells can be live.
fn small_house(places: u32) -> Arc<House> {
    let mut house = house();
    let leases = Arc::new(FileLeases::new(house.directory.path().join("owners")));
    house.mode = CodeMode::new(engine().clone(), places, Arc::clone(&house.door), house.store.clone(), leases);
    Arc::new(house)
}

fn of(house: &House, user: &str) -> RunScope {
    house.scope().by(user)
}

/// With time enough for a slow machine.
fn patient(scope: RunScope) -> RunScope {
    RunScope { settings: scope.settings.clone().timeout_ms(60_000), ..scope }
}

fn run(house: &Arc<House>, scope: RunScope, code: String, running: &mut JoinSet<Value>) {
    let house = Arc::clone(house);
    running.spawn(async move { house.exec_in(&scope, &code).await });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_wait_hold_no_place_and_go_on_as_if_nothing_had_happened() {
    let house = small_house(2);
    let mut running = JoinSet::new();
    for n in 0..40 {
        let code = format!(
            "const kept = {{ n: {n}, seen: [] }}; const early = tools.gate({{ name: 'early' }});
             kept.seen.push(await tools.gate({{ name: 'late' }}), (await early) + kept.n);
             await new Promise((go) => setTimeout(go, 5)); return kept"
        );
        run(&house, patient(of(&house, "ann")), code, &mut running);
    }
    for n in 0..20 {
        let result = house.exec_in(&patient(of(&house, "bob")), &format!("return {n} + 1")).await;
        assert_eq!((&result["status"], &result["value"]), (&json!("completed"), &json!(n + 1)), "{result}");
    }
    // Nothing of the others has been lost.
    (0..40).for_each(|_| house.gates.open("early"));
    (0..40).for_each(|_| house.gates.open("late"));
    let mut seen = Vec::new();
    while let Some(result) = running.join_next().await {
        let result = result.unwrap();
        let n = result["value"]["n"].as_u64().unwrap_or_else(|| panic!("{result}"));
        assert_eq!(result["value"]["seen"], json!(["late", format!("early{n}")]));
        seen.push(n);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_effects_are_made_once_by_programs_that_are_put_aside() {
    let house = small_house(1);
    let mut running = JoinSet::new();
    let code = "for (let i = 0; i < 5; i++) { await tools.count({}); await new Promise((go) => setTimeout(go, 1)) }
        return (await Promise.all([1, 2, 3].map((n) => tools.count({ n })))).length";
    for _ in 0..20 {
        run(&house, patient(of(&house, "ann")), code.into(), &mut running);
    }
    while let Some(result) = running.join_next().await {
        assert_eq!(result.unwrap()["value"], 3);
    }
    assert_eq!(house.count(), 20 * 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_whose_programs_compute_leaves_places_to_others() {
    let house = small_house(8);
    let abort = CancellationToken::new();
    let mut looping = JoinSet::new();
    for _ in 0..50 {
        let mut scope = patient(of(&house, "ann"));
        scope.context.abort = abort.clone();
        run(&house, scope, "for (;;) {}".into(), &mut looping);
    }
    for n in 0..10 {
        let result = house.exec_in(&patient(of(&house, "bob")), &format!("return {n} + 1")).await;
        assert_eq!(result["value"], n + 1, "{result}");
    }
    abort.cancel();
    while let Some(result) = looping.join_next().await {
        assert_eq!(result.unwrap()["code"], "aborted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_gets_no_place_in_time_is_suspended_and_continued() {
    let house = small_house(1);
    let abort = CancellationToken::new();
    let mut running = JoinSet::new();
    let brief = RunScope { settings: house.scope().settings.timeout_ms(3000), ..of(&house, "ann") };
    run(&house, brief, "const kept = 20; return kept + (await tools.gate({ name: 'x' })).length".into(), &mut running);
    // It waits at the gate and is put aside for one that does not stop.
    while house.events.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut scope = patient(of(&house, "bob"));
    scope.context.abort = abort.clone();
    let mut looping = JoinSet::new();
    run(&house, scope, "await tools.echo({}); for (;;) {}".into(), &mut looping);
    while house.events.lock().unwrap().iter().all(|event| !format!("{event:?}").contains("core:echo")) {
        tokio::task::yield_now().await;
    }
    house.gates.open("x");
    let waiting = running.join_next().await.unwrap().unwrap();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    abort.cancel();
    looping.join_next().await;
    let done = house.wait_in(&patient(of(&house, "ann")), &waiting).await;
    assert_eq!((&done["status"], &done["value"]), (&json!("completed"), &json!(21)), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_whose_place_would_come_too_late_is_told_at_once() {
    let house = small_house(1);
    let abort = CancellationToken::new();
    let mut running = JoinSet::new();
    let of_many = |user| {
        let mut scope = patient(of(&house, user));
        scope.context.abort = abort.clone();
        scope
    };
    run(&house, of_many("ann"), "await tools.echo({}); for (;;) {}".into(), &mut running);
    while house.events.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    (0..40).for_each(|_| run(&house, of_many("bob"), "return 1".into(), &mut running));
    // None of forty has been served in this time: the next one cannot be within ten seconds.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let brief = RunScope { settings: house.scope().settings.timeout_ms(10_000), ..of(&house, "bob") };
    let asked = Instant::now();
    let refused = house.exec_in(&brief, "return 1").await;
    assert_eq!(refused["code"], "runtime_unavailable", "{refused}");
    assert!(refused["error"].as_str().unwrap().starts_with("the server is busy"), "{refused}");
    assert!(refused["retryAfterMs"].as_u64().unwrap() > 10_000, "{refused}");
    assert!(asked.elapsed() < Duration::from_secs(5));
    abort.cancel();
    while running.join_next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_had_no_time_to_compute_is_not_told_to_look_for_a_loop() {
    let house = small_house(256);
    // With more cores than that, the places are not enough to keep them all busy.
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(30);
    let mut running = JoinSet::new();
    for user in 0..8 * cores {
        let scope = of(&house, &format!("user {user}"));
        let scope = RunScope { settings: scope.settings.clone().timeout_ms(1500), ..scope };
        run(&house, scope, "for (;;) {}".into(), &mut running);
    }
    let mut told = Vec::new();
    while let Some(result) = running.join_next().await {
        let result = result.unwrap();
        assert_eq!(result["code"], "timeout", "{result}");
        told.push(result);
    }
    let shared = |result: &&Value| result["error"].as_str().unwrap().contains("went to other programs");
    assert!(2 * told.iter().filter(shared).count() > told.len(), "{told:?}");
    assert!(told.iter().filter(shared).all(|result| result["retryAfterMs"] == 1500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_too_many_suspended_programs_is_refused_before_any_effect_and_others_are_not() {
    let house = Arc::new(house());
    let few = |user: &str| {
        let mut scope = patient(of(&house, user));
        scope.settings.room.of_user = 3;
        scope
    };
    let code = "const n = await tools.count({}); await yield_control('x'); return n";
    let mut waiting = Vec::new();
    for n in 1..=3 {
        waiting.push(house.exec_in(&few("ann"), code).await);
        assert_eq!((waiting[n - 1]["status"].as_str(), house.count()), (Some("waiting"), n as u32));
    }
    let refused = house.exec_in(&few("ann"), code).await;
    assert_eq!(
        (&refused["status"], &refused["code"]),
        (&json!("failed"), &json!("snapshot_limit_exceeded")),
        "{refused}"
    );
    assert!(refused["retryAfterMs"].as_u64().is_some_and(|after| after >= 1000), "{refused}");
    assert!(refused["error"].as_str().unwrap().starts_with("3 programs of this user are suspended"), "{refused}");
    assert_eq!(house.count(), 3, "the tool was not called");
    // Programs that change nothing and do not wait need no room.
    assert_eq!(house.exec_in(&few("ann"), "return (await tools.look({ a: 1 })).a").await["value"], 1);
    assert_eq!(house.exec_in(&few("bob"), code).await["status"], "waiting");
    assert_eq!(house.wait_in(&few("ann"), &waiting[0]).await["value"], 1);
    assert_eq!(house.exec_in(&few("ann"), code).await["status"], "waiting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn being_put_aside_gives_a_program_no_more_output() {
    let house = small_house(1);
    let mut running = JoinSet::new();
    for _ in 0..10 {
        // 100 times 2 KB, of which 64 KB may be printed.
        let code =
            "for (let i = 0; i < 100; i++) { text('x'.repeat(2000)); await new Promise((go) => setTimeout(go, 1)) }";
        run(&house, patient(of(&house, "ann")), code.into(), &mut running);
    }
    while let Some(result) = running.join_next().await {
        let result = result.unwrap();
        assert_eq!(result["code"], "output_limit_exceeded", "{}", result["status"]);
        assert!(result["output"].to_string().len() < 70_000);
    }
}
