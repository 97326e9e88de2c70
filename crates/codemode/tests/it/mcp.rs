//! `MCP`, `$api()` and `API`: the tools of MCP servers, as programs have them.

use std::sync::Arc;

use crate::common::{House, deny};
use pincer_catalog::{Entry, Flags};
use pincer_codemode::{CodeModeResult, ExecInput};
use pincer_tools::{FnTool, Server, ServerState, Tool, ToolCall, ToolError};
use serde_json::{Value, json};

/// A tool that says what it was called with, as servers do.
fn says() -> Arc<dyn Tool> {
    Arc::new(FnTool(|call: ToolCall| async move {
        let result = json!({ "content": [{ "type": "text", "text": call.input.to_string() }], "structuredContent": call.input, "x-extra": 1 });
        Ok::<Value, ToolError>(result)
    }))
}

fn gives(value: Value) -> Arc<dyn Tool> {
    Arc::new(FnTool(move |_: ToolCall| {
        let value = value.clone();
        async move { Ok::<Value, ToolError>(value) }
    }))
}

fn tool(id: &str, schema: Value) -> Entry {
    let mut entry = Entry::new(id.parse().unwrap(), format!("Does */ what {id} does"));
    entry.input_schema = schema;
    entry
}

fn any() -> Value {
    json!({ "type": "object" })
}

/// A house with a server `git-hub`, one that is down and was never heard of, one that is down but known, and one that starts.
fn house() -> House {
    let house = crate::common::house();
    let issue = json!({
        "type": "object",
        "properties": { "title": { "type": "string" }, "labels": { "type": "array", "default": ["new"] }, "body": { "type": "string" } },
        "required": ["title"],
    });
    let mut found = tool("mcp:git-hub:find", any());
    found.output_schema = Some(json!({ "type": "object", "properties": { "count": { "type": "integer" } } }));
    let image = json!({ "content": [
        { "type": "text", "text": "here" },
        { "type": "image", "data": "aGVsbG8gd29ybGQ=", "mimeType": "image/png" },
        { "type": "resource", "resource": { "uri": "file:///a", "mimeType": "application/pdf", "blob": "AAEC" } },
    ] });
    house.door.set_server(Server {
        name: "git-hub".into(),
        state: ServerState::Available,
        tools: vec![
            (tool("mcp:git-hub:create_issue", issue).into(), says()),
            (tool("mcp:git-hub:create-issue", any()).into(), says()),
            (tool("mcp:git-hub:delete", any()).into(), says()),
            (tool("mcp:git-hub:$api", any()).into(), says()),
            (tool("mcp:git-hub:resources", any()).into(), says()),
            (found.into(), gives(json!({ "structuredContent": { "count": 3 } }))),
            (
                tool("mcp:git-hub:wrong", any()).into(),
                gives(json!({ "content": [{ "type": "text", "text": "no such repo" }], "isError": true })),
            ),
            (tool("mcp:git-hub:draw", any()).into(), gives(image)),
            (tool("mcp:git-hub:resources/read", json!({ "type": "object", "required": ["uri"] })).into(), says()),
            (tool("mcp:git-hub:resources/list", any()).into(), gives(json!({ "resources": [] }))),
            (tool("mcp:git-hub:prompts/get", any()).into(), says()),
            (tool("mcp:git-hub:hidden", any()).into(), says()),
        ],
    });
    let down = |name: &str, tools| Server {
        name: name.into(),
        state: ServerState::Down("ended (exit status: 7)".into()),
        tools,
    };
    house.door.set_server(down("lost", Vec::new()));
    house.door.set_server(down("away", vec![(tool("mcp:away:look", any()).into(), says())]));
    house.door.set_server(Server { name: "young".into(), state: ServerState::Starting, tools: Vec::new() });
    house
}

async fn check(house: &House, cases: &[(&str, Value)]) {
    for (code, expected) in cases {
        assert_eq!(house.value(code).await, *expected, "{code}");
    }
}

