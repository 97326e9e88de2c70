//! Faults around a run: its store, its hooks, its transcript, its message.

use std::time::Duration;

use pincer_agent::{AgentError, Request, Status};
use serde_json::json;

use crate::world::{USER, World, calls, conversation, text, within, world};

fn file(world: &World) -> rusqlite::Connection {
    let file = rusqlite::Connection::open(world.directory.path().join("pincer.db")).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_locked_for_seconds_costs_nothing_but_time() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("Done.")]), "");
    let run = world.send("Do it.").await;
    within(async {
        while world.begun.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let other = file(&world);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    world.gate.add_permits(1);
    within(async {
        while world.effects.all().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Longer than one attempt waits.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(world.server.requests().len() == 1, "nothing is told before it is stored");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Done.");
    assert_eq!(world.effects.all(), ["gate 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_new_messages_and_holds_up_the_run_until_there_is_room() {
    let answer = "Done.".repeat(60_000);
    let world = world(&conversation(&[calls(&[("gate", 1)]), text(&answer)]), "");
    let run = world.send("Do it.").await;
    within(async {
        while world.begun.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let store = world.agent.runtime().store();
    store.limit_pages(1).unwrap();
    let long = "x".repeat(200_000);
    let refused = world.agent.submit(USER, &world.key(), Request::new(long.clone()), None).await.unwrap_err();
    assert!(matches!(refused, AgentError::Store(_)) && refused.to_string().contains("full"), "{refused}");
    // The answer has no room either: that is told, and tried again.
    let mut trouble = world.agent.trouble();
    world.gate.add_permits(1);
    let told = within(trouble.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(told.as_ref().unwrap().contains("full"), "{told:?}");
    store.limit_pages(1_000_000).unwrap();
    assert_eq!(world.outcome(&run).await.text(), answer);
    assert_eq!(*trouble.borrow(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_of_tokens_that_is_nonsense_costs_the_session_nothing() {
    let nonsense =
        "{ parts: [{ text: 'One.' }], usage: { input: 18446744073709551615, output: 18446744073709551615 } }";
    let world = world(&format!("{{ replies: [{{ repeat: true, {}] }}", &nonsense[1..]), "");
    for _ in 0..3 {
        let outcome = world.ask("Hello.").await;
        assert_eq!((outcome.text().as_str(), outcome.result.usage.output), ("One.", 1 << 40));
    }
    // A total that earlier versions have stored.
    file(&world).execute("UPDATE session SET input = ?1, output = ?1", [i64::MAX]).unwrap();
    assert_eq!(world.ask("Hello.").await.text(), "One.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_the_store_never_takes_ends_the_run() {
    let world = world(&conversation(&[calls(&[("mark", 1), ("step", 2)]), text("poison"), text("Two.")]), "");
    let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON entry WHEN NEW.body LIKE '%poison%' AND NEW.kind = 'message'
                   BEGIN SELECT RAISE(ABORT, 'no poison'); END";
    file(&world).execute_batch(trigger).unwrap();
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Error, "{outcome:?}");
    assert!(outcome.error.unwrap().contains("no poison"));
    let events = world.events(&run, 1).await;
    assert_eq!(events.iter().filter(|event| event.is_terminal()).count(), 1);
    check_replay(&world, &run, "").await;
    file(&world).execute_batch("DROP TRIGGER refuse").unwrap();
    // The next message has the same conversation before it, and the reply that was refused comes again.
    assert_eq!(world.ask("Again.").await.text(), "poison");
    assert_eq!(world.effects.all().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_crashes_blocks_the_call_and_not_the_run() {
    let hooks = "hooks: { before_tool_call: [{ command: ['sh', '-c', 'exit 7'] }] }";
    let world = world(&conversation(&[calls(&[("mark", 1)]), text("I see.")]), hooks);
    assert_eq!(world.ask("Do it.").await.text(), "I see.");
    assert_eq!(world.effects.all(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_transcript_is_told_with_a_way_out() {
    let world = world(&conversation(&[text("One."), text("Two.")]), "");
    assert_eq!(world.ask("Hello.").await.text(), "One.");
    file(&world).execute("UPDATE entry SET body = '{\"message\":7}' WHERE position = 2", []).unwrap();
    let outcome = world.ask("And?").await;
    assert_eq!(outcome.status, Status::Error);
    let error = outcome.error.unwrap();
    assert!(error.contains("entry 2") && error.contains("/new"), "{error}");
    assert_eq!(world.ask("/new Hello.").await.text(), "One.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_long_or_has_no_session_is_refused_with_its_size() {
    let world = world(&conversation(&[text("One.")]), "");
    let refuse = |key: &str, text: String| {
        let (agent, key) = (world.agent.clone(), key.into());
        async move { agent.submit(USER, &key, Request::new(text), None).await.unwrap_err().to_string() }
    };
    assert!(refuse("main", "x".repeat(10 << 20)).await.contains("10485760 bytes"));
    assert!(refuse("main", " \n".into()).await.contains("empty"));
    assert!(refuse("", "hello".into()).await.contains("is empty"));
    assert!(refuse("a\nb", "hello".into()).await.contains("control characters"));
    assert_eq!(world.ask("Hello.").await.text(), "One.", "the session is as good as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn awkward_keys_are_sessions_of_their_own() {
    let world = world(&conversation(&[text("One."), text("Two.")]), "");
    for key in ["a/b", "..", "a'b\"c", "ä 😀", "%00", "agent:main:main", "'; DROP TABLE session; --", "a b"] {
        let key = key.into();
        let run = world.agent.submit(USER, &key, Request::new("Hello."), None).await.unwrap().run_id;
        assert_eq!(world.outcome(&run).await.text(), "One.", "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_sees_nothing_of_a_run() {
    let world = world(&conversation(&[text("One.")]), "");
    let run = world.send("Hello.").await;
    world.outcome(&run).await;
    for error in [
        world.agent.run("you", &run).await.err(),
        world.agent.stop("you", &run).await.err(),
        world.agent.events("you", &run, 1).await.err(),
        world.agent.answer_client("you", &run, "c", Ok(json!(1))).await.err(),
    ] {
        assert!(error.is_some_and(|error| error.to_string().contains("there is no run")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_and_a_model_that_is_not_set_are_told() {
    let world = world(&conversation(&[text("One.")]), "");
    let run = world.submit(Request { model: Some("nobody/x".into()), ..Request::new("Hi.") }).await;
    let outcome = world.outcome(&run).await;
    assert!(outcome.error.unwrap().contains("there is no provider `nobody`"));
    let unknown = world
        .agent
        .submit(USER, &world.key(), Request { agent: Some("writer".into()), ..Request::new("Hi.") }, None)
        .await;
    assert!(unknown.unwrap_err().to_string().contains("no agent \"writer\""));
    assert_eq!(world.ask("Hello.").await.text(), "One.");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_call_and_arguments_that_are_no_json_are_told_to_the_model() {
    let half = "{ parts: [{ call: { id: 'a', name: 'mark', arguments: '{\"n\":' } }], stop: 'length' }";
    let script = format!("{{ replies: [{half}, {}] }}", text("Shorter then."));
    let world = world(&script, "");
    assert_eq!(world.ask("Do it.").await.text(), "Shorter then.");
    let messages = world.server.requests()[1].body["messages"].to_string();
    assert!(messages.contains("cut off in the middle of a call of mark"), "{messages}");
    assert_eq!(world.effects.all(), [""; 0]);

    let nonsense = "{ parts: [{ text: 'Well.' }, { call: { id: 'a', name: 'mark', arguments: 'nonsense' } },
                             { call: { id: 'b', name: 'mark', arguments: { n: 2 } } }] }";
    let replies = [nonsense.to_owned(), nonsense.to_owned(), calls(&[("mark", 1)]), text("Done.")].join(", ");
    let other = crate::world::world(&format!("{{ strict: true, replies: [{replies}] }}"), "");
    let run = other.send("Do it.").await;
    let outcome = other.outcome(&run).await;
    assert_eq!(outcome.text(), "Done.", "{outcome:?}");
    assert_eq!(other.effects.all(), ["mark 1"]);
    let messages = other.server.requests()[2].body["messages"].to_string();
    assert_eq!(messages.matches("the arguments of a call of `mark` are not JSON").count(), 2, "{messages}");
    assert!(!messages.contains("Well."), "{messages}");
    check_replay(&other, &run, "Done.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_are_never_json_end_the_run() {
    let nonsense = "{ parts: [{ call: { id: 'a', name: 'mark', arguments: 'nonsense' } }], repeat: true }";
    let world = world(&format!("{{ replies: [{nonsense}] }}"), "");
    let outcome = world.ask("Do it.").await;
    assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some("malformed")), "{outcome:?}");
    assert_eq!((world.effects.all().len(), world.server.requests().len()), (0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_breaks_off_is_voided_and_asked_for_again() {
    let broken = "{ parts: [{ text: 'One two three four five.' }], wire: { truncateAfter: 900 } }";
    let failing = "{ parts: [{ text: 'Six seven eight nine.' }], streamError: { after: 3, type: 'overloaded_error' } }";
    let replies = [broken.to_owned(), failing.to_owned(), calls(&[("mark", 1)]), broken.to_owned(), text("Done.")];
    let world = world(&format!("{{ replies: [{}] }}", replies.join(", ")), "");
    let run = world.send("Do it.").await;
    let live = world.events(&run, 1).await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.text().as_str(), world.effects.all().len()), ("Done.", 1), "{outcome:?}");
    assert_eq!(world.server.requests().len(), 5);
    let shown = live.iter().filter(|event| event.stream == pincer_agent::Stream::Assistant);
    let shown: Vec<&str> = shown.map(|event| event.text("text")).collect();
    assert!(shown.iter().any(|text| text.starts_with("One")) && shown.contains(&""), "{shown:?}");
    check_replay(&world, &run, "Done.").await;

    let always = format!("{{ replies: [{{ repeat: true, {}] }}", &broken[1..]);
    let other = crate::world::world(&always, "");
    let outcome = other.ask("Do it.").await;
    assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some("cut_off")), "{outcome:?}");
    assert_eq!(other.server.requests().len(), 3);
}

/// Checks that the events of a run that has ended have no gap, and that the texts in them come to `text`.
async fn check_replay(world: &World, run: &pincer_store::AgentRunId, text: &str) {
    let events = world.events(run, 1).await;
    let first = |event: &pincer_agent::AgentEvent| event.from_seq.unwrap_or(event.seq);
    assert_eq!(events.first().map(first), Some(1));
    assert!(events.windows(2).all(|pair| first(&pair[1]) == pair[0].seq + 1), "{events:?}");
    let mut said = String::new();
    for event in events.iter().filter(|event| event.stream == pincer_agent::Stream::Assistant) {
        if event.data.get("replace") == Some(&json!(true)) {
            said.clear();
        }
        said.push_str(event.text("delta"));
    }
    assert_eq!(said, text, "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_one_id_or_none_are_all_made_and_each_has_its_result_in_every_format() {
    let two = |id: &str, first: u32| {
        let call = |n: u32| format!("{{ call: {{ id: '{id}', name: 'step', arguments: {{ n: {n} }} }} }}");
        format!("{{ parts: [{}, {}] }}", call(first), call(first + 1))
    };
    let replies = [two("a", 1), two("", 3), two("", 5), text("Done."), text("More.")].join(", ");
    for model in ["scripted/scripted", "responses/scripted", "messages/scripted"] {
        let world = world(&format!("{{ strict: true, order: 'conversation', replies: [{replies}] }}"), "");
        let ask = async |text: &str| {
            let run = world.submit(Request { model: Some(model.into()), ..Request::new(text) }).await;
            world.outcome(&run).await
        };
        assert_eq!(ask("Do it.").await.text(), "Done.", "{model} {:?}", world.server.complaints());
        assert_eq!(world.effects.all(), ["step 1", "step 2", "step 3", "step 4", "step 5", "step 6"], "{model}");
        assert_eq!(ask("And?").await.text(), "More.", "{model} {:?}", world.server.complaints());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_older_than_the_config_keeps_them_are_forgotten() {
    use pincer_store::{SessionPage, Sessions};
    let world = world(&conversation(&[text("One."), text("Two.")]), "session: { maintenance: { pruneAfterDays: 7 } }");
    let old = "old".into();
    let run = world.agent.submit(USER, &old, Request::new("Hello."), None).await.unwrap().run_id;
    world.outcome(&run).await;
    world.agent.close().await;
    let day: i64 = 24 * 3600 * 1000;
    file(&world).execute("UPDATE session SET updated_at = updated_at - ?1", [8 * day]).unwrap();
    let other = world.another();
    other.ask("Hello.").await;
    let store = other.agent.runtime().store();
    within(async {
        let all = || SessionPage { user: None, key: None, with_ended: true, before: None, limit: 10 };
        while store.session_page(all()).await.unwrap().len() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(store.current_session(USER, &old).await.unwrap().is_none());
}
