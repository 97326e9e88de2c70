//! What a program sees of its tools, and how it calls them.

use crate::common::{code_of, house, says};
use pincer_store::CallId;
use pincer_tools::EventKind;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_effective_tools_but_those_of_mcp_servers_are_in_all_tools() {
    let house = house();
    let ids = house.value("return ALL_TOOLS.map((tool) => tool.id)").await;
    assert_eq!(
        ids,
        json!([
            "client:app:pick-file",
            "openclaw:core:ask",
            "openclaw:core:count",
            "openclaw:core:echo",
            "openclaw:core:fail",
            "openclaw:core:gate",
            "openclaw:core:look",
            "openclaw:core:turn"
        ])
    );
    assert_eq!(
        house.value("return ALL_TOOLS.find((tool) => tool.name === 'echo')").await,
        json!({ "id": "openclaw:core:echo", "name": "echo", "description": "A test tool called echo. Returns its input",
                "source": "openclaw", "sourceName": "core" })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_describe_and_call_work() {
    let house = house();
    let shop = crate::common::house_with(|door| {
        door.tool(crate::common::entry("plugin:shop:stock", pincer_catalog::Flags::default()), crate::common::echo())
            .unwrap()
    });
    for id in ["openclaw:core:echo", "client:app:pick-file", "plugin:shop:stock"] {
        let code = format!(
            "const found = (await tools.search('{id}', {{ limit: 1 }}))[0].id;
             return [found, (await tools.describe(found)).parameters, await tools.call(found, {{ a: 1 }})]"
        );
        assert_eq!(shop.value(&code).await, json!([id, { "type": "object" }, { "a": 1 }]), "{id}");
    }
    for (code, expected) in [
        ("return (await tools.search('echo', { limit: 1 })).map((tool) => tool.id)", json!(["openclaw:core:echo"])),
        ("return (await tools.search('test tool')).length", json!(8)),
        ("return (await tools.search('test tool', { limit: 3 })).length", json!(3)),
        ("return (await tools.search('test tool', { limit: -5 })).length", json!(1)),
        ("return (await tools.search('test tool', { limit: 1e9 })).length", json!(8)),
        ("return (await tools.search('mcp:files:read')).filter((tool) => tool.source === 'mcp')", json!([])),
        ("return (await tools.describe('echo')).parameters", json!({ "type": "object" })),
        ("return await tools.call('openclaw:core:echo', { a: [1] })", json!({ "a": [1] })),
        ("return await tools.call('echo', { a: 1 })", json!({ "a": 1 })),
        ("return await tools.echo({ b: 2 })", json!({ "b": 2 })),
        ("return await tools.echo()", json!({})),
        ("return await tools.pick_file({ c: 3 })", json!({ "c": 3 })),
        // The example of the specification.
        (
            "const files = await tools.search('echo'); const one = await tools.describe(files[0].id); return await tools.call(one.id, { path: 'x' })",
            json!({ "path": "x" }),
        ),
        (
            "return Object.isFrozen(tools) && Object.isFrozen(ALL_TOOLS) && Object.isFrozen(ALL_TOOLS[0]) && Object.isFrozen(API) && Object.isFrozen(MCP) && Object.isFrozen(namespaces)",
            json!(true),
        ),
        (
            "return [(await API.list()).map((file) => file.path), await API.list('docs'), Object.keys(MCP), Object.keys(namespaces)]",
            json!([["guest.d.ts", "mcp/files.d.ts", "mcp/index.d.ts"], [], ["$api", "files"], []]),
        ),
    ] {
        assert_eq!(house.value(code).await, expected, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_called_says_why_and_can_be_caught() {
    let house = house();
    for (call, code, says) in [
        ("tools.call('openclaw:core:hidden')", "unknown_tool", "Unknown tool: openclaw:core:hidden."),
        ("tools.call('ecko')", "unknown_tool", "Did you mean: openclaw:core:echo"),
        ("tools.describe('ecko')", "unknown_tool", "Did you mean"),
        ("tools.call('mcp:files:read', {})", "unknown_tool", "MCP"),
        ("tools.call('openclaw:codemode:exec', { code: '1' })", "unknown_tool", "Unknown tool"),
        ("tools.call('exec', { code: '1' })", "unknown_tool", "Unknown tool"),
        ("tools.call('wait', { runId: '1' })", "unknown_tool", "Unknown tool"),
        ("tools.call('tool_search', {})", "unknown_tool", "Unknown tool"),
        ("tools.call()", "invalid_input", "needs the id"),
        ("tools.call(5, {})", "invalid_input", "needs the id"),
        ("tools.search()", "invalid_input", "needs a text"),
        ("tools.echo('text')", "invalid_input", "object"),
        ("tools.fail({})", "tool_failed", "it broke"),
    ] {
        let caught = format!(
            "try {{ await {call}; return 'nothing' }} catch (e) {{ return [e instanceof Error, e.code, e.message, e.effect] }}"
        );
        let caught = house.value(&caught).await;
        assert_eq!((&caught[0], &caught[1]), (&json!(true), &json!(code)), "{call}: {caught}");
        assert!(caught[2].as_str().is_some_and(|message| message.contains(says)), "{call}: {caught}");
        let effect = if call.contains("fail") { "unknown" } else { "none" };
        assert_eq!(caught[3], effect, "{call}: {caught}");
    }
    // Uncaught, it is the end of the program, and says that it was a nested call.
    let failed = house.exec("await tools.fail({})").await;
    assert_eq!(code_of(&failed), "nested_tool_failed");
    assert!(says(&failed, "ToolError: it broke") && says(&failed, "cell.js:1:"), "{failed}");
}

/// Bug 24 of the reference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_fails_and_that_nobody_awaits_fails_the_program() {
    let failed = house().exec("tools.fail({}); return 'fine'").await;
    assert_eq!((failed["status"].as_str(), code_of(&failed)), (Some("failed"), "nested_tool_failed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_calls_are_made_before_the_program_completes() {
    let house = house();
    assert_eq!(house.value("tools.count({}); tools.count({}); return 'done'").await, "done");
    assert_eq!(house.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_parallel_calls_queue_and_all_are_made() {
    let house = house();
    let code = "return (await Promise.all(Array.from({ length: 200 }, (_, i) => tools.echo({ i })))).map((r) => r.i)";
    let value = house.value(code).await;
    assert_eq!(value, json!((0..200).collect::<Vec<_>>()));
}

/// Bug 21 of the reference: all or nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_calls_at_once_fail_and_none_of_them_is_made() {
    let house = house();
    let failed = house.exec("await Promise.all(Array.from({ length: 2000 }, () => tools.count({})))").await;
    assert_eq!(code_of(&failed), "too_many_pending_tool_calls");
    assert_eq!(house.count(), 0);
}

/// Bug 15 of the reference: results come in the order in which they settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_is_won_by_who_is_first() {
    let house = house();
    let gates = house.gates.clone();
    // The second one opens the first.
    gates.open("fast");
    let code = "const first = await Promise.race([tools.gate({ name: 'slow' }), tools.gate({ name: 'fast' })]);
        setTimeout(() => tools.echo({}), 0); text(first); return first";
    let scope = house.brief();
    let waiting = house.exec_in(&scope, code).await;
    assert_eq!(waiting["output"], json!([{ "type": "text", "text": "fast" }]));
    gates.open("slow");
    let done = house.wait_in(&scope, &waiting).await;
    assert_eq!((&done["value"], done.get("output")), (&json!("fast"), None));
}

/// Bug 30 of the reference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_run_one_at_a_time_keep_their_order() {
    let house = house();
    let order: Vec<String> = (0..20).map(|i| format!("n{i}")).collect();
    order.iter().for_each(|name| house.gates.open(name));
    let code =
        "await Promise.all(Array.from({ length: 20 }, (_, i) => tools.turn({ name: 'n' + i }).then(text))); return 1";
    let done = house.exec(code).await;
    let said: Vec<&str> =
        done["output"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect();
    assert_eq!(said, order);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_calls_are_told_under_their_exec() {
    let house = house();
    let mut scope = house.scope();
    scope.context.parent_call = Some("call_7".into());
    house.exec_in(&scope, "await tools.echo({ apiKey: 'hush' }); return 1").await;
    let events = house.events.lock().unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.parent.as_ref().map(CallId::as_str), event.tool.as_str(), &event.what))
        .collect();
    assert!(matches!(told[0], (Some("call_7"), "openclaw:core:echo", EventKind::Start { .. })), "{told:?}");
    assert!(matches!(told[1], (Some("call_7"), "openclaw:core:echo", EventKind::End { .. })), "{told:?}");
    assert!(events[0].run.as_ref().is_some_and(|run| run.as_str().starts_with("cm_")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telemetry_counts_searches_describes_and_calls() {
    let house = house();
    let code = "await tools.search('echo'); await tools.describe('echo'); await tools.echo({}); await tools.echo({}); await tools.count({}); return 1";
    let done = house.exec(code).await;
    let telemetry = &done["telemetry"];
    for (field, expected) in [
        ("searchCount", json!(1)),
        ("describeCount", json!(1)),
        ("callCount", json!(3)),
        ("nestedToolIds", json!(["openclaw:core:echo", "openclaw:core:count"])),
        ("catalogSize", json!(9)),
        ("sources", json!({ "openclaw": 7, "plugin": 0, "mcp": 1, "client": 1 })),
        ("execCount", json!(1)),
        ("waitCount", json!(0)),
    ] {
        assert_eq!(telemetry[field], expected, "{field}");
    }
    let counters = house.mode.counters();
    assert_eq!((counters.execs, counters.searches, counters.describes, counters.calls), (1, 1, 1, 3));
}