/// Bugs 7 and 8 of the reference: calls are drained in the same `exec`, and structured content is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_called_with_one_object_and_their_results_are_as_they_were_sent() {
    let house = house();
    check(
        &house,
        &[
            ("return await MCP.gitHub.delete2({ a: 1 })", json!({
                "content": [{ "type": "text", "text": "{\"a\":1}" }], "structuredContent": { "a": 1 }, "x-extra": 1,
            })),
            ("return (await MCP.gitHub.createIssue2({ title: 't' })).structuredContent", json!({ "title": "t", "labels": ["new"] })),
            ("return (await MCP.gitHub.createIssue2({ title: 't', labels: [] })).structuredContent", json!({ "title": "t", "labels": [] })),
            ("return (await MCP.gitHub.createIssue()).structuredContent", json!({})),
            ("return unwrap(await MCP.gitHub.find({}))", json!({ "count": 3 })),
            ("return (await MCP.gitHub.wrong({})).isError", json!(true)),
            ("try { unwrap(await MCP.gitHub.wrong({})) } catch (e) { return e.message }", json!("no such repo")),
            ("return (await MCP.gitHub.resources.read({ uri: 'x:y' })).structuredContent", json!({ "uri": "x:y" })),
            ("return await MCP.gitHub.resources.list()", json!({ "resources": [] })),
            ("return (await MCP.gitHub.prompts.get({ name: 'p' })).structuredContent", json!({ "name": "p" })),
            ("return (await Promise.all([1, 2, 3].map((n) => MCP.gitHub.delete2({ n })))).map((r) => r.structuredContent.n)", json!([1, 2, 3])),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_in_camel_case_frozen_and_told_apart() {
    let house = house();
    check(
        &house,
        &[
            ("return Object.keys(MCP)", json!(["$api", "away", "files", "gitHub", "lost", "young"])),
            (
                "return Object.keys(MCP.gitHub)",
                json!([
                    "$api",
                    "$serverName",
                    "resources",
                    "prompts",
                    "$api2",
                    "createIssue",
                    "createIssue2",
                    "delete2",
                    "draw",
                    "find",
                    "resources2",
                    "wrong",
                ]),
            ),
            ("return MCP.gitHub.$serverName", json!("git-hub")),
            (
                "return Object.isFrozen(MCP) && Object.isFrozen(MCP.gitHub) && Object.isFrozen(MCP.gitHub.resources)",
                json!(true),
            ),
            ("MCP.gitHub.find = 1; return typeof MCP.gitHub.find", json!("function")),
            ("return ALL_TOOLS.some((tool) => tool.source === 'mcp')", json!(false)),
            ("return (await tools.search('issue create find')).some((tool) => tool.source === 'mcp')", json!(false)),
            ("return 'find' in tools", json!(false)),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_said_before_anybody_is_bothered() {
    let house = house();
    for (call, says) in [
        ("MCP.gitHub.createIssue2({})", "MCP.gitHub.createIssue2 needs `title`. Expected input: {"),
        ("MCP.gitHub.createIssue2('t')", "MCP.gitHub.createIssue2 takes one object"),
        ("MCP.gitHub.createIssue2({ title: 't' }, 2)", "takes one object"),
        ("MCP.gitHub.resources.read({})", "MCP.gitHub.resources.read needs `uri`"),
        ("MCP.gitHub.$api('nope')", "the MCP server git-hub has no tool nope"),
        ("MCP.gitHub.$api('create_isue')", "did you mean"),
        ("tools.call('mcp:git-hub:find', {})", "call it as a function of MCP"),
        ("tools.describe('mcp:git-hub:find')", "call it as a function of MCP"),
    ] {
        let message =
            house.value(&format!("try {{ await {call} }} catch (e) {{ return [e.message, e.effect] }}")).await;
        assert!(message[0].as_str().unwrap().contains(says), "{call}: {message}");
    }
    assert!(house.events.lock().unwrap().is_empty(), "nothing came to the door");
    let failed = house.exec("return await MCP.gitHub.serch({})").await;
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("the MCP server git-hub has no tool serch"), "{error}");
    let failed = house.exec("return await MCP.githubb.find({})").await;
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("undefined"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_named_as_down_everywhere() {
    let house = house();
    let caught =
        |call: &str| format!("try {{ await {call} }} catch (e) {{ return [e.name, e.message, e.effect, e.toolId] }}");
    let lost = house.value(&caught("MCP.lost.anything({ a: 1 })")).await;
    assert_eq!(
        lost,
        json!(["ToolError", "the MCP server lost is down: it ended (exit status: 7)", "none", "mcp:lost:anything"])
    );
    let young = house.value(&caught("MCP.young.x()")).await;
    assert!(young[1].as_str().unwrap().contains("still starting"), "{young}");
    check(
        &house,
        &[
            ("return (await API.list('mcp/lost'))[0].description", json!("DOWN: it ended (exit status: 7)")),
            ("return (await API.list('mcp/away'))[0].description", json!("1 tool, but DOWN: it ended (exit status: 7)")),
            ("return (await MCP.$api()).servers.find((s) => s.identifier === 'lost')", json!({
                "identifier": "lost", "serverName": "lost", "toolCount": 0, "state": "down", "reason": "ended (exit status: 7)",
            })),
            ("return (await MCP.lost.$api()).server.state", json!("down")),
            ("return (await API.read('mcp/lost.d.ts')).includes('// DOWN')", json!(true)),
            // What is not known is no promise, has nothing to list, and cannot be changed.
            ("return [typeof MCP.lost.x, MCP.lost.then, Object.keys(MCP.lost), JSON.stringify(await MCP.lost)]", json!(["function", null, ["$api", "$serverName"], "{\"$serverName\":\"lost\"}"])),
            ("try { MCP.lost.x = 1 } catch {} return MCP.lost.$serverName", json!("lost")),
            // It may be back by now: what was known of it is called.
            ("return (await MCP.away.look({ a: 1 })).structuredContent", json!({ "a": 1 })),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_there_for_all_servers_for_one_and_for_a_tool() {
    let house = house();
    let root = house.value("return await MCP.$api()").await;
    assert_eq!((&root["kind"], &root["scope"]), (&json!("mcp_api"), &json!("root")));
    assert!(root["header"].as_str().unwrap().contains("mcp/gitHub.d.ts"), "{root}");
    let server = house.value("return await MCP.gitHub.$api()").await;
    assert_eq!(server["scope"], "server");
    assert_eq!(server["server"], json!({ "identifier": "gitHub", "serverName": "git-hub", "toolCount": 8 }));
    let tools = server["tools"].as_array().unwrap();
    let issue = tools.iter().find(|tool| tool["method"] == "createIssue2").unwrap();
    assert_eq!(
        *issue,
        json!({
            "method": "createIssue2", "path": "MCP.gitHub.createIssue2", "mcpTool": "create_issue", "operation": "tool",
            "description": "Does */ what mcp:git-hub:create_issue does",
        })
    );
    assert!(tools.iter().any(|tool| tool["operation"] == "resources.read"));
    for asked in ["'create_issue', { schema: true }", "'createIssue2', { schema: true }"] {
        let tool = house.value(&format!("return await MCP.gitHub.$api({asked})")).await;
        assert_eq!(tool["scope"], "tool");
        assert_eq!(tool["tools"].as_array().unwrap().len(), 1);
        assert_eq!(tool["schemas"]["createIssue2"]["required"], json!(["title"]));
    }
    assert_eq!(house.value("return (await MCP.gitHub.$api()).schemas ?? null").await, json!(null));
    assert!(
        house.value("return (await MCP.gitHub.$api({ schema: true })).schemas").await.as_object().unwrap().len() > 5
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declarations_are_files_that_describe_what_is_visible() {
    let house = house();
    check(
        &house,
        &[
            (
                "return (await API.list('mcp')).map((file) => file.path)",
                json!(["mcp/away.d.ts", "mcp/files.d.ts", "mcp/gitHub.d.ts", "mcp/index.d.ts", "mcp/lost.d.ts", "mcp/young.d.ts"]),
            ),
            ("return JSON.stringify(await API.list('mcp/')) === JSON.stringify(await API.list('mcp'))", json!(true)),
            ("const [file] = await API.list('mcp/gitHub'); return file.bytes === new TextEncoder().encode(await API.read(file.path)).length", json!(true)),
        ],
    )
    .await;
    let text = house.value("return await API.read('mcp/gitHub.d.ts')").await;
    let text = text.as_str().unwrap();
    for part in [
        "declare namespace MCP.gitHub {",
        "function createIssue2(input: {",
        "labels?: unknown[];",
        "Does *\\/ what",
        "Promise<McpToolResult<{",
        "count?: number;",
        "namespace resources {",
        "function $api(toolName?: string",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    for path in ["mcp/nope.d.ts", "mcp/../x", "/mcp/index.d.ts", "./mcp"] {
        let refused =
            house.value(&format!("try {{ await API.read({path:?}) }} catch (e) {{ return 'refused' }}")).await;
        assert_eq!(refused, "refused", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_tool_or_server_is_in_no_view() {
    let mut house = house();
    house.policy = deny(&["git-hub__hidden", "away__*", "lost__*"]);
    check(
        &house,
        &[
            ("return Object.keys(MCP)", json!(["$api", "files", "gitHub", "young"])),
            ("return 'hidden' in MCP.gitHub", json!(false)),
            ("return (await API.read('mcp/gitHub.d.ts')).includes('hidden')", json!(false)),
            ("return (await MCP.gitHub.$api()).tools.some((tool) => tool.mcpTool === 'hidden')", json!(false)),
        ],
    )
    .await;
    house.policy = deny(&["bundle-mcp"]);
    check(
        &house,
        &[(
            "return [Object.keys(MCP), (await API.list()).map((file) => file.path)]",
            json!([["$api"], ["guest.d.ts"]]),
        )],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_data_is_a_reference_in_the_program_and_itself_in_the_answer() {
    let house = house();
    let scope = house.scope();
    let run = |code: &str| {
        let (mode, scope, input) = (house.mode.clone(), scope.clone(), ExecInput::javascript(code));
        async move { mode.exec(&scope, input).await }
    };
    let done = run("const result = await MCP.gitHub.draw({}); json(result.content[2]); return result").await;
    let CodeModeResult::Completed(completed) = &done else { panic!("{done:?}") };
    let value: Value = serde_json::from_str(completed.value.as_str()).unwrap();
    let [_, image, file] = value["content"].as_array().unwrap().as_slice() else { panic!("{value}") };
    assert_eq!(
        (&image["type"], &image["mimeType"], &image["bytes"]),
        (&json!("image"), &json!("image/png"), &json!(11))
    );
    assert!(image.get("data").is_none() && file["resource"].get("blob").is_none(), "{value}");
    assert_eq!(file["resource"]["bytes"], 3);
    let blocks = house.mode.attachments(&scope, &done).await.unwrap();
    assert_eq!(
        blocks,
        [
            json!({ "type": "resource", "resource": { "uri": "file:///a", "mimeType": "application/pdf", "blob": "AAEC" } }),
            json!({ "type": "image", "data": "aGVsbG8gd29ybGQ=", "mimeType": "image/png" }),
        ]
    );
    // Somebody else's reference, and one that is made up, stand for nothing.
    let stranger = scope.clone().by("stranger");
    assert!(house.mode.attachments(&stranger, &done).await.unwrap().is_empty());
    let forged = run("return [{ ref: 'blob:cm_0/0/0' }, { ref: 'blob:' }, { ref: 'blob:a/b/c/d' }, { ref: 5 }]").await;
    assert!(house.mode.attachments(&scope, &forged).await.unwrap().is_empty());
    let own = image["ref"].as_str().unwrap();
    let beyond = run(&format!("return {{ ref: '{}' }}", own.replace("/0/0", "/0/9"))).await;
    assert!(house.mode.attachments(&scope, &beyond).await.unwrap().is_empty());
}

/// A tool that is taken back while a program runs says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_changes_in_the_middle_of_a_program_harms_only_what_is_gone() {
    let house = house();
    let running = {
        let (mode, scope) = (house.mode.clone(), house.scope());
        let code = "await tools.gate({ name: 'go' }); const kept = await MCP.gitHub.find({});
            try { await MCP.gitHub.delete2({}) } catch (e) { return [kept.structuredContent.count, e.code, e.message, e.effect] }";
        tokio::spawn(async move { mode.exec(&scope, ExecInput::javascript(code)).await })
    };
    let find = (tool("mcp:git-hub:find", any()).into(), gives(json!({ "structuredContent": { "count": 4 } })));
    house.door.set_server(Server { name: "git-hub".into(), state: ServerState::Available, tools: vec![find] });
    house.gates.open("go");
    let CodeModeResult::Completed(done) = running.await.unwrap() else { panic!("it completes") };
    let told: Value = serde_json::from_str(done.value.as_str()).unwrap();
    assert_eq!((&told[0], &told[1], &told[3]), (&json!(4), &json!("unknown_tool"), &json!("none")), "{told}");
    assert!(told[2].as_str().unwrap().contains("taken back"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_hint_loosens_no_rule() {
    let house = crate::common::house_with(|door| {
        let matcher = pincer_tools::Matcher::parse("rules", &["mcp:vault:*"]).unwrap();
        door.rule(pincer_tools::ApprovalRule { matcher, decision: pincer_tools::RuleDecision::Deny })
    });
    let mut look = tool("mcp:vault:look", any());
    look.flags = Flags { claims_read_only: true, idempotent: true, ..Flags::default() };
    house.door.set_server(Server {
        name: "vault".into(),
        state: ServerState::Available,
        tools: vec![(look.into(), says())],
    });
    let code = house.value("try { await MCP.vault.look({}) } catch (e) { return e.code }").await;
    assert_eq!(code, "denied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_called_index_has_a_file_of_its_own() {
    let house = crate::common::house();
    let tools = vec![(tool("mcp:index:look_up", any()).into(), says())];
    house.door.set_server(Server { name: "index".into(), state: ServerState::Available, tools });
    let code = "const paths = (await API.list('mcp')).map((file) => file.path);
        const all = await API.read('mcp/index.d.ts'), own = await API.read('mcp/index.server.d.ts');
        const called = (await MCP.index.lookUp({ a: 1 })).structuredContent;
        return [paths, all.includes('MCP.files'), all.includes('mcp/index.server.d.ts'), own.includes('lookUp'), called]";
    assert_eq!(
        house.value(code).await,
        json!([["mcp/files.d.ts", "mcp/index.d.ts", "mcp/index.server.d.ts"], true, true, true, { "a": 1 }])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_are_names_after_a_dot_are_names() {
    let house = crate::common::house();
    let names = ["get", "set", "of", "from", "as", "async", "abstract"];
    let entries = names.map(|name| (tool(&format!("mcp:kv:{name}"), any()).into(), says()));
    house.door.set_server(Server { name: "kv".into(), state: ServerState::Available, tools: entries.into() });
    let code = "const all = await Promise.all(['get', 'set', 'of', 'from', 'as', 'async', 'abstract'].map((name) => MCP.kv[name]({ name })));
        const get = await MCP.kv.get({ a: 1 }), of = await MCP.kv.of({ a: 2 });
        return [all.map((one) => one.structuredContent.name), get.structuredContent, of.structuredContent]";
    assert_eq!(house.value(code).await, json!([names, { "a": 1 }, { "a": 2 }]));
    // The declarations are TypeScript.
    let declared = house.value("return await API.read('mcp/kv.d.ts')").await;
    assert!(declared.as_str().unwrap().contains("function get("), "{declared}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_with_such_names_are_functions_of_tools() {
    let house = crate::common::house_with(|door| {
        let names = ["openclaw:core:get", "openclaw:core:of"];
        names.into_iter().fold(door, |door, id| {
            door.tool(crate::common::entry(id, Flags::default()), crate::common::echo()).unwrap()
        })
    });
    let code = "return [await tools.get({ a: 1 }), await tools.of({ a: 2 })]";
    assert_eq!(house.value(code).await, json!([{ "a": 1 }, { "a": 2 }]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_keep_their_order_on_the_way_to_a_server_and_defaults_come_last() {
    let house = house();
    let code = "const sent = await MCP.gitHub.createIssue2({ title: 't', body: 'b' }); return sent.content[0].text";
    assert_eq!(house.value(code).await, r#"{"title":"t","body":"b","labels":["new"]}"#);
}
