//! Hooks see the program itself before it runs: what it is, both of its names, and for whom.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{House, code_of, house_with, says};
use pincer_codemode::ExecInput;
use pincer_tools::Matcher;
use pincer_tools::hooks::{ApprovalDemand, BeforeToolCall, BeforeVerdict, FnHook, Hook};
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
        (&event["toolName"], &event["toolKind"], &event["toolInputKind"], &event["agent"], &event["toolCallId"]),
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
    assert!(blocked["status"] == "failed" && says(&blocked, "not that"), "{blocked}");
    assert_eq!(house.value("return 'alias'").await, "by the other name");
    // Bug 6 of the reference: it fails, and does not run the other one.
    let spoilt = house.exec("return 'spoil'").await;
    assert_eq!(code_of(&spoilt), "invalid_input", "{spoilt}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_can_have_a_person_asked_about_the_program() {
    use pincer_store::Approvals;
    let (house, _) = hooked(|_| {
        let demand = ApprovalDemand { title: Some("May this program run?".into()), description: None };
        BeforeVerdict { require_approval: Some(demand), ..BeforeVerdict::default() }
    });
    let (mode, scope) = (house.mode.clone(), house.scope());
    let running = tokio::spawn(async move { mode.exec(&scope, ExecInput::javascript("return 7")).await });
    let question = loop {
        match house.store.pending_approvals().unwrap().pop() {
            Some(question) => break question,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(question.tool, "openclaw:codemode:exec");
    house.door.answer(&question.id, pincer_tools::Answer::AllowOnce, "me").await.unwrap();
    assert_eq!(serde_json::to_value(running.await.unwrap()).unwrap()["value"], 7);
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
}
