//! The binary as a person or a script uses it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn pincer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pincer"));
    // A cache for all tests of this build, so that only the first of them compiles the engine.
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    command.args(arguments).env("XDG_CACHE_HOME", place.join("cache"));
    command.env("XDG_STATE_HOME", place.join("state")).env("XDG_CONFIG_HOME", place.join("config"));
    command
}

fn run(arguments: &[&str]) -> Output {
    pincer(arguments).output().expect("pincer")
}

/// Exit code, stdout, stderr. The progress of a first start is no matter here.
fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let stderr: String = text(&output.stderr).lines().filter(|line| !line.contains("only the first time")).collect();
    (output.status.code().expect("an exit code"), text(&output.stdout), stderr)
}

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = pincer(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pincer");
    // It need not read all of it.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("pincer")
}

#[test]
fn exec_prints_value_and_output_for_a_person() {
    assert_eq!(said(&run(&["exec", "-e", "return 1 + 2"])), (0, "3\n".into(), String::new()));
    assert_eq!(said(&run(&["exec", "-e", "return 'text'"])), (0, "text\n".into(), String::new()));
    let (code, out, _) = said(&run(&["exec", "-e", "console.log('first'); return { a: [1] }"]));
    assert_eq!((code, out.as_str()), (0, "first\n{\n  \"a\": [\n    1\n  ]\n}\n"));
}

#[test]
fn the_last_expression_is_the_value_without_a_return() {
    assert_eq!(said(&run(&["exec", "-e", "const a = 1; a + 2"])), (0, "3\n".into(), String::new()));
    assert_eq!(said(&run(&["exec", "-e", "const a = 1;"])), (0, "null\n".into(), String::new()));
}

#[test]
fn exec_reads_files_and_standard_input() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("program.js");
    fs::write(&file, "return 'from a file'").expect("a file");
    assert_eq!(said(&run(&["exec", file.to_str().expect("a path")])).1, "from a file\n");
    assert_eq!(said(&with_input(&["exec", "-"], b"return 'from stdin'")).1, "from stdin\n");
}

#[test]
fn exec_json_is_one_result_and_nothing_else() {
    let output = run(&["exec", "--json", "-e", "text('a'); return [1, null]"]);
    let (code, out, _) = said(&output);
    let result: Value = serde_json::from_str(&out).expect("one JSON document");
    assert_eq!((code, &result["status"], &result["value"]), (0, &"completed".into(), &serde_json::json!([1, null])));
    let (code, out, _) = said(&run(&["exec", "--json", "-e", "throw new Error('x')"]));
    let result: Value = serde_json::from_str(&out).expect("one JSON document");
    assert_eq!((code, &result["status"]), (1, &"failed".into()));
    assert!(result.get("code").is_none() && result["telemetry"].is_object());
}

#[test]
fn failures_exit_with_one_and_say_why() {
    for (source, says) in [
        ("throw new Error('mine')", "error: Error: mine"),
        ("let x = ;", "line 1, column 9"),
        ("for (;;) {}", "deadline of 100 ms"),
        ("const a = []; for (;;) a.push(new Uint8Array(1e6))", "memory"),
    ] {
        // Only the endless loop is to meet its deadline, however slow the machine is.
        let time = if says.contains("deadline") { "100" } else { "60000" };
        let (code, out, err) = said(&run(&["exec", "--timeout-ms", time, "-e", source]));
        assert_eq!((code, out.as_str()), (1, ""), "{source}");
        assert!(err.contains(says), "{source}: {err}");
    }
}

