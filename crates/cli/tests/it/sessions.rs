//! `pincer sessions`: conversations that were imported, and what can be done with them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use regex::Regex;
use serde_json::{Value, json};

use crate::common::Home;

const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-02T03:04:05.006Z","cwd":"/w"}"#;

/// A session with all that can be in one. Members are in the order in which they are exported.
const ENTRIES: &str = r##"{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06.000Z","message":{"role":"user","content":"Sum up both files, \"please\".\nÄpfel & Ωmega"}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-02T03:04:07.000Z","pincer":{"run":"ar_1"},"message":{"role":"assistant","content":[{"type":"thinking","thinking":"Two files."},{"type":"text","text":"I look."},{"type":"toolCall","id":"c1","name":"exec","arguments":{"code":"const a = await tools.read({ path: 'a' })\nawait tools.write({ path: 'b' })\nreturn a.length"}},{"type":"toolCall","id":"c2","name":"read","arguments":{"path":"x"}}],"provider":"p","model":"m","usage":{"input":10,"output":5,"cacheRead":3,"cacheWrite":2,"totalTokens":20},"stopReason":"toolUse"}}
{"type":"custom","id":"n1","parentId":"b","timestamp":"2026-01-02T03:04:08.000Z","pincer":{"run":"ar_1","call":"c1"},"customType":"pincer.nested-call","data":{"program":"cm_1","seq":0,"tool":"mcp:files:read","line":1,"input":{"path":"a"},"output":"abcd","durationMs":12}}
{"type":"custom","id":"w","parentId":"b","timestamp":"2026-01-02T03:04:08.000Z","pincer":{"run":"ar_1"},"customType":"pincer.waiting","data":{"approvals":[{"approvalId":"ap_1","tool":"mcp:files:write"}],"clientCalls":[],"phase":"waiting-approval"}}
{"type":"custom","id":"r","parentId":"w","timestamp":"2026-01-02T04:06:08.000Z","pincer":{"run":"ar_1"},"customType":"pincer.resumed","data":{"answers":[{"approvalId":"ap_1","by":"tom","status":"denied","tool":"mcp:files:write"}],"phase":"approval-resolved"}}
{"type":"custom","id":"t","parentId":"r","timestamp":"2026-01-02T04:06:09.000Z","pincer":{"run":"ar_1"},"customType":"pincer.taken-over","data":{"phase":"taken-over"}}
{"type":"custom","id":"n2","parentId":"b","timestamp":"2026-01-02T04:06:10.000Z","pincer":{"run":"ar_1","call":"c1"},"customType":"pincer.nested-call","data":{"program":"cm_1","seq":1,"tool":"mcp:files:write","line":2,"input":{"path":"b"},"error":"denied by tom"}}
{"type":"message","id":"e","parentId":"t","timestamp":"2026-01-02T04:06:10.000Z","pincer":{"run":"ar_1","call":"c1"},"message":{"role":"toolResult","toolCallId":"c1","toolName":"exec","content":[{"type":"text","text":"failed: denied by tom"}],"isError":true,"details":{"program":"cm_1"}}}
{"type":"message","id":"f","parentId":"e","timestamp":"2026-01-02T04:06:11.000Z","pincer":{"run":"ar_1","call":"c2"},"message":{"role":"toolResult","toolCallId":"c2","toolName":"read","content":[{"type":"text","text":"the text of x"}],"isError":false,"details":{"durationMs":3}}}
{"type":"message","id":"side","parentId":"a","timestamp":"2026-01-02T04:06:12.000Z","message":{"role":"assistant","content":"an answer that was left"}}
{"type":"compaction","id":"k","parentId":"f","timestamp":"2026-01-02T04:06:13.000Z","firstKeptEntryId":"f","summary":"They read files.","tokensBefore":99}
{"type":"custom_message","id":"m","parentId":"k","timestamp":"2026-01-02T04:06:14.000Z","content":"Answer the user.","customType":"pincer.hint"}
{"type":"custom","id":"s","parentId":"m","timestamp":"2026-01-02T04:06:15.000Z","customType":"pincer.stopped","data":{"reason":"timeout"}}
{"type":"custom","id":"x","parentId":"s","timestamp":"2026-01-02T04:06:16.000Z","customType":"pincer.error","data":{"kind":"rate_limit","message":"too many requests"}}
{"type":"session_info","id":"i","parentId":"x","timestamp":"2026-01-02T04:06:17.000Z","name":"Two files"}
"##;

