//! The memory of all programs together: it is counted, never exceeded, waited for, and given back.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{House, LIVE_CELLS, code_of, engine, house, says};
use pincer_codemode::{CodeMode, Memory, MemoryBudget, Resident, RunScope};
use pincer_store_sqlite::FileLeases;
use pincer_tools::EventKind;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const MB: usize = 1 << 20;

/// A house whose programs share so much memory.
fn house_within(memory: Memory) -> Arc<House> {
    let mut house = house();
    let leases = Arc::new(FileLeases::new(house.directory.path().join("owners")));
    let (door, store) = (Arc::clone(&house.door), house.store.clone());
    let scratch = Some(house.directory.path().join("scratch"));
    house.mode = CodeMode::within(Memory { scratch, ..memory }, engine().clone(), LIVE_CELLS, door, store, leases);
    Arc::new(house)
}

fn tight_house(bytes: usize) -> (Arc<House>, MemoryBudget) {
    let budget = MemoryBudget::new(bytes);
    (house_within(Memory { budget: budget.clone(), ..Memory::unlimited() }), budget)
}

/// A scope with time enough for a slow machine.
fn of(house: &House, user: &str) -> RunScope {
    let scope = house.scope();
    RunScope { settings: scope.settings.clone().timeout_ms(60_000), ..scope }.by(user)
}

/// A scope whose programs are too large to be put aside.
fn immovable(house: &House, user: &str) -> RunScope {
    let mut scope = of(house, user);
    scope.settings.limits.snapshot_bytes = 1024;
    scope
}

/// A program that comes to have so many megabytes, calls `gate` if it is given one, and returns what it finds in its memory.
fn holding(megabytes: usize, gate: Option<&str>) -> String {
    let gate = gate.map(|name| format!("await tools.gate({{ name: '{name}' }});")).unwrap_or_default();
    format!(
        "const held = []; for (let i = 0; i < {megabytes}; i++) held.push(new Uint8Array({MB}).fill(i + 1)); {gate}
         return held.filter((part, i) => part[0] === i + 1 && part[{MB} - 1] === i + 1).length"
    )
}

