//! Resources, prompts and completions of a server that does everything right, through the door.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{is_private, program, setup, text};
use pincer_tools::{Effect, ErrorCode};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn resources_prompts_and_completions_are_reached_through_the_door() {
    let house = setup().open().asked().await;
    for (operation, input, at, expected) in [
        ("resources/list", json!({}), "/resources/0/uri", json!("test://static-text")),
        ("resources/templates/list", json!({}), "/resourceTemplates/0/uriTemplate", json!("test://template/{id}/data")),
        (
            "resources/read",
            json!({ "uri": "test://static-text" }),
            "/contents/0/text",
            json!("This is the content of the static text resource."),
        ),
        ("resources/read", json!({ "uri": "test://static-binary" }), "/contents/0/mimeType", json!("image/png")),
        (
            "resources/read",
            json!({ "uri": "test://template/7/data" }),
            "/contents/0/uri",
            json!("test://template/7/data"),
        ),
        ("prompts/list", json!({}), "/prompts/0/name", json!("test_simple_prompt")),
        (
            "prompts/get",
            json!({ "name": "test_prompt_with_arguments", "arguments": { "arg1": "a", "arg2": "b" } }),
            "/messages/0/content/text",
            json!("Prompt with arguments: arg1='a', arg2='b'"),
        ),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "test_prompt_with_arguments" },
                "argument": { "name": "arg1", "value": "par" },
            }),
            "/completion/values",
            json!(["paris", "park", "party"]),
        ),
    ] {
        let result = house.ok(&format!("mcp:good:{operation}"), input).await;
        assert_eq!(result.pointer(at), Some(&expected), "{operation}: {result}");
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_in_the_words_of_the_server() {
    let house = setup().open().asked().await;
    // That the protocol calls it a read is the server's word, not ours: only parameters that it refuses have changed nothing.
    for (tool, input, said, effect) in [
        ("resources/read", json!({ "uri": "test://nowhere" }), "there is no such resource", Effect::Unknown),
        ("prompts/get", json!({ "name": "nobody" }), "there is no prompt nobody", Effect::None),
        ("prompts/get", json!({ "name": "test_prompt_with_arguments" }), "the argument arg1 is missing", Effect::None),
    ] {
        let outcome = house.call(&format!("mcp:good:{tool}"), input).await;
        let error = outcome.result.unwrap_err();
        assert!(error.message.starts_with("the MCP server good says: "), "{error}");
        assert!(error.message.contains(said), "{error}");
        assert_eq!((error.code, outcome.effect), (ErrorCode::ToolFailed, effect), "{tool}");
        assert!(error.detail.is_some_and(|detail| detail["code"].is_number()), "{tool}");
    }
    let error = house.error("mcp:good:resources/read", json!({ "url": "test://static-text" })).await;
    assert_eq!(error.code, ErrorCode::InvalidInput);
    assert!(error.message.contains("Did you mean: uri?"), "{error}");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_fails_returns_what_it_says() {
    let house = setup().open().asked().await;
    let result = house.ok("mcp:good:test_error_handling", json!({})).await;
    assert_eq!(result["isError"], true);
    let structured = house.ok("mcp:good:test_structured", json!({ "name": "a", "count": 2 })).await;
    assert_eq!(structured["structuredContent"], json!({ "name": "a", "count": 2 }));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_of_no_directory_but_its_roots() {
    let setup = setup().server("told", &[&program("mcp-fixture"), "stdio"]);
    let roots = vec![setup.path("notes"), "/srv/my data".into()];
    let house = setup.with(|told| told.roots = roots).open().asked().await;
    let unasked = house.ok("mcp:good:test_list_roots", json!({})).await;
    assert_eq!((&unasked["isError"], text(&unasked).as_str()), (&json!(true), "this client has no roots"));
    let beside = house.directory.path().to_str().unwrap();
    let told = house.text("mcp:told:test_list_roots", json!({})).await;
    assert_eq!(told, format!("Roots: file://{beside}/notes, file:///srv/my%20data"));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_for_its_log_is_in_its_log() {
    let house = setup().open().asked().await;
    house.ok("mcp:good:test_tool_with_logging", json!({})).await;
    house
        .until(|house| house.log("good").lines().filter(|line| line.starts_with("[info] fixture: ")).count() == 3)
        .await;
    assert!(is_private(&house.path("state/logs/mcp/good.log")));
    house.end().await;
}
