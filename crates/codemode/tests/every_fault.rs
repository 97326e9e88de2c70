//! A fault at every single store call of one program, one by one, and the program continued afterwards, in the same process
//! and in another one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "figures for whoever runs it with --nocapture")]

mod common;
mod effects;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use effects::process::{EFFECTS, Process, STARTS, STEPS};
use effects::{PRELUDE, Site, repeated, unlike_journal, untrue};
use pincer_codemode::{Durability, settle_orphans};
use pincer_store::{Journal, RunId, RunState, Runs, block_on};
use pincer_store_sqlite::SqliteStore;
use pincer_testkit::faulty::{Fault, FaultyStore, Kind, Lasting};
use serde_json::Value;

/// Results that a program may take to end. Each suspension and each fault takes one.
const MOST_RESULTS: usize = 12;

/// The process that goes on after the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Same,
    Another,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    fault: Fault,
    durability: Durability,
    then: Then,
    start: &'static str,
}

/// Runs the program with a fault. Returns what is wrong, and whether the fault came at all.
fn check(case: Case) -> (Vec<String>, bool) {
    let directory = tempfile::tempdir().unwrap();
    let place = Site::new(directory.path());
    let store = Arc::new(FaultyStore::new(SqliteStore::open(&place.store()).unwrap()));
    store.plan(case.fault);
    let process = Process::new(&place, &store, case.durability);
    let mut wrong = Vec::new();
    let mut told = vec![process.exec(&format!("const program = 'p';{PRELUDE}{}{STEPS}", case.start))];
    let mut fired = None;
    loop {
        let result = told.last().unwrap();
        // Its caller sees to the disk when something goes wrong.
        fired = fired.or(store.fired());
        if fired.is_some() {
            store.heal();
        }
        wrong.extend(misreported(result, store.inner()));
        let run = result["runId"].as_str().map(RunId::from);
        let Some(run) = run.filter(|_| fired.is_none() || case.then == Then::Same) else { break };
        if told.len() > MOST_RESULTS {
            wrong.push("it does not come to an end".into());
            break;
        }
        if !process.answer(store.inner()) {
            fired = fired.or(store.fired());
            store.heal();
            assert!(process.answer(store.inner()));
        }
        told.push(process.wait(&run));
    }
    process.end();
    let last = told.last().unwrap().clone();
    let before = place.effects();
    wrong.extend(continue_elsewhere(&place, &last, case.durability, &mut told));
    let effects = place.effects();
    if last["runId"].is_null() && effects.len() > before.len() {
        wrong.push(format!("it went on after its end was told: {:?}", &effects[before.len()..]));
    }
    wrong.extend(repeated(&effects).into_iter().map(|effect| format!("twice: {effect:?}")));
    let completed = told.iter().filter(|result| result["status"] == "completed");
    let calls =
        store.inner().runs(None).wait().unwrap().first().map(|run| store.inner().calls(&run.id).wait().unwrap());
    for result in completed.clone() {
        wrong.extend(untrue(&result["value"], &effects));
        wrong.extend(unlike_journal(&result["value"], &calls.clone().unwrap_or_default()));
    }
    if fired.is_none() {
        let changes = effects.iter().filter(|effect| effect.tool != "look");
        assert_eq!((completed.count(), changes.count()), (1, EFFECTS), "{told:?}");
    }
    let context = |wrong: String| format!("{case:?} at {fired:?}: {wrong}\n  told {told:?}\n  effects {effects:?}");
    (wrong.into_iter().map(context).collect(), fired.is_some())
}

