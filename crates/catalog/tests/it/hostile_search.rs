//! Questions and entries that mean harm, or are merely enormous.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_catalog::{Catalog, Entry, Index, Source, ToolId};
use proptest::prelude::*;
use serde_json::json;

const HONEST: &[(&str, &str, &str)] = &[
    ("slack", "send_message", "Send a message to a channel"),
    ("github", "create_issue", "Create an issue in a repository"),
    ("weather", "get_forecast", "Get the weather forecast for a city"),
    ("files", "delete_file", "Delete a file"),
    ("travel", "search_flights", "Search for flights between two cities"),
    ("mail", "send_email", "Send an email"),
];

const QUESTIONS: &[(&str, &str)] = &[
    ("send a message to a channel", "send_message"),
    ("create an issue in the repository", "create_issue"),
    ("weather forecast for my city", "get_forecast"),
    ("delete a file", "delete_file"),
    ("flights between two cities", "search_flights"),
    ("send an email", "send_email"),
];

fn entry(owner: &str, name: &str, description: &str) -> Entry {
    Entry::new(ToolId::new(Source::Mcp, owner, name).expect("an id"), description)
}

fn with_honest(hostile: impl IntoIterator<Item = Entry>) -> Index {
    let honest = HONEST.iter().map(|(owner, name, description)| entry(owner, name, description));
    Index::new(&Catalog::new(honest.chain(hostile)).expect("different ids"))
}

fn first(index: &Index, question: &str) -> String {
    index.search(question, 1).first().map(|entry| entry.id.name().to_owned()).unwrap_or_default()
}

/// All words of all honest descriptions, many times over.
fn stuffing() -> String {
    let words: Vec<&str> = HONEST.iter().map(|(_, _, description)| *description).collect();
    format!("{} ", words.join(" ")).repeat(2_000)
}

#[test]
fn a_tool_with_everybodys_words_does_not_come_first() {
    let stuffed = stuffing();
    let as_name: String = stuffed.replace(' ', "_").chars().take(2_000).collect();
    let parameters = json!({ "type": "object", "properties": { "x": { "description": stuffed } } });
    let trusted = |mut entry: Entry| {
        entry.flags.trusted = true;
        entry.input_schema = parameters.clone();
        entry
    };
    for (what, hostile) in [
        ("a description", vec![entry("evil", "helper", &stuffed)]),
        ("a name", vec![entry("evil", &as_name, "Helps")]),
        ("an owner", vec![entry(&as_name, "helper", "Helps")]),
        ("parameters", vec![trusted(entry("evil", "helper", "Helps"))]),
        ("a crowd", (0..200).map(|number| entry("evil", &format!("helper_{number}"), &stuffed)).collect()),
    ] {
        let index = with_honest(hostile);
        for (question, tool) in QUESTIONS {
            assert_eq!(&first(&index, question), tool, "{what}: {question}");
        }
    }
}

#[test]
fn what_is_read_of_an_entry_has_an_end() {
    let late = |filler: &str| format!("{} sesquipedalian", filler.repeat(100_000));
    let mut nested = json!({ "description": "sesquipedalian" });
    for _ in 0..100 {
        nested = json!({ "type": "object", "properties": { "p": nested } });
    }
    let mut deep = entry("evil", "deep", "Deep");
    (deep.input_schema, deep.flags.trusted) = (nested, true);
    let many: serde_json::Map<String, serde_json::Value> =
        (0..20_000).map(|number| (format!("p{number}"), json!({ "description": "words and words" }))).collect();
    let mut wide = entry("evil", "wide", "Wide");
    (wide.input_schema, wide.flags.trusted) = (json!({ "properties": many, "z": {} }), true);
    let index = with_honest([
        entry("evil", "long", &late("filler ")),
        entry("evil", &late("name_"), "A long name"),
        // One word without an end, in letters of several bytes so that the end is within one.
        entry("evil", "word", &"é".repeat(1_000_000)),
        entry("evil", "run", &"東".repeat(1_000_000)),
        deep,
        wide,
    ]);
    assert!(index.search("sesquipedalian", 10).is_empty());
    assert_eq!(first(&index, "send an email"), "send_email");
    assert_eq!(first(&index, "filler"), "long");
}

#[test]
fn what_is_read_of_a_question_has_an_end() {
    let index = with_honest([]);
    let late = format!("{}delete a file", "weather ".repeat(200_000));
    assert_eq!(first(&index, &late), "get_forecast");
    assert_eq!(index.search(&late, 10).len(), 1, "words behind the end count for nothing");
    let early = format!("delete a file. {}", "zzz ".repeat(1_000_000));
    assert_eq!(first(&index, &early), "delete_file");
    for question in ["é".repeat(1_000_000), "東".repeat(1_000_000), "a.b ! ".repeat(100_000), "/".repeat(1_000_000)] {
        index.search(&question, 10);
    }
}

#[test]
fn words_that_all_begin_alike_are_compared_up_to_a_number() {
    let crowd = (0..20_000).map(|number| entry("evil", &format!("t{number}"), &format!("mess{number:05}x")));
    let index = with_honest(crowd);
    assert_eq!(first(&index, "send a message to a channel"), "send_message");
    assert_eq!(first(&index, &"message ".repeat(1_000)), "send_message");
}

#[test]
fn control_characters_are_no_words() {
    let index = with_honest([entry("evil", "escape", "\u{1b}[31mdelete\u{7} a\u{0} file\u{202e}")]);
    assert_eq!(first(&index, "\u{1b}[2J\u{0}delete\r\n\u{7}a\tfile\u{9b}"), "delete_file");
    assert!(index.search("\u{0}\u{1b}\u{9b}\u{202e}\u{feff}", 10).is_empty());
}

proptest! {
    #[test]
    fn any_question_to_any_catalog_has_one_answer(
        question in r"\PC{0,200}|[a-z .,/~@:?東京のファイル한글عरф]{0,300}",
        descriptions in proptest::collection::vec(r"\PC{0,80}|[a-z 東京の한글]{0,80}", 0..12),
        limit in 0_usize..20,
    ) {
        let hostile = || descriptions.iter().enumerate().map(|(number, text)| entry("any", &format!("tool{number}"), text));
        let index = with_honest(hostile());
        let ids = |index: &Index, limit| index.search(&question, limit).iter().map(|entry| entry.id.to_string()).collect::<Vec<_>>();
        let found = ids(&index, limit);
        prop_assert!(found.len() <= limit);
        let all = ids(&index, 1_000);
        prop_assert_eq!(&found[..], &all[..limit.min(all.len())]);
        prop_assert_eq!(ids(&with_honest(hostile()), limit), found);
    }
}
