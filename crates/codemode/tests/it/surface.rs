//! What a model sees: when code mode is on, and what it is told.

use crate::common::{Doorway, House, entry, house};
use pincer_catalog::{Catalog, Entry, Flags, Layer, Policy};
use pincer_codemode::{Exposure, INDEX_CHARS, Offer, RunTools, Settings, Surface, expose};
use pincer_tools::Context;
use serde_json::json;

fn exposed(house: &House, policy: &Policy, offer: Offer) -> Exposure {
    let entries = house.door.entries();
    let catalog = Catalog::new(entries.clone()).unwrap();
    let tools = RunTools::new(&house.door, &catalog, policy, &Context::default());
    expose(&entries, policy, offer, &Settings::default(), &tools)
}

fn names(exposure: &Exposure) -> Vec<String> {
    match exposure {
        Exposure::None => Vec::new(),
        Exposure::Direct(tools) => tools.iter().map(|tool| tool.name.clone()).collect(),
        Exposure::CodeMode(surface) => surface.names().into_iter().map(str::to_owned).collect(),
    }
}

#[tokio::test]
async fn a_model_with_tools_of_every_source_sees_exec_and_wait_only() {
    let house = crate::common::house_with(|door| {
        door.tool(entry("plugin:shop:stock", Flags::default()), crate::common::echo()).unwrap()
    });
    let sources: std::collections::BTreeSet<String> =
        house.door.entries().iter().map(|entry| entry.id.to_string().split(':').next().unwrap().to_owned()).collect();
    assert_eq!(sources.into_iter().collect::<Vec<_>>(), ["client", "mcp", "openclaw", "plugin"]);
    assert_eq!(names(&exposed(&house, &house.policy, Offer::CodeMode)), ["exec", "wait"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shell_tool_is_hidden_from_the_model_and_callable_by_its_id() {
    let shell = entry("openclaw:core:exec", Flags { trusted: true, ..Flags::default() });
    let house = crate::common::house_with(|door| door.tool(shell, crate::common::echo()).unwrap());
    let Exposure::CodeMode(surface) = exposed(&house, &house.policy, Offer::CodeMode) else { panic!("it is on") };
    assert_eq!(surface.names(), ["exec", "wait"]);
    // That is the `exec` of code mode: it takes programs.
    let schema = serde_json::to_string(&surface.tools()[0].input_schema).unwrap();
    assert!(schema.contains("\"code\""), "{schema}");
    let code =
        "return [await tools.call('openclaw:core:exec', { command: 'ls' }), await tools.exec({ command: 'id' })]";
    assert_eq!(house.value(code).await, json!([{ "command": "ls" }, { "command": "id" }]));
}

#[tokio::test]
async fn without_code_mode_a_model_sees_everything_that_policy_leaves_by_its_own_name() {
    let house = house();
    let exposure = exposed(&house, &house.policy, Offer::Direct);
    assert!(matches!(exposure, Exposure::Direct(_)));
    assert_eq!(names(&exposure), ["echo", "count", "gate", "turn", "fail", "ask", "look", "read", "pick-file"]);
}

#[tokio::test]
async fn a_run_without_tools_shows_none_and_enforces_nothing() {
    let house = house();
    let none = Policy::open().with(Layer::run("the run", &[]).unwrap());
    assert_eq!(exposed(&house, &none, Offer::CodeMode), Exposure::None);
}

/// Bug 14 of the reference.
#[tokio::test]
async fn a_direct_only_tool_stays_beside_exec_and_wait_and_is_in_no_catalog() {
    let direct = Flags { direct_only: true, trusted: true, ..Flags::default() };
    let house = crate::common::house_with(|door| {
        door.tool(entry("openclaw:core:reply", direct), crate::common::echo()).unwrap()
    });
    assert_eq!(names(&exposed(&house, &house.policy, Offer::CodeMode)), ["exec", "wait", "reply"]);
    assert_eq!(house.value("return ALL_TOOLS.filter((tool) => tool.name === 'reply').length").await, 0);
    let caught = house.value("try { await tools.call('openclaw:core:reply', {}) } catch (e) { return e.code }").await;
    assert_eq!(caught, "unknown_tool");
}

#[tokio::test]
async fn a_request_that_shows_anything_else_is_stopped() {
    let house = house();
    let Exposure::CodeMode(surface) = exposed(&house, &house.policy, Offer::CodeMode) else { panic!("it is on") };
    surface.check(&["wait", "exec"]).unwrap();
    for wrong in [&["exec"][..], &["exec", "wait", "read"], &["exec", "wait", "exec"], &[], &["exec", "Wait"]] {
        let error = surface.check(wrong).unwrap_err().to_string();
        assert!(error.contains("exactly exec, wait"), "{error}");
    }
}

#[tokio::test]
async fn the_description_lists_trusted_tools_and_no_word_of_others() {
    let house = house();
    let scope = house.scope();
    let surface = Surface::of(&scope.tools, &scope.settings);
    let text = &surface.tools()[0].description;
    assert!(text.contains("echo({ [key: string]: unknown }) -> ?") || text.contains("echo("), "{text}");
    // Two tools are not trusted: one of a client, and that of the MCP server, of which only the way to it is told.
    assert!(text.contains("7 of 8 tools"), "{text}");
    assert!(!text.contains("pick") && !text.contains("mcp:") && !text.contains("MCP.files"), "{text}");
    assert!(text.contains("API.list(\"mcp\")"), "{text}");
    assert!(text.contains("10 s") && text.contains("64 KB"), "{text}");
}

/// With `count` trusted tools that have `fields` fields each.
fn many(count: usize, fields: usize) -> (RunTools, Vec<Entry>) {
    let entries: Vec<Entry> = (0..count)
        .map(|index| {
            let flags = Flags { trusted: true, ..Flags::default() };
            let mut entry = entry(&format!("plugin:suite:do_thing_number_{index}"), flags);
            let properties: serde_json::Map<_, _> = (0..fields)
                .map(|field| (format!("field{field}"), json!({ "type": "string", "description": "words ".repeat(20) })))
                .collect();
            entry.input_schema = json!({ "type": "object", "properties": properties });
            entry
        })
        .collect();
    let doorway = Doorway::new(&Policy::open(), |door| door);
    let tools =
        RunTools::new(&doorway.door, &Catalog::new(entries.clone()).unwrap(), &Policy::open(), &Context::default());
    (tools, entries)
}

#[tokio::test]
async fn the_index_is_complete_or_says_how_much_it_is_and_never_too_long() {
    for count in [0, 1, 20, 60, 500, 3000] {
        let (tools, entries) = many(count, 6);
        let surface = Surface::of(&tools, &Settings::default());
        let text = &surface.tools()[0].description;
        let index = text.split("\n\n").last().unwrap();
        let listed = index.lines().filter(|line| line.starts_with("do_thing_number_")).count();
        assert!(index.chars().count() <= INDEX_CHARS, "{count}: {}", index.chars().count());
        match count {
            0 => assert!(!text.contains("tools (")),
            _ if listed == count => assert!(index.starts_with(&format!("All {count} tools")), "{index}"),
            _ => assert!(index.starts_with(&format!("{listed} of {count} tools")), "{index}"),
        }
        assert!(listed >= count.min(30), "{count}: {listed}");
        let shown = serde_json::to_string(surface.tools()).unwrap().len();
        assert!(shown < 8 * 1024, "{count}: {shown}");
        if count == 500 {
            let direct: usize = entries
                .iter()
                .map(|entry| json!({ "name": entry.id.name(), "description": entry.description, "inputSchema": entry.input_schema }).to_string().len())
                .sum();
            assert!(shown * 50 < direct, "{shown} of {direct}");
        }
    }
}
