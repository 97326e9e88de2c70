//! Runs whose model searches for its tools.

use std::time::Duration;

use pincer_agent::{ClientTool, Request, Status, Stream};
use pincer_tools::Answer;
use serde_json::{Value, json};

use crate::world::{USER, World, conversation, text, within, world, world_with_built_in_tools};

const ASK: &str = "approvals: { rules: [{ match: 'plugin:test:mark', decision: 'ask' }] }";

/// A reply that calls one tool.
fn call(name: &str, arguments: &Value) -> String {
    call_with_id("s1", name, arguments)
}

fn call_with_id(id: &str, name: &str, arguments: &Value) -> String {
    format!("{{ parts: [{{ call: {{ id: '{id}', name: '{name}', arguments: {arguments} }} }}] }}")
}

fn program(code: &str) -> String {
    call("tool_search_code", &json!({ "code": code }))
}

/// A config with Tool Search in this mode, and other keys of `tools`.
fn mode(mode: &str, tools: &str) -> String {
    format!("tools: {{ toolSearch: {{ mode: '{mode}' }}, {tools} }}")
}

/// The result of the last call that a request has, as the model reads it.
fn told(world: &World, request: usize) -> String {
    let messages = world.server.requests()[request].body["messages"].clone();
    let last = messages.as_array().expect("messages").iter().rfind(|message| message["role"] == "tool");
    last.expect("a result")["content"].as_str().expect("a text").to_owned()
}

fn told_json(world: &World, request: usize) -> Value {
    let told = told(world, request);
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"))
}

