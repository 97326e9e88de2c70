//! The end-to-end plan of the specification of code mode, step by step, through real processes.

use std::fs;

use serde_json::{Value, json};

use crate::common::plan::{Plan, asked, call, step, text};

fn exec(code: &str) -> String {
    call("exec", &json!({ "code": code }))
}

/// Code mode with these further keys.
fn code_mode(keys: &str) -> String {
    format!("deny: ['web_fetch'], codeMode: {{ enabled: true, {keys} }}")
}

#[test]
fn code_mode_changes_what_a_model_sees_only_when_it_is_on() {
    step("Start with `tools.codeMode.enabled: false`");
    let direct = "allow: ['read', 'add_note'], codeMode: { enabled: false }";
    let mut plan = Plan::new(direct, &[text("Hello.")]);

    step("Send an agent turn with a small direct tool set");
    assert_eq!(plan.message("direct", "Hello.")["status"], "ok");

    step("Assert the model-visible tools are unchanged");
    let off = plan.shown(0);
    plan.restart("allow: ['read', 'add_note']", &[text("Hello.")]);
    plan.message("absent", "Hello.");
    assert_eq!(off, plan.shown(0), "the same as without the key");
    assert!(off.contains(&"read".to_owned()) && off.contains(&"add_note".to_owned()), "{off:?}");

    step("Restart with `tools.codeMode.enabled: true`");
    plan.restart(&code_mode(""), &[text("Hello.")]);

    step("Send an agent turn with OpenClaw, plugin, MCP, and client test tools");
    let document = plan.message("on", "Hello.");
    let sources = document["result"]["telemetry"]["tools"]["sources"].clone();
    for source in ["openclaw", "plugin", "mcp", "client"] {
        assert!(sources[source].as_u64() > Some(0), "{source}: {document}");
    }

    step("Assert the model-visible tool list is exactly `exec`, `wait`");
    assert_eq!(plan.shown(0), ["exec", "wait"]);
}

