//! Changes to the text of a file: what is added, and that nothing else changes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use pincer_config::keys::{McpAuth, McpServer, McpToolFilter};
use pincer_config::{EditError, Edited, Existing, Keys, add_servers, edit, parse};
use proptest::prelude::*;
use serde_json::{Value, json};

fn npx() -> McpServer {
    McpServer { command: Some("npx".into()), args: vec!["-y".into(), "a".into()], ..McpServer::default() }
}

fn add(text: &str, existing: Existing) -> Result<Edited, EditError> {
    add_servers(text, &BTreeMap::from([("new".to_owned(), npx())]), existing, &|_| None)
}

#[test]
fn a_server_is_added_in_the_way_the_file_is_written() {
    for (text, expected) in [
        (
            "",
            "{\n  mcp: {\n    servers: {\n      new: {\n        command: \"npx\",\n        args: [\"-y\", \"a\"]\n      }\n    }\n  }\n}\n",
        ),
        (
            "// mine\n",
            "// mine\n{\n  mcp: {\n    servers: {\n      new: {\n        command: \"npx\",\n        args: [\"-y\", \"a\"]\n      }\n    }\n  }\n}\n",
        ),
        (
            "{}",
            "{\n  mcp: {\n    servers: {\n      new: {\n        command: \"npx\",\n        args: [\"-y\", \"a\"]\n      }\n    }\n  }\n}",
        ),
        ("{ mcp: { servers: {} } }", "{ mcp: { servers: { new: { command: \"npx\", args: [\"-y\", \"a\"] } } } }"),
        ("{tools:{}}", "{tools:{}, mcp: { servers: { new: { command: \"npx\", args: [\"-y\", \"a\"] } } }}"),
        ("{ tools: {}, }", "{ tools: {}, mcp: { servers: { new: { command: \"npx\", args: [\"-y\", \"a\"] } } }, }"),
        // Quotes, tabs and Windows lines are kept to.
        (
            "{\r\n\t\"tools\": {}\r\n}\r\n",
            "{\r\n\t\"tools\": {},\r\n\t\"mcp\": {\r\n\t\t\"servers\": {\r\n\t\t\t\"new\": {\r\n\t\t\t\t\"command\": \"npx\",\r\n\t\t\t\t\"args\": [\"-y\", \"a\"]\r\n\t\t\t}\r\n\t\t}\r\n\t}\r\n}\r\n",
        ),
        // Comments stay with what they are about.
        (
            "{\n  mcp: { // servers\n    servers: {\n      a: { url: 'https://a' } // about a\n      // c: {},\n    } /* end */\n  },\n}",
            "{\n  mcp: { // servers\n    servers: {\n      a: { url: 'https://a' }, // about a\n      // c: {},\n      new: {\n        command: \"npx\",\n        args: [\"-y\", \"a\"]\n      }\n    } /* end */\n  },\n}",
        ),
        (
            "{\n  mcp: {\n    servers: {\n      // none yet\n    },\n  },\n}",
            "{\n  mcp: {\n    servers: {\n      // none yet\n      new: {\n        command: \"npx\",\n        args: [\"-y\", \"a\"]\n      }\n    },\n  },\n}",
        ),
        (
            "{ mcp: { servers: { a: { url: 'https://a' } // a\n} } }",
            "{ mcp: { servers: { a: { url: 'https://a' }, // a\n  new: {\n    command: \"npx\",\n    args: [\"-y\", \"a\"]\n  }\n} } }",
        ),
        (
            "\u{feff}{ mcp: { servers: {} } }",
            "\u{feff}{ mcp: { servers: { new: { command: \"npx\", args: [\"-y\", \"a\"] } } } }",
        ),
    ] {
        let edited = add(text, Existing::Keep).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(edited.text, expected, "{text}");
        assert_eq!(edited.added, ["new"]);
    }
}

#[test]
fn a_server_that_is_there_stays_unless_it_is_to_be_replaced() {
    let text = "{ mcp: { servers: { NEW: { url: 'https://old' /* why */ } /* mine */ } } }";
    let kept = add(text, Existing::Keep).unwrap();
    assert_eq!((kept.text.as_str(), kept.kept), (text, vec!["NEW".to_owned()]));
    let replaced = add(text, Existing::Replace).unwrap();
    assert_eq!(
        (replaced.text.as_str(), replaced.replaced),
        (
            "{ mcp: { servers: { NEW: { command: \"npx\", args: [\"-y\", \"a\"] } /* mine */ } } }",
            vec!["NEW".to_owned()]
        )
    );
}

