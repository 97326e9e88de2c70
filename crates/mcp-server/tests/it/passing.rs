//! Resources, prompts, completions, logs and notices of many servers, as one server's.

use crate::common::person::Person;
use crate::common::{House, Plan, planned, program};
use pincer_config::keys::McpServer;
use pincer_mcp_server::Surface;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn gateway(names: &[&'static str]) -> House {
    let mut plan = Plan::new(Surface::Direct);
    plan.servers = names.iter().map(|name| (*name, program("mcp-fixture", "stdio"))).collect();
    planned(plan)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_and_templates_are_listed_and_read() {
    let house = gateway(&["fixture"]);
    let client = house.connect(Person::plain()).await;
    assert_eq!(
        client.names("resources/list", "resources", "uri").await,
        ["test://static-text", "test://static-binary", "test://watched-resource"]
    );
    assert_eq!(
        client.names("resources/templates/list", "resourceTemplates", "uriTemplate").await,
        ["test://template/{id}/data"]
    );
    let read = async |uri: &str| client.ask("resources/read", json!({ "uri": uri })).await;
    let content = &read("test://static-text").await.unwrap()["contents"][0];
    assert_eq!(content["text"], "This is the content of the static text resource.");
    assert!(read("test://static-binary").await.unwrap()["contents"][0]["blob"].is_string());
    let filled = read("test://template/7/data").await.unwrap();
    assert!(filled["contents"][0]["text"].as_str().unwrap().contains("Data for ID: 7"));
    // As the server said it.
    let missing = read("test://nope").await.unwrap_err();
    assert_eq!((&*missing.message, missing.data), ("there is no such resource", Some(json!({ "uri": "test://nope" }))));
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_is_told_of_its_resource_and_nobody_else_is() {
    let house = gateway(&["fixture"]);
    let (client, other) = (house.connect(Person::plain()).await, house.connect(Person::plain()).await);
    let watched = json!({ "uri": "test://watched-resource" });
    client.ask("resources/subscribe", watched.clone()).await.unwrap();
    client.call("test_trigger_resource_update", json!({ "uri": "test://static-text" })).await.unwrap();
    client.call("test_trigger_resource_update", watched.clone()).await.unwrap();
    assert_eq!(client.hears("notifications/resources/updated").await, watched);
    // The last who is told is told last: what comes after it came to everybody.
    client.ask("resources/unsubscribe", watched.clone()).await.unwrap();
    client.call("test_trigger_resource_update", watched).await.unwrap();
    client.call("test_trigger_resource_change", json!({})).await.unwrap();
    for listener in [&client, &other] {
        listener.hears("notifications/resources/list_changed").await;
        let more = listener.heard().await;
        assert!(more.iter().all(|(method, _)| method == "notifications/progress"), "{more:?}");
    }
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_that_several_have_carry_the_name_of_their_server() {
    let house = gateway(&["fixture", "twin"]);
    let client = house.connect(Person::plain()).await;
    let names = client.names("prompts/list", "prompts", "name").await;
    assert!(
        names.contains(&"fixture__test_simple_prompt".into()) && names.contains(&"twin__test_simple_prompt".into())
    );
    let arguments = json!({ "arg1": "a", "arg2": "b" });
    let got = client
        .ask("prompts/get", json!({ "name": "twin__test_prompt_with_arguments", "arguments": arguments }))
        .await
        .unwrap();
    assert_eq!(got["messages"][0]["content"]["text"], "Prompt with arguments: arg1='a', arg2='b'");
    let missing = client.ask("prompts/get", json!({ "name": "test_simple_prompt" })).await.unwrap_err();
    assert_eq!((missing.code.0, &*missing.message), (-32602, "Unknown prompt: test_simple_prompt"));
    let incomplete =
        client.ask("prompts/get", json!({ "name": "twin__test_prompt_with_arguments" })).await.unwrap_err();
    assert_eq!(&*incomplete.message, "the argument arg1 is missing");
    // A prompt that is there once needs no more than its name.
    client.call("twin__test_trigger_prompt_change", json!({})).await.unwrap();
    client.hears("notifications/prompts/list_changed").await;
    assert!(client.names("prompts/list", "prompts", "name").await.contains(&"test_extra_prompt".into()));
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_cold_are_started_at_once_for_a_list() {
    let place = tempfile::tempdir().unwrap();
    // The second time each starts only when the other does.
    let meeting = |own: &str, other: &str| {
        let McpServer { command, .. } = program("mcp-fixture", "stdio");
        let script = format!(
            "cd {}; if [ -e again ]; then touch {own}; while [ ! -e {other} ]; do sleep 0.01; done; fi; exec {} stdio",
            place.path().display(),
            command.unwrap()
        );
        McpServer { command: Some("sh".into()), args: vec!["-c".into(), script], ..McpServer::default() }
    };
    let servers = vec![("one", meeting("one", "two")), ("two", meeting("two", "one"))];
    let house = planned(Plan { servers, ..Plan::new(Surface::Direct) });
    let client = house.connect(Person::plain()).await;
    let before = client.names("prompts/list", "prompts", "name").await;
    house.servers.end().await;
    std::fs::write(place.path().join("again"), "").unwrap();
    assert_eq!(client.names("prompts/list", "prompts", "name").await, before);
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_completed_by_whoever_has_the_prompt_or_the_template() {
    let house = gateway(&["fixture", "twin"]);
    let client = house.connect(Person::plain()).await;
    let complete = async |of: Value| {
        let params = json!({ "ref": of, "argument": { "name": "arg1", "value": "par" } });
        client.ask("completion/complete", params).await
    };
    for of in [
        json!({ "type": "ref/prompt", "name": "twin__test_prompt_with_arguments" }),
        json!({ "type": "ref/resource", "uri": "test://template/{id}/data" }),
    ] {
        let completed = complete(of).await.unwrap();
        assert_eq!(completed["completion"]["values"], json!(["paris", "park", "party"]));
    }
    assert!(complete(json!({ "type": "ref/prompt", "name": "nope" })).await.is_err());
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_come_through_from_the_level_that_was_asked_for() {
    let house = gateway(&["fixture"]);
    let client = house.connect(Person::plain()).await;
    client.ask("logging/setLevel", json!({ "level": "error" })).await.unwrap();
    client.call("test_tool_with_logging", json!({})).await.unwrap();
    client.ask("logging/setLevel", json!({ "level": "info" })).await.unwrap();
    client.call("test_tool_with_logging", json!({})).await.unwrap();
    let line = client.hears("notifications/message").await;
    assert_eq!((&line["logger"], &line["level"]), (&json!("fixture"), &json!("info")));
    client.hears("notifications/message").await;
    client.hears("notifications/message").await;
    client.call("test_trigger_resource_change", json!({})).await.unwrap();
    client.hears("notifications/resources/list_changed").await;
    let more = client.heard().await;
    assert!(more.iter().all(|(method, _)| method != "notifications/message"), "{more:?}");
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_list_of_tools_is_told_when_it_can_be_read() {
    let house = gateway(&["fixture"]);
    let client = house.connect(Person::plain()).await;
    let before = client.tools().await;
    // What a client was shown at first is no change.
    client.call("test_tool_with_progress", json!({})).await.unwrap();
    let early = client.heard().await;
    assert!(early.iter().all(|(method, _)| method == "notifications/progress"), "{early:?}");
    client.call("test_trigger_tool_change", json!({})).await.unwrap();
    client.hears("notifications/tools/list_changed").await;
    let after = client.tools().await;
    assert_eq!(after.len(), before.len() + 1);
    assert!(after.contains(&"test_extra_tool".into()));
    // Nothing of the list depends on these.
    client.call("test_trigger_prompt_change", json!({})).await.unwrap();
    client.hears("notifications/prompts/list_changed").await;
    let more = client.heard().await;
    assert!(more.iter().all(|(method, _)| method != "notifications/tools/list_changed"), "{more:?}");
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_listen_holds_up_nobody() {
    let house = gateway(&["fixture"]);
    let (mut deaf, _serving) = house.line(512);
    for message in [crate::common::web::hello(), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })] {
        deaf.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        if message.get("id").is_some() {
            // It is greeted, and hears no more.
            let mut greeting = vec![0; 64];
            deaf.read_exact(&mut greeting).await.unwrap();
        }
    }
    let client = house.connect(Person::plain()).await;
    for _ in 0..20 {
        client.call("test_trigger_resource_change", json!({})).await.unwrap();
        client.hears("notifications/resources/list_changed").await;
    }
    house.servers.end().await;
}
