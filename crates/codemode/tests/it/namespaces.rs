//! Namespaces: the test checklist of the specification, line by line.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{House, deny, echo, entry, house};
use pincer_catalog::Flags;
use pincer_codemode::{RunScope, SkillEntry, SkillError, SkillTexts, Surface};
use pincer_tools::{
    Arguments, FnTool, Namespace, NamespaceFunction, NamespacePart, NamespaceSource, Plugin, ToolCall, ToolError,
};
use serde_json::{Value, json};

fn function(tool: &str, arguments: Arguments) -> NamespacePart {
    NamespacePart::Tool(NamespaceFunction { tool: tool.into(), arguments })
}

fn object(members: Vec<(&str, NamespacePart)>) -> NamespacePart {
    NamespacePart::Object(members.into_iter().map(|(name, scope)| (name.to_owned(), scope)).collect::<BTreeMap<_, _>>())
}

/// Two functions of a shop, with some data.
fn orders(scope: NamespacePart) -> Namespace {
    Namespace {
        id: "shop-orders".into(),
        global: "Orders".into(),
        description: Some("Orders of the shop.".into()),
        prompt: Some("Orders.list(filter) finds orders, Orders.update(number, change) changes one.".into()),
        required_tools: vec!["open_orders".into(), "close_order".into()],
        scope: NamespaceSource::Fixed(scope),
    }
}

fn usual_scope() -> NamespacePart {
    let shared = NamespacePart::Value(json!({ "name": "pincer" }));
    object(vec![
        ("repository", shared.clone()),
        ("again", shared),
        ("list", function("open_orders", Arguments::First)),
        ("update", function("close_order", Arguments::Named(vec!["number".into(), "change".into()]))),
        (
            "deep",
            object(vec![(
                "steps",
                NamespacePart::Array(vec![
                    NamespacePart::Value(json!(1)),
                    function("open_orders", Arguments::Mapped(Arc::new(|all| json!({ "all": all })))),
                ]),
            )]),
        ),
    ])
}

fn plugin(id: &str, namespaces: Vec<Namespace>) -> Plugin {
    let tool =
        |name: &str| (entry(&format!("plugin:{id}:{name}"), Flags { trusted: true, ..Flags::default() }), echo());
    Plugin { tools: vec![tool("open_orders"), tool("close_order"), tool("refund")], namespaces, ..Plugin::new(id) }
}

fn with_orders() -> House {
    let house = house();
    house.door.register(plugin("shop", vec![orders(usual_scope())])).unwrap();
    house
}

fn description(scope: &RunScope) -> String {
    Surface::of(&scope.tools, &scope.settings).tools()[0].description.clone()
}