#[test]
fn a_program_reaches_the_tools_of_all_sources() {
    let names = "return ALL_TOOLS.map((tool) => tool.id)";
    let calls = "const [write] = await tools.search('write a file');
        const { parameters } = await tools.describe(write.id);
        const wrote = await tools.call(write.id, { path: 'a.txt', content: 'one' });
        const [keep] = await tools.search('keep a short note');
        const kept = await tools.call((await tools.describe(keep.id)).id, { text: 'milk' });
        const [ask] = await tools.search('ask the user a question');
        const answer = await tools.call(ask.id, { question: 'Which?' });
        return { required: parameters.required, wrote: wrote !== undefined, kept, answer };";
    let declarations = "const listed = await API.list('mcp');
        return { listed, text: await API.read('mcp/fixture.d.ts') }";
    let mcp = "const made = await MCP.fixture.testStructured({ name: 'a', count: 2 });
        return {
          made: unwrap(made),
          listed: ALL_TOOLS.filter((tool) => tool.id.startsWith('mcp:')).length,
          direct: Object.keys(tools).filter((name) => /test_?structured/i.test(name)).length,
          called: await tools.call('mcp:fixture:test_structured', { name: 'a' }).catch((error) => error.code),
        }";
    let denied = "const tried = [ALL_TOOLS.some((tool) => tool.name === 'web_fetch'), 'web_fetch' in tools];
        for (const id of ['web_fetch', 'openclaw:core:web_fetch'])
          tried.push(await tools.call(id, { url: 'http://127.0.0.1/' }).catch((error) => [error.code, error.effect]));
        return tried";
    let replies = [exec(names), exec(calls), exec(declarations), exec(mcp), exec(denied), text("Done.")];
    let replies: Vec<String> =
        replies.into_iter().enumerate().map(|(number, reply)| reply.replace("c_exec", &format!("c{number}"))).collect();
    let plan = Plan::new(&code_mode(""), &replies);

    // The tool of the sender suspends the run until the sender has answered.
    let waiting = plan.message("main", "Go.");
    assert_eq!(
        (&waiting["status"], &waiting["clientCalls"][0]["name"]),
        (&json!("waiting"), &json!("ask_user")),
        "{waiting}"
    );
    let id = waiting["clientCalls"][0]["callId"].as_str().expect("an id");
    let (code, done) = plan.home.json(&["agent", "--continue", "--result", &format!("{id}=\"blue\""), "--json"]);
    assert_eq!((code, &done["status"]), (0, &json!("ok")), "{done}");

    step("In `exec`, read `ALL_TOOLS` and assert the effective test tools are present");
    let ids = plan.told_value(1);
    for id in ["openclaw:core:write", "plugin:notes:add_note", "client:caller:ask_user"] {
        assert!(ids.as_array().is_some_and(|ids| ids.contains(&json!(id))), "{id}: {ids}");
    }

    step("In `exec`, call OpenClaw/plugin/client tools through `tools.search`, `tools.describe`, and `tools.call`");
    let called = plan.told_value(2);
    assert_eq!(
        called,
        json!({ "required": called["required"], "wrote": true, "kept": { "count": 1 }, "answer": "blue" })
    );
    assert!(called["required"].as_array().is_some_and(|names| names.contains(&json!("path"))), "{called}");
    assert_eq!(fs::read_to_string(plan.home.path("work/a.txt")).expect("the file"), "one");

    step(
        "In `exec`, call `API.list(\"mcp\")` and `API.read(\"mcp/<server>.d.ts\")` and assert the declaration files describe visible MCP tools",
    );
    let files = plan.told_value(3);
    let listed = files["listed"].as_array().expect("a list");
    assert!(listed.iter().any(|file| file["path"] == "mcp/fixture.d.ts"), "{files}");
    assert!(files["text"].as_str().is_some_and(|text| text.contains("testStructured")), "{files}");

    step(
        "In `exec`, call MCP tools through `MCP.<server>.<tool>({ ...input })` and assert direct MCP catalog entries are absent from `ALL_TOOLS` and `tools.*`",
    );
    assert_eq!(
        plan.told_value(4),
        json!({ "made": { "name": "a", "count": 2 }, "listed": 0, "direct": 0, "called": "unknown_tool" })
    );

    step("Export trajectory and assert nested calls are visible under the parent code-mode call");
    let (code, exported) = plan.home.json(&["sessions", "export-trajectory", "main", "--output", "bundle", "--json"]);
    assert_eq!((code, &exported["warnings"]), (0, &json!([])), "{exported}");
    let events = fs::read_to_string(plan.home.path("bundle/events.jsonl")).expect("events");
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let nested: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["type"] == "tool.call")
        .filter_map(|event| Some((event["data"]["parentToolCallId"].as_str()?, event["data"]["name"].as_str()?)))
        .collect();
    let calls = [("c1", "openclaw:core:write"), ("c1", "plugin:notes:add_note"), ("c1", "client:caller:ask_user")];
    for call in calls.into_iter().chain([("c3", "mcp:fixture:test_structured")]) {
        assert!(nested.contains(&call), "{call:?}: {nested:?}");
    }

    step("Assert denied tools are absent and cannot be called by guessed id");
    let unknown = json!(["unknown_tool", "none"]);
    assert_eq!(plan.told_value(5), json!([false, false, unknown, unknown]));
}

