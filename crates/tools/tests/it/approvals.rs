//! Approvals: who is asked, what an answer means, and that it is for one exact call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{House, call, house, store};
use pincer_store::{ApprovalState, Approvals, CellPart, Checkpoint, Claim, Decision, Grants, NewRun, Runs, Safety};
use pincer_tools::hooks::{ApprovalDemand, BeforeToolCall, BeforeVerdict, FnHook, Hook};
use pincer_tools::{
    Answer, ApprovalRule, Context, DoorBuilder, Effect, ErrorCode, Event, EventKind, FnTool, Matcher, Outcome,
    RuleDecision, RunOwner, ToolCall, ToolError,
};
use serde_json::json;

fn rule(names: &[&str], decision: RuleDecision) -> ApprovalRule {
    ApprovalRule { matcher: Matcher::parse("approvals.rules", names).expect("valid"), decision }
}

fn asking() -> House {
    house(|door| door.rule(rule(&["echo"], RuleDecision::Ask)))
}

async fn answered(house: &House, context: &Context, answer: Answer) -> Outcome {
    let (outcome, ()) = tokio::join!(house.call_as(context, "echo", json!({ "text": "x" })), async {
        let id = house.question().await.id;
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
    assert!(house.store.grants().await.expect("read").is_empty());
    // Once is once: the next call asks again.
    answered(&house, &Context::default(), Answer::AllowOnce).await.result.expect("a value");
}

/// A caller that did not wait finds the answer when it comes back with the same call.
#[tokio::test]
async fn an_answer_waits_for_the_caller_to_come_back() {
    let house = asking();
    {
        let context = Context::default();
        let call = house.call_as(&context, "echo", json!({ "text": "x" }));
        tokio::pin!(call);
        tokio::select! {
            _ = &mut call => panic!("nobody has answered"),
            _ = house.question() => {}
        }
        // The caller goes away without withdrawing the question.
    }
    let id = house.question().await.id;
    house.door.answer(&id, Answer::AllowOnce, "me").await.expect("answered");
    assert!(house.call("echo", json!({ "text": "x" })).await.result.is_ok());
    assert_eq!(
        answered(&house, &Context::default(), Answer::Deny).await.result.expect_err("once").code,
        ErrorCode::Denied
    );
}

#[tokio::test]
async fn one_yes_is_for_one_of_two_equal_calls() {
    let house = asking();
    let call = || house.call("echo", json!({ "text": "x" }));
    let (one, two, ()) = tokio::join!(call(), call(), async {
        let first = house.question().await.id;
        house.door.answer(&first, Answer::AllowOnce, "me").await.expect("answered");
        let second = house.question().await.id;
        assert_ne!(first, second);
        house.door.answer(&second, Answer::Deny, "me").await.expect("answered");
    });
    assert_eq!(u8::from(one.result.is_ok()) + u8::from(two.result.is_ok()), 1);
}

/// Both wait for the answer to one question: the one that goes on must notice that the other has withdrawn it.
#[tokio::test]
async fn an_abort_of_one_of_two_equal_calls_leaves_the_other_a_question_of_its_own() {
    let house = asking();
    let (aborted, goes_on) = (Context::default(), Context::default());
    let asked = || {
        let is_asked = |event: &&Event| matches!(event.what, EventKind::ApprovalRequested { .. });
        house.events.lock().unwrap().iter().filter(is_asked).count()
    };
    let input = || json!({ "text": "x" });
    let both = async {
        tokio::join!(house.call_as(&aborted, "echo", input()), house.call_as(&goes_on, "echo", input()), async {
            let first = house.question().await.id;
            while asked() < 2 {
                tokio::task::yield_now().await;
            }
            // Until both wait.
            tokio::time::sleep(Duration::from_millis(50)).await;
            aborted.abort.cancel();
            let second = loop {
                let id = house.question().await.id;
                if id != first {
                    break id;
                }
                tokio::task::yield_now().await;
            };
            house.door.answer(&second, Answer::AllowOnce, "me").await.expect("answered");
        })
    };
    let (one, two, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("it asks again");
    assert_eq!(one.result.expect_err("aborted").code, ErrorCode::Aborted);
    assert!(two.result.is_ok());
}

#[tokio::test]
async fn always_holds_until_it_is_revoked() {
    let house = asking();
    answered(&house, &Context::default(), Answer::AllowAlways).await.result.expect("a value");
    house.call("echo", json!({ "text": "other input" })).await.result.expect("granted");
    let grant = house.store.grants().await.expect("read").remove(0);
    assert!(house.store.revoke(&grant.id).await.expect("revoked"));
    assert_eq!(
        answered(&house, &Context::default(), Answer::Deny).await.result.expect_err("asked again").code,
        ErrorCode::Denied
    );
}

/// The answer may come just while its question is looked at: it must not be left for a later call that nobody was asked about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_for_ever_is_used_by_the_call_it_was_given_to() {
    let house = asking();
    for _ in 0..40 {
        answered(&house, &Context::default(), Answer::AllowAlways).await.result.expect("a value");
        let grant = house.store.grants().await.expect("read").remove(0);
        assert!(house.store.revoke(&grant.id).await.expect("revoked"));
        let context = Context::default();
        let asked = answered(&house, &context, Answer::Deny);
        let asked = tokio::time::timeout(std::time::Duration::from_secs(60), asked);
        let outcome = asked.await.expect("a person is asked again");
        assert_eq!(outcome.result.expect_err("denied").code, ErrorCode::Denied);
    }
}

#[tokio::test]
async fn the_next_few_hold_for_this_tool_in_this_run() {
    let house = asking();
    let run = |id: &'static str| {
        let (session, user) = ("s".into(), "me".into());
        let run = NewRun {
            id: id.into(),
            session,
            user,
            agent_run: None,
            created_at: 0,
            key: None,
            tools: None,
            recorded: None,
        };
        let claim = Claim { owner: "p".into(), safety: Safety::Process };
        let cell = CellPart::Full { image: b"image".into(), bytes: b"cell".into() };
        let checkpoint = Checkpoint { next: 9, cell, detail: "{}".into(), recorded: None };
        let fence = house.store.create_run(run, claim, Some(checkpoint), Safety::Process).wait().expect("made");
        let run = RunOwner::new(id.into(), "p".into(), fence, Safety::Process);
        run.cover(9);
        Context { run: Some(run), ..Context::default() }
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
    assert!(house.store.grants().await.expect("read").is_empty());
    assert!(answered(&house, &second, Answer::Deny).await.result.is_err());
}

#[tokio::test]
async fn another_process_may_answer() {
    let house = asking();
    let (outcome, ()) = tokio::join!(house.call("echo", json!({ "text": "x" })), async {
        let id = house.question().await.id;
        let elsewhere = store(&house.store_file());
        assert!(
            elsewhere.resolve(&id, Decision::Allow, Vec::new(), "another terminal", 0).await.expect("answered").applied
        );
    });
    assert!(outcome.result.is_ok());
}

#[tokio::test]
async fn an_abort_withdraws_the_question() {
    let house = asking();
    let context = Context::default();
    let (outcome, id) = tokio::join!(house.call_as(&context, "echo", json!({ "text": "x" })), async {
        let id = house.question().await.id;
        context.abort.cancel();
        id
    });
    assert_eq!((outcome.result.expect_err("aborted").code, outcome.effect), (ErrorCode::Aborted, Effect::None));
    assert_eq!(house.store.approval(&id).await.expect("there").state, ApprovalState::Cancelled);
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
    let demand = ApprovalDemand { title: Some("really?".into()), ..ApprovalDemand::default() };
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
        let id = house.question().await.id;
        let request = house.store.approval(&id).await.expect("there").request;
        house.door.answer(&id, Answer::AllowOnce, "me").await.expect("answered");
        request
    });
    assert_eq!(outcome.value().expect("a value"), json!({ "text": "shown" }));
    let stored = r#"{"call":"call-1","tool":"openclaw:core:echo","input":{"text":"shown"},"line":7,"demand":{"title":"really?","description":null},"grants":["openclaw:core:echo"]}"#;
    assert_eq!(request, stored, "the stored form is read by other processes and later versions");
}

