//! Calls that servers answer wrongly, late, slowly, or not at all.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Asked, House, Person, eventually, setup, text, with_liar};
use pincer_catalog::Flags;
use pincer_mcp::ServerSettings;
use pincer_store::Approvals;
use pincer_tools::{Answer, ApprovalRule, Context, Effect, ErrorCode, Matcher, RuleDecision};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

async fn listed(mode: &str) -> House {
    with_liar(mode).asked().await
}

/// Lets calls of a server take hardly any time.
fn late(server: &mut ServerSettings) {
    server.call_timeout = Duration::from_millis(300);
}

fn stoppable() -> (Context, CancellationToken) {
    let abort = CancellationToken::new();
    (Context { abort: abort.clone(), ..Context::default() }, abort)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_large_fails_its_call_and_nothing_else() {
    let house = listed("huge").await;
    let small = house.call("mcp:liar:small", json!({}));
    let (huge, small) = tokio::join!(house.call("mcp:liar:huge", json!({})), small);
    assert!(small.result.is_ok(), "what is asked beside it: {small:?}");
    let error = huge.result.unwrap_err();
    assert!(error.message.contains("the MCP server liar"), "{error}");
    assert!(error.message.contains("sent a message of 50000") && error.message.contains("are the most"), "{error}");
    assert!(error.message.contains("ask it for less"), "{error}");
    assert_eq!(huge.effect, Effect::Unknown);
    assert!(house.text("mcp:liar:small", json!({})).await.contains("small"));
    // What the wire carries and the door does not.
    let error = house.error("mcp:liar:huge", json!({ "bytes": 10_000_000 })).await;
    assert_eq!(error.code, ErrorCode::InvalidOutput);
    assert!(error.message.contains("mcp:liar:huge") && error.message.contains("ask it for less"), "{error}");
    assert_eq!(text(&house.ok("mcp:liar:huge", json!({ "bytes": 5_000_000 })).await).len(), 5_000_000);
    assert_eq!(house.pids("liar").len(), 1, "all over the same connection");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_json_and_nobodys_costs_the_connection_and_not_the_server() {
    let house = listed("invalid-json").await;
    let outcome = house.call("mcp:liar:broken", json!({})).await;
    let error = outcome.result.unwrap_err();
    assert!(error.message.starts_with("the MCP server liar sent a message that is not JSON"), "{error}");
    assert_eq!(outcome.effect, Effect::Unknown);
    assert!(house.text("mcp:liar:fine", json!({})).await.contains("fine"));
    assert_eq!(house.pids("liar").len(), 2, "it was started again");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_with_the_time_for_a_call_and_names_the_server() {
    let house = setup().liar("silent").with(late).open().asked().await;
    let outcome = house.call("mcp:liar:echo", json!({})).await;
    let error = outcome.result.unwrap_err();
    assert!(error.message.starts_with("the MCP server liar did not answer within 300 ms"), "{error}");
    assert!(error.message.contains("timeoutMs"), "it says what to do: {error}");
    assert_eq!(outcome.effect, Effect::Unknown);
    assert_eq!(house.pids("liar").len(), 1, "silence is no reason to start it again");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_holds_up_nobody_and_its_call_can_be_aborted() {
    for mode in ["silent", "drip", "deaf"] {
        let house = listed(mode).await;
        let (context, abort) = stoppable();
        let stuck = house.call_as(context, "mcp:liar:echo", json!({}), Arc::new(()));
        let outcome = house.is_unharmed_by(stuck, || abort.cancel()).await;
        assert_eq!(outcome.result.unwrap_err().code, ErrorCode::Aborted, "{mode}");
        assert_eq!(outcome.effect, Effect::Unknown, "{mode}");
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_gives_up_tells_the_server() {
    let fixture = crate::common::program("mcp-fixture");
    let house = setup().server("late", &[&fixture, "stdio"]).with(late).open().asked().await;
    let error = house.error("mcp:late:test_slow", json!({ "ms": 3_600_000 })).await;
    assert!(error.message.contains("the MCP server late did not answer within 300 ms"), "{error}");
    eventually(|| house.log("late").contains("test_slow was cancelled")).await;

    let (context, abort) = stoppable();
    let stuck = house.call_as(context, "mcp:good:test_slow", json!({ "ms": 3_600_000 }), Arc::new(()));
    let outcome = house.is_unharmed_by(stuck, || abort.cancel()).await;
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::Aborted);
    eventually(|| house.log("good").contains("test_slow was cancelled")).await;
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_drops_is_an_answer() {
    let house = listed("drip").await;
    assert_eq!(house.text("mcp:liar:echo", json!({})).await, "slowly");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_and_answers_to_nobody_are_passed_over() {
    for mode in ["noise", "wrong-ids"] {
        let house = listed(mode).await;
        for number in 0..20 {
            let said = house.text("mcp:liar:echo", json!({ "number": number })).await;
            assert!(said.contains(&format!(r#"{{"number":{number}}}"#)), "{mode}: {said}");
        }
        assert_eq!(house.pids("liar").len(), 1, "{mode}");
        house.is_unharmed().await;
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_the_wrong_shape_come_as_they_are() {
    let house = listed("bad-result").await;
    for (tool, expected) in [
        ("content-missing", json!({ "isError": false })),
        ("content-null", json!({ "content": null })),
        ("content-string", json!({ "content": "text" })),
        ("content-unknown-type", json!({ "content": [{ "type": "smell", "data": "roses" }] })),
        ("content-no-text", json!({ "content": [{ "type": "text" }] })),
        ("structured-array", json!({ "content": [], "structuredContent": [1, 2, 3] })),
        ("structured-string", json!({ "content": [], "structuredContent": "text" })),
        ("result-null", Value::Null),
        ("result-number", json!(42)),
        ("good", json!({ "content": [{ "type": "text", "text": "good" }] })),
    ] {
        assert_eq!(house.ok(&format!("mcp:liar:{tool}"), json!({})).await, expected, "{tool}");
    }
    assert_eq!(house.pids("liar").len(), 1);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_sounds_and_blobs_arrive_whole() {
    let house = listed("binary").await;
    let result = house.ok("mcp:liar:binary", json!({ "bytes": 300_000 })).await;
    let sizes: Vec<usize> = ["/content/0/data", "/content/1/data", "/content/2/resource/blob"]
        .map(|at| result.pointer(at).unwrap().as_str().unwrap().len())
        .into();
    assert_eq!(sizes, [400_000; 3]);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_arrives_in_order_and_before_the_result() {
    let house = listed("flood").await;
    let person = Person::who(Asked::Thinks);
    let told = |count: usize| {
        house.call_as(Context::default(), "mcp:liar:progress", json!({ "count": count }), person.clone())
    };
    for _ in 0..20 {
        person.updates.lock().unwrap().clear();
        told(40).await.result.unwrap();
        let seen: Vec<f64> =
            person.updates.lock().unwrap().iter().map(|update| update["progress"].as_f64().unwrap()).collect();
        assert_eq!(seen, (0..40).map(f64::from).collect::<Vec<_>>());
    }
    let person = Person::who(Asked::Thinks);
    house
        .call_as(Context::default(), "mcp:good:test_tool_with_progress", json!({}), person.clone())
        .await
        .result
        .unwrap();
    let expected = [0.0, 50.0, 100.0].map(|progress| json!({ "progress": progress, "total": 100.0 }));
    assert_eq!(*person.updates.lock().unwrap(), expected);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_says_of_itself_is_noted_and_loosens_no_rule() {
    let rule = |name, decision| ApprovalRule { matcher: Matcher::parse("rules", &[name]).unwrap(), decision };
    let (ask, deny) = (rule("mcp:liar:look", RuleDecision::Ask), rule("mcp:liar:again", RuleDecision::Deny));
    let house = setup().liar("hints").rule(ask).rule(deny).open().asked().await;
    let flags = |name: &str| {
        let entries = house.door.entries();
        let entry = entries.iter().find(|entry| entry.id.owner() == "liar" && entry.id.name() == name);
        entry.unwrap().flags
    };
    let none = Flags::default();
    assert_eq!(flags("look"), Flags { claims_read_only: true, ..none });
    assert_eq!(flags("again"), Flags { idempotent: true, ..none });
    assert_eq!(flags("plain"), none, "what is no bool says nothing");
    assert!(!flags("look").trusted && !flags("again").direct_only);
    assert_eq!(house.error("mcp:liar:again", json!({})).await.code, ErrorCode::Denied);
    let (error, ()) = tokio::join!(house.error("mcp:liar:look", json!({})), async {
        let pending = || house.store.pending_approvals().wait().unwrap().pop();
        eventually(|| pending().is_some()).await;
        house.door.answer(&pending().unwrap().id, Answer::Deny, "me").await.unwrap();
    });
    assert_eq!(error.code, ErrorCode::Denied, "somebody was asked: {error}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_cannot_pass_for_an_operation() {
    let house = listed("hints").await;
    for name in ["resources/read", "prompts/get"] {
        let error = house.error(&format!("mcp:liar:{name}"), json!({ "uri": "test://static-text", "name": "x" })).await;
        assert_eq!(error.code, ErrorCode::UnknownTool, "{name}: the server has neither resources nor prompts");
    }
    house.end().await;
}
