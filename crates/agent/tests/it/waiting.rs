//! Runs that wait for a person, or for their sender.

use pincer_agent::{ClientTool, Request, Status, WaitStatus};
use pincer_tools::Answer;
use serde_json::json;

use crate::world::{USER, calls, conversation, text, world};

const ASK: &str = "approvals: { rules: [{ match: 'plugin:test:mark', decision: 'ask' }] }";

#[tokio::test(flavor = "multi_thread")]
async fn a_question_suspends_the_run_and_an_answer_in_another_process_sets_it_going() {
    let world = world(&conversation(&[calls(&[("look", 1), ("mark", 2)]), text("Done.")]), ASK);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Waiting, "{outcome:?}");
    assert_eq!(outcome.approvals.len(), 1);
    assert_eq!(world.effects.all(), ["look 1"]);
    let waited = world.agent.wait(USER, &run, std::time::Duration::from_millis(10)).await.unwrap();
    assert_eq!((waited.status, waited.liveness_state), (WaitStatus::Timeout, Some("paused")));
    world.agent.close().await;

    let other = world.another();
    assert!(other.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "a person").await.unwrap());
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Done.".to_owned()));
    assert_eq!(world.effects.all(), ["look 1", "mark 2"]);
    assert_eq!(world.server.requests().len(), 2, "the model was not asked in between");
    let events = other.events(&run, 1).await;
    let told = events.iter().filter(|event| event.stream != pincer_agent::Stream::Tool).map(|event| event.phase());
    let phases: Vec<&str> = told.filter(|phase| !phase.is_empty()).collect();
    assert_eq!(phases, ["start", "requested", "waiting-approval", "resolved", "approval-resolved", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_is_told_to_the_model() {
    let world = world(&conversation(&[calls(&[("mark", 2)]), text("Then not.")]), ASK);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    world.agent.answer(&outcome.approvals[0].approval_id, Answer::Deny, "a person").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Then not.");
    assert!(world.server.requests()[1].body["messages"].to_string().contains("was denied"));
    assert_eq!(world.effects.all(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_within_a_program_suspends_the_run_and_the_model_hears_nothing_of_it() {
    let code =
        "const before = await tools.look({ n: 1 }); console.log('asking'); await tools.mark({ n: 2 }); return 'ok'";
    let exec =
        format!("{{ parts: [{{ call: {{ id: 'x', name: 'exec', arguments: {{ code: {} }} }} }}] }}", json!(code));
    let world = world(&conversation(&[exec, text("Done.")]), &format!("tools: {{ codeMode: true }}, {ASK}"));
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Waiting, "{outcome:?}");
    world.agent.close().await;
    let other = world.another();
    other.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "a person").await.unwrap();
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Done.".to_owned()), "{outcome:?}");
    assert_eq!(world.effects.all(), ["look 1", "mark 2"]);
    let result = &world.server.requests()[1].body["messages"][3]["content"];
    assert_eq!(result, "asking\nok");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_wait_behind_a_question_and_stop_ends_it() {
    let world = world(&conversation(&[calls(&[("mark", 2)]), text("Next.")]), ASK);
    let first = world.send("Do it.").await;
    assert_eq!(world.outcome(&first).await.status, Status::Waiting);
    let second = world.submit(Request { queue: Some(pincer_agent::QueueMode::Followup), ..Request::new("And?") }).await;
    let waited = world.agent.wait(USER, &second, std::time::Duration::from_millis(50)).await.unwrap();
    assert_eq!((waited.status, waited.timeout_phase), (WaitStatus::Pending, Some("queue")));
    world.agent.stop(USER, &first).await.unwrap();
    let stopped = world.outcome(&first).await;
    assert_eq!((stopped.status, stopped.stop_reason.as_deref()), (Status::Error, Some("aborted")), "{stopped:?}");
    assert_eq!(world.outcome(&second).await.text(), "Next.");
    assert_eq!(world.effects.all(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_sender_suspends_the_run_until_its_result_is_there() {
    for code_mode in [false, true] {
        let first = match code_mode {
            false => {
                "{ parts: [{ call: { id: 'c1', name: 'ask_user', arguments: { question: 'Which?' } } }] }".to_owned()
            }
            true => "{ parts: [{ call: { id: 'c1', name: 'exec', arguments: { code: \
                     \"return 'It is ' + (await tools.ask_user({ question: 'Which?' })).answer\" } } }] }"
                .to_owned(),
        };
        let world = world(&conversation(&[first, text("Thanks.")]), &format!("tools: {{ codeMode: {code_mode} }}"));
        let tool = ClientTool {
            name: "ask_user".into(),
            description: "Asks.".into(),
            parameters: json!({ "type": "object", "properties": { "question": { "type": "string" } }, "required": ["question"] }),
        };
        let run = world.submit(Request { client_tools: vec![tool], ..Request::new("Ask.") }).await;
        let outcome = world.outcome(&run).await;
        assert_eq!(outcome.status, Status::Waiting, "{outcome:?}");
        let call = &outcome.client_calls[0];
        assert_eq!((call.name.as_str(), &call.arguments), ("ask_user", &json!({ "question": "Which?" })));
        world.agent.close().await;
        let other = world.another();
        assert!(other.agent.answer_client(USER, &run, &call.call_id, Ok(json!({ "answer": "blue" }))).await.unwrap());
        let outcome = other.outcome(&run).await;
        assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Thanks.".to_owned()), "{outcome:?}");
        let result = world.server.requests()[1].body["messages"][3]["content"].as_str().unwrap().to_owned();
        assert!(result.contains("blue"), "{result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_sender_with_the_name_of_another_tool_is_refused() {
    for code_mode in [false, true] {
        let world = world(&conversation(&[text("Never.")]), &format!("tools: {{ codeMode: {code_mode} }}"));
        let tool =
            ClientTool { name: "mark".into(), description: String::new(), parameters: json!({ "type": "object" }) };
        let run = world.submit(Request { client_tools: vec![tool], ..Request::new("Mark.") }).await;
        let outcome = world.outcome(&run).await;
        let error = outcome.error.unwrap();
        assert!(error.contains("mark has the name of plugin:test:mark: give it another name"), "{error}");
        assert_eq!(world.server.requests().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_waits_for_a_person_does_not_expire() {
    let exec =
        "{ parts: [{ call: { id: 'x', name: 'exec', arguments: { code: 'await tools.mark({ n: 1 }); return 1' } } }] }";
    let config = format!("tools: {{ codeMode: {{ enabled: true, snapshotTtlSeconds: 1 }} }}, {ASK}");
    let world = world(&conversation(&[exec.into(), text("Done.")]), &config);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    use pincer_store::Runs;
    let store = world.agent.runtime().store();
    let programs = store.runs_of_agent(&run).await.unwrap();
    assert_eq!(store.run(&programs[0]).await.unwrap().expires_at, None);
    world.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "me").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_the_next_calls_covers_so_many_of_this_run_and_no_more() {
    let world = world(
        &conversation(&[calls(&[("mark", 1)]), calls(&[("mark", 2)]), calls(&[("mark", 3)]), text("Done.")]),
        ASK,
    );
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    world.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowNext(2), "me").await.unwrap();
    let again = world.outcome(&run).await;
    assert_eq!((again.status, world.effects.all()), (Status::Waiting, vec!["mark 1".to_owned(), "mark 2".to_owned()]));
    assert_ne!(again.approvals[0].approval_id, outcome.approvals[0].approval_id);
    world.agent.answer(&again.approvals[0].approval_id, Answer::Deny, "me").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Done.");
    assert_eq!(world.effects.all().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_questions_of_one_reply_are_answered_one_by_one() {
    let world = world(&conversation(&[calls(&[("mark", 1), ("mark", 2)]), text("Done.")]), ASK);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.approvals.len(), 2);
    world.agent.answer(&outcome.approvals[1].approval_id, Answer::AllowOnce, "me").await.unwrap();
    let again = world.outcome(&run).await;
    assert_eq!((again.status, again.approvals.len(), world.effects.all().len()), (Status::Waiting, 1, 1), "{again:?}");
    world.agent.answer(&again.approvals[0].approval_id, Answer::AllowOnce, "me").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Done.");
    assert_eq!(world.effects.all().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_a_hook_wants_asked_about_begins_with_the_answer() {
    let exec = "{ parts: [{ call: { id: 'x', name: 'exec', arguments: { code: 'return 41 + 1' } } }] }";
    let hook = r#"hooks: { before_tool_call: [{ command: ['echo', '{"requireApproval":{"title":"A program"}}'] }] }"#;
    let world = world(&conversation(&[exec.into(), text("Done.")]), &format!("tools: {{ codeMode: true }}, {hook}"));
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.approvals.len()), (Status::Waiting, 1), "{outcome:?}");
    world.agent.close().await;
    let other = world.another();
    other.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "me").await.unwrap();
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&run).await.text(), "Done.");
    assert_eq!(world.server.requests()[1].body["messages"][3]["content"], "42");
}
