//! Files that are read and written back, and files that are damaged.

use pincer_store::{Attach, Entry, EntryKind};

use super::*;
use crate::import::{Imported, import};

const FILE: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-02T03:04:05.006Z","cwd":"/w"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06.000Z","message":{"role":"user","content":"hi"}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-02T03:04:07.000Z","pincer":{"run":"ar_1"},"message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"exec","arguments":{"code":"1"}}]}}
{"type":"custom","id":"n","parentId":"b","timestamp":"2026-01-02T03:04:08.000Z","pincer":{"run":"ar_1","call":"c"},"customType":"pincer.nested-call","data":{"program":"cm_1","seq":0,"tool":"t","input":{}}}
{"type":"message","id":"d","parentId":"b","timestamp":"2026-01-02T03:04:09.000Z","message":{"role":"toolResult","toolCallId":"c","content":[]}}
"#;

fn stored(imported: &Imported) -> Vec<Entry> {
    let mut leaf = None;
    let entries = imported.entries.iter().zip(1..).map(|(new, position)| {
        let parent = match new.attach {
            Attach::Leaf => leaf,
            Attach::Beside(parent) => Some(parent),
            Attach::Under(parent) => parent,
        };
        leaf = Some(position);
        Entry {
            position,
            id: new.id.clone(),
            parent,
            kind: new.kind,
            run: new.run.clone(),
            call: new.call.clone(),
            body: new.body.to_string(),
            events: None,
            at: new.at,
        }
    });
    entries.collect()
}

#[test]
fn a_file_is_read_and_written_back() {
    let imported = import(FILE).expect("a session");
    assert_eq!(imported.warnings, [""; 0]);
    let entries = stored(&imported);
    assert_eq!(
        entries.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(),
        ["message", "message", "nested_call", "message"]
    );
    assert_eq!(entries.iter().map(|entry| entry.parent).collect::<Vec<_>>(), [None, Some(1), Some(2), Some(2)]);
    let mut known = Exported::default();
    let lines: Vec<String> = entries.iter().map(|entry| export_line(&mut known, entry)).collect();
    assert_eq!(lines, FILE.lines().skip(1).collect::<Vec<_>>());
}