#[test]
fn wrong_usage_exits_with_two_and_a_clear_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let binary = directory.path().join("binary.js");
    fs::write(&binary, [b'a', 0xff, 0xfe]).expect("a file");
    let path = directory.path().to_str().expect("a path");
    let binary = binary.to_str().expect("a path");
    for (arguments, says) in [
        (&["exec"][..], "required"),
        (&["exec", "-e", "1", "file.js"], "cannot be used with"),
        (&["exec", "/no/such/file.js"], "/no/such/file.js cannot be read: No such file"),
        (&["exec", path], "cannot be read: Is a directory"),
        (&["exec", binary], "is not UTF-8 text (the first bad byte is number 2)"),
        (&["exec", "--timeout-ms", "soon", "-e", "1"], "invalid value 'soon'"),
        (&["exce", "-e", "1"], "unrecognized subcommand"),
        (&["bench", "cells", "--rounds", "0"], "invalid value '0'"),
        (&[], "Usage"),
    ] {
        let (code, out, err) = said(&run(arguments));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    let (code, _, err) = said(&with_input(&["exec", "-"], &[0xc3, 0x28]));
    assert_eq!(code, 2);
    assert!(err.contains("standard input is not UTF-8"), "{err}");
}

#[test]
fn a_timeout_out_of_range_is_clamped_with_a_warning() {
    let (code, out, err) = said(&run(&["exec", "--timeout-ms", "5", "-e", "return 1"]));
    assert_eq!((code, out.as_str()), (0, "1\n"));
    assert!(err.contains("100 to 60000") && err.contains("100 is used"), "{err}");
}

#[test]
fn a_cache_that_others_may_write_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("pincer")).expect("a directory");
    fs::set_permissions(directory.path().join("pincer"), fs::Permissions::from_mode(0o777)).expect("permissions");
    let output = pincer(&["exec", "-e", "return 1"]).env("XDG_CACHE_HOME", directory.path()).output().expect("pincer");
    let (code, out, err) = said(&output);
    assert_eq!((code, out.as_str()), (0, "1\n"));
    assert!(err.contains("warning: the cache directory") && err.contains("chmod go-w"), "{err}");
}

