//! What tools and instructions took of the requests of a run, and what is stored of it.

use pincer_agent::{RunOutcome, Status, ToolTelemetry};
use pincer_store::{Figures, FiguresPage, RunFigures};
use pincer_tools::Answer;
use serde_json::{Value, json};

use crate::compaction::in_order;
use crate::world::{USER, World, calls, conversation, text, world};

fn tools(outcome: &RunOutcome) -> ToolTelemetry {
    outcome.result.telemetry.tools.clone().unwrap_or_else(|| panic!("no telemetry: {outcome:?}"))
}

/// The figures of all runs of the user, as they are stored.
async fn stored(world: &World) -> Vec<(RunFigures, ToolTelemetry)> {
    let page = FiguresPage { user: USER.into(), key: None, after: (0, -1), limit: 100 };
    let rows = world.agent.runtime().store().run_figures(page).await.unwrap();
    let read = |row: RunFigures| (row.clone(), serde_json::from_str(row.figures.as_deref().unwrap()).unwrap());
    rows.into_iter().map(read).collect()
}

fn counts(tools: &ToolTelemetry) -> Vec<(&str, u32, u32)> {
    tools.calls.iter().map(|call| (call.id.as_str(), call.count, call.failed)).collect()
}

/// The bytes of the tools in a request, and those of its instructions.
fn carried(request: &Value) -> (u64, u64) {
    let tool = |tool: &Value| {
        let function = &tool["function"];
        let shown = json!({
            "name": function["name"], "description": function["description"], "parameters": function["parameters"],
        });
        shown.to_string().len() as u64
    };
    let tools = request["tools"].as_array().into_iter().flatten().map(tool).sum();
    (tools, request["messages"][0]["content"].as_str().expect("instructions").len() as u64)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_another_process_finishes_counts_each_request_and_each_call_once() {
    let world = world(&conversation(&[calls(&[("look", 1), ("gate", 2)]), text("I cannot know.")]), "");
    let run = world.send("Do it.").await;
    world.busy(1).await;
    while world.entries().await.len() < 3 {
        tokio::task::yield_now().await;
    }
    world.dies().await;
    assert_eq!(stored(&world).await, [], "it has not ended");
    let other = world.another();
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    let tools = tools(&outcome);
    assert_eq!((tools.requests, outcome.result.telemetry.model_calls), (2, 2));
    assert_eq!(counts(&tools), [("plugin:test:look", 1, 0)], "the other call may not have run");
    let requests = other.server.requests();
    assert_eq!(requests.len(), 2);
    let sent: u64 = requests.iter().map(|request| carried(&request.body)).map(|(tools, texts)| tools + texts).sum();
    // Between the parts of the instructions there are two line breaks.
    assert!(sent >= tools.sent.bytes && sent - tools.sent.bytes < 60, "{sent} {tools:?}");
    assert_eq!((tools.sent, tools.saved.bytes), (tools.direct_sent, 0), "direct exposure saves nothing");
    let stored = stored(&other).await;
    assert_eq!(stored.iter().map(|(row, tools)| (&row.run, tools)).collect::<Vec<_>>(), [(&run, &tools)]);
    // The last event has it too.
    let events = other.events(&run, 1).await;
    let last: ToolTelemetry =
        serde_json::from_value(events.last().unwrap().data["telemetry"]["tools"].clone()).unwrap();
    assert_eq!(last, tools);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_said_nothing_counts_although_its_process_dies() {
    let stalls = "{ parts: [{ text: 'Hm' }], wire: { stallAfter: 1 } }".to_owned();
    let world = world(&in_order(&["{ parts: [] }".to_owned(), stalls, text("Done.")]), "");
    let run = world.send("Do it.").await;
    while world.server.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    world.dies().await;
    let other = world.another();
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!(outcome.text(), "Done.", "{outcome:?}");
    // Of the one that was cut off there is no reply.
    assert_eq!((tools(&outcome).requests, outcome.result.telemetry.model_calls), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_has_figures_and_its_end_replaces_them() {
    let ask = "tools: { toolSearch: { mode: 'tools' } }, approvals: { rules: [{ match: 'plugin:test:mark', decision: 'ask' }] }";
    let call = |id: &str, arguments: &Value| {
        format!("{{ parts: [{{ call: {{ id: '{id}', name: 'tool_call', arguments: {arguments} }} }}] }}")
    };
    let replies = [
        call("a", &json!({ "id": "plugin:test:look", "args": { "n": 1 } })),
        call("b", &json!({ "id": "plugin:test:mark", "args": { "n": 2 } })),
        text("Then not."),
    ];
    let world = world(&conversation(&replies), ask);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Waiting, "{outcome:?}");
    let waiting = stored(&world).await;
    assert_eq!((waiting.len(), waiting[0].1.requests, waiting[0].1.call_count), (1, 2, 1));
    world.agent.close().await;

    let other = world.another();
    assert!(other.agent.answer(&outcome.approvals[0].approval_id, Answer::Deny, "a person").await.unwrap());
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!(outcome.text(), "Then not.", "{outcome:?}");
    let tools = tools(&outcome);
    assert_eq!((tools.requests, tools.surface.as_str(), tools.failed_count), (3, "tools", 1));
    assert_eq!(counts(&tools), [("plugin:test:look", 1, 0), ("plugin:test:mark", 1, 1)]);
    let ended = stored(&other).await;
    assert_eq!((ended.len(), &ended[0].1), (1, &tools));
    // Each request carried the same, so the sums are multiples of the first.
    assert_eq!(tools.sent.bytes, 3 * (tools.tools.bytes + tools.prompt.bytes));
    assert_eq!(tools.direct_sent.bytes, 3 * (tools.direct.bytes + tools.direct_prompt.bytes));
    assert_eq!(tools.saved.bytes, tools.direct_sent.bytes as i64 - tools.sent.bytes as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_calls_of_a_program_that_lost_its_process_count_once() {
    let code = "await tools.look({ n: 1 }); await tools.look({ n: 2 }); try { await tools.gate({ n: 3 }) } catch {} return 'ok'";
    let exec =
        format!("{{ parts: [{{ call: {{ id: 'x', name: 'exec', arguments: {{ code: {} }} }} }}] }}", json!(code));
    let world = world(&conversation(&[exec, text("Done.")]), "tools: { codeMode: true }");
    let run = world.send("Do it.").await;
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    other.gate.add_permits(10);
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!(outcome.text(), "Done.", "{outcome:?}");
    let tools = tools(&outcome);
    let nested = other.entries().await.iter().filter(|entry| entry.starts_with("nested")).count();
    assert_eq!((tools.call_count as usize, tools.requests, tools.surface.as_str()), (nested, 2, "codeMode"));
    let look = tools.calls.iter().find(|call| call.id == "plugin:test:look").unwrap();
    assert_eq!((look.count, outcome.result.telemetry.nested_calls as usize), (2, nested), "{tools:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_tools_saves_nothing() {
    let world = world(&conversation(&[text("Hello.")]), "tools: { toolSearch: true }");
    let request = pincer_agent::Request { disable_tools: true, ..pincer_agent::Request::new("Hello.") };
    let run = world.submit(request).await;
    let tools = tools(&world.outcome(&run).await);
    assert_eq!((tools.surface.as_str(), tools.tools.bytes, tools.direct.bytes, tools.catalog_size), ("none", 0, 0, 0));
    assert_eq!((tools.requests, tools.sent, tools.saved.bytes), (1, tools.direct_sent, 0));
}
