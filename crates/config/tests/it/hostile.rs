//! Texts and documents of any kind: none makes the parser panic.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_config::parse;
use proptest::prelude::*;

use crate::config::environment;

/// Pieces of configs, right and wrong, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "'",
            "\"",
            "//",
            "/*",
            "*/",
            "\n",
            "\\",
            "${",
            "}",
            "$$",
            "tools",
            "agents",
            "hooks",
            "allow",
            "deny",
            "codeMode",
            "enabled",
            "timeoutMs",
            "before_tool_call",
            "command",
            "approvals",
            "rules",
            "match",
            "true",
            "null",
            "NaN",
            "-Infinity",
            "0x1F",
            "1e999",
            ".5",
            "99999999999999999999",
            "'group:fs'",
            "\u{2028}",
            "\u{feff}",
        ])
        .prop_map(str::to_owned),
        ".{0,6}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Values that are JSON, under keys that exist.
fn documents() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(|n| serde_json::json!(n)),
        "[a-z$\\{\\}*:]{0,8}".prop_map(Into::into),
    ];
    let key = prop::sample::select(vec![
        "tools",
        "agents",
        "hooks",
        "approvals",
        "logging",
        "allow",
        "deny",
        "profile",
        "codeMode",
        "timeoutMs",
        "sandbox",
        "rules",
        "match",
        "decision",
        "before_tool_call",
        "command",
        "matcher",
        "redactPatterns",
        "byProvider",
        "enabled",
        "x.y",
    ]);
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_it_panic(text in pieces()) {
        let _ = parse(&text, &environment);
    }

    /// Also: what the schema lets pass, the types take.
    #[test]
    fn no_document_makes_it_panic(document in documents()) {
        if let Err(problems) = parse(&document.to_string(), &environment) {
            prop_assert!(!problems.0.is_empty());
            let from_serde = problems.0.iter().any(|problem| problem.path.is_empty() && problem.message.contains("expected"));
            prop_assert!(!from_serde, "{problems}");
        }
    }
}
