//! Secrets of every kind, planted in every place that a bundle is made of.

use std::fs;
use std::path::Path;

use pincer_secrecy::Cleaner;
use pincer_store::{Approvals, EntryKind, NewApproval, NewEntry, NewFrame, SessionCommit, Sessions};
use pincer_trajectory::{Program, without_secrets};
use serde_json::{Value, json};

use crate::world::{ID, World, entry, nested, note, reply, result, said};

/// A secret that is known to be one, and looks like any other word.
const KNOWN: &str = "correct-horse-staple";
/// Texts that must not be in any file: parts of the planted secrets.
const NEEDLES: [&str; 18] = [
    KNOWN,
    "correct%2Dhorse",
    "Y29ycmVjdC1ob3JzZS1zdGFwbGU",
    "abcdefgh12345678",
    "0123456789ABCDEFghij",
    "eyJhbGciOiJIUzI1NiJ9",
    "MIIEvQIBADANBg",
    "hunter2",
    "swordfish",
    "AKIAIOSFODNN7EXAMPL",
    "kJ8s+2Lq0vXy7Zt3Bn5Rw9Pd",
    "u006b-abcdef",
    "%73k-abcdef",
    "iVBORw0KGgoAAAANSUhEUg",
    "/home/carol",
    "/var/lib/pincer-state",
    "/srv/project",
    "acme-4711",
];

/// A text with every kind of secret in it.
fn planted() -> String {
    [
        format!("known {KNOWN} and correct%2Dhorse%2Dstaple and {}", "Y29ycmVjdC1ob3JzZS1zdGFwbGU="),
        "key sk-abcdefgh12345678, ghp_0123456789ABCDEFghij; AKIAIOSFODNN7EXAMPLE".into(),
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl".into(),
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----".into(),
        "Authorization: Bearer hunter2hunter2 password=hunter2 https://u:hunter2@h/?token=hunter2&x=1 --api-key swordfish".into(),
        r#"{"client_secret":"swordfish","nested":"{\"apiKey\":\"swordfish\",\"q\":\"{\\\"token\\\":\\\"hunter2\\\"}\"}"}"#.into(),
        r"escaped s\u006b-abcdefgh12345678 and %73k-abcdefgh12345678".into(),
        format!("data:image/png;base64,{}", "iVBORw0KGgoAAAANSUhEUg".repeat(20)),
        format!("raw {}", "iVBORw0KGgoAAAANSUhEUg".repeat(20)),
        "/home/carol/.ssh/id_rsa /var/lib/pincer-state/pincer.db /srv/project/main.rs acme-4711".into(),
    ]
    .join("\n")
}

/// A value with secrets in its texts, its names and its depths.
fn value() -> Value {
    json!({
        "text": planted(), "apiKey": "swordfish", "headers": { "Authorization": "Basic hunter2hunter2", "Cookie": "a=hunter2" },
        "list": [planted(), { "password": "hunter2", "pin_secret": 4711 }], "sk-abcdefgh12345678": 1, KNOWN: true,
        "code": "const a = 'kJ8s+2Lq0vXy7Zt3Bn5Rw9Pd'; login(\"s\\u006b-abcdefgh12345678\")",
        "image": { "type": "image", "data": "iVBORw0KGgoAAAANSUhEUg".repeat(20), "mimeType": "image/png" },
    })
}