fn file() -> String {
    format!("{HEADER}\n{ENTRIES}")
}

/// A home with this text as a session under the key `trip`.
fn imported(text: &str) -> Home {
    let home = Home::with("{}");
    fs::write(home.path("a.jsonl"), text).unwrap();
    let (code, out, err) = home.run(&["sessions", "import", "a.jsonl", "trip"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    home
}

/// What a command prints, with times and ids of sessions left out.
fn shown(home: &Home, arguments: &[&str]) -> String {
    let (code, out, err) = home.run(arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    let time = Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d").unwrap().replace_all(&out, "TIME").into_owned();
    let ago = Regex::new(r"[0-9.]+ (ms|s|min) ago").unwrap().replace_all(&time, "AGO ago").into_owned();
    Regex::new(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap().replace_all(&ago, "UUID").into_owned()
}

/// The lines of an export without the header.
fn exported(home: &Home, key: &str) -> Vec<String> {
    let (code, out, err) = home.run(&["sessions", "export", key]);
    assert_eq!(code, 0, "{err}");
    out.lines().skip(1).map(str::to_owned).collect()
}

/// A message of a user for a file.
fn message(id: &str, parent: Option<&str>, text: &str) -> String {
    let at = "2026-01-02T03:04:06.000Z";
    json!({ "type": "message", "id": id, "parentId": parent, "timestamp": at, "message": { "role": "user", "content": text } })
        .to_string()
}

#[test]
fn a_session_is_exported_as_it_was_imported() {
    let home = imported(&file());
    let (_, out, _) = home.run(&["sessions", "export", "trip"]);
    let header: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((&header["type"], &header["version"]), (&json!("session"), &json!(3)));
    assert_eq!(exported(&home, "trip"), ENTRIES.lines().collect::<Vec<_>>());

    fs::write(home.path("out.jsonl"), "something else").unwrap();
    let (code, told) = home.json(&["sessions", "export", "trip", "out.jsonl", "--json"]);
    let written = fs::read_to_string(home.path("out.jsonl")).unwrap();
    assert_eq!((code, &told["entries"], &told["bytes"]), (0, &json!(15), &json!(written.len())));
    assert_eq!(written, out);
    assert_eq!(fs::metadata(home.path("out.jsonl")).unwrap().permissions().mode() & 0o777, 0o600);

    let mut again = home.command(&["sessions", "import", "-", "again", "--json"]);
    let mut again = again.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    again.stdin.take().unwrap().write_all(written.as_bytes()).unwrap();
    let told: Value = serde_json::from_slice(&again.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(
        (&told["key"], &told["label"], &told["leaf"], &told["contextFrom"]),
        (&json!("again"), &json!("Two files"), &json!(15), &json!(9))
    );
    let totals = json!({ "input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2, "runs": 0, "compactions": 1 });
    assert_eq!((&told["totals"], &told["warnings"]), (&totals, &json!([])));
    assert_eq!(exported(&home, "again"), ENTRIES.lines().collect::<Vec<_>>());
}

#[test]
fn a_name_that_was_given_later_is_in_the_file_too() {
    let home = imported(&file());
    assert_eq!(
        shown(&home, &["sessions", "rename", "trip", "Three \"files\""]),
        "trip is called \"Three \"files\"\" now\n"
    );
    fs::write(home.path("b.jsonl"), home.run(&["sessions", "export", "trip"]).1).unwrap();
    let (_, told) = home.json(&["sessions", "import", "b.jsonl", "other", "--json"]);
    assert_eq!((&told["label"], &told["entries"]), (&json!("Three \"files\""), &json!(16)));
    assert_eq!(
        exported(&home, "other"),
        fs::read_to_string(home.path("b.jsonl")).unwrap().lines().skip(1).collect::<Vec<_>>()
    );
    assert_eq!(shown(&home, &["sessions", "rename", "trip", ""]), "trip has no name now\n");
    fs::write(home.path("c.jsonl"), home.run(&["sessions", "export", "trip"]).1).unwrap();
    let (_, told) = home.json(&["sessions", "import", "c.jsonl", "third", "--json"]);
    assert_eq!(told["label"], json!(null));
}

#[test]
fn a_session_is_shown_with_its_programs_calls_questions_and_ends() {
    let home = imported(&file());
    let expected = "\
trip  \"Two files\"  idle  15 entries, 20 tokens
began  TIME  changed AGO ago  id UUID

user  TIME  #a
  Sum up both files, \"please\".
  Äpfel & Ωmega

assistant  p/m  TIME  #b
  thinking
    Two files.
  I look.
  exec
    1  const a = await tools.read({ path: 'a' })
    2  await tools.write({ path: 'b' })
    3  return a.length
    line 1  mcp:files:read  {\"path\":\"a\"}  12 ms
    line 2  mcp:files:write  {\"path\":\"b\"}  failed: denied by tom
    failed  failed: denied by tom
  read  {\"path\":\"x\"}
    →  the text of x  3 ms
waits  for 1 h 2 min  TIME  #w
  asked about  mcp:files:write  ap_1
goes on  TIME  #r
  denied  by tom  mcp:files:write  ap_1
taken over  by another process: the one before is gone  TIME  #t

compaction  of 99 tokens  TIME  #k
  They read files.

told the model  pincer.hint  TIME  #m
  Answer the user.
stopped  it took longer than it may  TIME  #s
error  rate_limit  TIME  #x
  too many requests
name  Two files  #i
";
    assert_eq!(shown(&home, &["sessions", "show", "trip"]), expected);

    let all = shown(&home, &["sessions", "show", "trip", "--all-branches"]);
    let side = "\nassistant  TIME  #side  (not on the branch in use)\n  an answer that was left\n\n";
    assert!(all.contains(side), "{all}");
    assert_eq!(all.replacen(&side[..side.len() - 1], "", 1), expected);

    let full = shown(&home, &["sessions", "show", "trip", "--full"]);
    assert!(full.contains("{\"path\":\"a\"}  12 ms\n      →  \"abcd\"\n"), "{full}");

    let (_, document) = home.json(&["sessions", "show", "trip", "--json"]);
    let transcript = document["transcript"].as_array().unwrap();
    assert_eq!(transcript.len(), 12);
    assert_eq!(transcript[1]["nested"][1]["body"]["error"], "denied by tom");
    assert_eq!((&transcript[1]["parentId"], &transcript[1]["isInUse"]), (&json!("a"), &json!(true)));
    let (_, document) = home.json(&["sessions", "show", "trip", "--json", "--all-branches"]);
    let side: Vec<&Value> =
        document["transcript"].as_array().unwrap().iter().filter(|entry| entry["isInUse"] == false).collect();
    assert_eq!((side.len(), &side[0]["id"]), (1, &json!("side")));
}

#[test]
fn colours_are_for_terminals_and_no_text_can_drive_one() {
    let hostile = "\u{1b}]0;owned\u{7}\u{9b}2J\r\u{202e}gpj";
    let mut lines = file();
    lines.push_str(&message("evil\u{1b}[1m", Some("i"), hostile));
    let program = json!({ "type": "message", "id": "y", "parentId": "evil\u{1b}[1m", "timestamp": "2026-01-02T04:06:18.000Z", "message": {
        "role": "assistant", "model": hostile, "stopReason": hostile,
        "content": [{ "type": "toolCall", "id": hostile, "name": hostile, "arguments": { "code": hostile } }] } });
    lines.push_str(&format!("\n{program}\n"));
    let nested = json!({ "type": "custom", "id": "z", "parentId": "y", "timestamp": "2026-01-02T04:06:19.000Z", "customType": "pincer.nested-call",
        "data": { "program": hostile, "seq": 0, "tool": hostile, "input": hostile, "error": hostile } });
    lines.push_str(&format!("{nested}\n"));
    let note = json!({ "type": "custom", "id": "zz", "parentId": "y", "timestamp": "2026-01-02T04:06:19.000Z", "customType": hostile, "data": hostile });
    lines.push_str(&format!("{note}\n"));
    let home = imported(&lines);
    home.run(&["sessions", "rename", "trip", "x\u{202e}y"]);
    for arguments in [
        &["sessions", "show", "trip"][..],
        &["sessions", "show", "trip", "--full"],
        &["sessions", "list"],
        &["sessions", "search", "owned"],
    ] {
        let (code, out, _) = home.run(arguments);
        assert_eq!(code, 0);
        let controls: Vec<char> = out.chars().filter(|c| c.is_control() && *c != '\n' || *c == '\u{202e}').collect();
        assert!(controls.is_empty(), "{arguments:?}: {controls:?}\n{out}");
        assert!(out.contains("\\u{202e}"), "{arguments:?}: {out}");
    }
    let (code, out) = home.on_a_terminal("", &["sessions", "show", "trip"]);
    assert_eq!(code, 0);
    assert!(out.contains("\u{1b}[32m"), "{out:?}");
    assert!(!out.contains("\u{1b}]0") && !out.contains(['\u{7}', '\u{9b}', '\u{202e}']), "{out:?}");
    let (_, out) = home.on_a_terminal("", &["sessions", "export", "trip"]);
    assert!(!out.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{out:?}");
}

#[test]
fn long_texts_are_shortened_unless_all_is_asked_for() {
    let long = format!("first\n{}\nlast", "middle\n".repeat(500));
    let home = imported(&format!("{HEADER}\n{}\n", message("a", None, &long)));
    let short = shown(&home, &["sessions", "show", "trip"]);
    assert!(short.contains("  first\n") && !short.contains("last"), "{short}");
    assert!(short.contains("more characters: --full shows them]"), "{short}");
    assert!(shown(&home, &["sessions", "show", "trip", "--full"]).ends_with("  middle\n\n  last\n"));
}

#[test]
fn entries_are_found_by_all_their_words_and_the_latest_comes_first() {
    let home = imported(&file());
    let found = |words: &[&str]| -> Vec<String> {
        let (code, document) = home.json(&[&["sessions", "search", "--json"], words].concat());
        assert_eq!(code, 0);
        let rows = document.as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["entry"].as_str().unwrap(), row["who"].as_str().unwrap())).collect()
    };
    assert_eq!(
        found(&["FILES"]),
        ["i session info", "k compaction", "n2 program", "r note", "w note", "n1 program", "b assistant", "a user"]
    );
    assert_eq!(found(&["files", "sum"]), ["a user"]);
    assert_eq!(found(&["files", "--limit", "2"]), ["i session info", "k compaction"]);
    assert_eq!(found(&["ÄPFEL"]), ["a user"]);
    assert_eq!(found(&["\"please\".\nä"]), ["a user"]);
    assert_eq!(found(&["denied by tom"]), ["e result of exec", "n2 program"]);
    // Words of the format are no words of the conversation.
    assert_eq!(found(&["toolCallId"]), [""; 0]);
    assert_eq!(found(&["tokensBefore"]), [""; 0]);
    assert_eq!(
        shown(&home, &["sessions", "search", "ωmega"]),
        "trip  TIME  user  #a\n  Sum up both files, \"please\". Äpfel & Ωmega\n"
    );
    assert_eq!(shown(&home, &["sessions", "search", "nowhere"]), "no entry contains all these words\n");
    home.run(&["sessions", "reset", "trip"]);
    assert!(shown(&home, &["sessions", "search", "ωmega"]).starts_with("trip (UUID)  TIME  user"));
}

#[test]
fn a_session_is_forked_at_an_entry() {
    let home = imported(&file());
    assert_eq!(shown(&home, &["sessions", "fork", "trip", "whole"]), "whole begins with 14 entries of trip\n");
    let (code, told) = home.json(&["sessions", "fork", "trip", "side", "--at", "si", "--json"]);
    assert_eq!((code, &told["entries"], &told["key"]), (0, &json!(2), &json!("side")));
    let ids = |key: &str| -> Vec<String> {
        let id = |line: &String| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
        exported(&home, key).iter().map(id).collect()
    };
    assert_eq!(ids("side"), ["a", "side"]);
    assert_eq!(exported(&home, "trip"), ENTRIES.lines().collect::<Vec<_>>());
    for (arguments, told) in [
        (&["sessions", "fork", "trip", "side"][..], "there is a session side already: give another key"),
        (&["sessions", "fork", "trip", "new", "--at", "nothing"], "trip has no entry nothing, or more than one"),
        (&["sessions", "fork", "trip", "new", "--at", "n"], "trip has no entry n, or more than one"),
        (&["sessions", "fork", "trip", "new", "--at", ""], "trip has no entry"),
        (&["sessions", "fork", "trip", "new", "--at", "n1"], "n1 is a call that a program made"),
        (&["sessions", "fork", "trip", ""], "is empty"),
        (&["sessions", "fork", "trip", "a\nb"], "has control characters"),
    ] {
        let (code, _, err) = home.run(arguments);
        assert!(code == 2 && err.contains(told), "{arguments:?}: {code} {err}");
    }
    let (_, listed) = home.json(&["sessions", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 3);
}

#[test]
fn a_session_that_was_reset_stays_readable_by_its_id() {
    let home = imported(&file());
    let (code, told) = home.json(&["sessions", "reset", "trip", "--json"]);
    assert_eq!(code, 0, "{told}");
    let before = told["before"].as_str().unwrap();
    assert_eq!(shown(&home, &["sessions", "list"]), "trip  \"Two files\"  idle  0 entries  0 tokens  AGO ago\n");
    let all = shown(&home, &["sessions", "list", "--all"]);
    assert!(all.contains("trip  \"Two files\"  ended  15 entries  20 tokens  AGO ago  UUID\n"), "{all}");
    let (_, listed) = home.json(&["sessions", "list", "--all", "--json"]);
    let states: Vec<&Value> = listed.as_array().unwrap().iter().map(|session| &session["state"]).collect();
    assert_eq!(states, ["idle", "ended"]);
    for arguments in [&["sessions", "export", before][..], &["sessions", "export", "--id", before]] {
        let (code, out, _) = home.run(arguments);
        assert_eq!((code, out.lines().count()), (0, 16), "{arguments:?}");
    }
    let (code, _, err) = home.run(&["sessions", "fork", "trip", "other"]);
    assert!(code == 1 && err.contains("trip has no entries that could be copied"), "{code} {err}");
    let (code, _, err) = home.run(&["sessions", "show", &before[..3]]);
    assert!(code == 2 && err.contains("there is no session"), "{err}");
    // Both ids begin with the same milliseconds or the same hours.
    let (code, _, err) = home.run(&["sessions", "show", &before[..4], "--id"]);
    assert!(code == 2 && err.contains("2 sessions have an id that begins with"), "{err}");
    let (code, out, err) = home.run(&["sessions", "delete", before, "--yes"]);
    assert!(
        code == 0 && out == "deleted trip with 15 entries\n" && err.contains("1 other session of this key stay"),
        "{out} {err}"
    );
    assert_eq!(shown(&home, &["sessions", "search", "ωmega"]), "no entry contains all these words\n");
}

#[test]
fn a_session_is_deleted_only_if_a_person_says_so() {
    let home = imported(&file());
    let (code, _, err) = home.run(&["sessions", "delete", "trip"]);
    assert!(code == 2 && err.contains("pass --yes"), "{code} {err}");
    let (code, out) = home.on_a_terminal("n", &["sessions", "delete", "trip"]);
    assert!(
        code == 1 && out.contains("Delete trip with 15 entries for good?") && out.contains("was not deleted"),
        "{out}"
    );
    assert_eq!(exported(&home, "trip").len(), 15);
    let (code, out) = home.on_a_terminal("y", &["sessions", "delete", "trip"]);
    assert!(code == 0 && out.contains("deleted trip with 15 entries"), "{out}");
    assert_eq!(shown(&home, &["sessions", "list", "--all"]), "there are no sessions\n");
    let (code, told) = home.json(&["sessions", "import", "a.jsonl", "trip", "--json"]);
    assert_eq!((code, &told["entries"]), (0, &json!(15)));
    let (code, told) = home.json(&["sessions", "delete", "trip", "--yes", "--json"]);
    assert_eq!((code, &told["key"], &told["left"]), (0, &json!("trip"), &json!(0)));
}

#[test]
fn what_cannot_be_is_told_with_a_remedy() {
    let home = imported(&file());
    fs::create_dir(home.path("directory")).unwrap();
    for (arguments, told) in [
        (&["sessions", "show", "tripp"][..], "there is no session tripp: did you mean trip?"),
        (&["sessions", "abort", "trp"], "there is no session trp: did you mean trip?"),
        (&["sessions", "reset", "zebra"], "there is no session zebra: `pincer sessions list` shows all"),
        (&["sessions", "rename", "zebra", "x"], "there is no session zebra"),
        (&["sessions", "delete", "zebra", "--yes"], "there is no session zebra"),
        (&["sessions", "export", "zebra"], "there is no session zebra"),
        (&["sessions", "fork", "zebra", "x"], "there is no session zebra"),
        (&["sessions", "show", "trip", "--id"], "there is no session with the id trip"),
        (&["sessions", "rename", "trip", "a\u{1b}b"], "has control characters"),
        (&["sessions", "export", "trip", "--json"], "need a FILE"),
        (&["sessions", "export", "trip", "directory"], "directory is not a file that could be replaced"),
        (&["sessions", "import", "a.jsonl", "trip"], "there is a session trip already: give another key"),
        (&["sessions", "import", "gone.jsonl"], "gone.jsonl cannot be imported: No such file"),
        (&["sessions", "list", "--limit", "0"], "--limit"),
        (&["sessions", "search"], "WORDS"),
        (&["sessions", "search", ""], "WORDS"),
    ] {
        let (code, _, err) = home.run(arguments);
        assert!(code == 2 && err.contains(told), "{arguments:?}: {code} {err}");
    }
    let (code, _, err) = home.run(&["sessions", "export", "trip", "no/such/directory.jsonl"]);
    assert!(code == 1 && err.contains("no/such/directory.jsonl cannot be written"), "{err}");
    let (_, listed) = home.json(&["sessions", "list", "--all", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

#[test]
fn a_damaged_file_leaves_nothing_behind() {
    let home = Home::with("{}");
    let first = message("a", None, "x");
    for (text, told) in [
        (String::new(), "line 1 is not the header of a session: the file is empty"),
        (format!("{first}\n"), "line 1 is not the header of a session: its type is \"message\""),
        ("{\"type\":\"session\",\"version\":4}\n".into(), "the file is of version 4"),
        (format!("{HEADER}\n{first}\nnonsense\n{first}\n"), "line 3 is not an entry"),
        (format!("{HEADER}\n{first}\n{first}\n"), "line 3: there is another entry with the id a"),
        (format!("{HEADER}\n{}\n", message("b", Some("a"), "x")), "line 2: the parent a is not in a line before it"),
    ] {
        fs::write(home.path("a.jsonl"), text).unwrap();
        let (code, _, err) = home.run(&["sessions", "import", "a.jsonl"]);
        assert!(
            code == 2 && err.contains("a.jsonl cannot be imported: ") && err.contains(told),
            "{told}: {code} {err}"
        );
    }
    fs::write(home.path("a.jsonl"), [HEADER.as_bytes(), b"\n\xff\xfe\n"].concat()).unwrap();
    let (code, _, err) = home.run(&["sessions", "import", "a.jsonl"]);
    assert!(code == 2 && err.contains("valid UTF-8"), "{err}");
    fs::write(home.path("a.jsonl"), format!("{{\"type\":\"session\",\"id\":\"x\\u001by\"}}\n{first}")).unwrap();
    let (code, _, err) = home.run(&["sessions", "import", "a.jsonl"]);
    assert!(code == 2 && err.contains("has control characters") && !err.contains('\u{1b}'), "{err:?}");
    assert_eq!(shown(&home, &["sessions", "list", "--all"]), "there are no sessions\n");

    fs::write(home.path("a.jsonl"), format!("{HEADER}\n{first}\n{{\"type\":\"from_tomorrow\",\"id\":\"q\",\"parentId\":\"a\",\"n\":1}}\n{{\"type\":\"mess")).unwrap();
    let (code, out, err) = home.run(&["sessions", "import", "a.jsonl"]);
    assert_eq!((code, out.as_str()), (0, "imported a.jsonl as imported-s1 with 2 entries\n"), "{err}");
    assert!(err.contains("warning: a.jsonl: line 3 is of the type \"from_tomorrow\""), "{err}");
    assert!(err.contains("warning: a.jsonl: line 4 is cut off and was left out"), "{err}");
}

/// Many entries, in a chain.
fn many(count: usize) -> String {
    let mut text = format!("{HEADER}\n");
    for number in 0..count {
        let parent = number.checked_sub(1).map(|before| format!("e{before}"));
        text.push_str(&message(&format!("e{number}"), parent.as_deref(), &format!("message {number}")));
        text.push('\n');
    }
    text
}

#[test]
fn a_long_session_is_carried_page_by_page() {
    let text = many(3001);
    let home = imported(&text);
    assert_eq!(exported(&home, "trip"), text.lines().skip(1).collect::<Vec<_>>());
    assert!(shown(&home, &["sessions", "show", "trip"]).ends_with("#e3000\n  message 3000\n"));
    let (_, found) = home.json(&["sessions", "search", "message", "--limit", "1000", "--json"]);
    assert_eq!((found.as_array().unwrap().len(), &found[0]["entry"]), (1000, &json!("e3000")));
}

#[test]
fn an_import_that_fails_in_the_middle_leaves_nothing_behind() {
    let home = imported(&file());
    let plant = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(\"CREATE TRIGGER planted BEFORE INSERT ON entry \
                 WHEN NEW.position = 2500 BEGIN SELECT RAISE(ABORT, 'planted'); END\"); c.commit()";
    let store = home.path(".state/pincer/pincer.db");
    assert!(Command::new("python3").args(["-c", plant]).arg(store).status().unwrap().success());
    fs::write(home.path("b.jsonl"), many(3000)).unwrap();
    let (code, _, err) = home.run(&["sessions", "import", "b.jsonl", "half"]);
    assert!(code == 1 && err.contains("planted"), "{code} {err}");
    let (_, listed) = home.json(&["sessions", "list", "--all", "--json"]);
    let keys: Vec<&Value> = listed.as_array().unwrap().iter().map(|session| &session["key"]).collect();
    assert_eq!(keys, ["trip"]);
    fs::write(home.path("c.jsonl"), many(2000)).unwrap();
    assert_eq!(home.run(&["sessions", "import", "c.jsonl", "half"]).0, 0);
}

#[test]
fn every_command_has_help_with_an_example() {
    let home = Home::with("{}");
    for command in ["list", "show", "search", "rename", "fork", "reset", "abort", "delete", "export", "import"] {
        let (code, out, _) = home.run(&["sessions", command, "--help"]);
        assert!(code == 0 && out.contains("Examples:") && out.contains(&format!("pincer sessions {command}")), "{out}");
    }
}

#[test]
fn hooks_are_told_of_a_session_that_is_deleted() {
    let home = imported(&file());
    let told = home.path("told");
    let hook = format!(
        "{{ hooks: {{ session_end: [{{ command: ['sh', '-c', 'cat > \"$0\"', {:?}] }}] }} }}",
        told.display().to_string()
    );
    fs::write(home.path("pincer.json5"), hook).unwrap();
    let (code, _, err) = home.run(&["sessions", "delete", "trip", "--yes"]);
    assert_eq!(code, 0, "{err}");
    let event: Value = serde_json::from_str(&fs::read_to_string(told).unwrap()).unwrap();
    assert_eq!(
        (&event["reason"], &event["sessionKey"], &event["messageCount"]),
        (&json!("deleted"), &json!("trip"), &json!(15))
    );
}