fn instructions(world: &World, request: usize) -> String {
    world.server.requests()[request].body["messages"][0]["content"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_tools_find_describe_and_call_the_others() {
    let replies = [
        call_with_id("s1", "tool_search", &json!({ "query": "mark" })),
        call_with_id("s2", "tool_describe", &json!({ "id": "plugin:test:mark" })),
        call_with_id("s3", "tool_call", &json!({ "id": "plugin:test:mark", "args": { "n": 7 } })),
        text("Done."),
    ];
    let world = world(&conversation(&replies), &mode("tools", ""));
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Done.".to_owned()), "{outcome:?}");
    assert_eq!(world.shown(0), ["tool_search", "tool_describe", "tool_call"]);
    assert_eq!(told_json(&world, 1)[0]["id"], "plugin:test:mark");
    assert_eq!(told_json(&world, 2)["parameters"]["type"], "object");
    assert_eq!(told(&world, 3), "{\"did\":7}");
    assert_eq!(world.effects.all(), ["mark 7"]);
    assert_eq!(
        world.entries().await,
        [
            "user: Do it.",
            "assistant: call tool_search",
            "result s1",
            "assistant: call tool_describe",
            "result s2",
            "assistant: call tool_call",
            "result s3",
            "nested plugin:test:mark line null",
            "assistant: Done.",
        ]
    );
    let tools = outcome.result.telemetry.tools.clone().unwrap_or_default();
    assert_eq!((tools.surface.as_str(), tools.schemas_shown, tools.hint_count), ("tools", 3, 0));
    assert_eq!((tools.search_count, tools.describe_count, tools.call_count), (1, 1, 1));
    assert_eq!(
        tools.calls.iter().map(|call| (call.id.as_str(), call.source.as_str(), call.count)).collect::<Vec<_>>(),
        [("plugin:test:mark", "plugin", 1)]
    );
    assert_eq!(tools.catalog_size, tools.sources.plugin);
    // The call has an id of its own in events, made of that of its parent.
    let events = world.events(&run, 1).await;
    let nested = events.iter().filter(|event| {
        event.stream == Stream::Tool && event.data.get("parentToolCallId").is_some_and(|parent| parent == "s3")
    });
    let nested: Vec<(&str, String)> =
        nested.map(|event| (event.phase(), event.data["toolCallId"].as_str().expect("an id").to_owned())).collect();
    let id = nested[0].1.clone();
    assert!(id.starts_with("tool_call:s3:mark:"), "{id}");
    assert_eq!(nested, [("start", id.clone()), ("result", id)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_finds_and_calls_the_others() {
    let code = "const [tool] = await openclaw.tools.search('mark', { limit: 1 });\n\
                const { parameters } = await openclaw.tools.describe(tool.id);\n\
                console.log(parameters.type);\n\
                return await openclaw.tools.call(tool.id, { n: 3 });";
    let world = world(&conversation(&[program(code), text("Done.")]), &mode("code", ""));
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.text(), "Done.", "{outcome:?}");
    assert_eq!(world.shown(0), ["tool_search_code"]);
    let told = told_json(&world, 1);
    assert_eq!((&told["ok"], &told["value"], &told["logs"]), (&json!(true), &json!({ "did": 3 }), &json!(["object"])));
    let counted = &told["telemetry"];
    assert_eq!(
        (&counted["searchCount"], &counted["describeCount"], &counted["callCount"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert!(counted["catalogSize"].as_u64() > Some(5) && counted["sources"]["plugin"].as_u64() > Some(5), "{counted}");
    assert_eq!(world.entries().await[3], "nested plugin:test:mark line 4");
    let tools = outcome.result.telemetry.tools.clone().unwrap_or_default();
    assert_eq!((tools.surface.as_str(), tools.search_count, tools.describe_count), ("code", 1, 1));
    assert_eq!((tools.call_count, tools.calls[0].id.as_str()), (1, "plugin:test:mark"));
    let events = world.events(&run, 1).await;
    let id = events
        .iter()
        .filter(|event| event.data.contains_key("parentToolCallId"))
        .map(|event| event.data["toolCallId"].as_str().expect("an id"))
        .next()
        .expect("an event of the call");
    assert!(id.starts_with("tool_search_code:s1:mark:"), "{id}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_program_says_what_failed() {
    let replies = [
        program("console.warn('before'); await openclaw.tools.call('plugin:test:fail', {}); return 1"),
        program("return tools.look({})"),
        program("return await openclaw.tools.call('mark', { n: 1, args: 5 }, 7)"),
        text("Done."),
    ];
    let world = world(&conversation(&replies), &mode("code", ""));
    world.ask("Do it.").await;
    let told_first = told_json(&world, 1);
    assert_eq!((&told_first["ok"], &told_first["logs"]), (&json!(false), &json!(["before"])));
    assert!(told_first["error"].as_str().is_some_and(|error| error.contains("it is broken")), "{told_first}");
    let none = told_json(&world, 2);
    assert!(none["error"].as_str().is_some_and(|error| error.contains("tools")), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_within_a_program_suspends_the_run_and_waiting_never_appears() {
    let code = "const before = await openclaw.tools.call('look', { n: 1 }); console.log('asking');\n\
                await openclaw.tools.call('mark', { n: 2 }); return before";
    let config = format!("{}, {ASK}", mode("code", ""));
    let world = world(&conversation(&[program(code), text("Done.")]), &config);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.approvals.len()), (Status::Waiting, 1), "{outcome:?}");
    world.dies().await;
    let other = world.another();
    other.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "a person").await.expect("stored");
    other.agent.engage(USER, &other.key());
    let outcome = other.outcome(&run).await;
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Done.".to_owned()), "{outcome:?}");
    assert_eq!(world.effects.all(), ["look 1", "mark 2"], "no call is made twice");
    let told = told_json(&world, 1);
    assert_eq!((&told["value"], &told["logs"]), (&json!({ "did": 1 }), &json!(["asking"])));
    assert_eq!(world.server.requests().len(), 2, "the model hears nothing of the wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_found_tool_suspends_the_run() {
    let reply = call("tool_call", &json!({ "id": "mark", "args": { "n": 2 } }));
    let world = world(&conversation(&[reply, text("Done.")]), &format!("{}, {ASK}", mode("tools", "")));
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.approvals.len()), (Status::Waiting, 1), "{outcome:?}");
    world.dies().await;
    let other = world.another();
    other.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "a person").await.expect("stored");
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&run).await.text(), "Done.");
    assert_eq!(world.effects.all(), ["mark 2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_question_is_the_result_of_the_call() {
    for (mode_name, reply) in [
        ("tools", call("tool_call", &json!({ "id": "mark", "args": { "n": 2 } }))),
        ("directory", call("mark", &json!({ "n": 2 }))),
        ("code", program("return await openclaw.tools.call('mark', { n: 2 })")),
    ] {
        let world = world(&conversation(&[reply, text("Then not.")]), &format!("{}, {ASK}", mode(mode_name, "")));
        let run = world.send("Do it.").await;
        let outcome = world.outcome(&run).await;
        assert_eq!(outcome.approvals.len(), 1, "{mode_name}: {outcome:?}");
        world.agent.answer(&outcome.approvals[0].approval_id, Answer::Deny, "a person").await.expect("stored");
        assert_eq!(world.outcome(&run).await.text(), "Then not.", "{mode_name}");
        let told = told(&world, 1);
        assert!(told.contains("denied"), "{mode_name}: {told}");
        assert_eq!(world.effects.all(), [""; 0], "{mode_name}");
    }
}

/// The guest's own time counts, over all continuations, and not that of its calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_wait_long_for_a_call_but_not_compute_for_long() {
    let slow = "await openclaw.tools.call('gate', { n: 1 }); return 'waited'";
    let busy = "for (;;) { if (Date.now() % 7 === 8) await null }";
    let replies = [program(slow), program(busy), text("Done.")];
    let config =
        "tools: { toolSearch: { mode: 'code', codeTimeoutMs: 1000 }, codeMode: { enabled: false, timeoutMs: 1000 } }";
    let world = world(&conversation(&replies), config);
    let run = world.send("Do it.").await;
    world.busy(1).await;
    // Longer than the program may compute, and longer than one `exec` drains: the program is suspended meanwhile.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    world.gate.add_permits(1);
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.text(), "Done.", "{outcome:?}");
    assert_eq!(told_json(&world, 1)["value"], "waited");
    let ended = told_json(&world, 2);
    assert!(
        ended["error"].as_str().is_some_and(|error| error.contains("1000 ms") || error.contains("time")),
        "{ended}"
    );
    assert!(!world.server.requests()[2].body.to_string().contains("waiting"), "the model never reads it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_policy_denies_is_not_found_and_not_called() {
    let denied = "deny: ['plugin:test:mark']";
    let tools = [
        call_with_id("a", "tool_search", &json!({ "queries": ["mark", "plugin:test:mark"] })),
        call_with_id("b", "tool_describe", &json!({ "id": "plugin:test:mark" })),
        call_with_id("c", "tool_call", &json!({ "id": "plugin:test:mark", "args": { "n": 1 } })),
        call_with_id("d", "mark", &json!({ "n": 1 })),
        call_with_id("e", "plugin:test:mark", &json!({ "n": 1 })),
        text("Done."),
    ];
    for mode_name in ["tools", "directory"] {
        let world = world(&conversation(&tools), &mode(mode_name, denied));
        assert_eq!(world.ask("Mark it.").await.text(), "Done.");
        assert!(!told(&world, 1).contains("Does mark"), "{mode_name}: {}", told(&world, 1));
        for request in 2..=5 {
            let told = told(&world, request);
            assert!(told.contains("There is no tool") || told.contains("nknown tool"), "{mode_name} {request}: {told}");
        }
        assert!(!world.server.requests()[0].body.to_string().contains("mark ("), "{mode_name}");
        assert_eq!(world.effects.all(), [""; 0], "{mode_name}");
    }
    let code = "const tried = [await openclaw.tools.search('mark')];\n\
                const { describe, call } = openclaw.tools;\n\
                for (const how of [describe, (id) => call(id, { n: 1 })]) for (const id of ['mark', 'plugin:test:mark'])\n\
                  tried.push(await how(id).catch((error) => error.message));\n\
                return tried";
    let world = world(&conversation(&[program(code), text("Done.")]), &mode("code", denied));
    world.ask("Do it.").await;
    let tried = told_json(&world, 1)["value"].clone();
    assert!(tried[0].as_array().expect("a list").iter().all(|tool| tool["name"] != "mark"), "{tried}");
    for number in 1..5 {
        assert!(tried[number].as_str().is_some_and(|error| error.contains("nknown tool")), "{tried}");
    }
    assert_eq!(world.effects.all(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_mean_one_thing_are_understood_and_others_refused_with_the_shape() {
    let replies = [
        call_with_id("a", "tool_call", &json!({ "toolId": "read", "input": { "path": "a.txt" } })),
        call_with_id("b", "tool_call", &json!({ "name": "read", "path": "a.txt" })),
        call_with_id("c", "tool_call", &json!({ "id": "read", "args.path": "a.txt" })),
        call_with_id("d", "tool_call", &json!({ "id": "read", "args": { "path": "a.txt" }, "colour": 1 })),
        call_with_id("e", "tool_call", &json!({ "id": "read", "args": "a.txt" })),
        text("Done."),
    ];
    let world = world_with_built_in_tools(&conversation(&replies), &mode("tools", ""));
    std::fs::write(world.directory.path().join("workspace/a.txt"), "Hello.").expect("written");
    world.ask("Read the file a.txt.").await;
    for request in 1..=3 {
        assert!(told(&world, request).contains("Hello."), "{}", told(&world, request));
    }
    for request in 4..=5 {
        let told = told(&world, request);
        assert!(told.contains("Expected input") && told.contains("path"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_named_in_search_results() {
    let servers = "mcp: { servers: { tickets: { command: '/no/such/program' } } }";
    let searches = [call("tool_search", &json!({ "query": "create a ticket" })), text("Done.")];
    let world_of_tools = world(&conversation(&searches), &format!("{}, {servers}", mode("tools", "")));
    world_of_tools.ask("Create a ticket.").await;
    let found = told_json(&world_of_tools, 1);
    let down = found.as_array().and_then(|found| found.last()).expect("the server").clone();
    assert_eq!(down["unavailable"][0]["server"], "tickets", "{found}");
    let replies = [program("return await openclaw.tools.search('ticket')"), text("Done.")];
    let world = world(&conversation(&replies), &format!("{}, {servers}", mode("code", "")));
    world.ask("Create a ticket.").await;
    let found = told_json(&world, 1);
    assert!(found["logs"][0].as_str().is_some_and(|line| line.contains("tickets is unavailable")), "{found}");
    assert!(found["value"].as_array().is_some(), "a program gets tools and nothing else: {found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_mode_takes_the_place_of_tool_search() {
    let world = world(&conversation(&[text("Hi.")]), "tools: { codeMode: true, toolSearch: { mode: 'directory' } }");
    let outcome = world.ask("Hello.").await;
    assert_eq!(world.shown(0), ["exec", "wait"]);
    assert!(!world.server.requests()[0].body.to_string().contains("tool_search"));
    assert_eq!(outcome.result.telemetry.tools.clone().unwrap_or_default().surface, "codeMode");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_search_is_off_unless_it_is_asked_for_and_not_for_runs_without_tools() {
    for config in ["", "tools: { toolSearch: false }", "tools: { toolSearch: { enabled: false, mode: 'tools' } }"] {
        let world = world(&conversation(&[text("Hi.")]), config);
        world.ask("Hello.").await;
        assert!(world.shown(0).contains(&"mark".to_owned()), "{config}: {:?}", world.shown(0));
    }
    for (config, shown) in [
        ("tools: { toolSearch: true }", "tool_search_code"),
        ("tools: { toolSearch: { maxSearchLimit: 5 } }", "tool_search_code"),
    ] {
        let world = world(&conversation(&[text("Hi."), text("Hi.")]), config);
        world.ask("Hello.").await;
        assert_eq!(world.shown(0), [shown], "{config}");
        let run = world.submit(Request { disable_tools: true, ..Request::new("Hello again.") }).await;
        let outcome = world.outcome(&run).await;
        assert_eq!(world.shown(1), [""; 0]);
        assert_eq!(outcome.result.telemetry.tools.clone().unwrap_or_default().surface, "none");
    }
    let world = world(&conversation(&[text("Hi.")]), "tools: { toolSearch: true, deny: ['*'] }");
    world.ask("Hello.").await;
    assert_eq!(world.shown(0), [""; 0], "there is nothing to search for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_lists_trusted_tools_and_a_hidden_one_is_run_by_its_name() {
    let replies = [
        call_with_id("a", "ls", &json!({})),
        call_with_id("b", "openclaw:core:ls", &json!({})),
        call_with_id("c", "nothing_of_that_name", &json!({})),
        text("Done."),
    ];
    let world = world_with_built_in_tools(&conversation(&replies), &mode("directory", ""));
    std::fs::write(world.directory.path().join("workspace/a.txt"), "Hello.").expect("written");
    let outcome = world.ask("What is there?").await;
    assert_eq!(outcome.text(), "Done.", "{outcome:?}");
    let listed = instructions(&world, 0);
    assert!(listed.contains("Available deferred-schema tools:") && listed.contains("- ls (core): "), "{listed}");
    assert!(!listed.contains("Does mark"), "the words of a plugin that is not trusted: {listed}");
    assert!(!world.shown(0).contains(&"ls".to_owned()), "{:?}", world.shown(0));
    for request in 1..=2 {
        assert!(told(&world, request).contains("a.txt"), "{}", told(&world, request));
    }
    assert!(told(&world, 3).contains("There is no tool nothing_of_that_name"), "{}", told(&world, 3));
    assert_eq!(outcome.result.telemetry.tools.clone().unwrap_or_default().calls[0].id, "openclaw:core:ls");
    assert_eq!(outcome.result.telemetry.tools.clone().unwrap_or_default().calls[0].count, 2);
}

/// Another set of tools has the provider read the whole conversation again.
#[tokio::test(flavor = "multi_thread")]
async fn likely_schemas_are_added_within_a_session_and_never_swapped() {
    let replies = vec![text("Fine."); 6];
    let world = world_with_built_in_tools(&conversation(&replies), &mode("directory", ""));
    let controls = ["tool_search", "tool_describe", "tool_call"];
    world.ask("Hello.").await;
    assert_eq!(world.shown(0), controls);
    world.ask("Please read the file notes.md of the workspace.").await;
    let second = world.shown(1);
    assert_eq!(second[..3], controls);
    assert_eq!(second[3], "read", "{second:?}");
    world.ask("Hello again.").await;
    assert_eq!(world.shown(2), second, "the tools stay");
    world.dies().await;
    let other = world.another();
    other.ask("Write a file with the content of the others, creating it.").await;
    let fourth = other.shown(3);
    assert_eq!(fourth[..second.len()], second[..], "also in another process");
    assert!(fourth.len() > second.len() && fourth.contains(&"write".to_owned()), "{fourth:?}");
    // What is shown with its schema is not listed, and the list changes for nothing else.
    assert!(instructions(&other, 0).contains("- read (core)") && !instructions(&other, 2).contains("- read (core)"));
    let directory = |request: usize| {
        let text = instructions(&other, request);
        let from = text.find("Available deferred").expect("a list");
        text[from..from + text[from..].find("Find the other tools").expect("its end")].to_owned()
    };
    assert_eq!(directory(1), directory(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_tools_stay_direct_in_a_directory_and_may_have_no_name_of_another() {
    let tool = |name: &str| ClientTool {
        name: name.into(),
        description: "Asks the sender.".into(),
        ..serde_json::from_value::<ClientTool>(json!({ "name": name })).expect("a tool")
    };
    let world = world(&conversation(&[text("Hi.")]), &mode("directory", ""));
    let run = world.submit(Request { client_tools: vec![tool("ask_sender")], ..Request::new("Hello.") }).await;
    world.outcome(&run).await;
    assert_eq!(world.shown(0), ["tool_search", "tool_describe", "tool_call", "ask_sender"]);
    for name in ["mark", "tool_search", "tool_call"] {
        let run = world.submit(Request { client_tools: vec![tool(name)], ..Request::new("Hello.") }).await;
        let outcome = world.outcome(&run).await;
        assert!(outcome.error.as_deref().is_some_and(|error| error.contains(name)), "{name}: {outcome:?}");
    }
    assert_eq!(world.server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_tools_are_found_and_run_by_their_sender_in_the_other_modes() {
    let tool: ClientTool = serde_json::from_value(json!({
        "name": "ask_sender", "description": "Asks the sender for a number.",
    }))
    .expect("a tool");
    for (mode_name, reply) in [
        ("tools", call("tool_call", &json!({ "id": "ask_sender", "args": { "n": 1 } }))),
        ("code", program("return await openclaw.tools.call('ask_sender', { n: 1 })")),
    ] {
        let world = world(&conversation(&[reply, text("Done.")]), &mode(mode_name, ""));
        let run = world.submit(Request { client_tools: vec![tool.clone()], ..Request::new("Ask.") }).await;
        let outcome = world.outcome(&run).await;
        assert_eq!((outcome.status, outcome.client_calls.len()), (Status::Waiting, 1), "{mode_name}: {outcome:?}");
        let call = outcome.client_calls[0].call_id.clone();
        world.agent.answer_client(USER, &run, &call, Ok(json!(42))).await.expect("taken");
        assert_eq!(world.outcome(&run).await.text(), "Done.", "{mode_name}");
        assert!(told(&world, 1).contains("42"), "{mode_name}: {}", told(&world, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_used_no_tool_is_told_once_of_those_that_fit() {
    let replies = vec![text("I cannot read files."), text("Ah."), text("Well.")];
    let asked = "Please read the file notes.md of the workspace.";
    // A name that the model has read is told as it stands there, and any other tool by its id.
    let hints = [("tools", Some("openclaw:core:read")), ("directory", Some("read")), ("code", None)];
    for (mode_name, hint) in hints {
        let names = hint.is_some();
        let world = world_with_built_in_tools(&conversation(&replies), &mode(mode_name, ""));
        let first = world.ask(asked).await;
        assert_eq!(first.result.telemetry.tools.clone().unwrap_or_default().hint_count, 0);
        let second = world.ask("Really?").await;
        assert_eq!(
            second.result.telemetry.tools.clone().unwrap_or_default().hint_count,
            u32::from(names),
            "{mode_name}"
        );
        let sent = world.server.requests()[1].body["messages"].to_string();
        let told = sent.split("these tools fit its words: ").nth(1).and_then(|told| told.split('.').next());
        assert_eq!(told, hint, "{mode_name}: {sent}");
        world.ask("Hm.").await;
        let sent = world.server.requests()[2].body["messages"].to_string();
        assert_eq!(sent.matches("these tools fit").count(), usize::from(names), "{mode_name}");
    }
    // A key of the config decides in each mode.
    for (config, names) in [("mode: 'code', hints: true", true), ("mode: 'tools', hints: false", false)] {
        let config = format!("tools: {{ toolSearch: {{ {config} }} }}");
        let world = world_with_built_in_tools(&conversation(&replies), &config);
        world.ask(asked).await;
        let second = world.ask("Really?").await;
        assert_eq!(second.result.telemetry.tools.clone().unwrap_or_default().hint_count, u32::from(names), "{config}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_gone_is_not_called() {
    let replies = [
        call_with_id("a", "tool_search", &json!({ "query": "mark" })),
        text("Found."),
        call_with_id("b", "tool_call", &json!({ "id": "plugin:test:mark", "args": { "n": 1 } })),
        text("Gone."),
    ];
    let world = world(&conversation(&replies), &mode("tools", ""));
    assert_eq!(world.ask("Search.").await.text(), "Found.");
    assert_eq!(told_json(&world, 1)[0]["id"], "plugin:test:mark");
    world.dies().await;
    let other = world.another_with(&mode("tools", "deny: ['plugin:test:mark']"));
    assert_eq!(other.ask("Call.").await.text(), "Gone.");
    assert!(told(&other, 3).contains("nknown tool"), "{}", told(&other, 3));
    assert_eq!(world.effects.all(), [""; 0]);
}

/// A found tool may change something: when the process dies in it, it is not made again.
#[tokio::test(flavor = "multi_thread")]
async fn a_found_tool_that_was_interrupted_is_not_called_again() {
    let reply = call("tool_call", &json!({ "id": "gate", "args": { "n": 1 } }));
    let world = world(&conversation(&[reply, text("Checked.")]), &mode("tools", ""));
    let run = world.send("Do it.").await;
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    other.agent.engage(USER, &other.key());
    let outcome = within(other.agent.outcome(USER, &run)).await.expect("an outcome");
    assert_eq!(outcome.text(), "Checked.", "{outcome:?}");
    assert!(told(&other, 1).contains("may or may not have run"), "{}", told(&other, 1));
}

/// The meaning of a call is stored with it, so that another process does not make another call under the same name.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_is_not_made_once_its_name_means_nothing_or_another_tool() {
    let denied = format!("{}, {ASK}", mode("tools", "deny: ['plugin:test:mark']"));
    let direct = format!("tools: {{ deny: ['plugin:test:mark'] }}, {ASK}");
    for (before, reply, after) in [
        ("tools", call("tool_call", &json!({ "id": "mark", "args": { "n": 1 } })), &denied),
        ("tools", call("tool_call", &json!({ "id": "mark", "args": { "n": 1 } })), &direct),
        ("directory", call("mark", &json!({ "n": 1 })), &denied),
    ] {
        let world = world(&conversation(&[reply, text("Then not.")]), &format!("{}, {ASK}", mode(before, "")));
        let run = world.send("Do it.").await;
        let outcome = world.outcome(&run).await;
        assert_eq!(outcome.status, Status::Waiting, "{before}: {outcome:?}");
        world.dies().await;
        let other = world.another_with(after);
        other.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "a person").await.expect("stored");
        other.agent.engage(USER, &other.key());
        assert_eq!(other.outcome(&run).await.text(), "Then not.", "{before} {after}");
        let told = told(&other, 1);
        assert!(told.contains("plugin:test:mark") || told.starts_with("mark "), "{before} {after}: {told}");
        assert!(told.contains("was not called"), "{before} {after}: {told}");
        assert_eq!(world.effects.all(), [""; 0], "{before} {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_go_on_in_another_mode_is_told_as_interrupted() {
    let code = "await openclaw.tools.call('look', { n: 1 }); return await openclaw.tools.call('mark', { n: 2 })";
    let before = format!("{}, {ASK}", mode("code", ""));
    let world = world(&conversation(&[program(code), text("Then not.")]), &before);
    let run = world.send("Do it.").await;
    let outcome = world.outcome(&run).await;
    assert_eq!(outcome.status, Status::Waiting, "{outcome:?}");
    world.dies().await;
    let other = world.another_with(&format!("{}, {ASK}", mode("tools", "")));
    other.agent.answer(&outcome.approvals[0].approval_id, Answer::AllowOnce, "a person").await.expect("stored");
    other.agent.engage(USER, &other.key());
    assert_eq!(other.outcome(&run).await.text(), "Then not.");
    let told = told(&other, 1);
    assert!(told.contains("tool_search_code was interrupted") && told.contains("Of its calls, 1 had ended"), "{told}");
    assert_eq!(world.effects.all(), ["look 1"]);
    assert!(
        other.entries().await.contains(&"nested plugin:test:look line 1".to_owned()),
        "the call is in the transcript"
    );
}
