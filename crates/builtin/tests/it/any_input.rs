//! Inputs that nobody would write, for every tool: no panic, no hang, and nothing outside the workspace is touched.

use std::fs;
use std::time::Duration;

use crate::common::{TOOLS, contents, context, house_with};
use pincer_builtin::{ExecMode, Settings};
use pincer_tools::ErrorCode;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "a.txt", "d/b.txt", "..", "../outside.txt", "/etc/passwd", ".", "", "d", "link", "d/../..", "*", "**/*", "[", "(", "a{2,1}", "\\",
            "poll", "list", "end", "write", "p1", "http://127.0.0.1/", "http://[::1]/", "keep", "exact", "raw", "markdown", "0@0",
            "99@18446744073709551615", "*** Begin Patch\n*** Update File: a.txt\n-hello\n+x\n*** End Patch",
            "*** Begin Patch\n*** Add File: ../outside.txt\n+x\n*** End Patch", "*** Begin Patch\n*** Update File: a.txt\n@@\n\n*** End Patch",
            "*** Begin Patch\n*** Delete File: link\n*** End Patch", "hello", "\0", "é\u{301}", "\u{202e}",
        ]).prop_map(str::to_owned),
        1 => ".{0,30}",
        1 => "[*+@ -][ -~]{0,12}(\n[*+@ -][ -~]{0,12}){0,5}",
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => text().prop_map(Into::into),
        2 => any::<u64>().prop_map(Into::into),
        2 => (0_u64..5).prop_map(Into::into),
        1 => any::<i64>().prop_map(Into::into),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => any::<bool>().prop_map(Into::into),
        1 => Just(Value::Null),
        1 => prop::collection::vec((text(), text(), any::<bool>()), 0..4).prop_map(|edits| {
            edits.into_iter().map(|(old, new, all)| json!({ "oldText": old, "newText": new, "all": all })).collect()
        }),
    ]
}

/// Right keys with all kinds of values.
fn input() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "path",
        "content",
        "offset",
        "limit",
        "cursor",
        "edits",
        "patch",
        "pattern",
        "glob",
        "kind",
        "hidden",
        "ignored",
        "literal",
        "ignoreCase",
        "context",
        "action",
        "id",
        "text",
        "close",
        "url",
        "format",
        "start",
        "maxChars",
        "session",
        "lineEnds",
        "cwd",
    ]);
    prop::collection::vec((key, leaf()), 0..6).prop_map(|members| {
        Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn no_input_makes_a_tool_panic_hang_or_reach_out(calls in prop::collection::vec((prop::sample::select(TOOLS.to_vec()), input()), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // Commands could reach anything: they are only parsed here.
            let house = house_with(|settings| Settings { exec_mode: ExecMode::Allowlist, ..settings });
            fs::write(house.outside("outside.txt"), "untouched").unwrap();
            house.put("a.txt", "hello\nworld\n");
            house.put("d/b.txt", "hello\r\nthere\r\n");
            std::os::unix::fs::symlink("../outside.txt", house.path("link")).unwrap();
            let outside = || -> Vec<_> {
                let all = contents(house.directory.path()).into_iter();
                all.filter(|(path, _)| !path.starts_with(house.path(".")) && !path.starts_with(house.outside("state"))).collect()
            };
            let before = outside();
            for (tool, mut input) in calls {
                if tool == "exec" {
                    let command = input["text"].as_str().unwrap_or("x").to_owned();
                    input = json!({ "command": command });
                }
                let context = context();
                let call = house.call_as(&context, tool, input.clone());
                let outcome = tokio::time::timeout(Duration::from_secs(60), call).await;
                let outcome = outcome.unwrap_or_else(|_| panic!("{tool} hangs on {input}"));
                if let Err(error) = &outcome.result {
                    assert!(!error.message.contains("broke down"), "{tool} {input}: {error}");
                    assert_ne!(error.code, ErrorCode::InvalidOutput, "{tool} {input}: {error}");
                }
                assert_eq!(outside(), before, "{tool} {input} touched something outside");
            }
        });
    }
}
