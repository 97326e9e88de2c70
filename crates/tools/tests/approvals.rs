//! Approvals: who is asked, what an answer means, and that it is for one exact call.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{House, call, house};
use pincer_store::{ApprovalState, Approvals, Decision, Grants, NewRun, Runs, SqliteStore};
use pincer_tools::hooks::{ApprovalDemand, BeforeToolCall, BeforeVerdict, FnHook, Hook};
use pincer_tools::{
    Answer, ApprovalRule, Context, DoorBuilder, Effect, ErrorCode, Matcher, Outcome, RuleDecision, RunOwner,
};
use serde_json::json;

fn rule(names: &[&str], decision: RuleDecision) -> ApprovalRule {
    ApprovalRule { matcher: Matcher::parse("approvals.rules", names).expect("valid"), decision }
}

fn asking() -> House {
    house(|door| door.rule(rule(&["echo"], RuleDecision::Ask)))
}

/// The id of the only open question, once there is one.
async fn question(house: &House) -> String {
    loop {
        if let [approval] = &house.store.pending_approvals().expect("read")[..] {
            return approval.id.clone();
        }
        tokio::task::yield_now().await;
    }
}

async fn answered(house: &House, context: &Context, answer: Answer) -> Outcome {
    let (outcome, ()) = tokio::join!(house.call_as(context, "echo", json!({ "text": "x" })), async {
        let id = question(house).await;
        assert!(house.door.answer(&id, answer, "me").await.expect("answered"));
        assert!(!house.door.answer(&id, Answer::AllowAlways, "late").await.expect("too late"));
    });
    outcome
}

#[tokio::test]
async fn yes_and_no() {
    let house = asking();
    assert!(answered(&house, &Context::default(), Answer::AllowOnce).await.result.is_ok());
    let outcome = answered(&house, &Context::default(), Answer::Deny).await;
    assert_eq!((outcome.result.expect_err("denied").code, outcome.effect), (ErrorCode::Denied, Effect::None));
    assert!(house.store.grants().expect("read").is_empty());
    // Once is once: the next call asks again.
    answered(&house, &Context::default(), Answer::AllowOnce).await.result.expect("a value");
}

#[tokio::test]
async fn always_holds_until_it_is_revoked() {
    let house = asking();
    answered(&house, &Context::default(), Answer::AllowAlways).await.result.expect("a value");
    house.call("echo", json!({ "text": "other input" })).await.result.expect("granted");
    let grant = house.store.grants().expect("read").remove(0);
    assert!(house.store.revoke(&grant.id).expect("revoked"));
    assert_eq!(
        answered(&house, &Context::default(), Answer::Deny).await.result.expect_err("asked again").code,
        ErrorCode::Denied
    );
}

#[tokio::test]
async fn the_next_few_hold_for_this_tool_in_this_run() {
    let house = asking();
    let run = |id: &'static str| {
        let fence =
            house.store.create_run(&NewRun { id, session: "s", caller: "me", created_at: 0 }, "p").expect("made");
        Context { run: Some(RunOwner { id: id.into(), fence }), ..Context::default() }
    };
    let (first, second) = (run("cm_1"), run("cm_2"));
    answered(&house, &first, Answer::AllowNext(3)).await.result.expect("the first of three");
    for seq in 1..3 {
        let next = house.door.call(
            &house.scope,
            &first,
            pincer_tools::Call { seq, ..call("echo", json!({ "text": "y" })) },
            Arc::new(()),
        );
        next.await.result.expect("granted");
    }
    assert!(house.store.grants().expect("read").is_empty());
    assert!(answered(&house, &second, Answer::Deny).await.result.is_err());
}