#[test]
fn every_spelling_that_the_parser_knows_is_kept() {
    for text in [
        "{ tools: { 'deny': ['it\\'s', \"\\x41\\u0042\\\nx\", '//', '/*'] }, }",
        "{ t\\u006fols: { codeMode: { timeoutMs: 0x1F40, memoryLimitBytes: +1e8 } } }",
        "{ /* } */ tools: { /* { */ } }",
        "{ tools: { deny: ['a', 'b',] } // mcp: {}\u{2028}, mcp: {} }",
        "{\u{a0}tools\u{2003}:\u{feff}{} }",
        "{ \"mcp\": { 'servers': { \"a.b\": { url: 'http://x' } } } }",
    ] {
        let edited = add(text, Existing::Keep).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut config = parse(&edited.text, &|_| None).unwrap().config;
        assert_eq!(config.mcp.servers.remove("new"), Some(npx()), "{text}");
        assert_eq!(config, parse(text, &|_| None).unwrap().config, "{text}");
    }
}

#[test]
fn what_cannot_be_added_is_refused_and_told() {
    let with = |text: &str, server: McpServer| {
        let error = add_servers(text, &BTreeMap::from([("new".to_owned(), server)]), Existing::Keep, &|_| None);
        error.expect_err(text).to_string()
    };
    for (text, told) in [
        ("{ tools: ", "the file cannot be changed before it is right:\nline 1, column 1: this is not JSON5"),
        ("{ tols: {} }", "the file cannot be changed before it is right:\ntols: there is no such key"),
        ("{ mcp: [] }", "the file cannot be changed before it is right:\nmcp: a list is not an object"),
        ("{ mcp: {}, mcp: {} }", "the file cannot be changed before it is right:\nline 1, column 1: this is not JSON5"),
        ("[]", "the file cannot be changed before it is right:\na list is not an object"),
    ] {
        let error = with(text, npx());
        assert!(error.starts_with(told), "{text}: {error}");
    }
    let deep = format!("{{ a: {}1{} }}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(with(&deep, npx()).contains("nested more than 64 deep"));
    assert!(with("", McpServer::default()).contains("mcp.servers.new: a server needs a `command`"));
    let long = McpServer { args: vec!["x".repeat(1 << 20)], ..npx() };
    assert!(with("", long).contains("the config would have"));
}

#[test]
fn variables_that_are_not_set_yet_are_no_obstacle() {
    let server = McpServer {
        url: Some("${URL}".into()),
        auth: McpAuth { token: Some("${TOKEN}".into()), ..McpAuth::default() },
        ..McpServer::default()
    };
    let text = "{ mcp: { serve: { tokens: { me: '${MINE}' } } } }";
    let edited =
        add_servers(text, &BTreeMap::from([("a".to_owned(), server.clone())]), Existing::Keep, &|_| None).unwrap();
    assert_eq!(
        edited.text,
        "{ mcp: { serve: { tokens: { me: '${MINE}' } }, servers: { a: { url: \"${URL}\", auth: { token: \"${TOKEN}\" } } } } }"
    );
}

#[test]
fn a_server_is_written_without_its_defaults() {
    let server = McpServer {
        tools: McpToolFilter { allow: vec!["x".into()], deny: vec![] },
        enabled: false,
        timeout_ms: 60_000,
        connect_timeout_ms: 5,
        ..npx()
    };
    assert_eq!(
        server.written(),
        json!({ "command": "npx", "args": ["-y", "a"], "enabled": false, "tools": { "allow": ["x"] }, "connectTimeoutMs": 5 })
    );
    assert_eq!(McpServer::default().written(), json!({}));
}

#[test]
fn a_member_is_taken_out_with_its_line() {
    for (text, path, expected) in [
        ("{ \"a\": 1, \"b\": 2 }", &["b"][..], "{ \"a\": 1 }"),
        ("{ \"a\": 1, \"b\": 2 }", &["a"], "{ \"b\": 2 }"),
        ("{\"a\":1}", &["a"], "{}"),
        ("{\n  \"a\": 1,\n  // about b\n  \"b\": 2 // b\n}\n", &["b"], "{\n  \"a\": 1\n  // about b\n}\n"),
        ("{\r\n  \"a\": 1, // a\r\n  \"b\": 2,\r\n}", &["a"], "{\r\n  \"b\": 2,\r\n}"),
        ("{\n  a: 1,\n  b: 2, c: 3\n}", &["b"], "{\n  a: 1,\n  c: 3\n}"),
        ("{\n  a: 1, /* x */\n  b: {\n  } }", &["b"], "{\n  a: 1 /* x */\n }"),
        ("{ a: 1, b: 2, a: 3 }", &["a"], "{ b: 2 }"),
        ("{ m: { 'x/~': 1, y: 2 } }", &["m", "x/~"], "{ m: { y: 2 } }"),
        ("{ a: 1 }", &["z"], "{ a: 1 }"),
        ("{ a: 1 }", &["a", "z"], "{ a: 1 }"),
    ] {
        assert_eq!(edit::remove(text, path).unwrap(), expected, "{text}");
    }
}

#[test]
fn only_objects_are_added_to() {
    let error = edit::set("{ a: [1] }", &["a", "b"], &json!(1), Keys::Quoted).unwrap_err();
    assert_eq!(error.to_string(), "`a` is not an object, so nothing can be added to it: mend it by hand");
}

/// Texts of objects with comments and blanks in all places, and how many comments they have.
fn trivia() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => "[a-z{},:'\"]{0,4}".prop_map(|text| format!("/*{text}#*/")),
        1 => "[a-z{},:'\"]{0,4}".prop_map(|text| format!("//{text}#\n")),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z][a-zA-Z0-9_$]{0,4}", "\"[ -!#-\\[\\]-~]{0,4}\"", "'[ -&(-\\[\\]-~]{0,4}'"]
}

