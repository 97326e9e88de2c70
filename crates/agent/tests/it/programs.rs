//! Runs whose model writes programs.

use pincer_agent::{Request, Status, Stream};
use pincer_sessions::{new_entry_id, new_session_id};
use pincer_store::{
    Attach, Clock, EntryKind, EntryPage, NewEntry, NewSession, Safety, SessionCommit, SessionKey, Sessions,
};
use serde_json::{Value, json};

use crate::world::{USER, conversation, text, within, world};

fn exec(code: &str) -> String {
    format!("{{ parts: [{{ call: {{ id: 'x1', name: 'exec', arguments: {{ code: {} }} }} }}] }}", json!(code))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_calls_tools_and_its_calls_are_children_of_the_call() {
    let code = "const a = await tools.look({ n: 1 });\nconst b = await tools.mark({ n: 2 });\nconsole.log('both');\nreturn [a, b];";
    let world = world(&conversation(&[exec(code), text("Fine.")]), "tools: { codeMode: true }");
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Fine.".to_owned()), "{outcome:?}");
    assert_eq!(world.shown(0), ["exec", "wait"]);
    assert!(outcome.result.telemetry.code_mode);
    assert_eq!(outcome.result.telemetry.nested_calls, 2);
    assert_eq!(
        world.entries().await,
        [
            "user: Do it.",
            "assistant: call exec",
            "result x1",
            "nested plugin:test:look line 1",
            "nested plugin:test:mark line 2",
            "assistant: Fine.",
        ]
    );
    let second = world.server.requests()[1].body["messages"].clone();
    assert_eq!(second[3]["content"], "both\n[{\"did\":1},{\"did\":2}]");
    assert!(!second.to_string().contains("plugin:test:look"), "nested calls are no part of what the model is sent");
    let events = world.events(&run, 1).await;
    let nested: Vec<(&str, &str, Option<u64>)> = events
        .iter()
        .filter(|event| event.stream == Stream::Tool && event.data.contains_key("parentToolCallId"))
        .map(|event| (event.phase(), event.text("name"), event.data["line"].as_u64()))
        .collect();
    assert_eq!(
        nested,
        [
            ("start", "plugin:test:look", Some(1)),
            ("result", "plugin:test:look", Some(1)),
            ("start", "plugin:test:mark", Some(2)),
            ("result", "plugin:test:mark", Some(2)),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_yields_is_continued_by_the_model_and_ends_with_the_run() {
    let wait = "{ parts: [{ call: { id: 'w', name: 'wait', arguments: { runId: 'cm_nothing' } } }] }";
    let world = world(
        &conversation(&[exec("await yield_control('later'); return 5"), wait.into(), text("Enough.")]),
        "tools: { codeMode: true }",
    );
    let outcome = world.ask("Go.").await;
    assert_eq!(outcome.text(), "Enough.");
    let result = world.server.requests()[1].body["messages"][3]["content"].as_str().unwrap().to_owned();
    assert!(result.contains("waiting: runId cm_"), "{result}");
    // It was left suspended: the end of the run has ended it.
    let store = world.agent.runtime().store();
    use pincer_store::{RunState, Runs};
    let runs = store.runs(None).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Aborted]);
}

/// The calls of `exec` and `wait` with their results come to the model byte for byte as before, however its session was read.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_exec_and_wait_are_sent_unchanged_after_a_reload_a_fork_and_a_compaction() {
    let odd = "return  await tools.look({ n: 1.0 }) // ä\n";
    let wait = "{ parts: [{ call: { id: 'w', name: 'wait', arguments: { runId: 'cm_nothing' } } }] }";
    let replies =
        [text("Ready."), exec(odd), wait.into(), text("Done."), "{ parts: [{ text: 'More.' }], repeat: true }".into()];
    let world = world(&conversation(&replies), "tools: { codeMode: true }");
    world.ask("Hello.").await;
    world.ask("Do it.").await;
    world.ask("And?").await;
    let sent = |request: usize| world.server.requests()[request].body["messages"].as_array().unwrap().clone();
    // From the message that led to the program up to the answer.
    let part = |messages: &[Value]| {
        let first = messages.iter().position(|message| message["content"] == "Do it.").expect("the message");
        messages[first..first + 6].to_vec()
    };
    let before = part(&sent(4));
    assert!(before[1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().contains("1.0"), "{before:?}");
    assert!(before[4].to_string().contains("cm_nothing"), "{before:?}");

    world.dies().await;
    let other = world.another();
    other.ask("Again?").await;
    assert_eq!(part(&sent(5)), before, "after a reload");

    let store = other.agent.runtime().store();
    let session = store.current_session(USER, &other.key()).await.unwrap().unwrap();
    let fork: SessionKey = "fork".into();
    let new = NewSession {
        id: new_session_id(),
        user: USER.into(),
        key: fork.clone(),
        agent: None,
        label: None,
        parent: Some(session.id.clone()),
        created_at: store.now(),
    };
    store.fork_session(&session.id, session.leaf.unwrap(), new).await.unwrap();
    let run = other.agent.submit(USER, &fork, Request::new("Forked?"), None).await.unwrap().run_id;
    within(other.agent.outcome(USER, &run)).await.unwrap();
    assert_eq!(part(&sent(6)), before, "after a fork");

    let entries = store.entries(&session.id, EntryPage { after: 0, limit: 100 }).await.unwrap();
    let kept = entries.iter().find(|entry| entry.body.contains("Do it.")).unwrap();
    let compaction = NewEntry {
        id: new_entry_id(),
        attach: Attach::Leaf,
        kind: EntryKind::Compaction,
        run: None,
        call: None,
        body: json!({ "summary": "They met.", "firstKeptEntryId": kept.id }).to_string().into(),
        events: None,
        at: store.now(),
    };
    let commit = SessionCommit {
        entries: vec![compaction],
        context_from: Some(kept.position),
        now: store.now(),
        ..SessionCommit::default()
    };
    let writer = other.agent.writer(USER, &other.key()).await.unwrap();
    writer.commit(commit, Safety::Process).await.unwrap();
    writer.release().await.unwrap();
    other.ask("Compacted?").await;
    let after = sent(7);
    assert!(after[1]["content"].as_str().unwrap().contains("They met."), "{after:?}");
    assert!(!after.iter().any(|message| message["content"] == "Hello."));
    assert_eq!(part(&after), before, "after a compaction");
}