fn run(house: &Arc<House>, scope: RunScope, code: String, running: &mut JoinSet<Value>) {
    let house = Arc::clone(house);
    running.spawn(async move { house.exec_in(&scope, &code).await });
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_programs_of_20_megabytes_complete_within_64() {
    let (house, budget) = tight_house(64 * MB);
    let mut running = JoinSet::new();
    for n in 0..30 {
        run(&house, of(&house, ["ann", "bob", "cid"][n % 3]), holding(20, None), &mut running);
    }
    while let Some(result) = running.join_next().await {
        let result = result.unwrap();
        assert_eq!(result["value"], 20, "{result}");
    }
    assert!((21 * MB..=64 * MB).contains(&budget.peak()), "{}", budget.peak());
    assert_eq!((budget.used(), budget.wanted()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_all_grow_a_little_at_a_time_do_not_wait_for_each_other_for_ever() {
    let (house, budget) = tight_house(64 * MB);
    let mut running = JoinSet::new();
    let code = "const held = []; while (held.length < 300) held.push(new Uint8Array(1e5).fill(1)); return held.length";
    for n in 0..24 {
        let mut scope = of(&house, ["ann", "bob"][n % 2]);
        scope.settings.limits.memory_bytes = [34, 50][n % 2] * MB;
        run(&house, scope, code.into(), &mut running);
    }
    while let Some(result) = running.join_next().await {
        let result = result.unwrap();
        assert_eq!(result["value"], 300, "{result}");
    }
    assert!(budget.peak() <= 64 * MB);
    assert_eq!(budget.used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_wait_are_put_aside_for_others_and_go_on_with_their_memory() {
    let (house, budget) = tight_house(64 * MB);
    let mut running = JoinSet::new();
    for n in 0..6 {
        // A part that does not compress makes it too large to be kept in memory.
        let code = format!(
            "const noise = new Float64Array(2e4).map(Math.random), sum = noise.reduce((a, b) => a + b), held = [];
             for (let i = 0; i < 20; i++) held.push(new Uint8Array({MB}).fill({n} + i));
             await tools.gate({{ name: 'all' }});
             const right = held.every((part, i) => part[0] === {n} + i && part[{MB} - 1] === {n} + i);
             return [{n}, right, sum === noise.reduce((a, b) => a + b)]"
        );
        run(&house, of(&house, "ann"), code, &mut running);
    }
    // All of them have come to the gate, though three fill the budget.
    let waiting = |house: &House| {
        let events = house.events.lock().unwrap();
        events.iter().filter(|event| matches!(event.what, EventKind::Start { .. })).count()
    };
    until(|| waiting(&house) == 6).await;
    (0..6).for_each(|_| house.gates.open("all"));
    let mut seen = Vec::new();
    while let Some(result) = running.join_next().await {
        seen.push(result.unwrap()["value"].clone());
    }
    seen.sort_by_key(|value| value[0].as_u64());
    assert_eq!(seen, (0..6).map(|n| json!([n, true, true])).collect::<Vec<_>>());
    assert!(budget.peak() <= 64 * MB);
    assert_eq!(budget.used(), 0);
    let scratch = std::fs::read_dir(house.directory.path().join("scratch")).expect("it was used");
    assert_eq!(scratch.count(), 0, "nothing stays there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn growth_that_finds_no_memory_fails_at_its_deadline_and_holds_up_nobody_else() {
    let (house, budget) = tight_house(128 * MB);
    let mut holder = JoinSet::new();
    run(&house, immovable(&house, "ann"), holding(60, Some("held")), &mut holder);
    until(|| budget.used() > 60 * MB).await;

    let mut short = JoinSet::new();
    let brief = RunScope { settings: house.scope().settings.timeout_ms(3000), ..of(&house, "ann") };
    run(&house, brief, holding(60, None), &mut short);
    until(|| budget.wanted() > 0).await;
    // The only worker of the runtime is free, and other users have memory.
    for n in 0..5 {
        assert_eq!(house.exec_in(&of(&house, "bob"), &format!("return {n}")).await["value"], n);
    }
    let failed = short.join_next().await.unwrap().unwrap();
    assert_eq!((&failed["status"], code_of(&failed)), (&json!("failed"), "runtime_unavailable"), "{failed}");
    assert!(says(&failed, "memory budget of 134217728 bytes (tools.codeMode.memoryBudgetBytes)"), "{failed}");
    assert!(!says(&failed, "endless"), "{failed}");
    assert_eq!(failed["retryAfterMs"], 1000);

    // One whose user takes it back does not wait for its deadline.
    let (mut taken_back, abort) = (JoinSet::new(), CancellationToken::new());
    let mut scope = of(&house, "ann");
    scope.context.abort = abort.clone();
    run(&house, scope, holding(60, None), &mut taken_back);
    until(|| budget.wanted() > 0).await;
    abort.cancel();
    let aborted = taken_back.join_next().await.unwrap().unwrap();
    assert_eq!(code_of(&aborted), "aborted", "{aborted}");

    // One that has patience gets the memory when it is free.
    run(&house, of(&house, "ann"), holding(60, None), &mut short);
    until(|| budget.wanted() > 0).await;
    house.gates.open("held");
    for result in [holder.join_next().await, short.join_next().await] {
        assert_eq!(result.unwrap().unwrap()["value"], 60);
    }
    assert_eq!((budget.used(), budget.wanted()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_alone_is_larger_than_the_budget_fails_at_once() {
    let (house, budget) = tight_house(32 * MB);
    let failed = house.exec_in(&of(&house, "ann"), &holding(40, None)).await;
    assert_eq!(code_of(&failed), "memory_limit_exceeded", "{failed}");
    assert_eq!((budget.used(), budget.peak() <= 32 * MB), (0, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_continued_waits_for_its_memory_too() {
    let (house, budget) = tight_house(64 * MB);
    let code = holding(40, None).replace("return", "await yield_control('x'); return");
    let waiting = house.exec_in(&of(&house, "ann"), &code).await;
    assert_eq!((&waiting["status"], budget.used()), (&json!("waiting"), 0), "{waiting}");
    let mut running = JoinSet::new();
    run(&house, immovable(&house, "bob"), holding(40, Some("held")), &mut running);
    until(|| budget.used() > 40 * MB).await;
    let mut continued = JoinSet::new();
    let again = Arc::clone(&house);
    continued.spawn(async move { again.wait_in(&of(&again, "ann"), &waiting).await });
    until(|| budget.wanted() > 0).await;
    house.gates.open("held");
    for result in [running.join_next().await, continued.join_next().await] {
        assert_eq!(result.unwrap().unwrap()["value"], 40);
    }
    assert!(budget.peak() <= 64 * MB && budget.used() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_begins_beside_others_while_the_process_has_too_much_memory() {
    static RESIDENT: AtomicUsize = AtomicUsize::new(101);
    static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);
    let read = || Some(RESIDENT.load(Ordering::SeqCst));
    let give_back = || {
        GIVEN_BACK.fetch_add(1, Ordering::SeqCst);
    };
    let house = house_within(Memory { resident: Some(Resident { most: 100, read, give_back }), ..Memory::unlimited() });
    // One that is alone begins all the same.
    let mut running = JoinSet::new();
    run(&house, immovable(&house, "ann"), "await tools.gate({ name: 'x' }); return 1".into(), &mut running);
    until(|| !house.events.lock().unwrap().is_empty()).await;
    let mut held_back = JoinSet::new();
    run(&house, of(&house, "bob"), "return (await tools.count({})) + 1".into(), &mut held_back);
    // It has been asked for twice since then.
    let before = GIVEN_BACK.load(Ordering::SeqCst);
    until(|| GIVEN_BACK.load(Ordering::SeqCst) > before + 1).await;
    assert_eq!(house.count(), 0, "it has not begun");
    RESIDENT.store(100, Ordering::SeqCst);
    assert_eq!(held_back.join_next().await.unwrap().unwrap()["value"], 2);
    house.gates.open("x");
    assert_eq!(running.join_next().await.unwrap().unwrap()["value"], 1);
}

/// The inputs of tools are text of the host: they count as long as the calls queue, and more while they are made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_of_many_calls_fit_into_the_budget_too() {
    let (house, budget) = tight_house(96 * MB);
    let mut running = JoinSet::new();
    let code = "const all = Array.from({ length: 100 }, (_, i) => tools.echo({ text: 'x'.repeat(60000), i }));
        return (await Promise.all(all)).filter((one, i) => one.i === i && one.text.length === 60000).length";
    for n in 0..16 {
        run(&house, of(&house, ["ann", "bob"][n % 2]), code.into(), &mut running);
    }
    while let Some(result) = running.join_next().await {
        let result = result.unwrap();
        assert_eq!(result["value"], 100, "{result}");
    }
    assert!((12 * MB..=96 * MB).contains(&budget.peak()), "{}", budget.peak());
    assert_eq!((budget.used(), budget.wanted()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_input_of_a_call_that_waits_for_a_person_counts_as_text() {
    let (house, budget) = tight_house(256 * MB);
    let scope = of(&house, "ann");
    let result = house.exec_in(&scope, "return await tools.ask({ text: 'x'.repeat(4e6) })").await;
    assert_eq!(result["status"], "waiting", "{result}");
    let of_text = 4_000_000..8 * MB;
    assert!(of_text.contains(&budget.used()), "{}", budget.used());
}