#[test]
fn a_first_start_tells_what_takes_long() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = pincer(&["exec", "-e", "return 1"]).env("XDG_CACHE_HOME", directory.path()).output().expect("pincer");
    assert!(String::from_utf8_lossy(&output.stderr).contains("compiling the JavaScript engine (only the first time)"));
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    let mut command = pincer(&["exec", "-e", "for (let i = 0; i < 1000; i++) console.log('line ' + i)"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pincer");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("pincer");
    assert_eq!(output.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_written_is_told_by_the_exit_code() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
    let code = |mut command: Command| command.status().expect("pincer").code();
    let mut fails = pincer(&["exec", "-e", "throw 1"]);
    fails.stderr(full());
    assert_eq!(code(fails), Some(1));
    let mut works = pincer(&["exec", "--json", "-e", "return 1"]);
    works.stdout(full()).stderr(Stdio::null());
    assert_eq!(code(works), Some(1));
}

#[test]
fn a_program_that_never_ends_is_not_read_to_its_end() {
    let (code, _, err) = said(&with_input(&["exec", "-"], &b"//\n".repeat(400_000)));
    assert_eq!(code, 2);
    assert!(err.contains("longer than the 1048576 bytes"), "{err}");
}

#[test]
fn approvals_are_listed_answered_and_granted_from_a_terminal() {
    use pincer_store::{Approvals, NewApproval};
    use pincer_store_sqlite::SqliteStore;
    let directory = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(&directory.path().join("pincer.db")).expect("a store");
    let path = directory.path().to_str().expect("a path");
    let approvals = |arguments: &[&str]| said(&run(&[&["approvals", "--state-dir", path], arguments].concat()));
    assert_eq!(approvals(&["list"]).1, "nothing waits for an answer\n");
    assert_eq!(approvals(&["list", "--json"]).1, "[]\n");
    for id in ["ap_1a", "ap_1b", "ap_2"] {
        let (run, request) = (Some("cm_1".into()), r#"{"input":{"command":"ls"}}"#.into());
        let new = NewApproval {
            id: id.into(),
            run,
            session: "s".into(),
            user: None,
            tool: "openclaw:core:exec".into(),
            seq: None,
            digest: b"d".into(),
            fingerprint: None,
            request,
            created_at: 0,
            expires_at: None,
        };
        store.ask(new).wait().expect("asked");
    }
    assert!(
        approvals(&["list"])
            .1
            .contains("ap_2  in s: May this tool be called?\n  openclaw:core:exec {\"command\":\"ls\"}")
    );
    let listed: Value = serde_json::from_str(&approvals(&["list", "--json"]).1).expect("JSON");
    assert_eq!((listed.as_array().map(Vec::len), &listed[0]["state"]), (Some(3), &"pending".into()));
    assert_eq!(approvals(&["allow", "ap_2", "--next", "5"]).0, 0);
    let (code, _, err) = approvals(&["deny", "ap_2"]);
    assert_eq!(code, 1);
    assert!(err.contains("settled before: it is allowed"), "{err}");
    let (code, _, err) = approvals(&["allow", "ap_1"]);
    assert_eq!(code, 2);
    assert!(err.contains("ap_1a or ap_1b"), "{err}");
    assert_eq!(approvals(&["deny", "ap_1b"]).1, "denied ap_1b: openclaw:core:exec\ncontinue with: pincer wait cm_1\n");
    assert_eq!(approvals(&["allow", "ap_1a", "--always"]).0, 0);
    assert_eq!(approvals(&["allow", "ap_9"]).0, 2);
    let grants: Value = serde_json::from_str(&approvals(&["grants", "--json"]).1).expect("JSON");
    assert_eq!(
        (&grants[0]["kind"], &grants[0]["remaining"], &grants[1]["kind"]),
        (&"next".into(), &4.into(), &"always".into())
    );
    let id = grants[0]["id"].as_str().expect("an id");
    assert_eq!(approvals(&["revoke", id]).0, 0);
    assert!(approvals(&["grants"]).1.contains("always"));
    assert_eq!(approvals(&["revoke", id]).0, 2);
}

#[test]
fn demo_tells_of_a_program_and_of_an_agent_that_are_killed_and_go_on() {
    let (code, out, err) = said(&run(&["demo"]));
    assert_eq!(code, 0, "{err}");
    for part in [
        "13 tools",
        "7 calls and a search",
        "it waits for an approval",
        "kill -9",
        r#"{"ada":50,"grace":8,"edsger":5}"#,
        "8 calls in the journal, `write` 1 time",
        "past its deadline",
        "still here",
        "The model is a script on this machine",
        "✓ openclaw:core:exec",
        "the process that worked on this is gone",
        "✓ mcp:bank:rate",
        "→ Ada's orders are in the ledger: 50 dollars, which are 46 euros.",
        "The ledger has 1 line: ada 50.",
        "The model was asked 2 times",
    ] {
        assert!(out.contains(part), "{part} is not in:\n{out}");
    }
}

#[test]
fn bench_prints_every_figure() {
    let (code, out, err) = said(&run(&["bench", "cells", "--json", "--rounds", "3"]));
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).expect("one JSON document");
    for path in ["fresh", "suspend", "park", "resume"] {
        for quantile in ["p50", "p95"] {
            assert!(report[path][quantile].as_f64().is_some_and(|figure| figure > 0.0), "{path}.{quantile} in {out}");
        }
    }
    let resident = if cfg!(target_os = "linux") { &["rssBytes"][..] } else { &[] };
    for path in ["firstMs", "suspendedBytes", "cellsPerSecond", "heldPer1000", "perCall"].iter().chain(resident) {
        assert!(report[path].as_f64().is_some_and(|figure| figure > 0.0), "{path} in {out}");
    }
    assert!(said(&run(&["bench", "cells", "--rounds", "3"])).1.contains("fresh cell to result"));
}

#[test]
fn bench_agent_prints_every_figure() {
    let (code, out, err) = said(&run(&["bench", "agent", "--json", "--runs", "1", "--sessions", "5"]));
    assert_eq!(code, 0, "{err}");
    let figures: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<&str> = figures.iter().filter_map(|figure| figure["figure"].as_str()).collect();
    assert_eq!(
        names,
        [
            "accept_to_request",
            "ten_tools_direct",
            "ten_tools_direct_in_a_row",
            "ten_tools_program",
            "concurrent_sessions",
            "continued_after_kill",
            "continued_after_kill",
        ]
    );
    let requests: Vec<&Value> = figures[1..4].iter().map(|figure| &figure["requests"]).collect();
    assert_eq!(requests, [2, 11, 2]);
    assert_eq!((&figures[4]["complete"], &figures[4]["error"]), (&5.into(), &Value::Null), "{out}");
}

#[test]
fn help_has_examples() {
    for arguments in [&["exec", "--help"][..], &["demo", "--help"], &["bench", "cells", "--help"]] {
        let (code, out, _) = said(&run(arguments));
        assert_eq!(code, 0);
        assert!(out.contains("Example"), "{arguments:?}");
    }
}

#[test]
fn bench_search_measures_every_pair_of_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let tool = |id: &str, name: &str, what: &str| {
        serde_json::json!({ "id": id, "server": "", "name": name, "description": what, "schema": {} }).to_string()
    };
    let tools = [
        tool("a", "read_file", "Read a file"),
        tool("b", "send_mail", "Send a mail"),
        tool("a~1", "read_file", "Read a file"),
    ];
    fs::write(directory.path().join("mine.tools.jsonl"), tools.join("\n")).expect("a file");
    let queries = r#"{"qid":"1","query":"send a mail","relevant":[["b"]]}
{"qid":"3","query":"read file","relevant":[["a","a~1"],["b"]]}"#;
    fs::write(directory.path().join("mine.queries.jsonl"), queries).expect("a file");
    fs::write(directory.path().join("lonely.tools.jsonl"), "").expect("a file");
    let path = directory.path().to_str().expect("a path");
    let (code, out, err) = said(&run(&["bench", "search", "--data", path, "--json"]));
    assert_eq!(code, 0, "{err}");
    let reports: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(reports.len(), 2);
    for (report, mode) in reports.iter().zip(["nd", "ndp"]) {
        assert_eq!((&report["set"], &report["mode"], &report["n"]), (&"mine".into(), &mode.into(), &2.into()));
        assert_eq!(report["r8"], 0.75);
        assert!(report["buildMs"].is_number() && report["msPerQuery"].is_number() && report["ndcg10"].is_number());
    }
    assert!(said(&run(&["bench", "search", "--data", path])).1.contains("nDCG@10"));
    for report in &reports {
        let parts = report["parts"].as_array().expect("parts");
        let sizes: Vec<(&str, u64)> = parts
            .iter()
            .map(|part| (part["part"].as_str().expect("a name"), part["n"].as_u64().expect("a number")))
            .collect();
        assert_eq!(sizes, [("tuned", 1), ("heldOut", 1), ("all", 2)], "a question is always in the same part");
        assert_eq!(parts[2]["ndcg10"], report["ndcg10"]);
    }

    // Another search that finds nothing for the first question, and all that is needed for the second.
    let ranking = |mode: &str, qid: &str, found: &[&str]| {
        serde_json::json!({ "set": "mine", "mode": mode, "qid": qid, "found": found }).to_string()
    };
    let rankings =
        ["nd", "ndp"].map(|mode| format!("{}\n{}\n", ranking(mode, "1", &[]), ranking(mode, "3", &["b", "a"])));
    let file = directory.path().join("others.jsonl");
    fs::write(&file, rankings.concat()).expect("a file");
    let beside = ["bench", "search", "--data", path, "--beside", file.to_str().expect("a path")];
    let (code, out, err) = said(&run(&[&beside[..], &["--json"]].concat()));
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
    assert_eq!(report["parts"][2]["beside"], serde_json::json!({ "r8": 0.5, "ndcg10": 0.5 }));
    assert!(said(&run(&beside)).1.contains("mean of the sets"));
    fs::write(&file, &rankings[0]).expect("a file");
    let (code, _, err) = said(&run(&beside));
    assert_eq!(code, 1);
    assert!(err.contains("none in the mode ndp for the question `1`"), "{err}");

    fs::write(directory.path().join("mine.queries.jsonl"), "{").expect("a file");
    let (code, _, err) = said(&run(&["bench", "search", "--data", path]));
    assert_eq!(code, 1);
    assert!(err.contains("mine.queries.jsonl line 1"), "{err}");
    let (code, _, err) = said(&run(&["bench", "search", "--data", "/no/such/folder"]));
    assert_eq!(code, 2);
    assert!(err.contains("/no/such/folder cannot be read"), "{err}");
}