#[test]
fn an_entry_is_one_line_however_its_json_was_written() {
    let pretty = "{\r\n  \"code\": \"a\\nb\",\n  \"n\": [\n1,\r2\n]\n}";
    let reply = format!(
        r#"{{"message":{{"role":"assistant","content":[{{"type":"toolCall","id":"c","name":"t","arguments":{pretty},"raw":{pretty}}}]}}}}"#
    );
    let call = format!(r#"{{"program":"p","seq":0,"tool":"t","input":{pretty}}}"#);
    let entry = |position: u32, kind, body: &str| Entry {
        position,
        id: format!("e{position}").into(),
        parent: position.checked_sub(1).filter(|parent| *parent > 0),
        kind,
        run: None,
        call: None,
        body: body.to_owned(),
        events: None,
        at: 0,
    };
    let mut known = Exported::default();
    let entries = [entry(1, EntryKind::Message, &reply), entry(2, EntryKind::NestedCall, &call)];
    let lines: Vec<String> = entries.iter().map(|entry| export_line(&mut known, entry)).collect();
    assert!(lines.iter().all(|line| !line.contains(['\n', '\r'])), "{lines:?}");
    let imported =
        import(&format!("{}\n{}", FILE.lines().next().expect("a line"), lines.join("\n"))).expect("read again");
    for (new, old) in imported.entries.iter().zip(&entries) {
        let [new, old] =
            [&*new.body, &old.body].map(|body| serde_json::from_str::<serde_json::Value>(body).expect("JSON"));
        assert_eq!(new, old);
    }
    assert_eq!(imported.entries.len(), 2);
}

#[test]
fn every_kind_of_damage_has_its_line() {
    let check = |text: &str, told: &str| {
        let error = import(text).expect_err(text).to_string();
        assert!(error.contains(told), "{error}");
    };
    let header = FILE.lines().next().expect("a line");
    check("", "the file is empty");
    check("{\"type\":\"message\"}", "its type is \"message\"");
    check("{\"type\":\"session\",\"version\":9}", "version 9");
    check(&format!("{header}\nnonsense\n{{}}"), "line 2 is not an entry");
    check(&format!("{header}\n{{\"type\":\"custom\",\"id\":\"x\",\"parentId\":\"y\"}}"), "the parent y");
    let twice = "{\"type\":\"custom\",\"id\":\"x\",\"parentId\":null,\"customType\":\"t\"}";
    check(&format!("{header}\n{twice}\n{twice}"), "line 3: there is another entry with the id x");
    check(&format!("{header}\n{{\"type\":\"message\",\"message\":7}}"), "line 2");
    let cut = import(&format!("{header}\n{twice}\n{{\"type\":\"cus")).expect("passed over");
    assert_eq!((cut.entries.len(), cut.warnings.len()), (1, 1));
}

#[test]
fn only_a_compaction_of_the_branch_in_use_shortens_what_is_sent() {
    let line = |id: &str, parent: &str, kind: &str, rest: &str| {
        format!("{{\"type\":\"{kind}\",\"id\":\"{id}\",\"parentId\":{parent}{rest}}}")
    };
    let text = |last: &str| {
        let note = ",\"customType\":\"t\"";
        let compaction = ",\"summary\":\"s\",\"firstKeptEntryId\":\"b\"";
        [
            "{\"type\":\"session\",\"version\":3}".to_owned(),
            line("a", "null", "custom", note),
            line("b", "\"a\"", "custom", note),
            line("c", "\"b\"", "compaction", compaction),
            line("d", last, "custom", note),
        ]
        .join("\n")
    };
    let from = |last: &str| import(&text(last)).expect("a session").context_from;
    assert_eq!((from("\"c\""), from("\"b\"")), (2, 1));
}

#[test]
fn the_first_version_is_a_list() {
    let imported = import(
        "{\"type\":\"session\",\"id\":\"s\"}\n{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"a\"}}\n\
         {\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"b\"}}",
    );
    let entries = stored(&imported.expect("a session"));
    assert_eq!(entries.iter().map(|entry| entry.parent).collect::<Vec<_>>(), [None, Some(1)]);
}

#[test]
fn values_of_every_depth_that_the_loop_stores_come_back() {
    let deep = format!("{}{}", "[".repeat(pincer_json::MAX_DEPTH), "]".repeat(pincer_json::MAX_DEPTH));
    let text = format!(
        r#"{{"type":"session","version":3}}
{{"type":"message","id":"a","parentId":null,"message":{{"role":"assistant","content":[{{"type":"toolCall","id":"c","name":"t","arguments":{deep},"raw":{deep}}}]}}}}
{{"type":"custom","id":"b","parentId":"a","customType":"pincer.nested-call","data":{{"program":"p","seq":0,"tool":"t","input":{deep},"output":{deep}}}}}
{{"type":"message","id":"c","parentId":"a","message":{{"role":"toolResult","toolCallId":"c","content":[],"details":{deep}}}}}"#
    );
    let imported = import(&text).expect("a session");
    assert_eq!(
        imported.entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(),
        [EntryKind::Message, EntryKind::NestedCall, EntryKind::Message]
    );
    assert!(imported.entries[1].body.contains(&deep));
    let deeper = import(&text.replace(&deep, &format!("[{deep}]"))).expect_err("too deep").to_string();
    assert!(deeper.contains("line 2") && deeper.contains("nested deeper"), "{deeper}");
}

#[test]
fn surrogates_that_stand_alone_are_replaced() {
    let line = r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"a\ud800b"}]}}"#;
    let imported = import(&format!("{{\"type\":\"session\",\"version\":3}}\n{line}")).expect("a session");
    let message = crate::Message::parse(&imported.entries[0].body).expect("a message");
    assert_eq!(message.text(), "a\u{fffd}b");
}