#[test]
fn a_suspended_program_gets_its_result_and_ends_leave_nothing() {
    step("Start a nested tool call that resolves after `exec` returns `waiting`");
    let gated = "console.log('before');
        const done = await tools.call('openclaw:core:exec', { command: 'until [ -e go ]; do sleep 0.02; done; echo resolved' });
        console.log('after restore: ' + done.stdout.trim());
        return Object.keys(done).length > 0 ? 'the value' : null";
    let wait = format!("{{ take: {{ RUN: 'cm_0' }}, {}", &call("wait", &json!({ "runId": "{RUN}" }))[1..]);
    let replies = [exec(gated), wait, text("It came after the restore.")];
    let mut plan = Plan::new(&code_mode("timeoutMs: 1000"), &replies);
    let child = plan.begin("main", "Go.");
    asked(&plan.server, 2);
    let told = plan.told(1);
    assert!(told.contains("before") && told.contains("waiting") && told.contains("cm_"), "{told}");

    step("Call `wait` and assert the restored VM receives the tool result");
    fs::write(plan.home.path("work/go"), "").expect("written");
    let output = child.wait_with_output().expect("pincer");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let told = plan.told(2);
    assert!(told.contains("after restore: resolved") && told.contains("the value"), "{told}");
    assert!(!told.contains("before"), "output is told once: {told}");

    step("Assert the final answer contains output produced after restore");
    assert_eq!(document["result"]["payloads"][0]["text"], "It came after the restore.", "{document}");
    let shown = plan.home.run(&["sessions", "show", "main", "--full"]).1;
    assert!(shown.contains("after restore: resolved"), "{shown}");

    step("Assert timeout, abort, and snapshot expiry clean up runtime state");
    let nothing_is_left = |plan: &Plan, states: &[&str]| {
        let (_, runs) = plan.home.json(&["runs", "list", "--json"]);
        let runs = runs.as_array().expect("a list").clone();
        let found: Vec<&str> = runs.iter().map(|run| run["state"].as_str().expect("a state")).collect();
        assert_eq!(found, states);
        for run in &runs {
            assert_eq!((&run["snapshotBytes"], &run["pending"]), (&json!(0), &json!([])), "{run}");
        }
    };
    nothing_is_left(&plan, &["completed"]);
    plan.restart(&code_mode("timeoutMs: 1000"), &[exec("for (;;) {}"), text("It took too long.")]);
    plan.message("timeout", "Go.");
    assert!(plan.told(1).contains("timeout"), "{}", plan.told(1));
    nothing_is_left(&plan, &["completed", "failed"]);

    plan.restart(&code_mode("timeoutMs: 1000"), &[exec(&gated.replace("-e go", "-e never")), text("Left.")]);
    let child = plan.begin("abort", "Go.");
    asked(&plan.server, 1);
    let run = loop {
        let listed = plan.home.json(&["runs", "list", "--json"]).1;
        let of_abort = |run: &&Value| run["session"] == "abort";
        if let Some(run) = listed.as_array().and_then(|runs| runs.iter().find(of_abort)) {
            break run["runId"].as_str().expect("an id").to_owned();
        }
    };
    assert_eq!(plan.home.run(&["sessions", "abort", "abort"]).0, 0);
    child.wait_with_output().expect("pincer");
    nothing_is_left(&plan, &["completed", "failed", "aborted"]);
    let (code, _, error) = plan.home.run(&["wait", &run]);
    assert_ne!(code, 0, "{error}");

    // Suspended outside of an agent's run, where its age counts.
    let expiring = plan.home.json(&["exec", "--json", "-e", "await yield_control('later')"]).1;
    let run = expiring["runId"].as_str().expect("an id").to_owned();
    plan.restart(&code_mode("snapshotTtlSeconds: 1"), &[]);
    let expiring = plan.home.json(&["exec", "--json", "-e", "await yield_control('later')"]).1;
    let short = expiring["runId"].as_str().expect("an id").to_owned();
    let state = |run: &str| plan.home.json(&["runs", "show", run, "--json"]).1["state"].clone();
    while state(&short) == "waiting" {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!((state(&short), state(&run)), (json!("expired"), json!("waiting")));
    let (_, failed) = plan.home.json(&["wait", &short, "--json"]);
    assert_eq!(failed["code"], "snapshot_expired", "{failed}");
}
