//! `exec` and `wait`, as an MCP client has them.

use std::sync::Arc;

use crate::common::person::Person;
use crate::common::{House, Plan, entry, house, planned, program};
use pincer_mcp_server::Surface;
use pincer_tools::{FnTool, Tool, ToolCall, ToolError};
use serde_json::{Value, json};

fn gives(value: Value) -> Arc<dyn Tool> {
    Arc::new(FnTool(move |_: ToolCall| {
        let value = value.clone();
        async move { Ok::<Value, ToolError>(value) }
    }))
}

/// A house with a server that draws.
fn drawing() -> House {
    let house = house(Surface::Code);
    let image = json!({ "content": [{ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" }] });
    house.serves("easel", vec![(entry("mcp:easel:draw"), gives(image))]);
    house
}

/// The text of a result.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_sees_two_tools_that_say_what_is_behind_them() {
    let house = drawing();
    let client = house.connect(Person::plain()).await;
    let info = client.info();
    assert_eq!(
        (&info["serverInfo"]["name"], &info["capabilities"]["tools"]["listChanged"]),
        (&json!("pincer"), &json!(true))
    );
    assert!(info["capabilities"].get("resources").is_none(), "{info}");
    assert!(info["instructions"].as_str().unwrap().contains("easel"), "{info}");
    let listed = client.ask("tools/list", json!({})).await.unwrap();
    let [exec, wait] = listed["tools"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&exec["name"], &wait["name"]), (&json!("exec"), &json!("wait")));
    assert!(exec["description"].as_str().unwrap().contains("easel (1)"), "{exec}");
    assert!(exec["inputSchema"]["properties"]["code"].is_object(), "{exec}");
    assert_eq!(wait["inputSchema"]["required"], json!(["runId"]));
    for tool in [exec, wait] {
        assert_eq!(tool["outputSchema"]["required"], json!(["status", "telemetry"]), "{tool}");
        assert_eq!(tool["annotations"]["readOnlyHint"], false, "{tool}");
        assert_eq!(tool["annotations"]["destructiveHint"], true, "{tool}");
        assert!(tool["title"].is_string(), "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_result_is_text_and_an_object_that_fits_the_declared_schema() {
    let house = drawing();
    let client = house.connect(Person::plain()).await;
    let listed = client.ask("tools/list", json!({})).await.unwrap();
    let schema = jsonschema::validator_for(&listed["tools"][0]["outputSchema"]).unwrap();
    let cases = [
        ("text('first'); return { a: [1] }", "completed", false, "first\n{\"a\":[1]}"),
        ("return 'plain'", "completed", false, "plain"),
        ("", "failed", true, "failed (invalid_input): "),
        (
            "const a = 1;\nthrow new Error('wrong')",
            "failed",
            true,
            "failed: Error: wrong\n    at <anonymous> (cell.js:2:11)",
        ),
        ("const x = ;", "failed", true, "(line 1, column 11)"),
        ("await tools.fail({})", "failed", true, "it broke"),
        ("text('so far'); await yield_control(); return 1", "waiting", false, "so far\nwaiting: runId cm_"),
        (
            "return await tools.ask({})",
            "waiting",
            false,
            "A person must approve: openclaw:core:ask (pincer approvals allow ap_",
        ),
    ];
    for (code, status, is_error, says) in cases {
        let result = client.call("exec", json!({ "code": code })).await.unwrap();
        let structured = &result["structuredContent"];
        assert_eq!((&structured["status"], &result["isError"]), (&json!(status), &json!(is_error)), "{code}: {result}");
        assert!(text(&result).contains(says), "{code}: {result}");
        let wrong: Vec<String> = schema.iter_errors(structured).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{code}: {wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_calls_are_refused_with_what_is_wrong() {
    let house = house(Surface::Code);
    let client = house.connect(Person::plain()).await;
    for (tool, arguments, code, says) in [
        ("exec", json!({}), "invalid_input", "code"),
        ("exec", json!({ "code": 5 }), "invalid_input", "code"),
        ("exec", json!({ "code": "return 1", "language": "cobol" }), "unsupported_language", "cobol"),
        ("wait", json!({}), "invalid_input", "runId"),
        (
            "wait",
            json!({ "runId": "cm_00000000-0000-7000-8000-000000000000" }),
            "invalid_input",
            "unavailable or expired",
        ),
        ("wait", json!({ "runId": "../../etc" }), "invalid_input", "A runId begins with cm_"),
    ] {
        let result = client.call(tool, arguments.clone()).await.unwrap();
        assert_eq!(
            (&result["isError"], &result["structuredContent"]["code"]),
            (&json!(true), &json!(code)),
            "{arguments}: {result}"
        );
        assert!(text(&result).contains(says), "{arguments}: {result}");
    }
    let unknown = client.call("read", json!({})).await.unwrap_err();
    assert_eq!((unknown.code.0, &*unknown.message), (-32602, "there is no tool read: there are exec and wait"));
    // Nothing else is here.
    for (method, code) in [("resources/read", -32601), ("prompts/get", -32601), ("logging/setLevel", -32601)] {
        let params = json!({ "uri": "a:b", "name": "x", "level": "info" });
        assert_eq!(client.ask(method, params).await.unwrap_err().code.0, code, "{method}");
    }
    assert_eq!(client.names("resources/list", "resources", "uri").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_program_is_continued_from_another_connection_of_the_same_user() {
    let house = house(Surface::Code);
    let first = house.connect(Person::plain()).await;
    let waiting = first.exec("const kept = 40; await yield_control(); return kept + 2").await;
    first.leave().await;
    let second = house.connect(Person::plain()).await;
    let done = second.wait(&waiting).await;
    assert_eq!((&done["status"], &done["value"]), (&json!("completed"), &json!(42)));
    // It is told again, and not done again.
    assert_eq!(second.wait(&waiting).await["value"], 42);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_come_with_the_answer_that_refers_to_them() {
    let house = drawing();
    let client = house.connect(Person::plain()).await;
    let result = client.call("exec", json!({ "code": "return await MCP.easel.draw({})" })).await.unwrap();
    assert_eq!(
        result["content"][1],
        json!({ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" }),
        "{result}"
    );
    assert!(!text(&result).contains("aGVsbG8="), "{result}");
    let made_up = client.call("exec", json!({ "code": "return { ref: 'blob:cm_0/0/0' }" })).await.unwrap();
    assert_eq!(made_up["content"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_programs_run_at_once_on_one_connection() {
    let house = house(Surface::Code);
    let client = Arc::new(house.connect(Person::plain()).await);
    let programs = (0..40).map(|number| {
        let client = Arc::clone(&client);
        let code = format!("const got = await tools.echo({{ number: {number} }}); return got.number");
        tokio::spawn(async move { client.exec(&code).await["value"].clone() })
    });
    for (number, program) in programs.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(program.await.unwrap(), json!(number));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_names_the_nested_calls_also_of_a_program_that_is_continued() {
    let house = house(Surface::Code);
    let client = house.connect(Person::plain()).await;
    let code = "await tools.echo({}); try { await tools.fail({}) } catch {} await yield_control(); await tools.other({}); return 1";
    let waiting = client.exec(code).await;
    // They may overtake each other on the way to the client.
    let told = async |count: usize| -> Vec<String> {
        let mut steps = Vec::new();
        for _ in 0..count {
            steps.push(client.hears("notifications/progress").await);
        }
        steps.sort_by(|a, b| a["progress"].as_f64().unwrap().total_cmp(&b["progress"].as_f64().unwrap()));
        steps.iter().map(|step| step["message"].as_str().unwrap().split(" in ").next().unwrap().to_owned()).collect()
    };
    let echo = ["openclaw:core:echo …", "openclaw:core:echo done"];
    let fail = ["openclaw:core:fail …", "openclaw:core:fail failed: it broke"];
    assert_eq!(told(4).await, [echo, fail].concat());
    client.wait(&waiting).await;
    assert_eq!(told(2).await, ["openclaw:core:other …", "openclaw:core:other done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_newest_revision_is_served_and_never_asked() {
    let house = house(Surface::Code);
    let person = Person::who_can(json!({ "elicitation": { "form": {} }, "sampling": {} }));
    let client = house.connect(person.of_the_newest_revision()).await;
    assert_eq!(client.exec("return await tools.echo({ a: 1 })").await["value"], json!({ "a": 1 }));
    let waiting = client.exec("return await tools.ask({})").await;
    assert_eq!(waiting["pendingToolCalls"][0]["approvalId"], json!(house.question().id));
    let asked: Vec<String> = client.heard().await.into_iter().map(|(method, _)| method).collect();
    assert!(asked.iter().all(|method| method == "notifications/progress"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_becomes_known_or_has_other_tools_changes_what_is_shown() {
    let mut plan = Plan::new(Surface::Code);
    plan.servers = vec![("late", program("mcp-fixture", "stdio"))];
    let house = planned(plan);
    let client = house.connect(Person::plain()).await;
    let shown = async || client.ask("tools/list", json!({})).await.unwrap();
    let at_first = shown().await;
    // The server becomes known while a program waits for it.
    assert_eq!(client.exec("return typeof MCP.late.testSlow").await["value"], "function");
    let known = shown().await;
    assert_ne!(known, at_first);
    client.hears("notifications/tools/list_changed").await;
    client.exec("return await MCP.late.testTriggerPromptChange({})").await;
    client.exec("return await MCP.late.testTriggerResourceChange({})").await;
    assert_eq!(shown().await, known);
    // A tool more: the description counts them.
    client.exec("return await MCP.late.testTriggerToolChange({})").await;
    while shown().await == known {
        client.hears("notifications/tools/list_changed").await;
    }
    house.servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_again_under_its_key_is_the_same_run() {
    let house = drawing();
    let exec = |key: Value, code: &'static str| {
        let house = &house;
        async move {
            // A connection of its own each time: the last one may have broken.
            let client = house.connect(Person::plain()).await;
            let meta = json!({ "pincer/idempotencyKey": key });
            let call = json!({ "name": "exec", "arguments": { "code": code }, "_meta": meta });
            client.ask("tools/call", call).await.unwrap()["structuredContent"].clone()
        }
    };
    let first = exec(json!("k1"), "return Math.random()").await;
    assert_eq!(first["status"], "completed", "{first}");
    assert_eq!(exec(json!("k1"), "return Math.random()").await["value"], first["value"]);
    assert_ne!(exec(json!("k2"), "return Math.random()").await["value"], first["value"]);
    assert_eq!(exec(json!("k1"), "return 1").await["code"], "invalid_input");
    assert_eq!(exec(json!(5), "return 1").await["code"], "invalid_input");
}
