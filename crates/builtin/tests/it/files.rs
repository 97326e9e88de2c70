//! The file tools as a model uses them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::common::house;
use serde_json::{Value, json};

#[tokio::test]
async fn read_pages_through_a_file() {
    let house = house();
    let text: String = (1..=5000).map(|line| format!("line {line}\n")).collect();
    house.put("long.txt", &text);
    let mut read = String::new();
    let mut cursor = Value::Null;
    let mut pages = 0;
    loop {
        let input = if cursor.is_null() {
            json!({ "path": "long.txt" })
        } else {
            json!({ "path": "long.txt", "cursor": cursor })
        };
        let page = house.ok("read", input).await;
        read.push_str(page["content"].as_str().unwrap());
        assert_eq!(page["size"], text.len());
        pages += 1;
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((read == text, pages), (true, 3));
    let page = house.ok("read", json!({ "path": "long.txt", "offset": 4999, "limit": 1 })).await;
    assert_eq!(
        (&page["content"], &page["firstLine"], &page["lines"]),
        (&json!("line 4999\n"), &json!(4999), &json!(1))
    );
    assert!(house.error("read", json!({ "path": "long.txt", "offset": 5001 })).await.contains("ends before line 5001"));
    assert!(house.error("read", json!({ "path": "long.txt", "cursor": "x" })).await.contains("not a cursor"));
}

#[tokio::test]
async fn read_pages_through_one_endless_line_without_cutting_a_character() {
    let house = house();
    let text = "äöü".repeat(40_000);
    house.put("min.json", &text);
    let (mut read, mut cursor) = (String::new(), None);
    loop {
        let mut input = json!({ "path": "min.json" });
        if let Some(cursor) = &cursor {
            input["cursor"] = Value::clone(cursor);
        }
        let page = house.ok("read", input).await;
        read.push_str(page["content"].as_str().unwrap());
        match page.get("next") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    assert!(read == text);
}

#[tokio::test]
async fn read_refuses_what_is_no_text_and_names_what_is_near() {
    let house = house();
    house.put("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    house.put("src/main.rs", "fn main() {}");
    house.put("empty", "");
    assert_eq!(
        house.error("read", json!({ "path": "logo.png" })).await,
        "logo.png is a PNG image of 16 bytes, not text that could be read"
    );
    for (asked, near) in [("src/mian.rs", "src/main.rs"), ("main.rs", "src/main.rs"), ("logo.pgn", "logo.png")] {
        let error = house.error("read", json!({ "path": asked })).await;
        assert!(error.contains("does not exist") && error.contains(near), "{error}");
    }
    assert!(house.error("read", json!({ "path": "src" })).await.contains("is a directory, not a file"));
    assert_eq!(house.ok("read", json!({ "path": "empty" })).await["content"], "");
}

#[tokio::test]
async fn write_makes_directories_and_keeps_what_should_stay() {
    let house = house();
    let done = house.ok("write", json!({ "path": "a/b/new.txt", "content": "hello\n" })).await;
    assert_eq!((&done["created"], &done["bytes"]), (&json!(true), &json!(6)));
    let script = house.put("run.sh", "#!/bin/sh\r\nold\r\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    let done = house.ok("write", json!({ "path": "run.sh", "content": "#!/bin/sh\nnew\n" })).await;
    assert_eq!(done["created"], false);
    assert_eq!(house.get("run.sh"), "#!/bin/sh\r\nnew\r\n", "line ends stay");
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o750, "permissions stay");
    house.ok("write", json!({ "path": "run.sh", "content": "x\ny\n", "lineEnds": "exact" })).await;
    assert_eq!(house.get("run.sh"), "x\ny\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(house.error("write", json!({ "path": "run.sh", "content": "z" })).await, "run.sh is read-only");
}

#[tokio::test]
async fn write_replaces_at_once_and_leaves_nothing_behind() {
    let house = house();
    let file = house.put("f", "old");
    let mut reader = fs::File::open(&file).unwrap();
    let before = fs::metadata(&file).unwrap().ino();
    house.ok("write", json!({ "path": "f", "content": "new" })).await;
    assert_ne!(fs::metadata(&file).unwrap().ino(), before);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    assert_eq!(text, "old", "who has it open keeps the old one whole");
    let names: Vec<_> = fs::read_dir(house.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["f"]);
}

#[tokio::test]
async fn a_link_within_the_workspace_stays_a_link() {
    let house = house();
    house.put("real/file.txt", "old");
    symlink("real/file.txt", house.path("link")).unwrap();
    let done = house.ok("write", json!({ "path": "link", "content": "new" })).await;
    assert_eq!(done["path"], "real/file.txt");
    assert_eq!(house.get("real/file.txt"), "new");
    assert!(fs::symlink_metadata(house.path("link")).unwrap().is_symlink());
}

#[tokio::test]
async fn edit_replaces_exactly_what_was_meant() {
    let house = house();
    house.put("f.txt", "one\r\ntwo\r\nthree\r\n");
    let done = house
        .ok("edit", json!({ "path": "f.txt", "edits": [{ "oldText": "one\ntwo", "newText": "1\n2" }, { "oldText": "three", "newText": "3" }] }))
        .await;
    assert_eq!(house.get("f.txt"), "1\r\n2\r\n3\r\n");
    let diff = done["diff"].as_str().unwrap();
    assert!(done["replaced"] == 2 && diff.contains("-one") && diff.contains("+3"), "{diff}");
    let error = house.error("edit", json!({ "path": "f.txt", "edits": [{ "oldText": "1", "newText": "x" }, { "oldText": "nope", "newText": "" }] })).await;
    assert!(error.starts_with("f.txt: edit 2: the text to replace is not in the file"), "{error}");
    assert_eq!(house.get("f.txt"), "1\r\n2\r\n3\r\n", "all or nothing");
    let error = house.error("edit", json!({ "path": "f.txt", "edits": [{ "oldtext": "1", "newText": "x" }] })).await;
    assert!(error.contains("oldText"), "{error}");
}

#[tokio::test]
async fn a_patch_changes_all_its_files_or_none() {
    let house = house();
    house.put("a.txt", "one\ntwo\nthree\n");
    house.put("gone.txt", "x\n");
    house.put("old.txt", "keep\nchange\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+TWO\n three\n*** Add File: new/b.txt\n+hello\n*** Delete File: gone.txt\n\
                 *** Update File: old.txt\n*** Move to: moved.txt\n keep\n-change\n+changed\n*** End Patch";
    let done = house.ok("apply_patch", json!({ "patch": patch })).await;
    let whats: Vec<&str> =
        done["files"].as_array().unwrap().iter().map(|file| file["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["updated", "added", "deleted", "moved"]);
    assert_eq!(house.get("a.txt"), "one\nTWO\nthree\n");
    assert_eq!(house.get("new/b.txt"), "hello\n");
    assert_eq!(house.get("moved.txt"), "keep\nchanged\n");
    assert!(!house.path("gone.txt").exists() && !house.path("old.txt").exists());

    let before = crate::common::contents(&house.path("."));
    for (patch, told) in [
        (
            "*** Begin Patch\n*** Update File: a.txt\n-TWO\n+2\n*** Update File: moved.txt\n-nope\n+x\n*** End Patch",
            "moved.txt: change 1: these lines are not in the file",
        ),
        (
            "*** Begin Patch\n*** Add File: deep/er/x\n+1\n*** Add File: a.txt\n+x\n*** End Patch",
            "a.txt exists already",
        ),
        (
            "*** Begin Patch\n*** Update File: a.txt\n-TWO\n+2\n*** Update File: ./a.txt\n-one\n+1\n*** End Patch",
            "changes a.txt twice",
        ),
        (
            "*** Begin Patch\n*** Update File: a.txt\n*** Move to: moved.txt\n-TWO\n+2\n*** End Patch",
            "moved.txt exists already",
        ),
        ("*** Begin Patch\n*** Delete File: ../outside\n*** End Patch", "leads out of the workspace"),
        ("--- a/a.txt\n+++ b/a.txt\n", "this is a unified diff"),
        // The second step fails when the first has been taken.
        (
            "*** Begin Patch\n*** Update File: a.txt\n-TWO\n+2\n*** Add File: d\n+x\n*** Add File: d/y\n+z\n*** End Patch",
            "and nothing else",
        ),
    ] {
        let error = house.error("apply_patch", json!({ "patch": patch })).await;
        assert!(error.contains(told), "{error}");
        assert_eq!(crate::common::contents(&house.path(".")), before, "{told}");
        assert!(!house.path("deep").exists(), "{told}");
    }
}

#[tokio::test]
async fn ls_find_and_grep_look_around() {
    let house = house();
    house.put(".gitignore", "*.log\n/build/\n!keep.log\n");
    house.put("src/main.rs", "fn main() {\n    hello();\n}\n// end\n");
    house.put("src/lib.rs", "pub fn hello() {}\n");
    house.put("src/.gitignore", "gen_*\n");
    house.put("src/gen_x.rs", "hello generated\n");
    house.put("build/out.rs", "hello build\n");
    house.put("debug.log", "hello log\n");
    house.put("keep.log", "hello kept\n");
    house.put(".hidden/secret.rs", "hello hidden\n");
    house.put("data.bin", b"hello\0binary");
    symlink("src", house.path("link")).unwrap();

    let listed = house.ok("ls", json!({})).await;
    let names: Vec<String> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("{} {}", entry["name"].as_str().unwrap(), entry["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(
        names,
        [
            ".gitignore file",
            ".hidden directory",
            "build directory",
            "data.bin file",
            "debug.log file",
            "keep.log file",
            "link link",
            "src directory"
        ]
    );
    assert_eq!(house.ok("ls", json!({ "path": "src" })).await["entries"][1]["size"], 16);

    let found = |input: Value| async { house.ok("find", input).await["paths"].clone() };
    assert_eq!(found(json!({ "pattern": "*.rs" })).await, json!(["src/lib.rs", "src/main.rs"]));
    assert_eq!(found(json!({ "pattern": "src/*.rs" })).await, json!(["src/lib.rs", "src/main.rs"]));
    assert_eq!(found(json!({ "pattern": "**/*.log" })).await, json!(["keep.log"]));
    assert_eq!(
        found(json!({ "pattern": "*.rs", "path": "src", "ignored": true })).await,
        json!(["src/gen_x.rs", "src/lib.rs", "src/main.rs"])
    );
    assert_eq!(
        found(json!({ "pattern": "*.rs", "hidden": true })).await,
        json!([".hidden/secret.rs", "src/lib.rs", "src/main.rs"])
    );
    assert_eq!(found(json!({ "pattern": "s*", "kind": "directory" })).await, json!(["src"]));
    let limited = house.ok("find", json!({ "pattern": "*.rs", "limit": 1 })).await;
    assert_eq!(limited, json!({ "paths": ["src/lib.rs"], "truncated": true }));
    assert!(house.error("find", json!({ "pattern": "[" })).await.contains("not a glob"));

    let lines = |input: Value| async {
        let found = house.ok("grep", input).await;
        let line = |line: &Value| format!("{}:{}", line["path"].as_str().unwrap(), line["line"]);
        found["matches"].as_array().unwrap().iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(lines(json!({ "pattern": "hello" })).await, ["keep.log:1", "src/lib.rs:1", "src/main.rs:2"]);
    assert_eq!(
        lines(json!({ "pattern": "HELLO\\(", "ignoreCase": true, "glob": "*.rs" })).await,
        ["src/lib.rs:1", "src/main.rs:2"]
    );
    assert_eq!(lines(json!({ "pattern": "hello()", "literal": true, "path": "src/main.rs" })).await, ["src/main.rs:2"]);
    let around = house.ok("grep", json!({ "pattern": "hello", "path": "src/main.rs", "context": 1 })).await;
    assert_eq!(
        around["matches"][0],
        json!({ "path": "src/main.rs", "line": 2, "text": "    hello();", "before": ["fn main() {"], "after": ["}"] })
    );
    let limited = house.ok("grep", json!({ "pattern": "hello", "limit": 1 })).await;
    assert_eq!((limited["matches"].as_array().unwrap().len(), &limited["truncated"]), (1, &json!(true)));
    assert!(house.error("grep", json!({ "pattern": "(" })).await.contains("set `literal` for plain text"));
}

/// Inputs that would take all memory, all time, or the whole stack.
#[tokio::test]
async fn greedy_inputs_are_refused() {
    let house = house();
    house.put("a", "a".repeat(2 << 20));
    house.put("lines", "a\n".repeat(300_000));
    let same = format!("*** Begin Patch\n*** Update File: lines\n{}-b\n*** End Patch", " a\n".repeat(50_000));
    for (tool, input, told) in [
        ("find", json!({ "pattern": "{".repeat(300) + "a" + &"}".repeat(300) }), "its braces nest more than 8 deep"),
        ("find", json!({ "pattern": "{".repeat(50_000) }), "more than 1000 bytes"),
        ("grep", json!({ "pattern": "x", "glob": "{".repeat(300) + "a" + &"}".repeat(300) }), "its braces nest"),
        ("read", json!({ "path": "a", "cursor": "18446744073709551615@18446744073709551615" }), ""),
        (
            "edit",
            json!({ "path": "a", "edits": [{ "oldText": "a", "newText": "b".repeat(1000), "all": true }] }),
            "would have more than",
        ),
        ("apply_patch", json!({ "patch": same }), "occur too often"),
        ("grep", json!({ "pattern": "(a{1000}){1000}" }), "cannot be searched for"),
    ] {
        match house.call(tool, input).await {
            Ok(value) => assert!(told.is_empty(), "{tool}: {value}"),
            Err(error) => assert!(error.contains(told) && !error.contains("broke down"), "{tool}: {error}"),
        }
    }
}

#[tokio::test]
async fn every_tool_teaches_its_use() {
    let house = house();
    let entries = house.door.entries();
    let names: Vec<&str> = entries.iter().map(|entry| entry.id.name()).collect();
    assert_eq!(names, crate::common::TOOLS);
    for entry in &entries {
        assert!(entry.description.len() > 60 && entry.flags.trusted && entry.label.is_some(), "{}", entry.id);
        assert!(entry.output_schema.is_some(), "{}", entry.id);
        let properties = entry.input_schema["properties"].as_object().cloned().unwrap_or_default();
        for (name, property) in &properties {
            assert!(property["description"].is_string(), "{}.{name} has no description", entry.id);
        }
        let looks = ["read", "ls", "find", "grep", "web_fetch", "session_status", "sessions_list", "sessions_history"];
        assert_eq!(entry.flags.read_only, looks.contains(&entry.id.name()), "{}", entry.id);
        assert!(!entry.input_schema.to_string().contains("crate"), "{}", entry.id);
    }
}
