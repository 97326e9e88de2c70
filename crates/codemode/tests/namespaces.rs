//! Namespaces: the test checklist of the specification, line by line.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{House, echo, entry, house};
use pincer_catalog::{Flags, Layer, Policy, Rules};
use pincer_codemode::{RunScope, Surface};
use pincer_tools::{Arguments, Namespace, Plugin, Scope, ScopeSource, ScopeTool};
use serde_json::{Value, json};

fn function(tool: &str, arguments: Arguments) -> Scope {
    Scope::Tool(ScopeTool { tool: tool.into(), arguments })
}

fn object(members: Vec<(&str, Scope)>) -> Scope {
    Scope::Object(members.into_iter().map(|(name, scope)| (name.to_owned(), scope)).collect::<BTreeMap<_, _>>())
}

/// The example of the specification, with some data.
fn issues(scope: Scope) -> Namespace {
    Namespace {
        id: "github-issues".into(),
        global: "Issues".into(),
        description: Some("Issue helpers for the current repository.".into()),
        prompt: Some("Use Issues.list(params) and Issues.update(number, patch).".into()),
        required_tools: vec!["github_list_issues".into(), "github_update_issue".into()],
        scope: ScopeSource::Fixed(scope),
    }
}

fn usual_scope() -> Scope {
    let shared = Scope::Value(json!({ "name": "pincer" }));
    object(vec![
        ("repository", shared.clone()),
        ("again", shared),
        ("list", function("github_list_issues", Arguments::First)),
        ("update", function("github_update_issue", Arguments::Named(vec!["number".into(), "patch".into()]))),
        (
            "deep",
            object(vec![(
                "steps",
                Scope::Array(vec![
                    Scope::Value(json!(1)),
                    function("github_list_issues", Arguments::Mapped(Arc::new(|all| json!({ "all": all })))),
                ]),
            )]),
        ),
    ])
}

fn plugin(id: &str, namespaces: Vec<Namespace>) -> Plugin {
    let tool =
        |name: &str| (entry(&format!("plugin:{id}:{name}"), Flags { trusted: true, ..Flags::default() }), echo());
    Plugin {
        tools: vec![tool("github_list_issues"), tool("github_update_issue"), tool("github_secret")],
        namespaces,
        ..Plugin::new(id)
    }
}

fn with_issues() -> House {
    let house = house();
    house.door.register(plugin("github", vec![issues(usual_scope())])).unwrap();
    house
}

fn description(scope: &RunScope) -> String {
    Surface::of(&scope.tools, &scope.settings).tools()[0].description.clone()
}

