//! A suspended program that goes on in a world that has changed.

use std::sync::Arc;

use crate::common::{House, entry, house, house_with};
use pincer_catalog::{Entry, Flags};
use pincer_tools::{
    Answer, ApprovalRule, FnTool, Matcher, RuleDecision, Server, ServerState, Tool, ToolCall, ToolError,
};
use serde_json::{Value, json};

/// The tool `push` of the server `git`, as the house's `count` counts it.
fn push(house: &House, change: impl FnOnce(&mut Entry)) -> (Entry, Arc<dyn Tool>) {
    let mut entry = entry("mcp:git:push", Flags::default());
    change(&mut entry);
    let counted = Arc::clone(&house.counted);
    let tool = FnTool(move |_: ToolCall| {
        let count = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        async move { Ok::<Value, ToolError>(json!({ "structuredContent": count })) }
    });
    (entry, Arc::new(tool))
}

fn serve(house: &House, tools: Vec<(Entry, Arc<dyn Tool>)>) {
    let tools = tools.into_iter().map(|(entry, tool)| (Arc::new(entry), tool)).collect();
    house.door.set_server(Server { name: "git".into(), state: ServerState::Available, tools });
}

const CODE: &str = "const git = MCP.git; const first = await git.push({}); await yield_control();
    try { return [first.structuredContent, (await git.push({})).structuredContent] } catch (e) { return [e.code, e.effect, e.message] }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_gone_or_another_one_is_not_called() {
    type Change = fn(&mut Entry);
    let same: Change = |_| {};
    let described: Change = |entry| entry.description = "now in other words".into();
    let schema: Change = |entry| entry.input_schema = json!({ "type": "object", "properties": { "force": {} } });
    let flags: Change = |entry| entry.flags.idempotent = true;
    for (change, code) in [
        (Some(same), None),
        (Some(described), None),
        (Some(schema), Some("tool_changed")),
        (Some(flags), Some("tool_changed")),
        (None, Some("unknown_tool")),
    ] {
        for elsewhere in [false, true] {
            let house = house();
            serve(&house, vec![push(&house, |_| {})]);
            let waiting = house.exec(CODE).await;
            serve(&house, change.map(|change| push(&house, change)).into_iter().collect());
            let done = if elsewhere { house.neighbour().wait(&waiting).await } else { house.wait(&waiting).await };
            match code {
                None => assert_eq!(done["value"], json!([1, 2]), "{done}"),
                Some(code) => {
                    assert_eq!((&done["value"][0], &done["value"][1]), (&json!(code), &json!("none")), "{done}");
                    let says = if code == "tool_changed" { "has changed" } else { "no longer available" };
                    assert!(done["value"][2].as_str().unwrap().contains(says), "{done}");
                    assert_eq!(house.count(), 1);
                }
            }
        }
    }
}

fn asking() -> House {
    let matcher = Matcher::parse("rules", &["mcp:git:push"]).unwrap();
    house_with(|door| door.rule(ApprovalRule { matcher, decision: RuleDecision::Ask }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_does_not_cover_another_tool_under_the_same_id() {
    let code = "try { return await MCP.git.push({}) } catch (e) { return [e.code, e.effect] }";
    let changed = |entry: &mut Entry| entry.input_schema = json!({ "type": "object", "title": "other" });
    let approval = |waiting: &Value| waiting["pendingToolCalls"][0]["approvalId"].as_str().unwrap().into();
    for elsewhere in [false, true] {
        let house = asking();
        serve(&house, vec![push(&house, |_| {})]);
        let waiting = house.exec(code).await;
        serve(&house, vec![push(&house, changed)]);
        if elsewhere {
            house.mode.shutdown().await;
            house.mode.release();
        }
        assert!(house.door.answer(&approval(&waiting), Answer::AllowAlways, "me").await.unwrap());
        if elsewhere {
            let done = house.neighbour().wait(&waiting).await;
            assert_eq!(done["value"], json!(["tool_changed", "none"]), "{done}");
        } else {
            house.wait(&waiting).await;
        }
        // Nor does the grant cover it: a person is asked again.
        let house = if elsewhere { house.neighbour() } else { house };
        let again = house.exec(code).await;
        assert_eq!(again["pendingToolCalls"][0]["state"], "approval", "{again}");
        // The old one has it.
        serve(&house, vec![push(&house, |_| {})]);
        let before = house.count();
        assert_eq!(house.exec(code).await["status"], "completed");
        assert_eq!(house.count(), before + 1);
    }
}
