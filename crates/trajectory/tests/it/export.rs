//! What is in a bundle, and in which order.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;

use pincer_store::{Approvals, Attach, Decision, EntryKind, NewApproval, NewFrame, SessionCommit};
use pincer_trajectory::{ExportError, Program};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::world::{World, entry, nested, note, reply, result, user};

/// A program that made two calls at the same time, was suspended for a person, and went on.
fn world() -> World {
    let world = World::new();
    let call = json!([{ "type": "text", "text": "I look." }, { "type": "toolCall", "id": "c1", "name": "exec", "arguments": { "code": "1" } }]);
    world.add([user("a", 1100, "Do it.")]);
    let frame = NewFrame {
        digest: vec![0xab],
        body: json!({ "system": ["Be kind.", "Be brief."], "tools": [{ "name": "exec", "parameters": {} }] })
            .to_string()
            .into(),
        detail: json!({ "suffix": "Today.", "provider": "p", "model": "m", "api": "a", "surface": "codeMode" })
            .to_string()
            .into(),
        run: "ar_1".into(),
    };
    world.commit(SessionCommit {
        entries: vec![reply("b", 1200, &call)],
        frame: Some(frame),
        now: 1201,
        ..SessionCommit::default()
    });
    let question = NewApproval {
        id: "ap_1".into(),
        run: Some("cm_1".into()),
        session: "main".into(),
        user: Some("me".into()),
        tool: "mcp:files:write".into(),
        seq: Some(2),
        digest: vec![1],
        fingerprint: None,
        request: json!({ "input": { "path": "x" } }).to_string().into(),
        created_at: 1240,
        expires_at: None,
    };
    world.store.ask(question).wait().expect("asked");
    world.store.resolve(&"ap_1".into(), Decision::Allow, Vec::new(), "tom", 2000).wait().expect("answered");
    let side = pincer_store::NewEntry { attach: Attach::Under(Some(1)), ..user("side", 1250, "another branch") };
    world.add([side]);
    let waiting = json!({ "phase": "waiting-approval", "approvals": [{ "approvalId": "ap_1", "tool": "mcp:files:write" }, { "approvalId": "ap_0", "tool": "t" }] });
    let waiting =
        pincer_store::NewEntry { attach: Attach::Under(Some(2)), ..note("w", 1260, "pincer.waiting", &waiting) };
    world.add([waiting]);
    let answers = json!([{ "approvalId": "ap_1", "status": "allowed", "by": "tom" }, { "approvalId": "ap_0", "status": "denied", "by": "eve", "tool": "t" }]);
    world.add([note("r", 2001, "pincer.resumed", &json!({ "answers": answers }))]);
    let call = |seq: u32, line: u32, began: i64, took: i64| {
        json!({
            "program": "cm_1", "seq": seq, "tool": "mcp:files:read", "line": line, "input": { "n": seq }, "output": seq, "durationMs": took,
            "startedAt": began, "effect": "done",
        })
    };
    world.add([
        result("e", 2100, "c1", "ok", &json!({ "program": "cm_1", "status": "completed" })),
        nested("n0", 2, 2100, "c1", &call(0, 3, 1210, 20)),
        nested("n1", 2, 2100, "c1", &call(1, 4, 1215, 5)),
        nested("n2", 2, 2100, "c1", &json!({ "program": "cm_1", "seq": 2, "tool": "t", "input": {}, "error": "no", "durationMs": 50, "startedAt": 2010 })),
    ]);
    world.add([
        entry(
            "k",
            2200,
            EntryKind::Compaction,
            &json!({ "summary": "Short.", "firstKeptEntryId": "e", "tokensBefore": 99 }),
        ),
        entry("m", 2201, EntryKind::CustomMessage, &json!({ "customType": "pincer.hint", "content": "Answer." })),
        entry("c", 2202, EntryKind::ModelChange, &json!({ "provider": "p", "modelId": "m2" })),
        note("o", 2203, "of.someone", &json!({ "x": 1 })),
        note("end", 2204, "pincer.end", &json!({})),
        reply("f", 2205, &json!([{ "type": "thinking", "thinking": "Hm." }, { "type": "text", "text": "Done." }])),
        entry("z", 2300, EntryKind::Reset, &json!({ "reason": "new" })),
    ]);
    world
}

