//! Three tools that find, describe and call all others.

use crate::common::person::{Person, decides};
use crate::common::{House, Plan, planned, program};
use pincer_mcp_server::Surface;
use serde_json::{Value, json};

fn house() -> House {
    let mut plan = Plan::new(Surface::Search);
    plan.servers = vec![("fixture", program("mcp-fixture", "stdio"))];
    plan.deny = vec!["other"];
    planned(plan)
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_found_described_and_called() {
    let house = house();
    let client = house.connect(Person::who_answers([decides("allow")])).await;
    assert_eq!(client.tools().await, ["tool_search", "tool_describe", "tool_call"]);
    let call = async |tool: &str, arguments: Value| client.call(tool, arguments).await.unwrap();
    let found = call("tool_search", json!({ "query": "reports progress", "limit": 3 })).await;
    let found: Value = serde_json::from_str(text(&found)).unwrap();
    assert_eq!(found[0]["id"], "mcp:fixture:test_tool_with_progress", "{found}");
    assert!(found.as_array().unwrap().len() <= 3);
    let described = call("tool_describe", json!({ "id": "mcp:fixture:test_structured" })).await;
    let described: Value = serde_json::from_str(text(&described)).unwrap();
    assert_eq!(
        (&described["parameters"]["required"], &described["outputSchema"]["type"]),
        (&json!(["name"]), &json!("object"))
    );
    let called = call("tool_call", json!({ "id": "mcp:fixture:test_structured", "args": { "name": "x" } })).await;
    assert_eq!(called["structuredContent"], json!({ "name": "x" }));
    // The input beside the id can mean but one thing.
    let called = call("tool_call", json!({ "toolId": "mcp:fixture:test_structured", "name": "y" })).await;
    assert_eq!(called["structuredContent"], json!({ "name": "y" }));
    let both = call("tool_search", json!({ "queries": ["reports progress", "zebra"], "limit": 1 })).await;
    let both: Value = serde_json::from_str(text(&both)).unwrap();
    assert_eq!(both[0]["tools"][0]["id"], "mcp:fixture:test_tool_with_progress", "{both}");
    assert_eq!(both[1], json!({ "query": "zebra", "tools": [] }));
    let asked = call("tool_call", json!({ "id": "openclaw:core:ask", "args": { "a": 1 } })).await;
    assert_eq!(asked["structuredContent"], json!({ "a": 1 }));
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_for_the_model_to_read() {
    let house = house();
    let client = house.connect(Person::plain()).await;
    for (tool, arguments, says) in [
        ("tool_search", json!({}), "`query` is missing"),
        ("tool_search", json!({ "query": 5 }), "`query` is missing"),
        ("tool_describe", json!({}), "`id` is missing"),
        ("tool_describe", json!({ "id": "mcp:fixture:test_structurd" }), "test_structured"),
        ("tool_call", json!({ "id": "openclaw:core:other" }), "Unknown tool"),
        (
            "tool_call",
            json!({ "id": "mcp:fixture:resources/read", "args": { "uri": "test://static-text" } }),
            "Unknown tool",
        ),
        ("tool_call", json!({ "id": "mcp:fixture:test_structured", "args": { "name": 5 } }), "name"),
        ("tool_call", json!({ "id": "mcp:fixture:test_structured", "args": [] }), "`args` must be an object"),
        ("tool_call", json!({ "id": "mcp:fixture:test_structured", "args": { "name": "x" }, "loud": true }), "`loud`"),
        ("tool_call", json!({ "id": "openclaw:core:fail" }), "it broke"),
        ("tool_call", json!({ "id": "mcp:fixture:test_error_handling" }), "intentionally"),
        ("tool_call", json!({ "id": "openclaw:core:ask" }), "pincer approvals allow ap_"),
    ] {
        let result = client.call(tool, arguments.clone()).await.unwrap();
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        assert!(text(&result).contains(says), "{tool} {arguments}: {result}");
    }
    let unknown = client.call("exec", json!({ "code": "return 1" })).await.unwrap_err();
    assert_eq!(unknown.code.0, -32602);
    house.servers.end().await;
}
