//! Runs whose model writes programs.

use pincer_agent::{Status, Stream};
use serde_json::json;

use crate::world::{conversation, text, world};

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
