//! Search: what comes first, what comes not at all, and that it is always the same.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_catalog::{Catalog, Entry, Index, Source, ToolId};
use serde_json::json;

fn entry(source: Source, owner: &str, name: &str, description: &str) -> Entry {
    Entry::new(ToolId::new(source, owner, name).expect("an id"), description)
}

fn index() -> Index {
    use Source::{Mcp, Openclaw};
    let mut weather = entry(Openclaw, "core", "weather", "Tell how it will be outside");
    weather.input_schema =
        json!({ "type": "object", "properties": { "barometer": { "description": "in hectopascals" } } });
    let mut trusted = weather.clone();
    trusted.id = ToolId::new(Openclaw, "core", "trusted_weather").expect("an id");
    trusted.flags.trusted = true;
    let entries = [
        entry(Openclaw, "core", "read", "Read a file of the workspace, page by page"),
        entry(Openclaw, "core", "web_fetch", "Fetch a page from the web as text"),
        entry(Openclaw, "core", "exec", "Run a shell command"),
        entry(Mcp, "github", "create_issue", "Create a new issue in a repository"),
        entry(Mcp, "github", "list_issues", "List the issues of a repository"),
        entry(Mcp, "sheets", "read_spreadsheet", "Get cells of a spreadsheet"),
        entry(Mcp, "one", "send", "Send a message"),
        entry(Mcp, "two", "send", "Send a message"),
        entry(Mcp, "math", "calculator", "Analysis of numbers"),
        weather,
        trusted,
    ];
    Index::new(&Catalog::new(entries).expect("different ids"))
}

fn found(query: &str) -> Vec<String> {
    index().search(query, 8).iter().map(|entry| entry.id.to_string()).collect()
}

#[test]
fn an_exact_name_or_id_comes_first() {
    assert_eq!(found("read")[0], "openclaw:core:read");
    assert_eq!(found("openclaw:core:exec")[0], "openclaw:core:exec");
    assert_eq!(found("WEB_FETCH")[0], "openclaw:core:web_fetch");
    assert_eq!(found("send")[..2], ["mcp:one:send", "mcp:two:send"]);
}

#[test]
fn people_need_not_know_the_name() {
    assert_eq!(found("open a ticket: create an issue please")[0], "mcp:github:create_issue");
    assert_eq!(found("download a web page")[0], "openclaw:core:web_fetch");
    assert_eq!(found("analyze numbers")[0], "mcp:math:calculator");
    assert_eq!(found("calculations")[0], "mcp:math:calculator");
    assert_eq!(found("listIssues in repositories")[0], "mcp:github:list_issues");
}

#[test]
fn parts_of_words_do_not_count() {
    // Bug #114285 of the reference: "read" was found in "spreadsheet".
    assert_eq!(found("read a file")[0], "openclaw:core:read");
    assert!(!found("sprea").contains(&"openclaw:core:read".to_owned()));
}

#[test]
fn a_query_without_a_usable_word_finds_nothing() {
    for query in ["", "   ", "the of and to", "!?", "zzzz qqqq"] {
        assert_eq!(found(query), Vec::<String>::new(), "{query}");
    }
}

#[test]
fn parameters_count_for_trusted_tools_only() {
    assert_eq!(found("barometer hectopascals"), ["openclaw:core:trusted_weather"]);
}

#[test]
fn the_limit_is_kept_and_the_order_is_always_the_same() {
    let index = index();
    let ids = |limit: usize| {
        index.search("issue repository send message page", limit).iter().map(|e| e.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(0).len(), 0);
    let all = ids(50);
    for limit in 1..all.len() {
        assert_eq!(ids(limit), all[..limit]);
    }
    assert_eq!(found("message send"), found("send message"));
}

#[test]
fn odd_queries_do_no_harm() {
    for query in ["\u{0}\u{ffff}", &"long ".repeat(10_000), "ÄÖÜ ß İ ﬁ 東京 🦀🦀", "a'b\"c\\d", &"x".repeat(100_000)]
    {
        index().search(query, 50);
    }
    assert!(Index::new(&Catalog::default()).search("anything", 8).is_empty());
}