/// Allow, deny, abort, expiry and a second allow in every order of length four: the first counts, and the tool runs at most
/// once, and only after a yes.
#[tokio::test(start_paused = true)]
async fn one_answer_wins_in_every_order_and_the_effect_happens_at_most_once() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Act {
        Allow,
        Deny,
        Abort,
        Expire,
    }
    let acts = [Act::Allow, Act::Deny, Act::Abort, Act::Expire, Act::Allow];
    let effects = Arc::new(AtomicUsize::new(0));
    let counter = effects.clone();
    let house = house(move |door| {
        let tool = FnTool(move |call: ToolCall| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, ToolError>(call.input) }
        });
        let door = door.tool(crate::common::entry("openclaw:core:acts"), Arc::new(tool)).expect("registered");
        door.rule(rule(&["acts"], RuleDecision::Ask)).approval_lifetime(Duration::from_secs(86_400))
    });
    for order in 0..acts.len().pow(4) {
        let chosen: Vec<Act> = (0..4u32).map(|place| acts[order / acts.len().pow(place) % acts.len()]).collect();
        let before = effects.load(Ordering::SeqCst);
        let context = Context::default();
        let (outcome, id) = tokio::join!(house.call_as(&context, "acts", json!({ "text": "x" })), async {
            let id = house.question().await.id;
            for act in &chosen {
                match act {
                    Act::Allow => drop(house.door.answer(&id, Answer::AllowOnce, "me").await.expect("answered")),
                    Act::Deny => drop(house.door.answer(&id, Answer::Deny, "me").await.expect("answered")),
                    Act::Expire => drop(house.store.expire_approvals(i64::MAX).await.expect("swept")),
                    Act::Abort => {
                        context.abort.cancel();
                        drop(
                            house
                                .store
                                .resolve(&id, Decision::Cancel, Vec::new(), "abort", 0)
                                .await
                                .expect("cancelled"),
                        );
                    }
                }
            }
            id
        });
        let state = house.store.approval(&id).await.expect("there").state;
        let expected = match chosen[0] {
            Act::Allow => ApprovalState::Allowed,
            Act::Deny => ApprovalState::Denied,
            Act::Abort => ApprovalState::Cancelled,
            Act::Expire => ApprovalState::Expired,
        };
        assert_eq!(state, expected, "{chosen:?}");
        let happened = effects.load(Ordering::SeqCst) - before;
        assert!(happened <= usize::from(state == ApprovalState::Allowed), "{chosen:?}: {happened} effects");
        // An abort may come after the yes, while the tool runs: then nobody claims to know.
        match (outcome.result.is_ok(), outcome.effect) {
            (true, Effect::Done) => assert_eq!(happened, 1, "{chosen:?}"),
            (false, Effect::None) => assert_eq!(happened, 0, "{chosen:?}"),
            (false, Effect::Unknown) => {}
            other => panic!("{chosen:?}: {other:?}"),
        }
    }
}