fn denying(house: &House, names: &[&str]) -> House {
    let rules = Rules { deny: names.iter().map(|name| (*name).to_owned()).collect(), ..Rules::default() };
    let mut narrowed = house.neighbour();
    narrowed.policy = Policy::open().with(Layer::new("tools", &rules).unwrap());
    narrowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_prompt_text_appears_only_when_backing_tools_are_visible() {
    let house = with_issues();
    assert!(
        description(&house.scope())
            .contains("Issues: Issue helpers for the current repository.: Use Issues.list(params)")
    );
    let narrowed = denying(&house, &["github_update_issue"]);
    assert!(!description(&narrowed.scope()).contains("Issues"));
    assert_eq!(narrowed.value("return [typeof Issues, Object.keys(namespaces)]").await, json!(["undefined", []]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_named_tools_from_another_source_name_do_not_expose_the_namespace() {
    let house = with_issues();
    // Another plugin has tools of the same names; those of the owner are denied.
    house.door.register(plugin("lookalike", Vec::new())).unwrap();
    let narrowed = denying(&house, &["plugin:github:github_list_issues"]);
    let code = "return [typeof Issues, ALL_TOOLS.some((tool) => tool.id === 'plugin:lookalike:github_list_issues')]";
    assert_eq!(narrowed.value(code).await, json!(["undefined", true]));
}

/// A function of Rust cannot even be written down where a value is expected: all that a scope can hold is data and names of
/// tools. What is left to reject is a call of a tool that is not one of the plugin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raw_scope_functions_are_rejected() {
    let house = house();
    let foreign = issues(object(vec![("run", function("exec", Arguments::First))]));
    let error = house.door.register(plugin("github", vec![foreign])).unwrap_err().to_string();
    assert!(error.contains("not among the tools it needs"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callable_paths_cannot_target_undeclared_tools() {
    let house = house();
    // The plugin's own tool, but not one that the namespace says it needs.
    let undeclared = issues(object(vec![("steal", function("github_secret", Arguments::First))]));
    assert!(house.door.register(plugin("github", vec![undeclared])).is_err());
    // Made for each run, it can only be found out then: it is left out, and the rest works.
    let made = ScopeSource::Made(Arc::new(|_| object(vec![("steal", function("github_secret", Arguments::First))])));
    house.door.register(plugin("github", vec![Namespace { scope: made, ..issues(object(Vec::new())) }])).unwrap();
    assert_eq!(house.scope().tools.refused_namespaces().len(), 1);
    assert_eq!(house.value("return typeof Issues").await, "undefined");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsafe_keys_and_names_are_refused() {
    let house = house();
    for key in ["__proto__", "constructor", "prototype", "", "a\0b"] {
        let scope = object(vec![(key, Scope::Value(json!(1)))]);
        assert!(house.door.register(plugin("github", vec![issues(scope)])).is_err(), "{key:?}");
    }
    for global in
        ["tools", "namespaces", "text", "json", "yield_control", "__openclaw_x", "not-a-name", "", "Math", "undefined"]
    {
        let namespace = Namespace { global: global.into(), ..issues(usual_scope()) };
        assert!(house.door.register(plugin("github", vec![namespace])).is_err(), "{global:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_namespace_ids_and_forged_paths_are_rejected() {
    let house = with_issues();
    let tools = house.scope().tools;
    // A program has no other way than the functions it is given. This is what one that has broken the bridge could say.
    for (id, path) in
        [("github-issues", "nothing"), ("github-issues", "repository"), ("github-issues", ""), ("nobody", "list")]
    {
        assert!(pincer_codemode::resolve_namespace_call(&tools, id, path).is_none(), "{id} {path:?}");
    }
    assert_eq!(
        pincer_codemode::resolve_namespace_call(&tools, "github-issues", "list").as_deref(),
        Some("plugin:github:github_list_issues")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_objects_and_shared_references_serialize_correctly() {
    let house = with_issues();
    let code = "return [Issues.repository, Issues.again, Issues.deep.steps[0], typeof Issues.deep.steps[1], Issues === namespaces.Issues, Object.isFrozen(Issues.deep.steps), Object.isFrozen(Issues.repository)]";
    assert_eq!(
        house.value(code).await,
        json!([{ "name": "pincer" }, { "name": "pincer" }, 1, "function", true, true, true])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_calls_execute_through_catalog_tools_and_return_json_safe_details() {
    let house = with_issues();
    for (call, expected) in [
        ("Issues.list({ state: 'open' })", json!({ "state": "open" })),
        ("namespaces.Issues.list()", json!({})),
        ("Issues.update(7, { title: 'x' })", json!({ "number": 7, "patch": { "title": "x" } })),
        ("Issues.update(7)", json!({ "number": 7 })),
        ("Issues.update({ number: 7, patch: { a: 1 } })", json!({ "number": 7, "patch": { "a": 1 } })),
        ("Issues.deep.steps[1](1, 'two')", json!({ "all": [1, "two"] })),
    ] {
        assert_eq!(house.value(&format!("return await {call}")).await, expected, "{call}");
    }
    let done = house.exec("await Issues.list({}); return 1").await;
    assert_eq!(done["telemetry"]["nestedToolIds"], json!(["plugin:github:github_list_issues"]));
    let events = house.events.lock().unwrap();
    assert!(events.iter().any(|event| event.tool == "plugin:github:github_update_issue"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_can_be_caught_by_guest_code() {
    let house = with_issues();
    let code = "try { await Issues.list('not an object') } catch (e) { return [e instanceof Error, e.code, e.toolId] }";
    assert_eq!(house.value(code).await, json!([true, "invalid_input", "plugin:github:github_list_issues"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_namespace_calls_resume_through_wait() {
    let house = with_issues();
    let scope = house.brief();
    let code = "const [open, name] = await Promise.all([Issues.list({ a: 1 }), tools.gate({ name: 'x' })]); return [open, name, await Issues.list({ b: 2 })]";
    let waiting = house.exec_in(&scope, code).await;
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    house.gates.open("x");
    let neighbour = house.neighbour();
    assert_eq!(neighbour.wait(&waiting).await["value"], json!([{ "a": 1 }, "x", { "b": 2 }]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugin_rollback_clears_the_owning_namespace_registrations() {
    let house = with_issues();
    let suspended = house.exec("const { list } = Issues; await yield_control(); return await list({})").await;
    assert!(house.door.unregister("github"));
    assert_eq!(
        house.value("return [typeof Issues, ALL_TOOLS.some((tool) => tool.source === 'plugin')]").await,
        json!(["undefined", false])
    );
    // Bug 27 of the reference: a program that outlives what it was given is told so.
    let failed: Value = house.wait(&suspended).await;
    assert!(common::says(&failed, "unknown namespace github-issues"), "{failed}");
    house.door.register(plugin("github", vec![issues(usual_scope())])).unwrap();
    assert_eq!(house.value("return typeof Issues").await, "object");
    // Namespaces alone can go and come too, for tools that stay.
    assert!(house.door.clear_namespaces_for_plugin("github") && !house.door.clear_namespaces_for_plugin("github"));
    assert_eq!(
        house.value("return [typeof Issues, typeof tools.github_secret]").await,
        json!(["undefined", "function"])
    );
    house.door.register_namespace_for_plugin("github", issues(usual_scope())).unwrap();
    assert!(house.door.register_namespace_for_plugin("github", issues(usual_scope())).is_err(), "it is there already");
    assert!(house.door.register_namespace_for_plugin("nobody", issues(usual_scope())).is_err(), "it has no such tools");
    assert_eq!(house.value("return typeof Issues").await, "object");
    assert!(house.door.unregister_namespace("github-issues") && !house.door.unregister_namespace("github-issues"));
    assert_eq!(house.value("return typeof Issues").await, "undefined");
}