fn denying(house: &House, names: &[&str]) -> House {
    House { policy: deny(names), ..house.neighbour() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_prompt_text_appears_only_when_backing_tools_are_visible() {
    let house = with_orders();
    assert!(description(&house.scope()).contains("Orders: Orders of the shop.: Orders.list(filter)"));
    let narrowed = denying(&house, &["close_order"]);
    assert!(!description(&narrowed.scope()).contains("Orders"));
    assert_eq!(narrowed.value("return [typeof Orders, Object.keys(namespaces)]").await, json!(["undefined", []]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_named_tools_from_another_source_name_do_not_expose_the_namespace() {
    let house = with_orders();
    // Another plugin has tools of the same names; those of the owner are denied.
    house.door.register(plugin("lookalike", Vec::new())).unwrap();
    let narrowed = denying(&house, &["plugin:shop:open_orders"]);
    let code = "return [typeof Orders, ALL_TOOLS.some((tool) => tool.id === 'plugin:lookalike:open_orders')]";
    assert_eq!(narrowed.value(code).await, json!(["undefined", true]));
}

/// A function of Rust cannot even be written down where a value is expected: all that a scope can hold is data and names of
/// tools. What is left to reject is a call of a tool that is not one of the plugin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raw_scope_functions_are_rejected() {
    let house = house();
    let foreign = orders(object(vec![("run", function("exec", Arguments::First))]));
    let error = house.door.register(plugin("shop", vec![foreign])).unwrap_err().to_string();
    assert!(error.contains("not among the tools it needs"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callable_paths_cannot_target_undeclared_tools() {
    let house = house();
    // The plugin's own tool, but not one that the namespace says it needs.
    let undeclared = orders(object(vec![("steal", function("refund", Arguments::First))]));
    assert!(house.door.register(plugin("shop", vec![undeclared])).is_err());
    // Made for each run, it can only be found out then: it is left out, and the rest works.
    let made = NamespaceSource::Made(Arc::new(|_| object(vec![("steal", function("refund", Arguments::First))])));
    house.door.register(plugin("shop", vec![Namespace { scope: made, ..orders(object(Vec::new())) }])).unwrap();
    assert_eq!(house.scope().tools.refused_namespaces().len(), 1);
    assert_eq!(house.value("return typeof Orders").await, "undefined");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsafe_keys_and_names_are_refused() {
    let house = house();
    for key in ["__proto__", "constructor", "prototype", "", "a\0b"] {
        let scope = object(vec![(key, NamespacePart::Value(json!(1)))]);
        assert!(house.door.register(plugin("shop", vec![orders(scope)])).is_err(), "{key:?}");
    }
    for global in
        ["tools", "namespaces", "text", "json", "yield_control", "__openclaw_x", "not-a-name", "", "Math", "undefined"]
    {
        let namespace = Namespace { global: global.into(), ..orders(usual_scope()) };
        assert!(house.door.register(plugin("shop", vec![namespace])).is_err(), "{global:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_global_of_a_program_can_be_that_of_a_namespace() {
    let house = house();
    let names = house.value("return Object.getOwnPropertyNames(globalThis)").await;
    for global in names.as_array().unwrap().iter().filter_map(serde_json::Value::as_str) {
        let namespace = Namespace { global: global.into(), ..orders(usual_scope()) };
        assert!(house.door.register(plugin("shop", vec![namespace])).is_err(), "{global}");
    }
    assert_eq!(house.value("return 1").await, json!(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_by_their_place_keep_null_and_refuse_what_is_too_many() {
    let house = with_orders();
    for (call, expected) in [
        ("Orders.update(1, null)", json!({ "number": 1, "change": null })),
        ("Orders.update(null, 2)", json!({ "number": null, "change": 2 })),
        ("Orders.update(undefined, 2)", json!({ "change": 2 })),
        ("Orders.update(1, undefined)", json!({ "number": 1 })),
        ("Orders.update(1, 2, undefined)", json!({ "number": 1, "change": 2 })),
        ("Orders.update()", json!({})),
        ("Orders.update({ number: 1 })", json!({ "number": 1 })),
    ] {
        assert_eq!(house.value(&format!("return await {call}")).await, expected, "{call}");
    }
    let refused = "try { await Orders.update(1, 2, 3) } catch (e) { return [e.code, e.effect, e.message] }";
    assert_eq!(
        house.value(refused).await,
        json!(["invalid_input", "none", "Orders.update takes 2 arguments (number, change), and got 3"])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_namespace_ids_and_forged_paths_are_rejected() {
    let house = with_orders();
    let tools = house.scope().tools;
    // A program has no other way than the functions it is given. This is what one that has broken the bridge could say.
    for (id, path) in
        [("shop-orders", "nothing"), ("shop-orders", "repository"), ("shop-orders", ""), ("nobody", "list")]
    {
        assert!(pincer_codemode::resolve_namespace_call(&tools, id, path).is_none(), "{id} {path:?}");
    }
    assert_eq!(
        pincer_codemode::resolve_namespace_call(&tools, "shop-orders", "list").as_deref(),
        Some("plugin:shop:open_orders")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_objects_and_shared_references_serialize_correctly() {
    let house = with_orders();
    let code = "return [Orders.repository, Orders.again, Orders.deep.steps[0], typeof Orders.deep.steps[1], Orders === namespaces.Orders, Object.isFrozen(Orders.deep.steps), Object.isFrozen(Orders.repository)]";
    assert_eq!(
        house.value(code).await,
        json!([{ "name": "pincer" }, { "name": "pincer" }, 1, "function", true, true, true])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_calls_execute_through_catalog_tools_and_return_json_safe_details() {
    let house = with_orders();
    for (call, expected) in [
        ("Orders.list({ state: 'open' })", json!({ "state": "open" })),
        ("namespaces.Orders.list()", json!({})),
        ("Orders.update(7, { title: 'x' })", json!({ "number": 7, "change": { "title": "x" } })),
        ("Orders.update(7)", json!({ "number": 7 })),
        ("Orders.update({ number: 7, change: { a: 1 } })", json!({ "number": 7, "change": { "a": 1 } })),
        ("Orders.deep.steps[1](1, 'two')", json!({ "all": [1, "two"] })),
    ] {
        assert_eq!(house.value(&format!("return await {call}")).await, expected, "{call}");
    }
    let done = house.exec("await Orders.list({}); return 1").await;
    assert_eq!(done["telemetry"]["nestedToolIds"], json!(["plugin:shop:open_orders"]));
    let events = house.events.lock().unwrap();
    assert!(events.iter().any(|event| event.tool == "plugin:shop:close_order"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_can_be_caught_by_guest_code() {
    let house = with_orders();
    let code = "try { await Orders.list('not an object') } catch (e) { return [e instanceof Error, e.code, e.toolId] }";
    assert_eq!(house.value(code).await, json!([true, "invalid_input", "plugin:shop:open_orders"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_namespace_calls_resume_through_wait() {
    let house = house();
    // A tool of the namespace that takes its time.
    let (go, told) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (waits, begun) = (Arc::clone(&go), Arc::clone(&told));
    let slow = FnTool(move |call: ToolCall| {
        let (go, told) = (Arc::clone(&waits), Arc::clone(&begun));
        async move {
            told.notify_one();
            go.notified().await;
            Ok::<Value, ToolError>(call.input)
        }
    });
    let mut shop = plugin("shop", vec![orders(usual_scope())]);
    shop.tools[1].1 = Arc::new(slow);
    house.door.register(shop).unwrap();
    let scope = house.brief();
    let waiting = house.exec_in(&scope, "return [await Orders.update(1), await Orders.list({ b: 2 })]").await;
    told.notified().await;
    let call = &waiting["pendingToolCalls"][0];
    assert_eq!(
        (&call["method"], &call["toolId"]),
        (&json!("namespace"), &json!("plugin:shop:close_order")),
        "{waiting}"
    );
    go.notify_one();
    let neighbour = house.neighbour();
    assert_eq!(neighbour.wait(&waiting).await["value"], json!([{ "number": 1 }, { "b": 2 }]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugin_rollback_clears_the_owning_namespace_registrations() {
    let house = with_orders();
    let suspended = house.exec("const { list } = Orders; await yield_control(); return await list({})").await;
    assert!(house.door.unregister("shop"));
    assert_eq!(
        house.value("return [typeof Orders, ALL_TOOLS.some((tool) => tool.source === 'plugin')]").await,
        json!(["undefined", false])
    );
    // Bug 27 of the reference: a program that outlives what it was given is told so.
    let failed: Value = house.wait(&suspended).await;
    assert!(crate::common::says(&failed, "unknown namespace shop-orders"), "{failed}");
    house.door.register(plugin("shop", vec![orders(usual_scope())])).unwrap();
    assert_eq!(house.value("return typeof Orders").await, "object");
    // Namespaces alone can go and come too, for tools that stay.
    assert!(house.door.clear_namespaces_for_plugin("shop") && !house.door.clear_namespaces_for_plugin("shop"));
    assert_eq!(house.value("return [typeof Orders, typeof tools.refund]").await, json!(["undefined", "function"]));
    house.door.register_namespace_for_plugin("shop", orders(usual_scope())).unwrap();
    assert!(house.door.register_namespace_for_plugin("shop", orders(usual_scope())).is_err(), "it is there already");
    assert!(house.door.register_namespace_for_plugin("nobody", orders(usual_scope())).is_err(), "it has no such tools");
    assert_eq!(house.value("return typeof Orders").await, "object");
    assert!(house.door.unregister_namespace("shop-orders") && !house.door.unregister_namespace("shop-orders"));
    assert_eq!(house.value("return typeof Orders").await, "undefined");
}

/// Skills of an agent's run.
struct OneSkill;

impl SkillTexts for OneSkill {
    fn list(&self) -> Vec<SkillEntry> {
        vec![SkillEntry { name: "pdf".into(), description: "x".into(), location: "skills/pdf/SKILL.md".into() }]
    }

    fn read(&self, name: &str) -> Result<String, SkillError> {
        match name {
            "pdf" => Ok("How to.".into()),
            other => Err(SkillError::Unknown { name: other.into() }),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_agents_have_one_global_more_than_others_and_no_namespace_takes_its_name() {
    let house = house();
    let names = "return Object.getOwnPropertyNames(globalThis).sort()";
    let usual = house.value(names).await;
    assert_eq!(house.value("return typeof skills").await, "undefined");
    let scope = RunScope { skills: Some(Arc::new(OneSkill)), ..house.scope() };
    let run = async |code: &str| {
        let result = house.exec_in(&scope, code).await;
        assert_eq!(result["status"], "completed", "{code}: {result}");
        result["value"].clone()
    };
    let mut more = usual.as_array().unwrap().clone();
    more.push("skills".into());
    more.sort_by_key(|name| name.as_str().unwrap().to_owned());
    assert_eq!(run(names).await, json!(more));
    assert_eq!(
        run("return [Object.isFrozen(skills), Object.keys(skills).length, Object.getOwnPropertyNames(skills)]").await,
        json!([true, 2, ["list", "read"]])
    );
    assert_eq!(
        run("return [await skills.list(), await skills.read('pdf')]").await,
        json!([[{ "name": "pdf", "description": "x", "location": "skills/pdf/SKILL.md" }], "How to."])
    );
    for (code, expected) in [
        ("skills.read('../pdf')", "there is no skill `../pdf`"),
        ("skills.read()", "skills.read needs the name of a skill"),
        ("skills.read({})", "skills.read needs the name of a skill"),
    ] {
        let caught = run(&format!("try {{ await {code}; return '' }} catch (error) {{ return error.message }}")).await;
        assert!(caught.as_str().unwrap().contains(expected), "{code}: {caught}");
    }
    let namespace = Namespace { global: "skills".into(), ..orders(usual_scope()) };
    assert!(house.door.register(plugin("shop", vec![namespace])).is_err());
}