#[tokio::test]
async fn another_process_may_answer() {
    let house = asking();
    let path = house.directory.path().join("pincer.db");
    let (outcome, ()) = tokio::join!(house.call("echo", json!({ "text": "x" })), async {
        let id = question(&house).await;
        let elsewhere = SqliteStore::open(&path).expect("the same file");
        assert!(elsewhere.resolve(&id, Decision::Allow, "another terminal", 0).expect("answered").applied);
    });
    assert!(outcome.result.is_ok());
}

#[tokio::test]
async fn an_abort_withdraws_the_question() {
    let house = asking();
    let context = Context::default();
    let (outcome, id) = tokio::join!(house.call_as(&context, "echo", json!({ "text": "x" })), async {
        let id = question(&house).await;
        context.abort.cancel();
        id
    });
    assert_eq!((outcome.result.expect_err("aborted").code, outcome.effect), (ErrorCode::Aborted, Effect::None));
    assert_eq!(house.store.approval(&id).expect("there").state, ApprovalState::Cancelled);
    assert!(!house.door.answer(&id, Answer::AllowOnce, "late").await.expect("too late"));
}

#[tokio::test]
async fn a_question_that_nobody_answers_expires_and_is_not_called_a_refusal() {
    let house =
        house(|door| door.rule(rule(&["echo"], RuleDecision::Ask)).approval_lifetime(Duration::from_millis(30)));
    let outcome = house.call("echo", json!({ "text": "x" })).await;
    assert_eq!((outcome.result.expect_err("expired").code, outcome.effect), (ErrorCode::ApprovalExpired, Effect::None));
}

#[tokio::test]
async fn the_first_rule_that_matches_counts() {
    let decides = |rules: Vec<ApprovalRule>| async move {
        let house = house(|door| rules.into_iter().fold(door, DoorBuilder::rule));
        house.call("mcp:files:read", json!({ "text": "x" })).await.result.map_err(|error| error.code)
    };
    use RuleDecision::{Allow, Deny};
    assert!(decides(vec![]).await.is_ok());
    assert!(decides(vec![rule(&["mcp:files:*"], Allow), rule(&["*"], Deny)]).await.is_ok());
    assert_eq!(decides(vec![rule(&["*"], Deny), rule(&["mcp:files:*"], Allow)]).await, Err(ErrorCode::Denied));
    // A bare name lets no server's tool pass, but stops it.
    assert_eq!(decides(vec![rule(&["read"], Allow), rule(&["*"], Deny)]).await, Err(ErrorCode::Denied));
    assert_eq!(decides(vec![rule(&["read"], Deny)]).await, Err(ErrorCode::Denied));
}

#[tokio::test]
async fn a_hook_may_demand_a_question_and_from_then_on_the_input_is_frozen() {
    let hook = |name: &str, priority, verdict: BeforeVerdict| Hook {
        name: name.into(),
        matcher: Matcher::default(),
        priority,
        timeout: Duration::from_secs(20),
        hook: Arc::new(FnHook(move |_: &BeforeToolCall| Ok(verdict.clone()))),
    };
    let rewrites = |text: &str| BeforeVerdict { params: Some(json!({ "text": text })), ..BeforeVerdict::default() };
    let demand = ApprovalDemand { title: Some("really?".into()), description: None };
    let demands = BeforeVerdict {
        params: Some(json!({ "text": "shown" })),
        require_approval: Some(demand),
        ..BeforeVerdict::default()
    };
    let house = house(|door| {
        door.hook(hook("early", 9, rewrites("early"))).hook(hook("asks", 5, demands)).hook(hook(
            "late",
            1,
            rewrites("late"),
        ))
    });
    let (outcome, request) = tokio::join!(house.call("echo", json!({ "text": "x" })), async {
        let id = question(&house).await;
        let request = house.store.approval(&id).expect("there").request;
        house.door.answer(&id, Answer::AllowOnce, "me").await.expect("answered");
        request
    });
    assert_eq!(outcome.result.expect("a value"), json!({ "text": "shown" }));
    assert!(request.contains("really?") && request.contains("shown") && !request.contains("late"), "{request}");
}
