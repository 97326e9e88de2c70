//! The fixture as a plain upstream server. Its names and answers are checked by the conformance suite (`interop/run`); this is
//! what the suite does not look at.

use crate::common::{Server, hello, post, text};
use serde_json::{Value, json};

const FIXTURE: &str = env!("CARGO_BIN_EXE_mcp-fixture");

fn connected(capabilities: Value) -> Server {
    Server::connected(FIXTURE, &["stdio"], capabilities)
}

#[test]
fn every_tool_is_described_and_takes_an_object() {
    let list = connected(json!({})).ask(1, "tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().expect("a list");
    assert!(tools.len() > 30);
    for tool in tools {
        assert!(tool["description"].is_string() && tool["inputSchema"]["type"] == "object", "{tool}");
    }
}

#[test]
fn a_tool_asks_the_client_and_returns_what_it_said() {
    let cases = [
        (
            json!({ "sampling": {} }),
            "test_sampling",
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "hi" } }),
            "LLM response: hi",
        ),
        (json!({ "roots": {} }), "test_list_roots", json!({ "roots": [{ "uri": "file:///x" }] }), "Roots: file:///x"),
        (
            json!({ "elicitation": {} }),
            "test_elicitation",
            json!({ "action": "decline" }),
            "Elicitation completed: action=decline, content=null",
        ),
        (
            json!({ "elicitation": { "url": {} } }),
            "test_elicitation_url",
            json!({ "action": "accept" }),
            "Elicitation completed: action=accept, content=null",
        ),
    ];
    for (capabilities, tool, answer, expected) in cases {
        let mut server = connected(capabilities);
        server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": { "prompt": "?", "message": "?" } } }));
        let question = server.until(|message| message["method"].is_string());
        server.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
        assert_eq!(text(&server.until(|message| message["id"] == 1 && message["result"].is_object())), expected);
    }
}

#[test]
fn a_client_that_cannot_be_asked_is_not_asked() {
    let mut server = connected(json!({}));
    for (id, tool) in (1..).zip(["test_sampling", "test_elicitation", "test_elicitation_url", "test_list_roots"]) {
        let answer = server.call(id, tool, json!({ "prompt": "?", "message": "?" }));
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
    }
}

#[test]
fn a_changed_list_is_told() {
    let mut server = connected(json!({}));
    let count = |list: Value| list["result"]["tools"].as_array().expect("a list").len();
    let before = count(server.ask(1, "tools/list", json!({})));
    server.send(
        &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "test_trigger_tool_change" } }),
    );
    server.until(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!(count(server.ask(3, "tools/list", json!({}))), before + 1);
}

#[test]
fn only_a_subscribed_resource_is_told() {
    let mut server = connected(json!({}));
    let update = |id: u64, uri: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "test_trigger_resource_update", "arguments": { "uri": uri } } });
    server.ask(1, "resources/subscribe", json!({ "uri": "test://watched-resource" }));
    server.send(&update(2, "test://static-text"));
    server.send(&update(3, "test://watched-resource"));
    let told = server.until(|message| message["method"] == "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "test://watched-resource");
}

#[test]
fn a_cancelled_call_ends_early() {
    let mut server = connected(json!({}));
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "test_slow", "arguments": { "ms": 3_600_000 } } }));
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }));
    assert_eq!(server.first_complaint(), "test_slow was cancelled");
    let (status, _) = server.end();
    assert!(status.success(), "{status}");
}

#[test]
fn over_http_only_loopback_names_are_served() {
    let server = Server::start(FIXTURE, &["http", "127.0.0.1:0"]);
    let address = server.line();
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello(json!({})) });
    let cases = [
        ("Host: localhost\r\n", "HTTP/1.1 200"),
        ("Host: evil.example.com\r\n", "HTTP/1.1 403"),
        ("Host: 127.0.0.1\r\nOrigin: http://evil.example.com\r\n", "HTTP/1.1 403"),
        ("Host: 127.0.0.1\r\nOrigin: http://127.0.0.1:1234\r\n", "HTTP/1.1 200"),
    ];
    for (headers, expected) in cases {
        let answer = post(&address, headers, &message);
        assert!(answer.starts_with(expected), "{headers}: {answer}");
    }
}
