//! All tools as they are: one endpoint in front of many servers.

use crate::common::person::{Person, Reply, decides};
use crate::common::{House, Plan, house, planned, program};
use pincer_mcp_server::Surface;
use pincer_tools::Answer;
use serde_json::{Value, json};

/// `fixture`, and `liar`, whose one tool has the name of one of ours.
fn gateway() -> House {
    with(|_| {})
}

fn with(change: impl FnOnce(&mut Plan)) -> House {
    let mut plan = Plan::new(Surface::Direct);
    plan.servers = vec![("fixture", program("mcp-fixture", "stdio")), ("liar", program("mcp-liar", "noise"))];
    change(&mut plan);
    planned(plan)
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_have_their_own_names_and_those_that_several_have_that_of_their_server() {
    let house = gateway();
    let client = house.connect(Person::plain()).await;
    let listed = client.ask("tools/list", json!({})).await.unwrap();
    let tools = listed["tools"].as_array().unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    for name in ["echo", "gate", "liar__echo", "test_simple_text", "json_schema_2020_12_tool"] {
        assert!(named(name).is_some(), "{name} is not in {listed}");
    }
    let others = ["exec", "wait", "resources/read", "fixture__resources/read"];
    assert!(others.iter().all(|name| named(name).is_none()), "{listed}");
    // As the server describes it, whatever the dialect.
    let schema = &named("json_schema_2020_12_tool").unwrap()["inputSchema"];
    assert_eq!(schema["$defs"]["address"]["$anchor"], "addressDef");
    assert!(schema["allOf"].is_array() && schema["if"].is_object(), "{schema}");
    assert!(named("test_structured").unwrap()["outputSchema"].is_object());
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_and_errors_are_as_the_server_sent_them() {
    let house = gateway();
    let client = house.connect(Person::plain()).await;
    let call = async |tool: &str, arguments: Value| client.call(tool, arguments).await.unwrap();
    assert_eq!(text(&call("test_simple_text", json!({})).await), "This is a simple text response for testing.");
    let mixed = call("test_multiple_content_types", json!({})).await;
    let kinds: Vec<&Value> = mixed["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "image", "resource"]);
    let structured = call("test_structured", json!({ "name": "x", "count": 2 })).await;
    assert_eq!(structured["structuredContent"], json!({ "name": "x", "count": 2 }));
    let failed = call("test_error_handling", json!({})).await;
    assert_eq!(
        (&failed["isError"], text(&failed)),
        (&json!(true), "This tool intentionally returns an error for testing")
    );
    // Ours: for models to read, and as an object where it is one.
    let own = call("echo", json!({ "a": 1 })).await;
    assert_eq!((&own["structuredContent"], text(&own)), (&json!({ "a": 1 }), "{\"a\":1}"));
    assert_eq!(call("liar__echo", json!({ "text": "hi" })).await["isError"], Value::Null);
    let broken = call("fail", json!({})).await;
    assert_eq!((&broken["isError"], text(&broken)), (&json!(true), "it broke"));
    let wrong = call("test_elicitation", json!({})).await;
    assert_eq!(wrong["isError"], true, "{wrong}");
    for unknown in ["nope", "mcp:fixture:test_simple_text", "openclaw:core:echo", "fixture__test_simple_text", ""] {
        let refused = client.call(unknown, json!({})).await.unwrap_err();
        assert_eq!((refused.code.0, &*refused.message), (-32602, format!("Unknown tool: {unknown}").as_str()));
    }
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_server_is_not_there_in_any_way() {
    let house = with(|plan| plan.deny = vec!["fixture__*", "echo"]);
    let client = house.connect(Person::plain()).await;
    assert_eq!(client.tools().await, ["ask", "fail", "gate", "hang", "other"]);
    for name in ["test_simple_text", "fixture__test_simple_text", "mcp:fixture:test_simple_text", "echo", "liar__echo"]
    {
        assert_eq!(client.call(name, json!({})).await.unwrap_err().code.0, -32602, "{name}");
    }
    let can = client.info()["capabilities"].clone();
    assert_eq!(can, json!({ "tools": { "listChanged": true } }));
    assert_eq!(client.names("resources/list", "resources", "uri").await, Vec::<String>::new());
    assert_eq!(client.names("resources/templates/list", "resourceTemplates", "name").await, Vec::<String>::new());
    assert_eq!(client.names("prompts/list", "prompts", "name").await, Vec::<String>::new());
    let of_text = json!({ "ref": { "type": "ref/prompt", "name": "test_simple_prompt" }, "argument": { "name": "a", "value": "" } });
    for (method, params) in [
        ("resources/read", json!({ "uri": "test://static-text" })),
        ("resources/subscribe", json!({ "uri": "test://static-text" })),
        ("prompts/get", json!({ "name": "test_simple_prompt" })),
        ("completion/complete", of_text),
    ] {
        assert!(client.ask(method, params).await.is_err(), "{method}");
    }
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_denied_operation_takes_nothing_else_away() {
    let house = with(|plan| plan.deny = vec!["mcp:fixture:resources/read", "mcp:fixture:prompts/get"]);
    let client = house.connect(Person::plain()).await;
    assert!(client.ask("resources/read", json!({ "uri": "test://static-text" })).await.is_err());
    assert!(client.ask("resources/subscribe", json!({ "uri": "test://static-text" })).await.is_err());
    assert!(client.ask("prompts/get", json!({ "name": "test_simple_prompt" })).await.is_err());
    assert_eq!(client.names("resources/list", "resources", "uri").await.len(), 3);
    assert_eq!(client.names("prompts/list", "prompts", "name").await.len(), 5);
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_can_be_asked_about_says_what_to_do_and_finds_the_answer_later() {
    let house = house(Surface::Direct);
    let client = house.connect(Person::plain()).await;
    let refused = client.call("ask", json!({ "a": 1 })).await.unwrap();
    let question = house.question();
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).contains(&format!("`pincer approvals allow {}`", question.id)), "{refused}");
    assert_eq!(text(&client.call("ask", json!({ "a": 1 })).await.unwrap()), text(&refused), "it is one question");
    house.door.answer(&question.id, Answer::AllowOnce, "a test").await.unwrap();
    assert_eq!(client.call("ask", json!({ "a": 1 })).await.unwrap()["structuredContent"], json!({ "a": 1 }));
    // Once is once.
    assert_eq!(client.call("ask", json!({ "a": 1 })).await.unwrap()["isError"], true);
    house.door.answer(&house.question().id, Answer::Deny, "a test").await.unwrap();
    assert_eq!(text(&client.call("ask", json!({ "a": 1 })).await.unwrap()), "the call of openclaw:core:ask was denied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_dialogs_a_call_waits_for_the_answer() {
    let house = house(Surface::Direct);
    let client = house.connect(Person::who_answers([decides("allow"), decides("deny"), Reply::Fail])).await;
    assert_eq!(client.call("ask", json!({ "a": 1 })).await.unwrap()["structuredContent"], json!({ "a": 1 }));
    assert_eq!(text(&client.call("ask", json!({ "a": 1 })).await.unwrap()), "the call of openclaw:core:ask was denied");
    let broken = client.call("ask", json!({ "a": 1 })).await.unwrap();
    assert!(text(&broken).contains("pincer approvals allow"), "{broken}");
    let offered = client.hears("elicitation/create").await["requestedSchema"]["properties"]["decision"]["enum"].clone();
    assert_eq!(offered, json!(["allow", "always allow", "deny"]), "there is no run that could have more calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_comes_with_the_numbers_of_the_server() {
    let house = gateway();
    let client = house.connect(Person::plain()).await;
    client.call("test_tool_with_progress", json!({})).await.unwrap();
    let mut steps = Vec::new();
    for _ in 0..3 {
        let step = client.hears("notifications/progress").await;
        assert_eq!(step["total"], 100.0, "{step}");
        steps.push(step["progress"].as_f64().unwrap() as u64);
    }
    steps.sort_unstable();
    assert_eq!(steps, [0, 50, 100]);
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_asks_for_is_passed_on_as_it_was_sent() {
    let house = gateway();
    let sampled = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Paris" } });
    let replies = [
        Reply::Say(json!({ "action": "accept", "content": { "untitledSingle": "option1" } })),
        Reply::Say(sampled),
        Reply::Say(json!({ "action": "decline" })),
        Reply::Fail,
    ];
    let client = house.connect(Person::who_answers(replies)).await;
    let call = async |tool: &str| client.call(tool, json!({ "prompt": "Capital?", "message": "Who?" })).await.unwrap();
    assert_eq!(
        text(&call("test_elicitation_sep1330_enums").await),
        "Elicitation completed: action=accept, content={\"untitledSingle\":\"option1\"}"
    );
    let asked = client.hears("elicitation/create").await;
    assert_eq!(asked["message"], "Please choose");
    assert_eq!(asked["requestedSchema"]["properties"]["titledMulti"]["items"]["anyOf"][0]["title"], "First Choice");
    assert_eq!(text(&call("test_sampling").await), "LLM response: Paris");
    assert_eq!(client.hears("sampling/createMessage").await["messages"][0]["content"]["text"], "Capital?");
    assert!(text(&call("test_elicitation").await).contains("action=decline"));
    assert!(text(&call("test_elicitation").await).contains("action=decline"), "nobody can answer");
    // A page to visit is nothing that this client can show.
    assert!(text(&call("test_elicitation_url").await).contains("action=decline"));
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_can_do_nothing_is_asked_for_nothing() {
    let house = gateway();
    let client = house.connect(Person::plain()).await;
    assert!(
        text(&client.call("test_elicitation", json!({ "message": "?" })).await.unwrap()).contains("action=decline")
    );
    assert_eq!(client.call("test_sampling", json!({ "prompt": "?" })).await.unwrap()["isError"], true);
    assert!(client.heard().await.is_empty());
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_a_call_back_reaches_the_tool() {
    let house = house(Surface::Direct);
    let client = house.connect(Person::plain()).await;
    tokio::select! {
        done = client.call("hang", json!({})) => panic!("{done:?}"),
        () = house.gates.pass("hangs") => {}
    }
    house.gates.pass("aborted").await;
}
