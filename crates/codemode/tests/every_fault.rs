//! A fault at every single store call of one program, one by one, and the program continued afterwards, in the same process
//! and in another one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;
mod effects;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use effects::{PRELUDE, Place, repeated, scope, unlike_journal, untrue};
use pincer_codemode::{CodeMode, Durability, ExecInput, RunScope, Settings, WaitInput, settle_orphans};
use pincer_store::{Approvals, Journal, RunState, Runs, SqliteStore};
use pincer_testkit::faulty::{Fault, FaultyStore, Kind, Lasting};
use pincer_tools::{Answer, Door};
use serde_json::Value;

/// The clock in its inputs, effects one after the other and two at once, a person, a suspension, a timer.
const STEPS: &str = "
await call('mark', 0);
await call('mark', 0);
await Promise.all([call('mark', 2), call('mark', 0)]);
await call('ask', 0);
await yield_control();
await sleep(3);
await call('mark', 0);
return { nonce, seen };";

/// Calls with an effect that the program makes.
const EFFECTS: usize = 6;

/// What comes before: a run whose first call changes nothing is stored without a checkpoint.
const STARTS: [&str; 2] = ["await call('look', 0);", ""];

/// Results that a program may take to end. Each suspension and each fault takes one.
const MOST_RESULTS: usize = 12;

/// Who goes on after the fault.
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

struct Process {
    runtime: tokio::runtime::Runtime,
    mode: CodeMode,
    door: Arc<Door>,
    scope: RunScope,
}

impl Process {
    fn new<S>(place: &Place, store: &Arc<S>, durability: Durability) -> Self
    where
        S: pincer_codemode::CodeModeStore + pincer_store::Grants + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (mode, door) = place.mode(store, place.owner());
        let settings = Settings { durability, ..Settings::default() }.timeout_ms(700);
        let scope = scope(&door, settings);
        Self { runtime, mode, door, scope }
    }

    fn exec(&self, code: &str) -> Value {
        let input = ExecInput::javascript(code);
        serde_json::to_value(self.runtime.block_on(self.mode.exec(&self.scope, input))).unwrap()
    }

    fn wait(&self, run: &str) -> Value {
        let input = WaitInput { run_id: run.to_owned() };
        serde_json::to_value(self.runtime.block_on(self.mode.wait(&self.scope, &input))).unwrap()
    }

    /// Says yes to everything. `false` if the store did not take an answer.
    fn answer(&self, pending: &SqliteStore) -> bool {
        let answer = |id: &str| self.runtime.block_on(self.door.answer(id, Answer::AllowOnce, "test")).is_ok();
        pending.pending_approvals().unwrap().iter().all(|question| answer(&question.id))
    }

    /// Ends as a process does: whatever it was at is gone, and its lock with it.
    fn end(self) {
        self.mode.release();
        drop((self.mode, self.door, self.scope));
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

/// Runs the program with a fault. Returns what is wrong, and whether the fault came at all.
fn check(case: Case) -> (Vec<String>, bool) {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::new(directory.path());
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
        let run = result["runId"].as_str().map(str::to_owned);
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
    let calls = store.inner().runs(None).unwrap().first().map(|run| store.inner().calls(&run.id).unwrap());
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

/// What was told and is not what is stored.
fn misreported(result: &Value, store: &SqliteStore) -> Vec<String> {
    let mut wrong = Vec::new();
    let state = result["runId"].as_str().map(|run| store.run(run).map(|run| run.state));
    match (result["status"].as_str().unwrap(), state) {
        ("waiting", Some(Ok(RunState::Running | RunState::Waiting))) | ("failed", Some(Ok(_)) | None) => {}
        ("completed", None) => {
            let run = store.runs(None).unwrap().remove(0);
            let stored = store.run_result(&run.id).unwrap().unwrap_or_default();
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
fn continue_elsewhere(place: &Place, last: &Value, durability: Durability, told: &mut Vec<Value>) -> Vec<String> {
    let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
    let mut wrong = Vec::new();
    let owner = place.owner();
    settle_orphans(&*store, &owner, Duration::from_secs(60)).unwrap();
    let runs = store.runs(None).unwrap();
    wrong.extend(
        runs.iter().filter(|run| run.state == RunState::Running).map(|run| format!("it claims to run: {run:?}")),
    );
    let process = Process::new(place, &store, durability);
    let known = last["runId"].as_str().map(str::to_owned);
    for run in known.into_iter().chain(runs.into_iter().map(|run| run.id)) {
        let mut count = 0;
        while !store.run(&run).is_ok_and(|run| run.state.is_final()) {
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
        if has_acted && store.run(&run).unwrap().state == RunState::Aborted {
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
