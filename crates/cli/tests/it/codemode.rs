//! `exec`, `wait` and `runs` as separate processes: the ordinary use of them.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Home;
use serde_json::{Value, json};

/// Commands need no approval.
const FREE: &str = r#"{ tools: { exec: { mode: "full" } } }"#;

/// A program whose command runs until the test lets it.
const SLOW: &str = "const { stdout } = await tools.exec({ command: 'touch begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.05; done; echo done >> effects; cat effects' }); return stdout.trim()";

fn value(result: &(i32, Value)) -> &Value {
    assert_eq!(result.0, 0, "{}", result.1);
    &result.1["value"]
}

/// Until something is so; a test that waits for ever fails by the time it takes.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} never happened");
        thread::sleep(Duration::from_millis(10));
    }
}

fn start(home: &Home, arguments: &[&str]) -> Child {
    let mut command = home.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pincer")
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_program_that_waits_is_continued_by_another_process() {
    let home = Home::with("{}");
    let (code, waiting) =
        home.json(&["exec", "--json", "-e", "const a = new Map([[1, 2]]); await yield_control('x'); return a.get(1)"]);
    assert_eq!((code, &waiting["status"], &waiting["reason"]), (3, &json!("waiting"), &json!("yield")));
    let id = waiting["runId"].as_str().unwrap();
    let (_, list) = home.json(&["runs", "list", "--json"]);
    let keys: Vec<&String> = list[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["runId", "session", "state", "reason", "createdAt", "expiresAt", "snapshotBytes", "pending"]);
    assert_eq!(
        (&list[0]["runId"], &list[0]["state"], &list[0]["session"]),
        (&json!(id), &json!("waiting"), &json!("main"))
    );
    // Others cannot.
    let (code, refused) = home.json(&["wait", id, "--json", "--session", "other"]);
    assert_eq!((code, &refused["code"]), (1, &json!("invalid_input")));
    assert_eq!(value(&home.json(&["wait", id, "--json"])), 2);
    // For people: the id may be shortened.
    let (code, _, err) = home.run(&["exec", "-e", "await yield_control(); return 'again'"]);
    assert_eq!(code, 3);
    let id = err.split_whitespace().last().unwrap();
    assert_eq!(home.run(&["wait", &id[..id.len() - 4]]).1, "again\n");
}

#[test]
fn a_tool_goes_on_when_its_program_is_suspended_and_the_command_has_ended() {
    let home = Home::with(FREE);
    let (code, waiting) = home.json(&["exec", "--json", "--timeout-ms", "1500", "-e", SLOW]);
    assert_eq!((code, &waiting["pendingToolCalls"][0]["state"]), (3, &json!("running")), "{waiting}");
    let id = waiting["runId"].as_str().unwrap();
    // Not yet: it waits again.
    let (code, again) = home.json(&["wait", id, "--json", "--timeout-ms", "300"]);
    assert_eq!((code, &again["runId"]), (3, &json!(id)), "{again}");
    fs::write(home.path("go"), "").unwrap();
    assert_eq!(value(&home.json(&["wait", id, "--json"])), "done");
    assert_eq!(fs::read_to_string(home.path("effects")).unwrap(), "done\n");
    // Whoever stayed behind has gone, with what it held.
    let owners = home.path(".state/pincer/owners");
    until("the end of the worker", || fs::read_dir(&owners).map_or(true, |mut left| left.next().is_none()));
}

#[test]
fn an_abort_from_another_process_ends_the_tool_too() {
    let home = Home::with(FREE);
    let (_, waiting) = home.json(&["exec", "--json", "--timeout-ms", "1500", "-e", SLOW]);
    let id = waiting["runId"].as_str().unwrap();
    assert_eq!(home.json(&["runs", "abort", id, "--json"]).1["state"], "aborted");
    assert_eq!(home.run(&["runs", "abort", id]).0, 1);
    assert_eq!(home.json(&["wait", id, "--json"]).1["code"], "aborted");
    let owners = home.path(".state/pincer/owners");
    until("the end of the worker", || fs::read_dir(&owners).map_or(true, |mut left| left.next().is_none()));
    fs::write(home.path("go"), "").unwrap();
    assert!(!home.path("effects").exists());
}

#[test]
fn with_parked_durability_a_killed_program_ends_and_says_what_it_had_done() {
    let home = Home::with(r#"{ tools: { exec: { mode: "full" }, codeMode: { durability: "parked" } } }"#);
    let code = format!("await tools.write({{ path: 'first', content: '1' }}); {SLOW}");
    let mut running = start(&home, &["exec", "--json", "--timeout-ms", "60000", "-e", &code]);
    until("the command", || home.path("begun").exists());
    running.kill().unwrap();
    running.wait().unwrap();
    let (_, list) = home.json(&["runs", "list", "--json"]);
    let id = list[0]["runId"].as_str().unwrap();
    let (code, lost) = home.json(&["wait", id, "--json"]);
    assert_eq!((code, &lost["code"]), (1, &json!("aborted")), "{lost}");
    let error = lost["error"].as_str().unwrap();
    assert!(
        error.contains("settled calls: openclaw:core:write; calls that may have happened: openclaw:core:exec"),
        "{error}"
    );
    let (_, shown) = home.json(&["runs", "show", id, "--json"]);
    assert_eq!((&shown["state"], &shown["calls"][0]["succeeded"]), (&json!("aborted"), &json!(true)));
}

#[test]
fn with_every_call_stored_a_killed_program_goes_on() {
    let home = Home::with(r#"{ tools: { exec: { mode: "full" }, codeMode: { durability: "every_call" } } }"#);
    let code = "await tools.write({ path: 'first', content: '1' });
        await tools.find({ pattern: '*' });
        try { await tools.exec({ command: 'touch begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.05; done' }) } catch (e) { return [e.code, e.effect, (await tools.read({ path: 'first' })).content] }";
    let mut running = start(&home, &["exec", "--json", "--timeout-ms", "60000", "-e", code]);
    until("the command", || home.path("begun").exists());
    running.kill().unwrap();
    running.wait().unwrap();
    fs::write(home.path("first"), "changed since").unwrap();
    let (_, list) = home.json(&["runs", "list", "--json"]);
    let id = list[0]["runId"].as_str().unwrap();
    // The command may have happened, and nobody says otherwise; the write has, and is not done again.
    assert_eq!(*value(&home.json(&["wait", id, "--json"])), json!(["interrupted", "unknown", "changed since"]));
}

#[test]
fn a_question_whose_run_has_ended_is_gone_and_says_so() {
    let ask = r#"approvals: { rules: [{ match: "write", decision: "ask" }] }"#;
    let code = "await tools.write({ path: 'a', content: 'b' })";
    let asked = |home: &Home| {
        let (_, waiting) = home.json(&["exec", "-e", code, "--json"]);
        let (run, question) = (&waiting["runId"], &waiting["pendingToolCalls"][0]["approvalId"]);
        (run.as_str().unwrap().to_owned(), question.as_str().unwrap().to_owned())
    };
    let home = Home::with(&format!("{{ {ask} }}"));
    let (run, question) = asked(&home);
    assert_eq!(home.run(&["runs", "abort", &run]).0, 0);
    let (code, _, err) = home.run(&["approvals", "allow", &question]);
    assert!(
        code == 1 && err.contains(&format!("{question} is gone: {run}, which asked, has ended (aborted)")),
        "{err}"
    );
    // Its time was over, and no process has looked since.
    let home = Home::with(&format!("{{ tools: {{ codeMode: {{ snapshotTtlSeconds: 1 }} }}, {ask} }}"));
    let (run, question) = asked(&home);
    let listed = || home.run(&["approvals", "list"]).1;
    while listed() != "nothing waits for an answer\n" {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (code, _, err) = home.run(&["approvals", "allow", &question, "--always"]);
    assert!(code == 1 && err.contains(&format!("{run}, which asked, has ended (expired)")), "{err}");
    assert_eq!(home.run(&["approvals", "grants"]).1, "nothing has been granted beyond single calls\n");
}

#[test]
fn a_program_that_a_hook_wants_asked_about_waits_and_survives_no_signal() {
    let demand = r#"{"requireApproval": {"title": "May this program run?"}}"#;
    let hook = json!({ "matcher": "openclaw:codemode:exec", "command": ["echo", demand] });
    let home = Home::with(&json!({ "hooks": { "before_tool_call": [hook] } }).to_string());
    let (code, waiting) = home.json(&["exec", "-e", "return 6 * 7", "--json"]);
    assert_eq!((code, &waiting["status"]), (3, &json!("waiting")), "{waiting}");
    let (run, question) = (&waiting["runId"], &waiting["pendingToolCalls"][0]["approvalId"]);
    let (run, question) = (run.as_str().unwrap(), question.as_str().unwrap());
    let (_, _, err) = home.run(&["wait", run]);
    assert!(err.contains("May this program run?") && err.contains("return 6 * 7") && err.contains(question), "{err}");
    let (_, out, _) = home.run(&["approvals", "allow", question]);
    assert!(out.contains(&format!("pincer wait {run}")), "{out}");
    assert_eq!(home.run(&["wait", run]), (0, "42\n".into(), String::new()));
    // At a terminal it is waited for, until the process is to end.
    let (code, shown) = home.on_a_terminal("y", &["exec", "-e", "return 6 * 7"]);
    assert!(code == 0 && shown.contains("42"), "{shown}");
    let (code, shown) = home.on_a_terminal("^C", &["exec", "-e", "return 6 * 7"]);
    assert_eq!(code, 130, "{shown}");
}

#[test]
fn an_approval_is_answered_and_the_program_goes_on() {
    let home = Home::with(r#"{ approvals: { rules: [{ match: "write", decision: "ask" }] } }"#);
    let (code, out, err) =
        home.run(&["exec", "-e", "await tools.write({ path: 'a', content: 'b' }); return 'written'"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("May this tool be called? (line 1 of the program)"), "{err}");
    assert!(err.contains("      openclaw:core:write {\"path\":\"a\",\"content\":\"b\"}\n    needs an answer"), "{err}");
    assert!(err.contains("needs an answer: pincer approvals allow ap_"), "{err}");
    let question = err.split_whitespace().find(|word| word.starts_with("ap_")).unwrap();
    let run = err.split_whitespace().last().unwrap();
    assert!(!home.path("a").exists());
    assert_eq!(home.run(&["approvals", "allow", question]).0, 0);
    assert_eq!(home.run(&["wait", run]), (0, "written\n".into(), String::new()));
    assert_eq!(fs::read_to_string(home.path("a")).unwrap(), "b");
}

#[test]
fn at_a_terminal_calls_have_lines_and_questions_are_asked() {
    let home = Home::with(r#"{ approvals: { rules: [{ match: "write", decision: "ask" }] } }"#);
    let code = "await tools.write({ path: 'a', content: 'b' }); await tools.ls({}); return { z: 1, a: 2 }";
    let (exit, shown) = home.on_a_terminal("y", &["exec", "-e", code]);
    assert_eq!(exit, 0, "{shown}");
    for part in [
        "openclaw:core:write {\"path\":\"a\",\"content\":\"b\"}  running",
        "May this tool be called? (line 1 of the program)",
        "✓ openclaw:core:write",
        "✓ openclaw:core:ls {}",
        "\"z\": 1",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
    // Nothing is drawn between the question and its answer.
    let (_, asked) = shown.split_once("[N]o? ").unwrap();
    assert!(!asked.split('y').next().unwrap().contains('\u{1b}'), "{asked:?}");
    let (exit, shown) = home.on_a_terminal("n", &["exec", "-e", code]);
    assert!(exit == 1 && shown.contains("was denied"), "{shown}");
    assert_eq!(home.on_a_terminal("^C", &["exec", "-e", code]).0, 130);
}

#[test]
fn two_processes_that_wait_for_one_program_get_the_same_result_of_one_execution() {
    let home = Home::with(FREE);
    let (_, waiting) = home.json(&["exec", "--json", "--timeout-ms", "1500", "-e", SLOW]);
    let id = waiting["runId"].as_str().unwrap();
    let waits: Vec<Child> = (0..3).map(|_| start(&home, &["wait", id, "--json", "--timeout-ms", "60000"])).collect();
    fs::write(home.path("go"), "").unwrap();
    for wait in waits {
        let output = wait.wait_with_output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &result["value"]), (Some(0), &json!("done")), "{result}");
    }
    assert_eq!(fs::read_to_string(home.path("effects")).unwrap(), "done\n");
}

#[test]
fn typescript_by_flag_or_by_name() {
    let home = Home::with("{}");
    let code = "enum Size { Small = 1, Large }\nconst size: Size = Size.Large;\nsize as number";
    assert_eq!(*value(&home.json(&["exec", "--json", "--ts", "-e", code])), 2);
    fs::write(home.path("program.ts"), "const list: Array<number> = [1, 2]; return list.length").unwrap();
    assert_eq!(*value(&home.json(&["exec", "--json", "program.ts"])), 2);
    let (_, wrong) = home.json(&["exec", "--json", "--ts", "-e", "const a: = 1"]);
    assert_eq!(wrong["code"], "typescript_transform_failed");
}

#[test]
fn what_is_wrong_before_a_program_runs_is_a_result_too() {
    let home = Home::with("{ tools: { codeMode: { timeoutMS: 5 } } }");
    let (code, refused) = home.json(&["exec", "--json", "-e", "return 1"]);
    assert_eq!((code, &refused["status"], &refused["code"]), (2, &json!("failed"), &json!("invalid_config")));
    let home = Home::with("{}");
    for (code, expected, says) in [
        ("ls -la", "invalid_input", "openclaw:core:exec"),
        ("cat x | grep y", "invalid_input", "JavaScript"),
        ("import fs from 'fs'; return 1", "module_access_denied", "tools"),
        ("const x = ;", "invalid_input", "(line 1, column 11)"),
    ] {
        let (exit, refused) = home.json(&["exec", "--json", "-e", code]);
        assert_eq!((exit, refused["code"].as_str()), (1, Some(expected)), "{code}: {refused}");
        assert!(refused["error"].as_str().is_some_and(|error| error.contains(says)), "{code}: {refused}");
    }
}

#[test]
fn a_program_that_uses_what_is_elsewhere_is_told_of_the_tool() {
    let home = Home::with("{}");
    for (code, says) in [
        ("return await fetch('https://example.com')", "there is no `fetch` here; use tools.web_fetch"),
        ("return fs.readFileSync('x')", "there is no `fs` here; use tools.read"),
        ("return child_process.exec('ls')", "there is no `child_process` here; use tools.exec"),
    ] {
        let (_, failed) = home.json(&["exec", "--json", "-e", code]);
        assert!(failed["error"].as_str().is_some_and(|error| error.contains(says)), "{code}: {failed}");
    }
}

#[test]
fn somebody_at_the_keyboard_ends_the_program_and_the_system_has_it_suspended() {
    let home = Home::with(FREE);
    let mut running = start(&home, &["exec", "--json", "--timeout-ms", "60000", "-e", SLOW]);
    until("the command", || home.path("begun").exists());
    send("-INT", &running);
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let state = |index: usize| home.json(&["runs", "list", "--json"]).1[index]["state"].clone();
    assert_eq!(state(0), "aborted");
    fs::remove_file(home.path("begun")).unwrap();
    let mut running = start(&home, &["exec", "--json", "--timeout-ms", "60000", "-e", SLOW]);
    until("the command", || home.path("begun").exists());
    send("-TERM", &running);
    let mut said = String::new();
    running.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(3), "{said}");
    assert_eq!(state(1), "waiting");
    assert!(!home.path("effects").exists());
}

#[test]
fn debugging_tells_what_happens_and_no_input() {
    let home = Home::with("{}");
    for switch in ["OPENCLAW_DEBUG_CODE_MODE", "PINCER_DEBUG_CODE_MODE"] {
        let code = "await tools.find({ pattern: 'hush*' }); await yield_control('secret'); return 'hush'";
        let output = home.command(&["exec", "--json", "-e", code]).env(switch, "1").output().unwrap();
        let waiting: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        let log = String::from_utf8(output.stderr).unwrap();
        for part in ["visible", "catalog", "turn", "parked"] {
            assert!(log.contains(part), "{part} is not in {log}");
        }
        let output =
            home.command(&["wait", "--json", waiting["runId"].as_str().unwrap()]).env(switch, "1").output().unwrap();
        let more = String::from_utf8(output.stderr).unwrap();
        assert!(more.contains("restored") && more.contains("ended"), "{more}");
        assert!(!log.contains("hush") && !log.contains("secret") && !more.contains("hush"), "{log}{more}");
    }
    assert_eq!(home.run(&["exec", "-e", "return 1"]).2, "");
}

#[test]
fn a_program_with_an_id_runs_once() {
    let home = Home::with(FREE);
    let code = "await tools.exec({ command: 'echo x >> effects' }); return Math.random()";
    let (_, first) = home.json(&["exec", "--json", "--id", "mine", "-e", code]);
    assert_eq!(first["status"], "completed", "{first}");
    let (_, again) = home.json(&["exec", "--json", "--id", "mine", "-e", code]);
    assert_eq!(again["value"], first["value"], "{again}");
    assert_eq!(fs::read_to_string(home.path("effects")).unwrap(), "x\n");
    assert_eq!(home.json(&["exec", "--json", "--id", "mine", "-e", "return 1"]).1["code"], "invalid_input");
    assert_eq!(home.run(&["exec", "--id", "", "-e", "return 1"]).0, 2);
}
