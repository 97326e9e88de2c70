//! Hooks see the program itself before it runs: what it is, both of its names, and for whom.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{House, code_of, house_with, says};
use pincer_codemode::{ExecInput, People, RunScope, overview};
use pincer_store::{ApprovalId, ApprovalState, Approvals};
use pincer_tools::hooks::{ApprovalDemand, BeforeToolCall, BeforeVerdict, FnHook, Hook};
use pincer_tools::{Answer, Matcher};
use serde_json::{Value, json};

/// A house with a hook that looks at `exec`, and what it saw.
fn hooked(
    verdict: impl Fn(&BeforeToolCall) -> BeforeVerdict + Send + Sync + 'static,
) -> (House, Arc<Mutex<Vec<Value>>>) {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let house = house_with(|door| {
        door.hook(Hook {
            name: "policy".into(),
            matcher: Matcher::parse("hooks", &["exec"]).unwrap(),
            priority: 0,
            timeout: Duration::from_secs(5),
            hook: Arc::new(FnHook(move |event: &BeforeToolCall| {
                noted.lock().unwrap().push(json!(event));
                Ok(verdict(event))
            })),
        })
    });
    (house, seen)
}

/// Bugs 4 and 5 of the reference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_is_told_what_the_program_is_and_whose() {
    let (house, seen) = hooked(|_| BeforeVerdict::default());
    let mut scope = house.scope();
    scope.context.parent_call = Some("call_1".into());
    assert_eq!(house.exec_in(&scope, "return 1").await["value"], 1);
    let typescript = house.mode.exec(&scope, ExecInput::typescript("const n: number = 2; return n")).await;
    assert!(matches!(typescript, pincer_codemode::CodeModeResult::Completed(_)), "{typescript:?}");
    let seen = seen.lock().unwrap();
    let event = &seen[0];
    assert_eq!(
        (&event["toolName"], &event["toolKind"], &event["toolInputKind"], &event["agentId"], &event["toolCallId"]),
        (&json!("exec"), &json!("code_mode_exec"), &json!("javascript"), &json!("writer"), &json!("call_1"))
    );
    assert_eq!((&event["params"]["code"], &event["params"]["command"]), (&json!("return 1"), &json!("return 1")));
    assert_eq!(seen[1]["toolInputKind"], "typescript");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_can_block_and_rewrite_the_program() {
    let (house, _) = hooked(|event| match event.params["code"].as_str() {
        Some(code) if code.contains("forbidden") => {
            BeforeVerdict { block: Some(true), block_reason: Some("not that".into()), ..BeforeVerdict::default() }
        }
        Some(code) if code.contains("alias") => {
            let params = json!({ "code": code, "command": "return 'by the other name'", "language": "javascript" });
            BeforeVerdict { params: Some(params), ..BeforeVerdict::default() }
        }
        Some(code) if code.contains("spoil") => {
            BeforeVerdict { params: Some(json!({ "code": code, "command": 5 })), ..BeforeVerdict::default() }
        }
        _ => BeforeVerdict::default(),
    });
    let blocked = house.exec("return 'forbidden'").await;
    assert!(code_of(&blocked) == "blocked" && says(&blocked, "not that"), "{blocked}");
    assert_eq!(house.value("return 'alias'").await, "by the other name");
    // Bug 6 of the reference: it fails, and does not run the other one.
    let spoilt = house.exec("return 'spoil'").await;
    assert_eq!(code_of(&spoilt), "invalid_input", "{spoilt}");
}

/// A house whose programs a person must allow, and which hooks change first.
fn asking() -> House {
    let (house, _) = hooked(|event| {
        let demand = ApprovalDemand { title: Some("May this program run?".into()), ..ApprovalDemand::default() };
        let code = event.params["code"].as_str().unwrap_or_default().replace("rewritten", "7");
        let params = Some(json!({ "code": code, "command": code, "language": "javascript" }));
        BeforeVerdict { require_approval: Some(demand), params, ..BeforeVerdict::default() }
    });
    house
}

