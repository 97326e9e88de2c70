//! Large sessions and large values: no more is held at once than a few parts, and nothing is dropped.

use serde_json::{Value, json};

use crate::world::{World, nested, reply, result, user};

#[test]
fn a_session_is_read_in_parts_however_long_it_is() {
    let world = World::new();
    let text = "some words that are said again and again, ".repeat(480);
    for round in 0..10 {
        let entries = (0..100).map(|number| user(&format!("{round}-{number}"), 1100 + round, &text));
        world.add(entries);
    }
    let exported = world.export();
    let bytes: u64 = 1000 * text.len() as u64;
    assert!(bytes > 20_000_000, "{bytes}");
    assert!(exported.most_held <= 4 << 20, "{} bytes were held at once", exported.most_held);
    assert_eq!((exported.manifest.counts.events, world.file("events.jsonl").lines().count()), (1003, 1003));
    assert_eq!(exported.manifest.truncation.dropped_events, 0);
}

#[test]
fn an_event_that_is_too_long_is_named_in_its_place() {
    let world = World::new();
    let wide: Vec<String> = (0..60).map(|number| format!("{number} {}", "x y ".repeat(2000))).collect();
    let call = json!([{ "type": "toolCall", "id": "c1", "name": "exec", "arguments": { "all": wide, "n": 1 } }]);
    world.add([reply("b", 1200, &call)]);
    world.add([user("long", 1300, &"z ".repeat(100_000)), user("huge", 1400, &"q ".repeat(5 << 20))]);
    let exported = world.export();
    let events = world.events();
    let call = events.iter().find(|event| event["type"] == "tool.call").unwrap();
    let data = &call["data"];
    assert_eq!(
        (&data["truncated"], &data["limitBytes"], &data["droppedFields"]),
        (&json!(true), &json!(262_144), &json!(["arguments"]))
    );
    assert_eq!((&data["toolCallId"], &data["name"]), (&json!("c1"), &json!("exec")), "what puts calls together stays");
    assert!(data["originalBytes"].as_u64().unwrap() > 400_000);
    let users: Vec<&Value> = events.iter().filter(|event| event["type"] == "user.message").collect();
    let text = users[0]["data"]["message"]["content"][0]["text"].as_str().unwrap();
    assert!(text.len() < 33_000 && text.ends_with("… [200000 bytes]"), "{}", &text[text.len() - 40..]);
    let broken = events.iter().find(|event| event["type"] == "session.broken").unwrap();
    assert!(broken["data"]["originalBytes"].as_u64().unwrap() > 10 << 20);
    let truncation = exported.manifest.truncation;
    assert_eq!((truncation.shortened_events, truncation.replaced_events, truncation.dropped_events), (1, 2, 0));
    assert!(exported.manifest.warnings.iter().any(|warning| warning.contains("more than is read")));
    assert!(world.file("events.jsonl").lines().all(|line| line.len() <= 262_144));
}

#[test]
fn calls_of_a_program_that_overlap_are_read_in_few_parts() {
    let world = World::new();
    let call = json!([{ "type": "toolCall", "id": "c1", "name": "exec", "arguments": {} }]);
    world.add([reply("b", 1200, &call)]);
    let nested = |number: i64| {
        let body = json!({
            "program": "cm_1", "seq": number, "tool": "t", "input": { "text": "a b ".repeat(1000) }, "output": "c d ".repeat(1000),
            "startedAt": 1300 + number / 20, "durationMs": 40,
        });
        nested(&format!("n{number}"), 1, 9000, "c1", &body)
    };
    world.add(
        std::iter::once(result("e", 9000, "c1", "ok", &json!({ "program": "cm_1" }))).chain((0..1000).map(nested)),
    );
    let exported = world.export();
    assert!(exported.most_held <= 4 << 20, "{}", exported.most_held);
    let events = world.events();
    let calls = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((calls("tool.call"), calls("tool.result")), (1001, 1001));
    let open = events.iter().filter(|event| event["data"]["parentToolCallId"] == "c1").fold(
        (0_i64, 0_i64),
        |(open, most), event| {
            let open = if event["type"] == "tool.call" { open + 1 } else { open - 1 };
            assert!(open >= 0, "an end before its beginning");
            (open, most.max(open))
        },
    );
    assert!(open.0 == 0 && open.1 >= 500, "{open:?}");
}
