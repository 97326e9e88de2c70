//! What servers say they have: odd, too much, changing, or simply wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::HashSet;

use crate::common::settings::{launch, variable};
use crate::common::{House, is_private, setup, with_liar, within};
use pincer_catalog::{Catalog, Layer, Policy, Rules, names::camel_names};
use pincer_mcp::{Directory, Health, ServerSettings, ToolFilter};
use pincer_tools::{Call, Context, Effect, ErrorCode, RunCatalog};
use serde_json::{Value, json};

/// A house whose liar has been asked for its list.
async fn listed(mode: &str) -> House {
    with_liar(mode).asked().await
}

fn filter(allow: &[&str], deny: &[&str]) -> ToolFilter {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ToolFilter { allow: owned(allow), deny: owned(deny) }
}

fn remarks(house: &House) -> Vec<String> {
    house.servers.get("liar").unwrap().seen().listing.unwrap().remarks.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_in_circles_are_declared_and_their_tools_called() {
    let house = listed("cycles").await;
    let tools = house.tools("liar");
    assert_eq!(tools, ["itself", "root", "mutual", "dangling", "remote", "deep", "enormous", "booleans"]);
    for tool in &tools {
        let said = house.text(&format!("mcp:liar:{tool}"), json!({})).await;
        assert!(said.contains(tool.as_str()), "{said}");
    }
    let wrong = house.error("mcp:liar:enormous", json!({ "one": "value-10000" })).await;
    assert_eq!(wrong.code, ErrorCode::InvalidInput, "a schema that can be used is: {wrong}");
    assert!(wrong.message.len() < 2000, "{wrong}");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_beyond_the_parser_is_an_error_that_names_the_server() {
    let house = setup().liar("cycles").with(|liar| variable(liar, "LIAR_DEPTH", "200")).open().asked().await;
    let Health::Down(why) = house.servers.get("liar").unwrap().seen().health else { panic!("it cannot be listed") };
    assert!(why.contains("cannot list its tools") && why.contains("nested deeper than 100 levels"), "{why}");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_tools_are_all_there_and_each_can_be_called() {
    let house = listed("many").await;
    assert_eq!(house.tools("liar").len(), 5000);
    assert!(house.text("mcp:liar:tool_4999", json!({})).await.contains("tool_4999"));
    let catalog = Catalog::new(house.door.entries()).unwrap();
    assert!(catalog.find("mcp:liar:tool_0000").is_ok());
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_data_and_each_reaches_its_own_tool() {
    let house = listed("names").await;
    let tools = house.tools("liar");
    assert_eq!(tools.iter().collect::<HashSet<_>>().len(), tools.len());
    assert!(!tools.iter().any(|name| name.is_empty() || name.chars().any(char::is_control)), "{tools:?}");
    for name in ["__proto__", "../../etc/passwd", "*/ comment /*", "UPPER", "upper", "Upper", "日本語", "a%20b"] {
        assert!(tools.iter().any(|tool| tool == name), "{name}");
    }
    for name in &tools {
        let said: Value = serde_json::from_str(&house.text(&format!("mcp:liar:{name}"), json!({})).await).unwrap();
        assert_eq!(said["name"], **name);
    }
    let names: Vec<&str> = tools.iter().map(String::as_str).collect();
    let guest: HashSet<String> = camel_names(&names, &[]).into_iter().collect();
    assert_eq!(guest.len(), tools.len(), "programs can tell them apart");
    assert_eq!(remarks(&house), ["5 tools have no name that can be used, and are left out"]);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_wrong_are_taken_as_far_as_they_are_right() {
    for (mode, expected, remark) in [
        ("duplicates", &["twin", "single"][..], "4 tools have a name that another one has"),
        (
            "bad-tools",
            &[
                "first",
                "string-schema",
                "null-schema",
                "no-schema",
                "array-schema",
                "string-type",
                "wrong-description",
                "wrong-annotations",
                "wrong-output",
                "last",
            ],
            "4 tools have no name that can be used",
        ),
        ("hints", &["look", "again", "plain"], "2 tools have the name of something that is no tool"),
    ] {
        let house = listed(mode).await;
        assert_eq!(house.tools("liar"), expected, "{mode}");
        assert!(remarks(&house).iter().any(|told| told.contains(remark)), "{mode}: {:?}", remarks(&house));
        // Whoever says that it takes a string is not given an object.
        for tool in expected.iter().filter(|tool| **tool != "string-type") {
            let outcome = house.call(&format!("mcp:liar:{tool}"), json!({})).await;
            assert!(outcome.result.is_ok(), "{mode} {tool}: {outcome:?}");
        }
        house.is_unharmed().await;
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_without_end_comes_to_one() {
    let house = listed("endless").await;
    assert_eq!(house.tools("liar").len(), 500);
    assert!(remarks(&house).iter().any(|told| told.contains("more than 500 pages")), "{:?}", remarks(&house));
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_books_is_cut_off() {
    let house = listed("fat").await;
    let tools = house.tools("liar");
    assert_eq!(tools[0], "thin");
    assert!(!tools.contains(&"fattest".to_owned()));
    let bytes: usize = house.door.entries().iter().map(|entry| entry.description.len()).sum();
    assert!(bytes < 33 << 20 && tools.len() > 100, "{bytes} bytes, {} tools", tools.len());
    assert!(remarks(&house).iter().any(|told| told.contains("too large")), "{:?}", remarks(&house));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_is_followed_and_the_old_tool_says_so() {
    let house = listed("changing").await;
    assert_eq!(house.tools("liar"), ["swap", "old"]);
    let scope = house.scope();
    assert_eq!(house.text("mcp:liar:swap", json!({})).await, "swapped");
    house.until(|house| house.tools("liar") == ["swap", "new"]).await;
    assert!(house.text("mcp:liar:new", json!({})).await.contains("new"));
    // A run that began before still has it in its catalog.
    let call = Call { id: "call-1".into(), tool: "mcp:liar:old".into(), input: json!({}).into(), ..Call::default() };
    let outcome = house.door.call(&scope, &Context::default(), call, std::sync::Arc::new(())).await;
    let error = outcome.result.unwrap_err();
    assert_eq!((error.code, outcome.effect), (ErrorCode::UnknownTool, Effect::None));
    assert!(error.message.contains("mcp:liar:old") && error.message.contains("taken back"), "{error}");
    house.is_unharmed().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_fails_at_first_is_asked_for_again() {
    let house = listed("flaky-list").await;
    house.until(|house| house.tools("liar") == ["echo"]).await;
    assert_eq!(house.servers.get("liar").unwrap().seen().health, Health::Up);
    assert!(house.text("mcp:liar:echo", json!({ "a": 1 })).await.contains(r#"{"a":1}"#));
    assert_eq!(house.pids("liar").len(), 1);
    assert!(!house.path("state/mcp/liar.down.json").exists(), "it was not down");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_ended_while_it_lists_was_not_down() {
    let house = with_liar("flaky-list");
    let liar = std::sync::Arc::clone(house.servers.get("liar").unwrap());
    let listing = tokio::spawn(async move { liar.refresh().await.map(drop) });
    house.until(|house| house.servers.get("liar").unwrap().seen().health == Health::Up).await;
    within(house.servers.end()).await;
    let _ = within(listing).await.unwrap();
    assert!(!house.path("state/mcp/liar.down.json").exists(), "the next process waits for it");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_takes_names_and_globs() {
    for (filter, expected) in [
        (
            filter(&["first", "*-schema"], &[]),
            &["first", "string-schema", "null-schema", "no-schema", "array-schema"][..],
        ),
        (filter(&["*st*"], &["string-*"]), &["first", "last"]),
        (filter(&[], &["*-*"]), &["first", "last"]),
        (filter(&["FIRST"], &[]), &[]),
    ] {
        let house = setup().liar("bad-tools").with(|liar| liar.tools = filter.clone()).open().asked().await;
        assert_eq!(house.tools("liar"), expected, "{filter:?}");
        for id in ["mcp:liar:wrong-output", "wrong-output"] {
            assert_eq!(house.error(id, json!({})).await.code, ErrorCode::UnknownTool, "{filter:?}");
        }
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_tool_is_absent_and_cannot_be_guessed() {
    let house = setup().open().asked().await;
    let catalog = Catalog::new(house.door.entries()).unwrap();
    let denied = ["mcp:good:test_simple_text", "mcp:good:resources/*"];
    let rules = Rules { deny: denied.map(str::to_owned).into(), ..Rules::default() };
    let scope = RunCatalog::new(&catalog, &Policy::open().with(Layer::new("tools", &rules).unwrap()));
    let names: Vec<&str> = scope.view().iter().map(|entry| entry.id.name()).collect();
    assert!(names.contains(&"prompts/get") && !names.iter().any(|name| name.starts_with("resources/")), "{names:?}");
    for tool in ["mcp:good:test_simple_text", "test_simple_text", "mcp:good:resources/read", "resources/read"] {
        let input = json!({ "uri": "test://static-text" });
        let call = Call { id: "call-1".into(), tool: tool.into(), input: input.into(), ..Call::default() };
        let outcome = house.door.call(&scope, &Context::default(), call, std::sync::Arc::new(())).await;
        assert_eq!(outcome.result.unwrap_err().code, ErrorCode::UnknownTool, "{tool}");
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_list_is_used_without_starting_the_server() {
    let house = listed("bad-result").await;
    let tools = house.tools("liar");
    assert!(is_private(&house.path("state/mcp/liar.json")));
    let house = house.reopened(|setup| setup.liar("bad-result")).await;
    assert_eq!(house.tools("liar"), tools);
    within(house.servers.ready()).await;
    assert_eq!(house.pids("liar").len(), 1, "nobody has started it again");
    assert_eq!(house.text("mcp:liar:good", json!({})).await, "good");
    assert_eq!(house.pids("liar").len(), 2, "the call did");
    // The same name for something else.
    let others: [fn(&mut ServerSettings); 2] =
        [|liar| variable(liar, "PLACE", "elsewhere"), |liar| launch(liar).directory = Directory::Named("/".into())];
    for other in others {
        let house = listed("bad-result").await;
        let house = house.reopened(|setup| setup.liar("bad-result").with(other)).await;
        assert!(house.tools("liar").is_empty());
    }
    let house = house.reopened(|setup| setup.liar("changing")).await;
    assert!(house.tools("liar").is_empty(), "other arguments");
    let house = house.asked().await;
    assert_eq!(house.tools("liar"), ["swap", "old"]);
    house.end().await;
}