async fn answered(house: &House, answer: Answer) -> Value {
    let waiting = house.exec("await tools.echo({ n: 1 }); return rewritten").await;
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let (run, pending) = (waiting["runId"].as_str().unwrap(), &waiting["pendingToolCalls"][0]);
    assert_eq!((&pending["state"], &pending["toolId"]), (&json!("approval"), &json!("openclaw:codemode:exec")));
    let question = pending["approvalId"].as_str().unwrap();
    // With no person there, it does not wait in vain.
    let again = house.wait(&waiting).await;
    assert_eq!((&again["status"], &again["pendingToolCalls"][0]["approvalId"]), (&json!("waiting"), &json!(question)));
    let listed = overview(&*house.store, &run.into()).await.unwrap();
    assert_eq!(listed.pending[0].approval_id.as_ref().map(ApprovalId::as_str), Some(question));
    house.door.answer(&question.into(), answer, "me").await.unwrap();
    house.wait(&waiting).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_a_person_must_allow_waits_at_once_and_begins_with_the_answer() {
    let house = asking();
    let done = answered(&house, Answer::AllowOnce).await;
    assert_eq!((&done["status"], &done["value"]), (&json!("completed"), &json!(7)), "{done}");
    let denied = answered(&house, Answer::Deny).await;
    assert_eq!((&denied["status"], code_of(&denied)), (&json!("failed"), "blocked"), "{denied}");
    // The answer was for the one program; an answer for ever is for all.
    assert_eq!(answered(&house, Answer::AllowAlways).await["value"], 7);
    assert_eq!(house.exec("return rewritten").await["value"], 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_is_there_is_asked_about_the_program_and_waited_for() {
    let house = asking();
    let scope = RunScope { people: People::Present, ..house.scope() };
    let going = |code: &'static str| {
        let (mode, scope) = (house.mode.clone(), scope.clone());
        tokio::spawn(async move { serde_json::to_value(mode.exec(&scope, ExecInput::javascript(code)).await).unwrap() })
    };
    let running = going("return rewritten");
    let question = house.question().await;
    assert!(question.request.contains("return 7"), "what will run is shown: {}", question.request);
    house.door.answer(&question.id, Answer::AllowOnce, "me").await.unwrap();
    assert_eq!(running.await.unwrap()["value"], 7);
    // An abort takes the question back.
    let abort = tokio_util::sync::CancellationToken::new();
    let mut aborted = scope.clone();
    aborted.context.abort = abort.clone();
    let mode = house.mode.clone();
    let running = tokio::spawn(async move { mode.exec(&aborted, ExecInput::javascript("return 1")).await });
    let question = house.question().await;
    abort.cancel();
    assert_eq!(code_of(&serde_json::to_value(running.await.unwrap()).unwrap()), "aborted");
    assert_eq!(house.store.approval(&question.id).await.unwrap().state, ApprovalState::Cancelled);
    // A process that ends leaves it to another one.
    let running = going("return rewritten + 1");
    let question = house.question().await;
    house.mode.suspend().await;
    let waiting = running.await.unwrap();
    assert_eq!(
        (&waiting["status"], &waiting["pendingToolCalls"][0]["approvalId"]),
        (&json!("waiting"), &json!(question.id))
    );
    let later = house.neighbour();
    later.door.answer(&question.id, Answer::AllowOnce, "me").await.unwrap();
    assert_eq!(later.wait(&waiting).await["value"], 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_and_approvals_hold_for_nested_calls() {
    let house = house_with(|door| {
        door.hook(Hook {
            name: "policy".into(),
            matcher: Matcher::parse("hooks", &["echo"]).unwrap(),
            priority: 0,
            timeout: Duration::from_secs(5),
            hook: Arc::new(FnHook(|event: &BeforeToolCall| {
                let block = event.params["bad"] == true;
                let params = json!({ "seen": event.params });
                Ok(BeforeVerdict { block: Some(block), params: Some(params), ..BeforeVerdict::default() })
            })),
        })
    });
    assert_eq!(house.value("return await tools.echo({ a: 1 })").await, json!({ "seen": { "a": 1 } }));
    let caught = house.value("try { await tools.echo({ bad: true }) } catch (e) { return [e.code, e.effect] }").await;
    assert_eq!(caught, json!(["blocked", "none"]));
    // A person is asked for a nested call as for any other, and a no is one.
    let waiting = house.exec("try { return await tools.ask({}) } catch (e) { return [e.code, e.effect] }").await;
    let call = &waiting["pendingToolCalls"][0];
    assert_eq!((&call["toolId"], &call["state"]), (&json!("openclaw:core:ask"), &json!("approval")), "{waiting}");
    let question = call["approvalId"].as_str().unwrap();
    assert!(house.door.answer(&question.into(), pincer_tools::Answer::Deny, "me").await.unwrap());
    assert_eq!(house.wait(&waiting).await["value"], json!(["denied", "none"]));
}
