//! Programs that wait: when they are suspended, how they go on, and who may continue them.

use crate::common::{House, code_of, house, says};
use pincer_codemode::{People, RunScope, Settings, WaitInput, overviews};
use pincer_sandbox::Limits;
use pincer_store::{ApprovalState, Approvals, Journal, Page, Room, RunId, RunState, Runs, Snapshots};
use pincer_tools::{Answer, EventKind};
use serde_json::{Value, json};

/// Programs that are suspended for a second at most.
fn short_lived() -> Settings {
    Settings { snapshot_lifetime: std::time::Duration::from_secs(1), ..Settings::default() }
}

const SLOW: &str = "text('before'); const name = await tools.gate({ name: 'slow' }); text('after'); return name";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_continues_a_suspended_program_and_tells_only_what_is_new() {
    let house = house();
    let scope = house.brief();
    let waiting = house.exec_in(&scope, SLOW).await;
    assert_eq!((waiting["status"].as_str(), &waiting["reason"]), (Some("waiting"), &json!("pending_tools")));
    let run = waiting["runId"].as_str().unwrap();
    assert!(run.starts_with("cm_"), "{run}");
    assert_eq!(waiting["output"], json!([{ "type": "text", "text": "before" }]));
    let call = &waiting["pendingToolCalls"][0];
    assert_eq!(
        (&call["method"], &call["toolId"], &call["state"]),
        (&json!("call"), &json!("openclaw:core:gate"), &json!("running"))
    );
    // It is in the store, as some kilobytes.
    let stored =
        overviews(&*house.store, Page { session: None, user: None, before: None, limit: 50 }).await.unwrap().remove(0);
    assert_eq!((stored.run_id.as_str(), stored.state, stored.pending.len()), (run, "waiting", 1));
    assert!((500..20_000).contains(&stored.snapshot_bytes), "{}", stored.snapshot_bytes);
    // Still not: the same run waits again.
    let again = house.wait_in(&scope, &waiting).await;
    assert_eq!((&again["runId"], again.get("output")), (&waiting["runId"], None));
    house.gates.open("slow");
    let done = house.wait(&again).await;
    assert_eq!((&done["status"], &done["value"]), (&json!("completed"), &json!("slow")));
    assert_eq!(done["output"], json!([{ "type": "text", "text": "after" }]));
    assert_eq!((&done["telemetry"]["waitCount"], &done["telemetry"]["callCount"]), (&json!(2), &json!(1)));
    assert!(house.store.snapshot(&run.into()).await.unwrap().is_none());
    // Whoever asks once more is told the same.
    assert_eq!(house.wait(&waiting).await["value"], "slow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yield_suspends_at_once_and_wait_answers_it() {
    let house = house();
    let waiting = house.exec("const got = await yield_control('look at this'); return got").await;
    assert_eq!((&waiting["status"], &waiting["reason"]), (&json!("waiting"), &json!("yield")));
    assert_eq!(waiting["pendingToolCalls"][0]["method"], "yield");
    let done = house.wait(&waiting).await;
    assert_eq!(done["value"], json!({ "status": "yielded", "reason": "look at this" }));
    // With a call pending it is not only a yield.
    let both = house.exec("const call = tools.gate({ name: 'x' }); await yield_control(); return await call").await;
    assert_eq!((&both["reason"], both["pendingToolCalls"].as_array().unwrap().len()), (&json!("pending_tools"), 2));
    house.gates.open("x");
    assert_eq!(house.wait(&both).await["value"], "x");
}

/// Neither computes for long nor waits for anything: still it does not run past its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_always_asks_for_more_is_suspended_when_its_time_is_over() {
    let house = house();
    let scope = house.brief();
    for step in ["await tools.search('echo')", "await new Promise((r) => setTimeout(r, 0))", "await tools.echo({})"] {
        let code = format!(
            "let n = 0; globalThis.stop = false; while (n < 1e9 && !(await tools.echo({{ n }})).stop) {{ {step}; n++; if (n % 50 === 0) text(String(n)); }} return n"
        );
        let waiting = house.exec_in(&scope, &code).await;
        assert_eq!(
            (&waiting["status"], &waiting["reason"]),
            (&json!("waiting"), &json!("pending_tools")),
            "{step}: {waiting}"
        );
        let again = house.neighbour().wait_in(&scope, &waiting).await;
        assert_eq!(again["status"], "waiting", "{step}: {again}");
        assert!(house.mode.abort(&scope, &waiting["runId"].as_str().unwrap().into()).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_survive_suspension() {
    let house = house();
    let scope = house.brief();
    let code = "const t = Date.now(); await new Promise((r) => setTimeout(r, 400)); return Date.now() - t >= 400";
    let waiting = house.exec_in(&scope, code).await;
    assert_eq!(waiting["pendingToolCalls"][0]["method"], "sleep");
    assert_eq!(house.wait(&waiting).await["value"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_needs_a_person_is_suspended_at_once_and_goes_on_with_the_answer() {
    let house = house();
    let code = "try { return await tools.ask({ what: 'this' }) } catch (e) { return [e.code, e.effect] }";
    let waiting = house.exec(code).await;
    let call = &waiting["pendingToolCalls"][0];
    assert_eq!((&waiting["status"], &call["state"]), (&json!("waiting"), &json!("approval")));
    let question = house.store.approval(&call["approvalId"].as_str().unwrap().into()).await.unwrap();
    assert!(question.request.contains("\"line\":1"), "{}", question.request);
    // Nobody has answered: nothing is asked twice, and nothing waits for long.
    let again = house.wait(&waiting).await;
    assert_eq!(again["pendingToolCalls"][0]["approvalId"], call["approvalId"]);
    assert!(house.door.answer(&question.id, Answer::AllowOnce, "somebody").await.unwrap());
    assert_eq!(house.wait(&again).await["value"], json!({ "what": "this" }));
    // And with a no.
    let waiting = house.exec(code).await;
    let id = waiting["pendingToolCalls"][0]["approvalId"].as_str().unwrap();
    assert!(house.door.answer(&id.into(), Answer::Deny, "somebody").await.unwrap());
    assert_eq!(house.wait(&waiting).await["value"], json!(["denied", "none"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_somebody_there_a_program_waits_for_the_answer() {
    let house = house();
    let scope = RunScope { people: People::Present, ..house.brief() };
    let (mode, asked) = (house.mode.clone(), scope.clone());
    let running = tokio::spawn(async move {
        mode.exec(&asked, pincer_codemode::ExecInput::javascript("return await tools.ask({ a: 1 })")).await
    });
    let question = house.question().await;
    // Longer than the whole timeout: a person's time does not count.
    tokio::time::sleep(scope.settings.timeout * 2).await;
    house.door.answer(&question.id, Answer::AllowOnce, "somebody").await.unwrap();
    let done = serde_json::to_value(running.await.unwrap()).unwrap();
    assert_eq!(done["value"], json!({ "a": 1 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_of_writes_is_one_decision() {
    let house = house();
    let code = "const out = []; for (let i = 0; i < 5; i++) out.push((await tools.ask({ i })).i); return out";
    let waiting = house.exec(code).await;
    let id = waiting["pendingToolCalls"][0]["approvalId"].as_str().unwrap();
    house.door.answer(&id.into(), Answer::AllowNext(5), "somebody").await.unwrap();
    assert_eq!(house.wait(&waiting).await["value"], json!([0, 1, 2, 3, 4]));
    // Also when all of them were asked about before.
    let code = "return (await Promise.all([5, 6, 7].map((i) => tools.ask({ i })))).length";
    let waiting = house.exec(code).await;
    let id = waiting["pendingToolCalls"][1]["approvalId"].as_str().unwrap();
    house.door.answer(&id.into(), Answer::AllowNext(3), "somebody").await.unwrap();
    let mut result = house.wait(&waiting).await;
    while result["status"] == "waiting" {
        result = house.wait(&result).await;
    }
    assert_eq!(result["value"], 3);
    assert!(house.store.pending_approvals().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_aborted_foreign_and_unknown_runs_cannot_be_continued() {
    let house = house();
    let wait_for = |scope: RunScope, run_id: Value| {
        let mode = house.mode.clone();
        async move {
            let run_id = run_id.as_str().unwrap().into();
            serde_json::to_value(mode.wait(&scope, &WaitInput { run_id }).await).unwrap()
        }
    };
    let unknown = wait_for(house.scope(), json!("cm_nothing")).await;
    assert_eq!(code_of(&unknown), "invalid_input");
    assert!(says(&unknown, "there is no run cm_nothing"));
    let counts = |result: &Value| {
        let telemetry = &result["telemetry"];
        assert!(telemetry["catalogSize"].as_u64() > Some(0) && telemetry["visibleTools"] == json!(["exec", "wait"]));
        (telemetry["execCount"].clone(), telemetry["waitCount"].clone())
    };
    assert_eq!(counts(&unknown), (json!(0), json!(1)));
    // Bug 24: the id of something else.
    let other = wait_for(house.scope(), json!("proc_12")).await;
    assert!(says(&other, "begins with cm_"), "{other}");

    let waiting = house.exec("await yield_control(); return 1").await;
    let scope = house.scope();
    let session = RunScope {
        context: pincer_tools::Context { session: "other".into(), ..scope.context.clone() },
        ..scope.clone()
    };
    for (scope, whose) in [
        (session, "different session"),
        (scope.clone().by("you"), "different caller"),
        (of_agent(&scope), "different agent run"),
    ] {
        let refused = wait_for(scope, waiting["runId"].clone()).await;
        assert_eq!(code_of(&refused), "invalid_input");
        assert!(says(&refused, whose), "{refused}");
        assert_eq!(counts(&refused), (json!(0), json!(1)));
    }
    // Bug 14: a run of an agent is not for somebody without one.
    let agent = of_agent(&scope);
    let theirs = house.exec_in(&agent, "await yield_control(); return 1").await;
    assert!(says(&wait_for(scope.clone(), theirs["runId"].clone()).await, "different agent run"));
    assert_eq!(house.wait_in(&agent, &theirs).await["value"], 1);

    // What was refused is still there.
    assert!(house.mode.abort(&scope, &waiting["runId"].as_str().unwrap().into()).await.unwrap());
    assert_eq!(code_of(&house.wait(&waiting).await), "aborted");

    let short = RunScope { settings: short_lived(), ..scope.clone() };
    let waiting = house.exec_in(&short, "await yield_control(); return 1").await;
    let run = RunId::from(waiting["runId"].as_str().unwrap());
    // By itself, without anybody asking.
    while house.store.run(&run).await.unwrap().state != pincer_store::RunState::Expired {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(house.store.snapshot(&run).await.unwrap().is_none());
    let expired = house.wait(&waiting).await;
    assert_eq!((code_of(&expired), counts(&expired)), ("snapshot_expired", (json!(0), json!(1))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiry_and_a_timeout_end_what_goes_on_and_keep_nothing() {
    let house = house();
    let settled = |run: RunId| {
        let store = house.store.clone();
        async move {
            while store.calls(&run).await.unwrap().iter().any(|call| call.state != pincer_store::CallState::Settled) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            assert!(store.snapshot(&run).await.unwrap().is_none());
        }
    };
    let short = RunScope { settings: short_lived().timeout_ms(300), ..house.scope() };
    let waiting = house.exec_in(&short, "await tools.gate({ name: 'never' })").await;
    let run = RunId::from(waiting["runId"].as_str().unwrap());
    while house.store.run(&run).await.unwrap().state != pincer_store::RunState::Expired {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    settled(run).await;
    assert_eq!(code_of(&house.wait(&waiting).await), "snapshot_expired");
    // A deadline that comes while a tool runs.
    let failed =
        house.exec_in(&house.brief(), "tools.gate({ name: 'never' }); await tools.look({}); for (;;) {}").await;
    assert_eq!(code_of(&failed), "timeout", "{failed}");
    let runs = house.store.runs(None).await.unwrap();
    let run = runs.iter().find(|run| run.state == pincer_store::RunState::Failed).expect("the run that failed");
    settled(run.id.clone()).await;
}

/// Runs a program, aborts it so many steps of the runtime after something has happened, and returns its result.
async fn aborted_after(house: &House, code: &'static str, has_happened: impl Fn() -> bool, steps: usize) -> Value {
    let scope = house.scope();
    let (mode, asked) = (house.mode.clone(), scope.clone());
    let running = tokio::spawn(async move { mode.exec(&asked, pincer_codemode::ExecInput::javascript(code)).await });
    while !has_happened() {
        assert!(!running.is_finished(), "{code} has ended by itself");
        tokio::task::yield_now().await;
    }
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    scope.context.abort.cancel();
    let result = serde_json::to_value(running.await.unwrap()).unwrap();
    assert_eq!(code_of(&result), "aborted", "{code}: {result}");
    result
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_the_program_its_calls_and_its_questions() {
    let house = house();
    // Suspended, with a tool running and a question open.
    let scope = house.brief();
    let code = "await Promise.all([tools.gate({ name: 'never' }), tools.ask({})])";
    let waiting = house.exec_in(&scope, code).await;
    let question = waiting["pendingToolCalls"][1]["approvalId"].as_str().unwrap().into();
    assert_eq!(house.mode.abort_session(&"main".into()).await.unwrap(), 1);
    assert_eq!(house.store.approval(&question).await.unwrap().state, ApprovalState::Cancelled);
    assert_eq!(code_of(&house.wait(&waiting).await), "aborted");
    // Running, in a tool.
    aborted_after(&house, "await tools.gate({ name: 'inside' })", || house.gates.has_come("inside"), 0).await;
    // Running, in the guest. Nothing but its output says that a program is there: an abort that was too early is tried again later.
    let has_looked = || house.events.lock().unwrap().iter().any(|event| matches!(event.what, EventKind::End { .. }));
    let code = "await tools.look({}); text('in the guest'); for (;;) {}";
    let mut later = 0;
    loop {
        house.events.lock().unwrap().clear();
        let result = aborted_after(&house, code, has_looked, later).await;
        if result["output"] == json!([{ "type": "text", "text": "in the guest" }]) {
            break;
        }
        assert!(later < 1000, "the program has never been in the guest: {result}");
        later += 1;
    }
    assert!(house.store.runs(None).await.unwrap().iter().all(|run| run.state == pincer_store::RunState::Aborted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_waits_on_one_run_get_the_same_result_of_one_execution() {
    let house = house();
    let scope = house.brief();
    let waiting = house.exec_in(&scope, "await tools.gate({ name: 'slow' }); return await tools.count({})").await;
    let neighbour = house.neighbour();
    let scope = house.scope();
    let (here, also, there, ()) = tokio::join!(
        async { house.wait_in(&scope, &waiting).await },
        async { house.wait_in(&scope, &waiting).await },
        async { neighbour.wait_in(&scope, &waiting).await },
        // The program goes on when all of them wait for it, and one of them has it.
        async {
            let run = waiting["runId"].as_str().unwrap();
            let are_there = || house.mode.counters().waits == 2 && neighbour.mode.counters().waits == 1;
            while !are_there() || house.store.run(&run.into()).await.unwrap().state != RunState::Running {
                tokio::task::yield_now().await;
            }
            house.gates.open("slow");
        },
    );
    assert_eq!((&here["value"], &also["value"], &there["value"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(house.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_continues_a_program_while_its_call_goes_on_in_the_first() {
    let house = house();
    let scope = house.brief();
    let waiting =
        house.exec_in(&scope, "const a = await tools.gate({ name: 'slow' }); return [a, await tools.count({})]").await;
    let neighbour = house.neighbour();
    let again = neighbour.wait_in(&scope, &waiting).await;
    assert_eq!((&again["status"], &again["runId"]), (&json!("waiting"), &waiting["runId"]));
    house.gates.open("slow");
    let done = neighbour.wait(&waiting).await;
    assert_eq!(done["value"], json!(["slow", 1]));
    assert_eq!(house.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_have_a_cap_each_and_all_together() {
    let house = house();
    let scope = house.scope();
    let with = |settings: Settings| RunScope { settings, ..scope.clone() };
    let limits = Limits { snapshot_bytes: 1024, ..Settings::default().limits };
    let small = with(Settings { limits, ..Settings::default() });
    let failed = house
        .exec_in(&small, "const a = Array.from({ length: 2000 }, Math.random); await yield_control(); return a")
        .await;
    assert_eq!(code_of(&failed), "snapshot_limit_exceeded");
    assert_eq!(failed["telemetry"]["capFailures"]["snapshot"], 1);
    let room = Room { of_session: 2, ..Settings::default().room };
    let few = with(Settings { room, ..Settings::default() });
    let first = house.exec_in(&few, "await yield_control(); return 1").await;
    house.exec_in(&few, "await yield_control(); return 2").await;
    let failed = house.exec_in(&few, "text('kept'); await yield_control(); return 3").await;
    assert_eq!(code_of(&failed), "snapshot_limit_exceeded");
    assert!(says(&failed, "the session main (2)"), "{failed}");
    assert_eq!(failed["output"], json!([{ "type": "text", "text": "kept" }]));
    // Bug 25: an aborted one frees its place.
    house.mode.abort(&scope, &first["runId"].as_str().unwrap().into()).await.unwrap();
    assert_eq!(house.exec_in(&few, "await yield_control(); return 3").await["status"], "waiting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_program_without_calls_is_data_and_nothing_else() {
    let house = house();
    let mut waiting = Vec::new();
    for n in 0..20 {
        waiting.push(house.exec(&format!("const n = {n}; await yield_control(); return n")).await);
    }
    assert_eq!(house.mode.runs_here(), 0);
    let busy = house.exec_in(&house.brief(), "return await tools.gate({ name: 'x' })").await;
    assert_eq!(house.mode.runs_here(), 1);
    for (n, waiting) in waiting.iter().enumerate() {
        assert_eq!(house.wait(waiting).await["value"], n);
    }
    house.gates.open("x");
    assert_eq!(house.wait(&busy).await["value"], "x");
    assert_eq!(house.mode.runs_here(), 0);
}

/// The same caller within a run of an agent.
fn of_agent(scope: &RunScope) -> RunScope {
    let context = pincer_tools::Context { agent_run: Some("ar_1".into()), ..scope.context.clone() };
    RunScope { context, ..scope.clone() }
}
