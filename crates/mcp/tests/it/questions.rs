//! Servers that ask back: the right people are asked, and nobody for longer than it matters.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::common::{Asked, House, Person, kill, setup, text, with_liar};
use pincer_mcp::{Elicitation, Sampling};
use pincer_tools::{Context, Effect, ErrorCode, UpdateSink};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn of(session: &str) -> Context {
    Context { session: session.into(), ..Context::default() }
}

/// What the server was answered.
async fn answer(house: &House, person: Arc<dyn UpdateSink>) -> Value {
    let outcome = house.call_as(of("one"), "mcp:liar:echo", json!({}), person).await;
    serde_json::from_str(&text(&outcome.value().unwrap())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_called_is_asked_and_if_nobody_is_there_it_is_declined() {
    let house = with_liar("elicit").asked().await;
    let accepted = json!({ "action": "accept", "content": { "name": "Ada" } });
    let person = Person::who(Asked::Answers(accepted.clone()));
    assert_eq!(answer(&house, person.clone()).await, accepted);
    let questions = person.questions.lock().unwrap().clone();
    assert_eq!(questions.len(), 1);
    assert_eq!((questions[0].from.as_str(), questions[0].method), ("liar", "elicitation/create"));
    assert_eq!(questions[0].params["message"], "Who are you?");
    assert_eq!(questions[0].params["requestedSchema"]["required"], json!(["name"]));
    assert_eq!(answer(&house, Arc::new(())).await, json!({ "action": "decline" }));
    let nonsense = Person::who(Asked::Answers(json!({ "action": "perhaps" })));
    assert_eq!(answer(&house, nonsense).await, json!({ "action": "decline" }));
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_ask_is_declined_unheard() {
    let house = setup().liar("elicit").with(|liar| liar.elicitation = Elicitation::Refuse).open().asked().await;
    let person = Person::who(Asked::Answers(json!({ "action": "accept", "content": {} })));
    assert_eq!(answer(&house, person.clone()).await, json!({ "action": "decline" }));
    assert!(person.questions.lock().unwrap().is_empty());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_asked_only_if_the_config_says_so() {
    let said = json!({ "role": "assistant", "content": { "type": "text", "text": "hello" }, "model": "test" });
    for (sampling, passed) in [(Sampling::Refuse, false), (Sampling::Pass, true)] {
        let house = setup().liar("sample").with(|liar| liar.sampling = sampling).open().asked().await;
        let person = Person::who(Asked::Answers(said.clone()));
        let answer = answer(&house, person.clone()).await;
        let questions = person.questions.lock().unwrap().len();
        if passed {
            assert_eq!((&answer["content"]["text"], questions), (&json!("hello"), 1), "{answer}");
        } else {
            assert_eq!(questions, 0);
            assert!(answer["message"].as_str().unwrap().contains("sampling is refused"), "{answer}");
        }
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_when_it_could_be_the_wrong_one() {
    let house = setup().open().asked().await;
    let accepted = json!({ "action": "accept", "content": { "username": "ada", "email": "ada@example.com" } });
    let asks = |session: &'static str, person: Arc<Person>| {
        let house = &house;
        async move {
            let call = house.call_as(of(session), "mcp:good:test_elicitation", json!({ "message": "Who?" }), person);
            text(&call.await.value().unwrap())
        }
    };
    let abort = CancellationToken::new();
    let busy = Context { abort: abort.clone(), ..of("one") };
    let other = Person::who(Asked::Answers(accepted.clone()));
    let slow = house.call_as(busy, "mcp:good:test_slow", json!({ "ms": 3_600_000 }), other.clone());
    let meanwhile = async {
        // The other one's call has reached the server when a later one has come back.
        house.is_unharmed().await;
        let stranger = Person::who(Asked::Answers(accepted.clone()));
        let said = asks("two", stranger.clone()).await;
        assert!(said.contains("action=decline"), "{said}");
        assert!(stranger.questions.lock().unwrap().is_empty());
        let same = Person::who(Asked::Answers(accepted.clone()));
        let said = asks("one", same.clone()).await;
        assert!(said.contains("action=accept") && said.contains("ada@example.com"), "{said}");
        assert_eq!(same.questions.lock().unwrap().len(), 1);
        abort.cancel();
    };
    let (outcome, ()) = tokio::join!(slow, meanwhile);
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::Aborted);
    assert!(other.questions.lock().unwrap().is_empty());
    let alone = Person::who(Asked::Answers(accepted));
    assert!(asks("two", alone).await.contains("action=accept"));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_taken_back_when_its_call_is_over() {
    let house = with_liar("flood").asked().await;
    let person = Person::who(Asked::Thinks);
    // It asks, and does not wait for the answers.
    let call = house.call_as(of("one"), "mcp:liar:ask", json!({ "count": 3 }), person.clone());
    call.await.result.unwrap();
    person.has_open(0).await;

    let house = with_liar("elicit").asked().await;
    let abort = CancellationToken::new();
    let context = Context { abort: abort.clone(), ..of("one") };
    let call = house.call_as(context, "mcp:liar:echo", json!({}), person.clone());
    let (outcome, ()) = tokio::join!(call, async {
        person.has_open(1).await;
        abort.cancel();
    });
    assert_eq!(outcome.result.unwrap_err().code, ErrorCode::Aborted);
    person.has_open(0).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_while_it_asks_takes_the_question_with_it() {
    let house = with_liar("elicit").asked().await;
    let person = Person::who(Asked::Thinks);
    let call = house.call_as(of("one"), "mcp:liar:echo", json!({}), person.clone());
    let (outcome, ()) = tokio::join!(call, async {
        person.has_open(1).await;
        kill(house.pids("liar")[0]);
        person.has_open(0).await;
    });
    let error = outcome.result.unwrap_err();
    assert!(error.message.contains("the MCP server liar ended (signal: 9"), "{error}");
    assert_eq!(outcome.effect, Effect::Unknown);
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_questions_reaches_nobody() {
    let house = with_liar("flood").asked().await;
    let person = Person::who(Asked::Thinks);
    let call = house.call_as(of("one"), "mcp:liar:ask", json!({ "count": 500 }), person.clone());
    call.await.result.unwrap();
    let asked = person.questions.lock().unwrap().len();
    assert!(asked <= 8, "{asked} questions at once");
    person.has_open(0).await;
    house.is_unharmed().await;
    house.end().await;
}
