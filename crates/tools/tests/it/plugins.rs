//! What a plugin brings is registered together and taken back together, and is its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{echo, entry, house};
use pincer_catalog::{Catalog, Policy};
use pincer_tools::hooks::{BeforeVerdict, FnHook, Hook};
use pincer_tools::{
    Arguments, Context, ErrorCode, Matcher, Namespace, NamespaceFunction, NamespacePart, NamespaceSource, Plugin,
    RunCatalog,
};
use serde_json::{Value, json};

fn blocking() -> Hook {
    let blocked = || BeforeVerdict { block: Some(true), ..BeforeVerdict::default() };
    Hook {
        name: "issues".into(),
        matcher: Matcher::parse("matcher", &["echo"]).unwrap(),
        priority: 0,
        timeout: Duration::from_secs(1),
        hook: Arc::new(FnHook(move |_: &_| Ok(blocked()))),
    }
}

fn namespace(global: &str, tool: &str) -> Namespace {
    let call = NamespacePart::Tool(NamespaceFunction { tool: tool.into(), arguments: Arguments::First });
    Namespace {
        id: format!("{global}-id"),
        global: global.into(),
        description: None,
        prompt: None,
        required_tools: vec!["list_issues".into()],
        scope: NamespaceSource::Fixed(NamespacePart::Object(BTreeMap::from([("list".into(), call)]))),
    }
}

fn plugin() -> Plugin {
    Plugin {
        tools: vec![(entry("plugin:issues:list_issues"), echo())],
        hooks: vec![blocking()],
        namespaces: vec![namespace("Issues", "list_issues")],
        ..Plugin::new("issues")
    }
}

#[tokio::test]
async fn a_plugin_comes_and_goes_as_a_whole() {
    let house = house(|door| door);
    let all = |policy: &Policy| RunCatalog::new(&Catalog::new(house.door.entries()).unwrap(), policy);
    house.door.register(plugin()).unwrap();
    assert_eq!(house.door.namespaces()[0].0, "issues");
    assert_eq!(house.error("echo", json!({ "text": "x" })).await.code, ErrorCode::Blocked, "its hook is asked");
    let scope = all(&Policy::open());
    let call = || crate::common::call("list_issues", json!({ "text": "x" }));
    assert!(house.door.call(&scope, &Context::default(), call(), Arc::new(())).await.result.is_ok());

    assert!(house.door.unregister("issues"));
    assert!(!house.door.unregister("issues"));
    assert!(house.door.namespaces().is_empty());
    assert!(house.call("echo", json!({ "text": "x" })).await.result.is_ok(), "its hook is gone");
    let error = house.door.call(&scope, &Context::default(), call(), Arc::new(())).await.result.unwrap_err();
    assert_eq!(error.code, ErrorCode::UnknownTool, "a view that is older than that finds nothing either");
    house.door.register(plugin()).unwrap();
}

#[test]
fn what_is_not_its_own_is_refused_and_leaves_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    let house = house(|door| door.plugin(Plugin { hooks: vec![blocking()], ..Plugin::new("first") }).unwrap());
    let before = house.door.entries().len();
    let other = |id: &str| vec![(entry("plugin:issues:list_issues"), echo()), (entry(id), echo())];
    let namespaces = |namespace: Namespace| Plugin { namespaces: vec![namespace], ..plugin() };
    for (plugin, told) in [
        (Plugin { id: "Bad_Id".into(), ..plugin() }, "`Bad_Id` is not an id"),
        (Plugin { id: "core".into(), ..plugin() }, "`core` is not an id"),
        (Plugin { id: "a--b".into(), ..plugin() }, "`a--b` is not an id"),
        (Plugin::new("first"), "registered already"),
        (Plugin { tools: other("plugin:else:x"), ..plugin() }, "the tool plugin:else:x is not its own"),
        (Plugin { tools: other("openclaw:core:read"), ..plugin() }, "the tool openclaw:core:read is not its own"),
        (Plugin { tools: other("plugin:issues:list_issues"), ..plugin() }, "registered already"),
        (namespaces(namespace("tools", "list_issues")), "`tools` cannot be the global"),
        (namespaces(namespace("not a name", "list_issues")), "`not a name` cannot be the global"),
        (namespaces(namespace("__openclaw", "list_issues")), "`__openclaw` cannot be the global"),
        (namespaces(namespace("Issues", "other")), "`list` of the namespace `Issues-id` calls `other`"),
        (
            namespaces(Namespace { required_tools: vec!["echo".into()], ..namespace("Issues", "echo") }),
            "needs the tool `echo`, which the plugin does not have",
        ),
        (
            Plugin { namespaces: vec![namespace("Issues", "list_issues"); 2], ..plugin() },
            "there is a namespace `Issues",
        ),
    ] {
        // The id of the first must be taken by something.
        let id = plugin.id.clone();
        let plugin = if id == "first" { Plugin { hooks: vec![blocking()], ..plugin } } else { plugin };
        let error = house.door.register(plugin).expect_err(told).to_string();
        assert!(error.contains(told), "{error} / {told}");
        assert_eq!(house.door.entries().len(), before, "{told}");
        assert!(house.door.namespaces().is_empty(), "{told}");
    }
}

#[test]
fn unsafe_keys_are_refused_wherever_they_stand() {
    let with =
        |scope: NamespacePart| Namespace { scope: NamespaceSource::Fixed(scope), ..namespace("Issues", "list_issues") };
    let object =
        |key: &str| NamespacePart::Object(BTreeMap::from([(key.to_owned(), NamespacePart::Value(Value::Null))]));
    let mut deep = NamespacePart::Value(Value::Null);
    for _ in 0..40 {
        deep = NamespacePart::Array(vec![deep]);
    }
    for scope in [
        object("__proto__"),
        object("constructor"),
        object(""),
        object("a\0b"),
        NamespacePart::Array(vec![object("prototype")]),
        NamespacePart::Value(json!({ "a": [{ "__proto__": 1 }] })),
        deep,
    ] {
        assert!(with(scope.clone()).check_scope(&scope).is_err(), "{scope:?}");
    }
}

#[test]
fn arguments_become_input() {
    let named = Arguments::Named(vec!["number".into(), "patch".into()]);
    for (arguments, given, expected) in [
        (&Arguments::First, vec![Some(json!({ "a": 1 })), Some(json!(2))], Ok(json!({ "a": 1 }))),
        (&Arguments::First, vec![], Ok(json!({}))),
        (&Arguments::First, vec![Some(Value::Null)], Ok(json!({}))),
        (&named, vec![Some(json!(5)), Some(json!({ "x": 1 }))], Ok(json!({ "number": 5, "patch": { "x": 1 } }))),
        (&named, vec![Some(json!(5))], Ok(json!({ "number": 5 }))),
        (&named, vec![Some(json!({ "patch": 1 }))], Ok(json!({ "patch": 1 }))),
        (&named, vec![None, Some(json!(1)), None], Ok(json!({ "patch": 1 }))),
        (&named, vec![Some(Value::Null), Some(Value::Null)], Ok(json!({ "number": null, "patch": null }))),
        (
            &named,
            vec![Some(json!(1)), Some(json!(2)), Some(json!(3))],
            Err("takes 2 arguments (number, patch), and got 3"),
        ),
    ] {
        assert_eq!(arguments.input(given).map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }
    let mapped = Arguments::Mapped(Arc::new(|arguments| json!({ "all": arguments })));
    assert_eq!(mapped.input(vec![None, Some(json!(1))]), Ok(json!({ "all": [null, 1] })));
}
