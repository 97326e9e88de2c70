//! What happens in the moments between two steps.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pincer_agent::{ClientTool, QueueMode, Request, Status};
use pincer_store::{AgentRuns, Approvals, ClientCalls, Clock, NewAgentRun, QueueLimit, Runs, SessionKey, WhenFull};
use pincer_store_sqlite::CommitMoment;
use pincer_tools::Answer;
use serde_json::json;

use crate::world::{USER, calls, conversation, text, within, world};

const ASK: &str = "approvals: { rules: [{ match: 'plugin:test:*', decision: 'ask' }] }";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_grant_allowed_is_not_made_again_after_a_crash() {
    for answer in [Answer::AllowAlways, Answer::AllowNext(2)] {
        let world = world(&conversation(&[calls(&[("gate", 1), ("gate", 2)]), text("I cannot know.")]), ASK);
        let run = world.send("Do it.").await;
        let outcome = world.outcome(&run).await;
        assert_eq!(outcome.approvals.len(), 2, "{outcome:?}");
        world.agent.answer(&outcome.approvals[0].approval_id, answer, "a person").await.unwrap();
        world.busy(2).await;
        world.dies().await;
        let other = world.another();
        other.gate.add_permits(10);
        other.agent.engage(USER, &other.key());
        let outcome = other.outcome(&run).await;
        assert_eq!(outcome.text(), "I cannot know.", "{outcome:?}");
        assert_eq!(other.effects.all(), [""; 0], "{answer:?}: both had begun");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_the_sender_that_comes_before_the_run_waits_is_taken() {
    let first = "{ parts: [{ call: { id: 'c1', name: 'ask_user', arguments: {} } }, \
                 { call: { id: 'c2', name: 'gate', arguments: { n: 2 } } }] }";
    let world = world(&conversation(&[first.into(), text("Thanks.")]), "");
    let tool =
        ClientTool { name: "ask_user".into(), description: "Asks.".into(), parameters: json!({ "type": "object" }) };
    let run = world.submit(Request { client_tools: vec![tool], ..Request::new("Ask.") }).await;
    world.busy(1).await;
    let store = world.agent.runtime().store();
    within(async {
        while store.client_calls(&run).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The other call of the reply goes on, so the run does not wait yet.
    assert!(world.agent.answer_client(USER, &run, "c1", Ok(json!("blue"))).await.unwrap());
    world.gate.add_permits(1);
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Thanks.".to_owned()), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_timeout_is_none() {
    let world = world(&conversation(&[text("One."), text("Two.")]), "");
    let run = world.submit(Request { timeout_seconds: Some(u64::MAX), ..Request::new("Hi.") }).await;
    assert_eq!(world.outcome(&run).await.text(), "One.");
    assert_eq!(world.ask("And?").await.text(), "Two.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_conversation_begins_before_what_is_queued() {
    let script = conversation(&[calls(&[("gate", 1)]), calls(&[("gate", 2)])]);
    let world = world(&script, "session: { writeLock: { acquireTimeoutMs: 2000 } }");
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let second = world.submit(Request { queue: Some(QueueMode::Followup), ..Request::new("And?") }).await;
    let told = world.agent.submit(USER, &world.key(), Request::new("/new"), None).await;
    assert_eq!(world.outcome(&told.unwrap().run_id).await.text(), "A new conversation begins.");
    assert_eq!(world.outcome(&first).await.stop_reason.as_deref(), Some("aborted"));
    world.busy(2).await;
    assert_eq!(world.entries().await[0], "user: And?", "it is part of the new one");
    world.agent.stop(USER, &second).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_after_new_is_the_first_message_of_the_new_conversation() {
    let script = conversation(&[calls(&[("gate", 1)]), text("Done."), text("Done too.")]);
    let world = world(&script, "session: { writeLock: { acquireTimeoutMs: 2000 } }");
    world.send("Begin.").await;
    world.busy(1).await;
    let queued = world.submit(Request { queue: Some(QueueMode::Followup), ..Request::new("And?") }).await;
    let first = world.send("/new Hello.").await;
    world.gate.add_permits(10);
    assert_eq!((world.outcome(&first).await.status, world.outcome(&queued).await.status), (Status::Ok, Status::Ok));
    assert_eq!(world.entries().await[0], "user: Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_sent_twice_under_one_id_is_obeyed_once() {
    let world = world(&conversation(&[text("One."), text("Two.")]), "");
    assert_eq!(world.ask("Hello.").await.text(), "One.");
    let key = world.key();
    let submit = || world.agent.submit(USER, &key, Request::new("/new Hello again."), Some("id".into()));
    let (one, two) = within(async { tokio::join!(submit(), submit()) }).await;
    let (one, two) = (one.unwrap().run_id, two.unwrap().run_id);
    assert_eq!(one, two);
    assert_eq!(world.outcome(&one).await.text(), "One.");
    assert_eq!(world.ask("And?").await.text(), "Two.", "the conversation was begun anew once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_comes_before_a_message_that_waits_for_a_slot() {
    let script = conversation(&[calls(&[("gate", 1)]), text("Done.")]);
    let world = world(&script, "agents: { defaults: { model: 'scripted/scripted', maxConcurrent: 1 } }");
    let elsewhere: SessionKey = "elsewhere".into();
    let busy = world.agent.submit(USER, &elsewhere, Request::new("Hi."), None).await.unwrap().run_id;
    world.busy(1).await;
    let first = world.submit(Request { disable_tools: true, ..Request::new("first") }).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let now = Request { queue: Some(QueueMode::Interrupt), disable_tools: true, ..Request::new("now") };
    let now = world.submit(now).await;
    world.gate.add_permits(1);
    for run in [&busy, &first, &now] {
        assert_eq!(world.outcome(run).await.status, Status::Ok);
    }
    let entries = world.entries().await;
    assert_eq!(entries[0], "user: now", "{entries:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_whose_process_died_still_stops_the_run_that_waits() {
    let world = world(&conversation(&[calls(&[("mark", 1)]), text("The new one.")]), ASK);
    let first = world.send("Begin.").await;
    assert_eq!(world.outcome(&first).await.status, Status::Waiting);
    world.dies().await;
    let other = world.another();
    let store = other.agent.runtime().store();
    // As far as a process came that died right after it had accepted the message.
    let now = NewAgentRun {
        id: "ar_now".into(),
        user: USER.into(),
        session: other.key(),
        agent: None,
        new_session: "unused".into(),
        key: None,
        digest: Vec::new(),
        rank: -1,
        request: json!({ "message": "now", "queue": "interrupt" }).to_string().into(),
        brief: "{}".into(),
        answer: None,
        delivery: None,
        queue: QueueLimit { cap: 20, full: WhenFull::RefuseNew },
        now: store.now(),
    };
    store.accept_run(now).await.unwrap();
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&"ar_now".into()).await.text(), "The new one.");
    assert_eq!(other.outcome(&first).await.stop_reason.as_deref(), Some("aborted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_in_which_no_process_works_is_not_counted() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("I cannot know.")]), "");
    let run = world.submit(Request { timeout_seconds: Some(2), ..Request::new("Do it.") }).await;
    world.busy(1).await;
    world.dies().await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let other = world.another();
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "I cannot know.".to_owned()), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_go_on_leaves_no_program_and_no_question() {
    let exec =
        "{ parts: [{ call: { id: 'x', name: 'exec', arguments: { code: 'return await tools.mark({ n: 1 })' } } }] }";
    let world = world(&conversation(&[exec.into(), text("Done.")]), &format!("tools: {{ codeMode: true }}, {ASK}"));
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Waiting, "{outcome:?}");
    let file = rusqlite::Connection::open(world.directory.path().join("pincer.db")).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    file.execute("UPDATE entry SET body = '{\"message\":7}' WHERE position = 1", []).unwrap();
    world.agent.stop(USER, &run).await.unwrap();
    assert_eq!(world.outcome(&run).await.status, Status::Error);
    let store = world.agent.runtime().store();
    assert_eq!(store.runs_of_agent(&run).await.unwrap().len(), 0, "its program ends with it");
    assert_eq!(store.pending_approvals().await.unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_breaks_down_fails_and_the_session_goes_on() {
    let world = world(&conversation(&[calls(&[("look", 1)]), text("Two.")]), "");
    let commits = AtomicUsize::new(0);
    // The fourth is that of the result: the message, its beginning and the reply come before it.
    world.agent.runtime().store().watch_commits(Box::new(move |moment| {
        let is_fourth = moment == CommitMoment::Before && commits.fetch_add(1, Ordering::SeqCst) == 3;
        assert!(!is_fourth, "the work on the run breaks down here");
    }));
    let run = world.send("Hello.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Error, "{outcome:?}");
    assert!(outcome.error.unwrap().contains("this is a bug"));
    let events = world.events(&run, 1).await;
    assert_eq!(events.iter().filter(|event| event.is_terminal()).count(), 1);
    assert_eq!(world.ask("And?").await.text(), "Two.");
    within(world.agent.close()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_follows_a_run_through_a_question_whatever_a_tool_keeps() {
    let rules = "approvals: { rules: [{ match: 'plugin:test:mark', decision: 'ask' }] }";
    let world = world(&conversation(&[calls(&[("keep", 1), ("mark", 2)]), text("Done.")]), rules);
    let run = world.send("Do it.").await;
    let mut reader = world.agent.events(USER, &run, 1).await.unwrap();
    while within(reader.next()).await.unwrap().unwrap().phase() != "waiting-approval" {}
    let outcome = world.outcome(&run).await;
    world.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "a person").await.unwrap();
    while !within(reader.next()).await.unwrap().unwrap().is_terminal() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_taken_back_while_it_joins_a_run_does_not_cost_the_run() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("Done.")]), "");
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let second = world.send("Faster.").await;
    let (commits, file) = (AtomicUsize::new(0), world.directory.path().join("pincer.db"));
    world.agent.runtime().store().watch_commits(Box::new(move |moment| {
        // The first is that of the result, the second takes the message.
        if moment == CommitMoment::Before && commits.fetch_add(1, Ordering::SeqCst) == 1 {
            let file = rusqlite::Connection::open(&file).unwrap();
            let stop = "UPDATE agent_run SET state = 'aborted', ended_at = 1, is_stopped = 1 WHERE state = 'queued'";
            assert_eq!(file.execute(stop, []).unwrap(), 1);
        }
    }));
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&first).await.text(), "Done.");
    assert_eq!(world.outcome(&second).await.status, Status::Error);
    let events = world.events(&first, 1).await;
    assert_eq!(events.last().unwrap().generation, 1, "the run was not given up in between");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_have_no_tasks() {
    const MANY: usize = 20;
    let world = world(&conversation(&[calls(&[("mark", 1)]), text("Done.")]), ASK);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut waiting = Vec::new();
    for number in 0..MANY {
        let key: SessionKey = format!("session {number}").into();
        let run = world.agent.submit(USER, &key, Request::new("Do it."), None).await.unwrap().run_id;
        let outcome = world.outcome(&run).await;
        waiting.push((run, outcome.approvals[0].approval_id.clone()));
    }
    within(async {
        while tasks() >= MANY {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // An answer here, and one in another process.
    let other = world.another();
    for ((run, approval), agent) in waiting.iter().zip([&world.agent, &other.agent]) {
        agent.answer(approval, Answer::AllowOnce, "a person").await.unwrap();
        assert_eq!(world.outcome(run).await.text(), "Done.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_all_programs_stands_still_while_a_person_is_asked() {
    let exec =
        |id: &str, code: &str| format!("{{ call: {{ id: '{id}', name: 'exec', arguments: {{ code: '{code}' }} }} }}");
    let both = format!(
        "{{ parts: [{}, {}] }}",
        exec("x", "await yield_control(); return 1"),
        exec("y", "await tools.mark({ n: 1 }); return 2")
    );
    let config = format!("tools: {{ codeMode: {{ enabled: true, snapshotTtlSeconds: 900 }} }}, {ASK}");
    let world = world(&conversation(&[both, text("Done.")]), &config);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    let store = world.agent.runtime().store();
    let expiries = || async {
        let mut found = Vec::new();
        for program in store.runs_of_agent(&run).await.unwrap() {
            found.push(store.run(&program).await.unwrap().expires_at.is_some());
        }
        found
    };
    assert_eq!(expiries().await, [false, false]);
    world.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "me").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_other_rights_does_not_join_a_run() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("One."), text("Two.")]), "");
    let first = world.send("Begin.").await;
    world.busy(1).await;
    let second = world.submit(Request { sender: Some("ben".into()), ..Request::new("And me?") }).await;
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&first).await.text(), "One.");
    assert_eq!(world.outcome(&second).await.text(), "Two.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_saw_more_than_was_stored_gets_all_of_the_new_generation() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("I cannot know.")]), "");
    let run = world.send("Begin.").await;
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    other.agent.engage(USER, &other.key());
    other.outcome(&run).await;
    let cursor = pincer_agent::EventCursor { seq: 50, generation: Some(1) };
    let mut reader = other.agent.events(USER, &run, cursor).await.unwrap();
    let first = within(reader.next()).await.unwrap().unwrap();
    assert_eq!((first.generation, first.phase()), (2, "taken-over"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_be_repeated_needs_no_second_answer() {
    let world = world(&conversation(&[calls(&[("again", 1)]), text("Done.")]), ASK);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    world.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "me").await.unwrap();
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    other.gate.add_permits(1);
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&run).await.text(), "Done.");
    assert_eq!(other.effects.all(), ["again 1"]);
}