#[test]
fn a_session_is_told_in_the_order_in_which_things_happened() {
    let world = world();
    let exported = world.export();
    let told = |event: &Value| {
        let data = &event["data"];
        let what = [&data["toolCallId"], &data["approvalId"], &data["customType"]].into_iter().find(|id| !id.is_null());
        format!("{} {}", event["type"].as_str().unwrap(), what.and_then(Value::as_str).unwrap_or_default())
            .trim()
            .to_owned()
    };
    let events = world.events();
    let expected = [
        "session.started",
        "trace.metadata",
        "user.message",
        "context.compiled",
        "model.completed",
        "assistant.message",
        "tool.call c1",
        "tool.call cm_1:0",
        "tool.call cm_1:1",
        "tool.result cm_1:1",
        "tool.result cm_1:0",
        "approval.requested ap_1",
        "run.suspended",
        "approval.requested ap_0",
        "approval.resolved ap_1",
        "run.resumed",
        "approval.resolved ap_0",
        "tool.call cm_1:2",
        "tool.result cm_1:2",
        "tool.result c1",
        "session.compaction",
        "session.custom_message pincer.hint",
        "session.model_change",
        "session.custom of.someone",
        "model.completed",
        "assistant.message",
        "session.reset",
        "trace.exported",
    ];
    assert_eq!(events.iter().map(told).collect::<Vec<_>>(), expected);
    let times: Vec<&str> = events.iter().map(|event| event["ts"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let counts = exported.manifest.counts;
    assert_eq!((counts.events, counts.entries, counts.exported_entries, counts.nested_calls), (28, 16, 15, 3));
    assert_eq!((counts.entries_of_other_branches, counts.approvals), (1, 2));
}

#[test]
fn nested_calls_stand_under_their_call_with_line_duration_and_effect() {
    let world = world();
    world.export();
    let events = world.events();
    let of = |kind: &str, id: &str| {
        let found = events.iter().find(|event| event["type"] == kind && event["data"]["toolCallId"] == id);
        found.unwrap_or_else(|| panic!("{kind} {id}")).clone()
    };
    let (began, ended, failed) = (of("tool.call", "cm_1:0"), of("tool.result", "cm_1:0"), of("tool.result", "cm_1:2"));
    let expected = json!({
        "toolCallId": "cm_1:0", "parentToolCallId": "c1", "name": "mcp:files:read", "programRunId": "cm_1", "programLine": 3, "callSeq": 0,
        "arguments": { "n": 0 }, "assistantEntryId": "b",
    });
    assert_eq!((&began["data"], &began["ts"]), (&expected, &json!("1970-01-01T00:00:01.210Z")));
    assert_eq!(
        (&began["entryId"], &began["parentEntryId"], &began["runId"]),
        (&json!("n0"), &json!("b"), &json!("ar_1"))
    );
    let data = &ended["data"];
    assert_eq!(
        (&data["durationMs"], &data["effect"], &data["output"], &data["isError"]),
        (&json!(20), &json!("done"), &json!(0), &json!(false))
    );
    assert_eq!(
        (&failed["data"]["error"], &failed["data"]["isError"], &failed["ts"]),
        (&json!("no"), &json!(true), &json!("1970-01-01T00:00:02.060Z"))
    );
    let parent = of("tool.result", "c1");
    assert_eq!((&parent["data"]["programRunId"], &parent["data"]["status"]), (&json!("cm_1"), &json!("completed")));
    let asked = events.iter().find(|event| event["type"] == "approval.requested").unwrap();
    assert_eq!((&asked["data"]["request"], &asked["runId"]), (&json!({ "input": { "path": "x" } }), &json!("cm_1")));
    let answered = events.iter().find(|event| event["type"] == "approval.resolved").unwrap();
    assert_eq!(
        (&answered["data"]["decision"], &answered["data"]["decidedBy"], &answered["ts"]),
        (&json!("allowed"), &json!("tom"), &json!("1970-01-01T00:00:02.000Z"))
    );
}

#[test]
fn a_bundle_has_all_files_for_its_owner_alone_with_their_sums() {
    let world = world();
    let programs = vec![
        Ok(Program { run: "cm_1".into(), json: json!({ "deep": [[[[[[[[1]]]]]]]] }).to_string() }),
        Ok(Program { run: "../evil".into(), json: "{}".into() }),
        Err("cm_2 cannot be read".into()),
    ];
    let exported = world.export_with(programs).expect("exported");
    let mode = |name: &str| fs::metadata(world.place().join(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode("."), mode("programs")), (0o700, 0o700));
    let names: Vec<&str> = exported.manifest.files.keys().map(String::as_str).collect();
    let expected = [
        "artifacts.json",
        "events.jsonl",
        "metadata.json",
        "programs/cm_1.json",
        "prompts.json",
        "session-branch.json",
        "system-prompt.txt",
        "tools.json",
    ];
    assert_eq!(names, expected);
    for (name, sum) in &exported.manifest.files {
        let bytes = fs::read(world.place().join(name)).expect("read");
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((sum.bytes, &sum.sha256, mode(name)), (bytes.len() as u64, &digest, 0o600), "{name}");
    }
    assert_eq!(world.json("programs/cm_1.json"), json!({ "deep": [[[[[[[[1]]]]]]]] }));
    assert_eq!(exported.manifest.warning_count, 2, "{:?}", exported.manifest.warnings);

    assert_eq!(world.file("system-prompt.txt"), "Be kind.\n\nBe brief.\n\nToday.");
    assert_eq!(world.json("tools.json"), json!([{ "name": "exec", "parameters": {} }]));
    let artifacts = world.json("artifacts.json");
    let texts: Vec<&str> =
        artifacts["assistantTexts"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["I look.", "Done."]);
    assert_eq!(
        (&artifacts["usage"]["input"], &artifacts["promptCache"]["read"], &artifacts["modelCalls"]),
        (&json!(20), &json!(6), &json!(2))
    );
    assert_eq!(world.json("prompts.json")["prompts"][0]["text"], "Do it.");
    let metadata = world.json("metadata.json");
    assert_eq!(
        (&metadata["version"], &metadata["model"]["id"], &metadata["prompt"]["surface"]),
        (&json!("9.9"), &json!("m"), &json!("codeMode"))
    );
    let branch = world.json("session-branch.json");
    let ids: Vec<&str> =
        branch["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert!(!ids.contains(&"side") && ids.len() == 15 && ids.contains(&"n0"), "{ids:?}");
    assert_eq!(world.json("manifest.json")["leafId"], "z");
}

#[test]
fn nothing_is_overwritten_and_nothing_half_is_left() {
    let world = world();
    let left = || {
        let names = fs::read_dir(world.folder.path()).expect("read").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with("pincer."));
        names
    };
    world.stop.store(true, Ordering::Relaxed);
    assert!(matches!(world.try_export(Vec::new()), Err(ExportError::Stopped)));
    assert_eq!(left(), Vec::<String>::new());
    world.stop.store(false, Ordering::Relaxed);

    fs::create_dir(world.place()).expect("made");
    fs::write(world.place().join("mine"), "x").expect("written");
    assert!(matches!(world.try_export(Vec::new()), Err(ExportError::Taken(_))));
    fs::remove_file(world.place().join("mine")).expect("removed");
    world.export();
    assert_eq!(left(), ["bundle"]);
    assert!(matches!(world.try_export(Vec::new()), Err(ExportError::Taken(_))));

    fs::remove_dir_all(world.place()).expect("removed");
    fs::write(world.place(), "a file").expect("written");
    assert!(matches!(world.try_export(Vec::new()), Err(ExportError::Taken(_))));
    assert_eq!(
        (left(), fs::read_to_string(world.place()).expect("there")),
        (vec!["bundle".to_owned()], "a file".to_owned())
    );
}
