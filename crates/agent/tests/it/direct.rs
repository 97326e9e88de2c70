//! Runs whose model calls tools by their names.

use pincer_agent::{Request, Status, Stream, Summary, WaitStatus};
use serde_json::json;

use crate::world::{KEY, USER, calls, conversation, text, within, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_with_tools_in_between() {
    let script = conversation(&[calls(&[("mark", 1), ("look", 2)]), text("Done: both.")]);
    let world = world(&script, "");
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.summary), (Status::Ok, Summary::Completed), "{outcome:?}");
    assert_eq!(outcome.text(), "Done: both.");
    assert_eq!(outcome.result.model.as_deref(), Some("scripted/scripted"));
    assert_eq!((outcome.result.telemetry.model_calls, outcome.result.telemetry.tool_calls), (2, 2));
    let mut effects = world.effects.all();
    effects.sort();
    assert_eq!(effects, ["look 2", "mark 1"]);
    let entries = world.entries().await;
    assert_eq!(entries[..2], ["user: Do it.", "assistant: call mark, call look"]);
    assert_eq!(entries.len(), 5);
    assert_eq!(entries[4], "assistant: Done: both.");
    // The model gets the results in the order of its calls.
    let second = &world.server.requests()[1].body["messages"];
    let roles: Vec<&str> = second.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
    assert_eq!((&second[3]["tool_call_id"], &second[4]["tool_call_id"]), (&json!("c1"), &json!("c2")));
    assert_eq!(world.shown(0), ["again", "deaf", "fail", "gate", "keep", "look", "mark", "show", "slow", "step"]);
    let waited = world.agent.wait(USER, &run, std::time::Duration::ZERO).await.unwrap();
    assert_eq!(waited.status, WaitStatus::Ok);
    assert!(waited.started_at <= waited.ended_at && waited.started_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_no_gap_and_can_be_read_again_from_any_number() {
    let long = format!("{{ parts: [{{ text: {:?} }}], pieces: 3, wire: {{ everyMs: 1 }} }}", "word ".repeat(60));
    let world = world(&conversation(&[calls(&[("mark", 1)]), long]), "");
    let run = world.send("Do it.").await;
    let live = world.events(&run, 1).await;
    let numbers: Vec<u32> = live.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=live.len() as u32).collect::<Vec<_>>(), "a reader that was there from the first sees all");
    assert_eq!((live[0].phase(), live.last().unwrap().phase()), ("start", "end"));
    assert!(live.last().unwrap().is_terminal());
    assert_eq!(live.iter().filter(|event| event.is_terminal()).count(), 1);
    let told: String =
        live.iter().filter(|event| event.stream == Stream::Assistant).map(|event| event.text("delta")).collect();
    assert_eq!(told, "word ".repeat(60));
    let tools: Vec<&str> =
        live.iter().filter(|event| event.stream == Stream::Tool).map(|event| event.phase()).collect();
    assert_eq!(tools, ["start", "result"]);

    let last = live.last().unwrap().seq;
    for from in 1..=last {
        let again = world.events(&run, from).await;
        let mut next = from;
        for event in &again {
            assert!(
                event.from_seq.unwrap_or(event.seq) <= next && event.seq >= next,
                "from {from}: {event:?} after {next}"
            );
            next = event.seq + 1;
        }
        assert_eq!(next, last + 1);
    }
    let again = world.events(&run, 1).await;
    let whole = again.iter().find(|event| event.stream == Stream::Assistant).unwrap();
    assert_eq!((whole.text("text"), &whole.data["replace"]), ("word ".repeat(60).as_str(), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_under_one_id_is_one_run() {
    let world = world(&conversation(&[calls(&[("mark", 1)]), text("Once."), text("Twice.")]), "");
    let key = KEY.into();
    let submit = |text: &'static str| world.agent.submit(USER, &key, Request::new(text), Some("id-1".into()));
    let (one, two) = tokio::join!(submit("Do it."), submit("Do it."));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.run_id, two.run_id);
    assert_eq!(world.outcome(&one.run_id).await.text(), "Once.");
    let again = submit("Do it.").await.unwrap();
    assert!(again.is_repeated && again.run_id == one.run_id);
    assert_eq!(world.outcome(&again.run_id).await.text(), "Once.");
    assert_eq!(world.effects.all(), ["mark 1"]);
    let other = submit("Do something else.").await.unwrap_err();
    assert!(other.to_string().contains("use a new id"), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_errs_is_told_and_the_session_goes_on() {
    let odd = "{ parts: [{ call: { id: 'a', name: 'nope', arguments: {} } }, { call: { id: 'b', name: 'fail', arguments: {} } }, \
               { call: { id: 'b', name: 'mark', arguments: { n: 1 } } }] }";
    let world = world(&conversation(&[odd.into(), text("I see.")]), "");
    let outcome = world.ask("Try.").await;
    assert_eq!(outcome.text(), "I see.", "{outcome:?}");
    let results = world.server.requests()[1].body["messages"].to_string();
    assert!(results.contains("There is no tool nope") && results.contains("it is broken"), "{results}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_and_garbage_end_with_a_clear_message() {
    for (reply, kind) in [
        ("{ parts: [] , repeat: true }", "malformed"),
        ("{ parts: [{ thinking: 'hm' }], repeat: true }", "malformed"),
        (
            "{ recorded: { status: 200, headers: { 'content-type': 'text/event-stream' }, body: 'data: {nonsense\\n\\n' }, repeat: true }",
            "malformed",
        ),
        ("{ status: 401, error: { message: 'no' }, repeat: true }", "authentication"),
    ] {
        let world = world(&conversation(&[reply.into()]), "");
        let run = world.send("Say something.").await;
        let outcome = world.outcome(&run).await;
        assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some(kind)), "{outcome:?}");
        let events = world.events(&run, 1).await;
        assert_eq!(events.iter().filter(|event| event.is_terminal()).count(), 1);
        assert_eq!(events.last().unwrap().phase(), "error");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sequential_tools_run_in_their_order_and_others_at_once() {
    let script = conversation(&[calls(&[("gate", 1), ("step", 2), ("gate", 3), ("step", 4)]), text("Ok.")]);
    let world = world(&script, "");
    let run = world.send("Go.").await;
    within(async {
        while world.begun.load(std::sync::atomic::Ordering::SeqCst) < 2 || world.effects.all().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(world.effects.all(), ["step 2", "step 4"], "they do not wait for what runs beside them");
    world.gate.add_permits(2);
    assert_eq!(world.outcome(&run).await.status, Status::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_tools_shows_none() {
    let world = world(&conversation(&[text("Hello.")]), "tools: { codeMode: true }");
    let run = world.submit(Request { disable_tools: true, ..Request::new("Hi.") }).await;
    assert_eq!(world.outcome(&run).await.text(), "Hello.");
    assert_eq!(world.shown(0), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_can_have_code_mode_of_its_own() {
    let world = world(&conversation(&[text("Hello.")]), "");
    let run = world.submit(Request { model: Some("scripted/coder".into()), ..Request::new("Hi.") }).await;
    world.outcome(&run).await;
    assert_eq!(world.shown(0), ["exec", "wait"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowlist_that_leaves_nothing_shows_nothing() {
    let world = world(&conversation(&[text("Hello.")]), "tools: { codeMode: true, allow: ['plugin:test:nothing'] }");
    assert_eq!(world.ask("Hi.").await.text(), "Hello.");
    assert_eq!(world.shown(0), [""; 0]);
}
