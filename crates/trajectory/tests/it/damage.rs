//! Sessions in damaged stores: what is wrong is told, and the rest is exported.

use pincer_store::EntryKind;
use serde_json::{Value, json};

use crate::world::{World, entry, nested, reply, result, user};

fn world() -> World {
    let world = World::new();
    let call = json!([{ "type": "toolCall", "id": "c1", "name": "exec", "arguments": {} }]);
    world.add([user("a", 1100, "first"), reply("b", 1200, &call), result("c", 1300, "c1", "ok", &json!({}))]);
    world.add([nested("n", 2, 1300, "c1", &json!({ "program": "cm_1", "seq": 0, "tool": "t", "input": {} }))]);
    world.add([user("d", 1400, "second"), reply("e", 1500, &json!([{ "type": "text", "text": "last" }]))]);
    world
}

#[test]
fn what_is_damaged_is_told_and_the_rest_is_there() {
    for (damage, warning, has_first) in [
        ("UPDATE entry SET body = '{\"message\":' WHERE position = 1", "entry 1 is damaged", false),
        ("UPDATE entry SET body = '{}' WHERE position = 3", "entry 3 is damaged", true),
        ("UPDATE entry SET body = '[1' WHERE position = 4", "entry 4 is damaged", true),
        ("UPDATE entry SET body = CAST(x'7b22ff' AS TEXT) WHERE position = 3", "entry 3 cannot be read", true),
        ("UPDATE entry SET kind = 'nonsense' WHERE position = 3", "entry 3 is of a kind that is not known", true),
        ("UPDATE entry SET kind = CAST(x'ff' AS TEXT) WHERE position = 3", "entry 3 cannot be read", true),
        ("UPDATE entry SET parent = 6 WHERE position = 5", "form a circle", true),
        ("UPDATE entry SET parent = 5 WHERE position = 5", "form a circle", true),
        ("UPDATE entry SET parent = -7 WHERE position = 5", "is missing", true),
        ("UPDATE entry SET parent = 4 WHERE position = 5", "is a call of a program", true),
        ("DELETE FROM entry WHERE position = 3", "the parent of entry 5, entry 3, is missing", true),
        ("DELETE FROM entry WHERE position = 6", "entry 6, the last one of the branch, is missing", true),
        ("UPDATE session SET leaf = NULL", "the last one is taken", true),
        ("UPDATE session SET leaf = 99", "is missing: the branch ends with the one before", true),
    ] {
        let world = world();
        world.damage(damage);
        let exported = world.export();
        let warnings = exported.manifest.warnings.join("\n");
        assert!(warnings.contains(warning), "{damage}: {warnings}");
        let texts: String = world.events().iter().map(Value::to_string).collect();
        assert_eq!(texts.contains("first"), has_first, "{damage}");
        assert!(texts.contains("second") && texts.contains("c1"), "{damage}");
        assert_eq!(world.events().last().unwrap()["type"], "trace.exported", "{damage}");
        world.json("session-branch.json");
    }
}

#[test]
fn a_frame_that_is_damaged_is_told() {
    let world = world();
    let frame = pincer_store::NewFrame { digest: vec![1], body: "{}".into(), detail: "{}".into(), run: "ar_1".into() };
    world.commit(pincer_store::SessionCommit { frame: Some(frame), now: 1600, ..Default::default() });
    world.damage("UPDATE frame SET body = '{\"system\":7'");
    let exported = world.export();
    assert!(
        exported.manifest.warnings.iter().any(|warning| warning.contains("ar_1 cannot be read")),
        "{:?}",
        exported.manifest.warnings
    );
    assert!(world.events().iter().any(|event| event["type"] == "context.compiled"));
}

#[test]
fn an_empty_session_is_a_bundle_too() {
    let world = World::new();
    world.export();
    assert_eq!(world.events().len(), 3);
    assert_eq!(world.json("session-branch.json")["entries"], json!([]));
    assert_eq!(world.json("manifest.json")["leafId"], Value::Null);
}

#[test]
fn entries_of_kinds_without_a_word_of_their_own_are_told_as_they_are() {
    let world = World::new();
    world.add([entry("l", 1100, EntryKind::Label, &json!({ "targetId": "x", "label": "here" }))]);
    world.export();
    assert_eq!(world.events()[2]["data"], json!({ "targetId": "x", "label": "here" }));
}
