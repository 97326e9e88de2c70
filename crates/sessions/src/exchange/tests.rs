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

fn line(id: &str, parent: &str, kind: &str, rest: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"id\":\"{id}\",\"parentId\":{parent}{rest}}}")
}

fn of_lines(lines: impl IntoIterator<Item = String>) -> String {
    let header = "{\"type\":\"session\",\"version\":3}".to_owned();
    [header].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

#[test]
fn only_a_compaction_of_the_branch_in_use_shortens_what_is_sent() {
    let note = ",\"customType\":\"t\"";
    let from = |kept: &str, last: &str| {
        let compaction = format!(",\"summary\":\"s\",\"firstKeptEntryId\":\"{kept}\"");
        let lines = [
            line("a", "null", "custom", note),
            line("off", "\"a\"", "custom", note),
            line("r", "\"a\"", "reset", ""),
            line("b", "\"r\"", "custom", note),
            line("b2", "\"b\"", "custom", note),
            line("c", "\"b2\"", "compaction", &compaction),
            line("d", last, "custom", note),
            line("e", "\"d\"", "custom", note),
        ];
        import(&of_lines(lines)).expect("a session").context_from
    };
    assert_eq!((from("b", "\"c\""), from("b2", "\"c\"")), (4, 5));
    assert_eq!((from("b", "\"b2\""), from("b", "\"off\"")), (3, 1), "the branch has no compaction");
    for kept in ["e", "c", "off", "a", "none", ""] {
        assert_eq!(from(kept, "\"c\""), 6, "{kept} is not before the compaction, on its branch, since the reset");
    }
}

#[test]
fn what_a_model_is_sent_can_be_read_or_is_refused_with_its_line() {
    let check = |kind: &str, rest: &str, is_read: bool| {
        let text = of_lines([line("a", "null", "custom", ",\"customType\":\"t\""), line("b", "\"a\"", kind, rest)]);
        match import(&text) {
            Ok(_) => assert!(is_read, "{kind}{rest}"),
            Err(error) => assert!(!is_read && error.to_string().starts_with("line 3 "), "{kind}{rest}: {error}"),
        }
    };
    check("custom_message", r#","content":"text""#, true);
    check(
        "custom_message",
        r#","content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"i/p"}]"#,
        true,
    );
    check("custom_message", r#","content":7"#, false);
    check("custom_message", r#","customType":"t""#, false);
    check("compaction", r#","summary":"s","firstKeptEntryId":"a""#, true);
    check("compaction", r#","summary":"s","firstKeptEntryIndex":1"#, true);
    check("compaction", r#","summary":"s""#, false);
    check("compaction", r#","firstKeptEntryId":"a""#, false);
    check("branch_summary", r#","summary":"s","fromId":"a""#, true);
    check("branch_summary", r#","fromId":"a""#, false);
    check("message", r#","message":{"role":"user","content":[7]}"#, false);
    let nested = r#","customType":"pincer.nested-call""#;
    check("custom", nested, false);
    check("custom", &format!(r#"{nested},"data":null"#), false);
    check("custom", &format!(r#"{nested},"data":{{"seq":0}}"#), false);
    check("custom", &format!(r#"{nested},"data":{{"program":"p","seq":0,"tool":"t","input":1}}"#), true);
}

#[test]
fn a_compaction_of_the_first_version_names_a_line() {
    let from = |index: &str| {
        let note = "{\"type\":\"custom\",\"customType\":\"t\"}";
        let compaction = format!("{{\"type\":\"compaction\",\"summary\":\"s\",\"firstKeptEntryIndex\":{index}}}");
        let text = ["{\"type\":\"session\",\"id\":\"s\"}", note, note, note, &compaction, note].join("\n");
        let imported = import(&text).expect("a session");
        let body: crate::Compaction = serde_json::from_str(&imported.entries[3].body).expect("a compaction");
        let kept = imported.entries.iter().position(|entry| entry.id == body.first_kept_entry_id.as_str());
        (kept.map(|index| index + 1), imported.context_from)
    };
    assert_eq!(from("2"), (Some(2), 2));
    for nothing in ["0", "4", "5", "99", "-1", "null"] {
        assert_eq!(from(nothing), (None, 4), "{nothing}");
    }
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