fn json5() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("0x1f".to_owned()),
        Just("-.5e1".to_owned()),
        "'[ -&(-\\[\\]-~]{0,6}'",
        "\"([ -!#-\\[\\]-~]|\\\\\"|\\\\\n){0,6}\"",
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = (prop::collection::vec((trivia(), inner.clone(), trivia()), 0..3), trivia(), any::<bool>());
        let list = list.prop_map(|(items, end, comma)| {
            surrounded('[', items.iter().map(|(a, v, b)| format!("{a}{v}{b}")), &end, comma, ']')
        });
        prop_oneof![list, object(inner)]
    })
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (trivia(), key(), trivia(), trivia(), value, trivia());
    (prop::collection::vec(member, 0..4), trivia(), any::<bool>()).prop_map(|(members, end, comma)| {
        let members = members.iter().map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}"));
        surrounded('{', members, &end, comma, '}')
    })
}

fn surrounded(open: char, items: impl Iterator<Item = String>, end: &str, comma: bool, close: char) -> String {
    let items: Vec<String> = items.collect();
    let comma = if comma && !items.is_empty() { "," } else { "" };
    format!("{open}{}{comma}{end}{close}", items.join(","))
}

fn is_subsequence(of: &str, text: &str) -> bool {
    let mut rest = text.chars();
    of.chars().all(|wanted| rest.any(|c| c == wanted))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_text_says_it_still_says_after_an_addition(
        before in trivia(), root in object(json5()), after in trivia(), deep in any::<bool>(), quoted in any::<bool>(),
    ) {
        let text = format!("{before}{root}{after}");
        let old = edit::value(&text).unwrap();
        let path: &[&str] = if deep { &["~new", "b", "c d"] } else { &["~new"] };
        let keys = if quoted { Keys::Quoted } else { Keys::Plain };
        let new = edit::set(&text, path, &json!({ "command": "x", "args": ["y"] }), keys).unwrap();
        // Every character that was there is there, in its order: nothing was rewritten.
        prop_assert!(is_subsequence(&text, &new));
        prop_assert_eq!(new.matches('#').count(), text.matches('#').count());
        let mut value = edit::value(&new).unwrap();
        prop_assert!(value.as_object_mut().unwrap().remove("~new").is_some());
        prop_assert_eq!(&value, &old);
        // And taken out again, with all that was not added beside it.
        let gone = edit::remove(&new, &path[..1]).unwrap();
        prop_assert_eq!(edit::value(&gone).unwrap(), old);
        prop_assert_eq!(gone.matches('#').count(), text.matches('#').count());
    }

    #[test]
    fn a_config_with_comments_keeps_them_and_all_its_values(
        gaps in prop::collection::vec(trivia(), 12), trailing in any::<bool>(),
    ) {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = &gaps[..] else { unreachable!() };
        let comma = if trailing { "," } else { "" };
        let text = format!(
            "{a}{{{b}tools{c}:{d}{{ deny: ['x'] }}{e},{f}mcp:{{{g}servers:{h}{{{i}'old': {{ url: 'https://o' }}{comma}{j}}}{k}}}{l}}}"
        );
        let old = parse(&text, &|_| None).unwrap().config;
        let edited = add(&text, Existing::Keep).unwrap();
        prop_assert!(is_subsequence(&text, &edited.text));
        prop_assert_eq!(edited.text.matches('#').count(), text.matches('#').count());
        let mut config = parse(&edited.text, &|_| None).unwrap().config;
        prop_assert_eq!(config.mcp.servers.remove("new"), Some(npx()));
        prop_assert_eq!(config, old);
    }

    #[test]
    fn no_text_makes_the_editor_panic(text in "[{}\\[\\]:,'\"/*\\\\ \na-z0-9#\u{2028}\u{feff}é]{0,40}") {
        let _ = edit::set(&text, &["a", "b"], &Value::Null, Keys::Plain);
        let _ = edit::remove(&text, &["a"]);
        let _ = add(&text, Existing::Replace);
    }
}