fn planted_everywhere() -> World {
    let mut world = World::new();
    world.cleaner = Cleaner::default()
        .knowing([KNOWN.to_owned()])
        .placing("/home/carol", "~")
        .placing("/var/lib/pincer-state", "$STATE_DIR")
        .placing("/srv/project", "$WORKSPACE_DIR")
        .matching([regex::Regex::new("acme-[0-9]{4}").expect("a pattern")]);
    world.about.config = value();
    world.about.plugins = vec![planted()];
    world.about.skills = vec![planted()];
    world.about.warnings = vec![planted()];
    let text = planted();
    world.store.rename_session(&ID.into(), Some(&text), 1050).wait().expect("renamed");
    world.add([said(
        "a",
        1100,
        &json!({ "role": "user", "content": [{ "type": "text", "text": text }, value()["image"]] }),
    )]);
    let frame = NewFrame {
        digest: vec![1],
        body: json!({ "system": [text], "tools": [{ "name": "t", "description": text, "parameters": value() }] })
            .to_string()
            .into(),
        detail: json!({ "suffix": text, "model": text }).to_string().into(),
        run: "ar_1".into(),
    };
    let content = json!([
        { "type": "thinking", "thinking": text, "raw": value() }, { "type": "text", "text": text },
        { "type": "toolCall", "id": format!("c1 {text}"), "name": text, "arguments": value() }, { "type": "other", "raw": value() },
    ]);
    let reply = NewEntry { id: KNOWN.into(), ..reply("b", 1200, &content) };
    world.commit(SessionCommit {
        entries: vec![reply],
        frame: Some(frame),
        settings: Some(value().to_string().into()),
        skills: Some(json!([{ "name": text }]).to_string().into()),
        now: 1201,
        ..SessionCommit::default()
    });
    let question = NewApproval {
        id: "ap_1".into(),
        run: Some("cm_1".into()),
        session: "main".into(),
        user: Some("me".into()),
        tool: text.clone(),
        seq: None,
        digest: vec![1],
        fingerprint: None,
        request: value().to_string().into(),
        created_at: 1240,
        expires_at: None,
    };
    world.store.ask(question).wait().expect("asked");
    let broken = NewEntry { body: format!("{{\"message\": {text}").into(), ..said("x", 1250, &json!({})) };
    world.add([
        result("e", 1300, "c1", &text, &json!({ "program": "cm_1", "status": text, "more": value() })),
        nested(
            "n",
            2,
            1300,
            "c1",
            &json!({ "program": text, "seq": 0, "tool": text, "input": value(), "output": value() }),
        ),
        nested("n2", 2, 1300, "c1", &json!({ "program": "cm_1", "seq": 1, "tool": "t", "input": {}, "error": text })),
        note(
            "w",
            1310,
            "pincer.waiting",
            &json!({ "approvals": [{ "approvalId": format!("ap {KNOWN}"), "tool": text }] }),
        ),
        note(
            "r",
            1320,
            "pincer.resumed",
            &json!({ "answers": [{ "approvalId": "ap_9", "by": text, "status": text }] }),
        ),
        note("f", 1330, "pincer.error", &json!({ "kind": text, "message": text })),
        note("o", 1340, &text, &value()),
        entry("l", 1350, EntryKind::Label, &json!({ "label": text })),
        entry("k", 1360, EntryKind::Compaction, &json!({ "summary": text, "details": value() })),
        entry("m", 1370, EntryKind::CustomMessage, &json!({ "customType": text, "content": text })),
        broken,
    ]);
    world
}

/// Fails if a file has a planted secret in it, also in its name.
fn search(folder: &Path) {
    for entry in fs::read_dir(folder).expect("read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            search(&path);
            continue;
        }
        let text = format!("{} {}", path.display(), fs::read_to_string(&path).expect("text"));
        for needle in NEEDLES {
            if let Some(at) = text.find(needle) {
                let around = &text[text.floor_char_boundary(at.saturating_sub(150))
                    ..text.ceil_char_boundary((at + 60).min(text.len()))];
                panic!("{needle} is in {}: {around}", path.display());
            }
        }
    }
}

#[test]
fn no_planted_secret_is_in_any_file() {
    // The test is worth something: all needles are planted.
    let all = format!("{} {}", planted(), value());
    for needle in NEEDLES {
        assert!(all.contains(needle) || all.replace("\\\\", "\\").contains(needle), "{needle} is not planted");
    }
    let world = planted_everywhere();
    let programs = vec![Program { run: "cm_1".into(), json: without_secrets(&world.cleaner, value()).to_string() }];
    let exported = world.try_export(programs).expect("exported");
    search(&world.place());
    // What is harmless is still there.
    let events = world.file("events.jsonl");
    for kept in ["$WORKSPACE_DIR/main.rs", "~/.ssh", "$STATE_DIR/pincer.db", "[redacted]", "[binary, "] {
        assert!(events.contains(kept), "{kept}");
    }
    assert!(exported.manifest.counts.events > 20);
    assert_eq!(exported.manifest.counts.programs, 1);
}
