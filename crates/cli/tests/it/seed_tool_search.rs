//! The end-to-end validation of the specification of Tool Search, step by step, through real processes.

use serde_json::{Value, json};

use crate::common::plan::{Plan, call, step, text};

fn search(mode: &str) -> String {
    format!("toolSearch: {{ mode: '{mode}' }}")
}

/// The replies of a model that calls the plugin's tool through Tool Search.
fn searching(mode: &str) -> Vec<String> {
    match mode {
        "code" => {
            let code = "const [tool] = await openclaw.tools.search('keep a short note', { limit: 1 });
                const { parameters } = await openclaw.tools.describe(tool.id);
                return await openclaw.tools.call(tool.id, { [parameters.required[0]]: 'milk' })";
            vec![call("tool_search_code", &json!({ "code": code })), text("Kept.")]
        }
        _ => vec![
            call("tool_search", &json!({ "query": "keep a short note" })),
            call("tool_describe", &json!({ "id": "plugin:notes:add_note" })),
            call("tool_call", &json!({ "id": "plugin:notes:add_note", "args": { "text": "milk" } })),
            text("Kept."),
        ],
    }
}

#[test]
fn direct_mode_and_tool_search_call_the_same_plugin_tool() {
    step("Direct mode can call the fake plugin tool");
    let mut plan = Plan::new("", &[call("add_note", &json!({ "text": "milk" })), text("Kept.")]);
    let direct = plan.message("direct", "Keep a note: milk.");
    assert_eq!((&direct["status"], plan.told_value(1)), (&json!("ok"), json!({ "count": 1 })), "{direct}");

    step("Direct mode exposes the fake plugin tool schemas to the provider directly");
    let request = plan.server.requests()[0].clone();
    let tools = request.body["tools"].as_array().expect("tools").clone();
    let tool = tools.iter().find(|tool| tool["function"]["name"] == "add_note").expect("the tool");
    assert_eq!(tool["function"]["parameters"]["required"], json!(["text"]));
    let whole = request.text.len();

    for (mode, visible, calls) in [
        ("code", vec!["tool_search_code"], [1, 1, 1]),
        ("tools", vec!["tool_search", "tool_describe", "tool_call"], [1, 1, 1]),
    ] {
        step(&format!("Tool Search can call the same fake plugin tool ({mode})"));
        plan.restart(&search(mode), &searching(mode));
        let found = plan.message(mode, "Keep a note: milk.");
        assert_eq!(found["status"], "ok", "{mode}: {found}");
        let last = plan.server.requests().len() - 1;
        let told = plan.told_value(last);
        let value = if mode == "code" { &told["value"] } else { &told };
        assert!(value["count"].as_u64() > Some(1), "{mode}: {told}");

        step(&format!("Tool Search exposes only the compact bridge ({mode})"));
        assert_eq!(plan.shown(0), visible);

        step(&format!("For a large fake catalog, the Tool Search request payload is smaller ({mode})"));
        let small = plan.server.requests()[0].text.len();
        assert!(small * 2 < whole, "{mode}: {small} bytes of {whole}");
        let tools = &found["result"]["telemetry"]["tools"];
        assert!(tools["direct"]["bytes"].as_u64() > tools["tools"]["bytes"].as_u64(), "{tools}");

        step(&format!("Session logs show the expected tool-call counts and bridged call telemetry ({mode})"));
        let counted = |name: &str| tools[name].as_u64().expect("a number");
        assert_eq!([counted("searchCount"), counted("describeCount"), counted("callCount")], calls, "{tools}");
        assert_eq!(tools["calls"], json!([{ "id": "plugin:notes:add_note", "source": "plugin", "count": 1 }]));
        let shown = plan.home.run(&["sessions", "show", mode]).1;
        assert!(shown.contains("plugin:notes:add_note"), "{shown}");
        plan.home.run(&["sessions", "export", mode, "session.jsonl"]);
        let log = std::fs::read_to_string(plan.home.path("session.jsonl")).expect("the log");
        let nested = log.lines().filter(|line| line.contains("pincer.nested-call")).count();
        assert_eq!(nested, 1, "{log}");
    }
}

/// A catalog that is large in earnest: the test's own tools many times over.
#[test]
fn the_request_of_tool_search_is_smaller_the_larger_the_catalog_is() {
    step("For a large fake catalog, the Tool Search request payload is smaller");
    let properties: Value = (0..10).map(|number| (format!("member_{number}"), json!({ "type": "string" }))).collect();
    let tool = |number: usize| {
        json!({
            "name": format!("fake_{number}"), "description": format!("Does thing number {number}."),
            "parameters": { "type": "object", "properties": properties },
        })
    };
    let tools: Vec<Value> = (0..300).map(tool).collect();
    let mut sizes = Vec::new();
    for keys in ["", "toolSearch: { mode: 'code' }", "toolSearch: { mode: 'tools' }", "codeMode: true"] {
        let plan = Plan::new(keys, &[text("Hello.")]);
        std::fs::write(plan.home.path("tools.json"), json!(tools).to_string()).expect("written");
        let document = plan.message("main", "Hello.");
        assert_eq!(document["status"], "ok", "{document}");
        sizes.push(plan.server.requests()[0].text.len());
    }
    assert!(sizes[1..].iter().all(|size| size * 5 < sizes[0]), "{sizes:?}");
}

/// A machine on which the engine finds no room: the pool of its cells alone takes more.
#[cfg(target_os = "linux")]
#[test]
fn without_the_engine_programs_give_way_to_three_tools() {
    let plan = Plan::new(&search("code"), &[text("Hello."), text("Hello.")]);
    let room = 4 * 1024 * 1024;
    let (code, document, told) = plan.message_within(room, "main", "Hello.");
    assert_eq!((code, &document["status"]), (0, &json!("ok")), "{document}\n{told}");
    assert_eq!(plan.shown(0), ["tool_search", "tool_describe", "tool_call"]);
    assert_eq!(document["result"]["telemetry"]["tools"]["surface"], "tools", "{document}");
    assert!(told.contains("works in the mode \"tools\" in place of \"code\""), "{told}");

    plan.message("main", "Hello again.");
    assert_eq!(plan.shown(1), ["tool_search_code"], "with room for it the engine is used");
}
