//! Runs that lose their process, are stopped from another one, or take too long.

use std::time::{Duration, Instant};

use pincer_agent::{QueueMode, Request, Status, Stream};
use pincer_store::{SessionKey, Sessions};
use serde_json::json;

use crate::world::{USER, calls, conversation, text, within, world};

#[tokio::test(flavor = "multi_thread")]
async fn another_process_takes_over_and_begins_a_new_generation() {
    let world = world(&conversation(&[calls(&[("look", 1), ("gate", 2)]), text("I cannot know.")]), "");
    let run = world.send("Do it.").await;
    world.busy(1).await;
    within(async {
        while world.entries().await.len() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.dies().await;
    let other = world.another();
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&run).await.text(), "I cannot know.");
    assert_eq!(other.effects.all(), ["look 1"], "what has settled is not made again, and the other may have been");
    let results = other.server.requests()[1].body["messages"].to_string();
    assert!(results.contains("gate was interrupted; it may or may not have run. Check before you retry."), "{results}");
    let events = other.events(&run, 1).await;
    assert_eq!(events.last().unwrap().generation, 2);
    let void = events.iter().find(|event| event.generation == 2 && event.stream == Stream::Assistant).unwrap();
    assert_eq!((&void.data["replace"], void.text("text")), (&json!(true), ""));
    let numbers: Vec<(u32, u32)> =
        events.iter().map(|event| (event.from_seq.unwrap_or(event.seq), event.seq)).collect();
    assert!(numbers.windows(2).all(|pair| pair[1].0 == pair[0].1 + 1), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_were_accepted_are_still_queued_after_a_crash() {
    let script = conversation(&[calls(&[("gate", 1)]), text("One."), text("Two."), text("Three.")]);
    let world = world(&script, "");
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let followup = |text: &str| Request { queue: Some(QueueMode::Followup), ..Request::new(text) };
    let second = world.submit(followup("b")).await;
    let third = world.submit(followup("c")).await;
    world.dies().await;
    let other = world.another();
    other.agent.engage(USER, &other.key());
    let told =
        [other.outcome(&first).await.text(), other.outcome(&second).await.text(), other.outcome(&third).await.text()];
    assert_eq!(told, ["One.", "Two.", "Three."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_stopped_from_another_process_within_a_second() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("Never.")]), "");
    let run = world.send("Begin.").await;
    world.busy(1).await;
    let other = world.another();
    let began = Instant::now();
    other.agent.stop(USER, &run).await.unwrap();
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.stop_reason.as_deref(), Some("aborted"));
    // Far more than a second would show that it is not noticed: the figure itself is measured elsewhere.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(world.server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_closes_the_connection_to_the_model_and_keeps_what_was_said() {
    let stalls =
        "{ parts: [{ text: 'It was a dark and stormy night' }], pieces: 4, wire: { stallAfter: 5 } }".to_owned();
    let world = world(&conversation(&[stalls, text("Go on.")]), "");
    let run = world.send("Tell me a story.").await;
    let mut reader = world.agent.events(USER, &run, 1).await.unwrap();
    while let Some(event) = within(reader.next()).await.unwrap() {
        if event.stream == Stream::Assistant {
            break;
        }
    }
    world.agent.stop(USER, &run).await.unwrap();
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.stop_reason.as_deref()), (Status::Error, Some("aborted")));
    assert!("It was a dark and stormy night".starts_with(&outcome.text()) && !outcome.text().is_empty(), "{outcome:?}");
    assert_eq!(within(world.server.ended(0)).await, pincer_scripted::End::Left);
    let entries = world.entries().await;
    assert!(entries[1].starts_with("assistant: It"), "{entries:?}");
    assert_eq!(world.ask("And then?").await.text(), "Go on.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_is_stopped_and_says_so() {
    let stalls = "{ parts: [{ text: 'Hm' }], wire: { stallAfter: 1 } }".to_owned();
    let world = world(&conversation(&[stalls, text("Now.")]), "");
    let run = world.submit(Request { timeout_seconds: Some(1), ..Request::new("Think.") }).await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.stop_reason.as_deref()), (Status::Timeout, Some("timeout")), "{outcome:?}");
    let events = world.events(&run, 1).await;
    assert_eq!(events.last().unwrap().phase(), "error");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_work_on_different_sessions_and_one_waits_for_the_other_on_the_same() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("One."), text("Two.")]), "");
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let other = world.another();
    let elsewhere: SessionKey = "elsewhere".into();
    let there = other
        .agent
        .submit(USER, &elsewhere, Request { disable_tools: true, ..Request::new("Hi.") }, None)
        .await
        .unwrap();
    // The script is the same for every conversation: without tools its call has no meaning.
    other.gate.add_permits(10);
    assert_eq!(other.outcome(&there.run_id).await.status, Status::Ok);
    // Sent from the other process, it joins the run that goes on here.
    let second = other.send("Faster.").await;
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&first).await.text(), "One.");
    let told = other.outcome(&second).await.text();
    assert!(told == "One." || told == "Two.", "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_anew_when_no_message_came_for_long_but_not_while_a_question_is_open() {
    let ask = "approvals: { rules: [{ match: 'plugin:test:mark', decision: 'ask' }] }, session: { reset: { idleMinutes: 1 } }";
    let script = conversation(&[calls(&[("mark", 1)]), text("Done."), text("More."), text("Welcome.")]);
    let world = world(&script, ask);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    let store = world.agent.runtime().store();
    let age = |by: i64| {
        let file = rusqlite::Connection::open(world.directory.path().join("pincer.db")).unwrap();
        file.busy_timeout(Duration::from_secs(10)).unwrap();
        file.execute("UPDATE session SET interacted_at = interacted_at - ?1, created_at = created_at - ?1", [by])
            .unwrap();
    };
    let first = store.current_session(USER, &world.key()).await.unwrap().unwrap();
    age(3_600_000);
    let second = world.submit(Request { queue: Some(QueueMode::Followup), ..Request::new("And?") }).await;
    world.agent.answer(&outcome.approvals[0].approval_id, pincer_tools::Answer::AllowOnce, "me").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Done.", "days are nothing to a run that waits");
    assert_eq!(world.outcome(&second).await.text(), "More.");
    let current = async || store.current_session(USER, &world.key()).await.unwrap().unwrap().id;
    assert_eq!(current().await, first.id, "the message came while the run was open");
    // A message soon after the answer goes on with the conversation, and one after a long silence does not.
    world.ask("Thanks.").await;
    assert_eq!(current().await, first.id);
    age(3_600_000);
    world.ask("Good morning.").await;
    assert_ne!(current().await, first.id);
    assert_eq!(store.session(&first.id).await.unwrap().ended.as_deref(), Some("idle"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_came_while_a_run_was_open_does_not_begin_a_new_day() {
    let script = conversation(&[calls(&[("gate", 1)]), text("One."), text("Two."), text("Three.")]);
    let world = world(&script, "session: { reset: { mode: 'daily' } }");
    let run = world.send("Begin.").await;
    world.busy(1).await;
    let store = world.agent.runtime().store();
    let current = async || store.current_session(USER, &world.key()).await.unwrap().unwrap().id;
    let first = current().await;
    let file = rusqlite::Connection::open(world.directory.path().join("pincer.db")).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    file.execute("UPDATE session SET created_at = created_at - ?1", [2 * 24 * 3_600_000]).unwrap();
    let second = world.submit(Request { queue: Some(QueueMode::Followup), ..Request::new("And?") }).await;
    // The new conversation begins with the same call.
    world.gate.add_permits(2);
    assert_eq!((world.outcome(&run).await.text(), world.outcome(&second).await.text()), ("One.".into(), "Two.".into()));
    assert_eq!(current().await, first);
    world.ask("Good morning.").await;
    assert_ne!(current().await, first);
}