/// Returns where the results that were told differ from those that are stored.
fn misreported(result: &Value, store: &SqliteStore) -> Vec<String> {
    let mut wrong = Vec::new();
    let state = result["runId"].as_str().map(|run| store.run(&run.into()).wait().map(|run| run.state));
    match (result["status"].as_str().unwrap(), state) {
        ("waiting", Some(Ok(RunState::Running | RunState::Waiting))) | ("failed", Some(Ok(_)) | None) => {}
        ("completed", None) => {
            let run = store.runs(None).wait().unwrap().remove(0);
            let stored = store.run_result(&run.id).wait().unwrap().unwrap_or_default();
            let stored: Value = serde_json::from_str(&stored).unwrap_or_default();
            if run.state != RunState::Completed || stored["value"] != result["value"] {
                wrong.push(format!("told {result}, stored {:?} {stored}", run.state));
            }
        }
        (status, state) => wrong.push(format!("{status} was told of a run that is {state:?}")),
    }
    wrong
}

/// Another process, after the first one is gone: it continues what can be continued, and nothing claims to run.
fn continue_elsewhere(place: &Site, last: &Value, durability: Durability, told: &mut Vec<Value>) -> Vec<String> {
    let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
    let mut wrong = Vec::new();
    let leases = place.leases();
    block_on(settle_orphans(&*store, &leases, Duration::from_secs(60))).unwrap();
    let runs = store.runs(None).wait().unwrap();
    wrong.extend(
        runs.iter().filter(|run| run.state == RunState::Running).map(|run| format!("it claims to run: {run:?}")),
    );
    let process = Process::new(place, &store, durability);
    let known = last["runId"].as_str().map(RunId::from);
    for run in known.into_iter().chain(runs.into_iter().map(|run| run.id)) {
        let mut count = 0;
        while !store.run(&run).wait().is_ok_and(|run| run.state.is_final()) {
            process.answer(&store);
            told.push(process.wait(&run));
            wrong.extend(misreported(told.last().unwrap(), &store));
            count += 1;
            if count > MOST_RESULTS {
                wrong.push(format!("{run} does not come to an end in another process"));
                break;
            }
        }
        // A run that has done nothing has no checkpoint.
        let has_acted = place.effects().iter().any(|effect| effect.tool != "look");
        if has_acted && store.run(&run).wait().unwrap().state == RunState::Aborted {
            wrong.push(format!("{run} was aborted"));
        }
    }
    process.end();
    wrong
}

/// Goes through all calls, some at a time.
fn every_call(kind: Kind, lasting: Lasting, reads: bool) {
    let (wrong, cases) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let [reads_first, acts_first] = STARTS;
    for (durability, then, start) in [
        (Durability::Calls, Then::Same, reads_first),
        (Durability::Calls, Then::Another, reads_first),
        (Durability::EveryCall, Then::Same, acts_first),
        (Durability::EveryCall, Then::Another, acts_first),
    ] {
        let (next, last) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
        std::thread::scope(|threads| {
            for _ in 0..6 {
                threads.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::SeqCst);
                        if at > last.load(Ordering::SeqCst) {
                            return;
                        }
                        let fault = Fault { at, kind, lasting, reads };
                        let (found, fired) = check(Case { fault, durability, then, start });
                        cases.fetch_add(1, Ordering::SeqCst);
                        wrong.lock().unwrap().extend(found);
                        if !fired {
                            last.fetch_min(at, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }
    let (wrong, cases) = (wrong.into_inner().unwrap(), cases.into_inner());
    println!("{kind:?} {lasting:?}: {cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 60, "{cases}");
}

#[test]
fn a_commit_that_fails_costs_nothing_that_was_done() {
    every_call(Kind::FailBefore, Lasting::Once, false);
}

#[test]
fn a_commit_that_fails_after_it_has_happened_costs_nothing_that_was_done() {
    every_call(Kind::FailAfter, Lasting::Once, false);
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_nothing_that_was_done() {
    every_call(Kind::FailBefore, Lasting::UntilHealed, false);
}

#[test]
fn a_disk_that_breaks_down_at_a_commit_costs_nothing_that_was_done() {
    every_call(Kind::FailAfterThenBefore, Lasting::UntilHealed, false);
}

#[test]
fn a_read_that_fails_costs_nothing_that_was_done() {
    every_call(Kind::FailBefore, Lasting::Once, true);
}
