//! `pincer sessions export-trajectory` and `pincer trajectory view`, on sessions of a real agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pincer_scripted::{Script, Server};
use serde_json::{Value, json};

use crate::common::Home;
use crate::common::plan::{Plan, call, text};

fn events(bundle: &Path) -> Vec<Value> {
    let text = fs::read_to_string(bundle.join("events.jsonl")).expect("events");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The calls below a call, in their order.
fn below<'e>(events: &'e [Value], parent: &str) -> Vec<&'e Value> {
    let is_below = |event: &&Value| event["type"] == "tool.call" && event["data"]["parentToolCallId"] == parent;
    events.iter().filter(is_below).map(|event| &event["data"]).collect()
}

#[test]
fn a_trajectory_shows_nested_calls_under_the_call_of_the_program() {
    let code = "await tools.write({ path: 'a.txt', content: 'one' });\nreturn (await tools.read({ path: 'a.txt' })) !== undefined";
    let plan = Plan::new("codeMode: { enabled: true }", &[call("exec", &json!({ "code": code })), text("Written.")]);
    assert_eq!(plan.message("main", "Write a file with the key sk-abcdefgh12345678.")["status"], "ok");
    let (status, told) = plan.home.json(&["sessions", "export-trajectory", "main", "--output", "bundle", "--json"]);
    assert_eq!((status, &told["warnings"]), (0, &json!([])), "{told}");
    let bundle = plan.home.path("bundle");
    let events = events(&bundle);
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "session.started",
        "trace.metadata",
        "prompt.submitted",
        "user.message",
        "context.compiled",
        "model.completed",
        "assistant.message",
        "tool.call",
        "tool.call",
        "tool.result",
        "tool.call",
        "tool.result",
        "tool.result",
        "model.completed",
        "assistant.message",
        "trace.artifacts",
        "trace.exported",
    ];
    assert_eq!(types, expected);
    let times: Vec<&str> = events.iter().map(|event| event["ts"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let nested = below(&events, "c_exec");
    let shown = |data: &&Value| (data["name"].as_str().unwrap().to_owned(), data["programLine"].clone());
    let expected = [("openclaw:core:write".to_owned(), json!(1)), ("openclaw:core:read".to_owned(), json!(2))];
    assert_eq!(nested.iter().map(shown).collect::<Vec<_>>(), expected);
    let write = events
        .iter()
        .find(|event| event["type"] == "tool.result" && event["data"]["toolCallId"] == nested[0]["toolCallId"])
        .unwrap();
    assert_eq!((&write["data"]["effect"], &write["data"]["isError"]), (&json!("done"), &json!(false)));
    assert!(write["data"]["durationMs"].is_i64(), "{write}");

    // What was really sent, and not what would be sent now.
    let sent = &plan.server.requests()[0].body;
    let prompt = fs::read_to_string(bundle.join("system-prompt.txt")).expect("the instructions");
    let first = sent["messages"][0]["content"].to_string();
    assert!(prompt.lines().take(2).all(|line| first.contains(line)), "{prompt}\n{first}");
    let tools: Value =
        serde_json::from_str(&fs::read_to_string(bundle.join("tools.json")).expect("tools")).expect("JSON");
    let function = |tool: &Value| tool["function"]["description"].clone();
    let sent: Vec<Value> = sent["tools"].as_array().unwrap().iter().map(function).collect();
    assert_eq!(tools.as_array().unwrap().iter().map(|tool| tool["description"].clone()).collect::<Vec<_>>(), sent);
    let files = |folder: &Path| fs::read_dir(folder).expect("read").map(|file| file.expect("a file").path());
    let all: String = files(&bundle)
        .chain(files(&bundle.join("programs")))
        .filter(|path| path.is_file())
        .map(|path| fs::read_to_string(path).expect("text"))
        .collect();
    assert!(
        !all.contains("abcdefgh12345678") && !all.contains(plan.home.path("").to_str().unwrap().trim_end_matches('/'))
    );
}

#[test]
fn calls_of_tool_search_stand_under_their_call() {
    for (mode, name, arguments) in [
        ("tools", "tool_call", json!({ "id": "openclaw:core:ls", "args": {} })),
        ("code", "tool_search_code", json!({ "code": "return await openclaw.tools.call('openclaw:core:ls', {})" })),
    ] {
        let plan = Plan::new(
            &format!("toolSearch: {{ enabled: true, mode: '{mode}' }}"),
            &[call(name, &arguments), text("Done.")],
        );
        assert_eq!(plan.message("main", "Look.")["status"], "ok", "{mode}");
        let (status, told) = plan.home.json(&["sessions", "export-trajectory", "main", "--output", "bundle", "--json"]);
        assert_eq!(status, 0, "{told}");
        let events = events(&plan.home.path("bundle"));
        let nested = below(&events, &format!("c_{name}"));
        assert_eq!(
            nested.iter().map(|data| data["name"].as_str().unwrap()).collect::<Vec<_>>(),
            ["openclaw:core:ls"],
            "{mode}"
        );
    }
}

#[test]
fn a_run_that_waited_for_a_person_is_told_with_the_question_and_its_answer() {
    let code = "return await tools.exec({ command: 'rm -f nothing' }).catch((error) => error.message)";
    let script = format!("{{ replies: [{}, {}] }}", call("exec", &json!({ "code": code })), text("Done."));
    let server = Server::start(Script::parse(&script).unwrap()).unwrap();
    let home = Home::with(&format!(
        "{{ workspace: 'work', models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, \
         agents: {{ defaults: {{ model: 's/scripted' }} }}, tools: {{ codeMode: true }} }}",
        server.url()
    ));
    fs::create_dir(home.path("work")).unwrap();
    let (code, waiting) = home.json(&["agent", "-m", "Do it.", "--json"]);
    assert_eq!((code, &waiting["status"]), (3, &json!("waiting")), "{waiting}");
    let id = waiting["approvals"][0]["approvalId"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["approvals", "deny", &id]).0, 0);
    let (code, _, err) = home.run(&["agent", "--continue"]);
    assert_eq!(code, 0, "{err}");
    let (status, told) = home.json(&["sessions", "export-trajectory", "main", "--output", "bundle", "--json"]);
    assert_eq!(status, 0, "{told}");
    let events = events(&home.path("bundle"));
    let found = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("{kind}"));
    assert!(found("run.suspended")["seq"].as_u64() > found("approval.requested")["seq"].as_u64());
    assert_eq!(found("approval.requested")["data"]["approvalId"], json!(id));
    assert_eq!(found("approval.resolved")["data"]["decision"], "denied");
    assert!(found("approval.resolved")["data"]["decidedBy"].is_string());
}

const SESSION: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-02T03:04:05.006Z","cwd":"/w"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06.000Z","message":{"role":"user","content":"Look \u001b[31mhere</pre><script>alert(1)</script>\u202e"}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-02T03:04:07.000Z","message":{"role":"assistant","content":[{"type":"text","text":"Yes."},{"type":"toolCall","id":"c1","name":"exec","arguments":{"code":"1\n2"}}]}}
{"type":"custom","id":"n1","parentId":"b","timestamp":"2026-01-02T03:04:08.000Z","pincer":{"call":"c1"},"customType":"pincer.nested-call","data":{"program":"cm_1","seq":0,"tool":"mcp:files:read","line":2,"input":{"path":"a"},"output":"abcd","durationMs":12}}
{"type":"message","id":"e","parentId":"b","timestamp":"2026-01-02T03:04:09.000Z","pincer":{"call":"c1"},"message":{"role":"toolResult","toolCallId":"c1","toolName":"exec","content":"ok","isError":false,"details":{"program":"cm_1"}}}
"#;

fn exported() -> Home {
    let home = Home::with("{}");
    fs::write(home.path("a.jsonl"), SESSION).unwrap();
    assert_eq!(home.run(&["sessions", "import", "a.jsonl", "trip"]).0, 0);
    assert_eq!(home.run(&["sessions", "export-trajectory", "trip", "--output", "bundle"]).0, 0);
    home
}

#[test]
fn a_bundle_is_drawn_and_written_as_one_page() {
    let home = exported();
    let (code, out, err) = home.run(&["trajectory", "view", "bundle"]);
    assert_eq!(code, 0, "{err}");
    let drawn =
        "  exec\n    1  1\n    2  2\n    mcp:files:read  line 2  12 ms  {\"path\":\"a\"}\n      →  abcd\n    →  ok\n";
    assert!(out.contains(drawn), "{out}");
    assert!(out.contains("  Look \\u{1b}[31mhere") && !out.contains('\u{1b}') && !out.contains('\u{202e}'), "{out}");
    assert!(err.contains("the bundle is whole: ") && err.contains("bundle/trajectory.html"), "{err}");
    let page = fs::read_to_string(home.path("bundle/trajectory.html")).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script>alert"));
    assert!(
        page.contains("Content-Security-Policy")
            && !page.contains("http://")
            && !page.contains("https://")
            && !page.contains(" src=")
    );
    assert_eq!((page.matches("<script").count(), page.matches("<style").count()), (1, 1));
    // It is still whole, with the page in it.
    let (code, told) = home.json(&["trajectory", "view", "bundle", "--html", "other.html", "--json"]);
    assert_eq!((code, &told["state"], &told["findings"]), (0, &json!("whole"), &json!([])));
    assert!(home.path("other.html").exists());
}

#[test]
fn a_bundle_that_is_cut_or_damaged_is_said_to_be_and_shown_as_far_as_it_goes() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage, i32, &str, &str); 9] = [
        ("cut", |bundle| truncate(bundle, "events.jsonl", 100), 1, "cut", "ends in the middle of line"),
        ("short", |bundle| drop_line(bundle, usize::MAX), 1, "cut", "has no end"),
        ("gap", |bundle| drop_line(bundle, 3), 1, "damaged", "event 4 is expected in line 4, and 5 is there"),
        ("changed", |bundle| replace(bundle, "events.jsonl", "Yes.", "No!!"), 1, "damaged", "its sum is another one"),
        (
            "nonsense",
            |bundle| replace(bundle, "events.jsonl", "{\"traceSchema", "x\"traceSchema"),
            1,
            "damaged",
            "is damaged",
        ),
        (
            "no manifest",
            |bundle| fs::remove_file(bundle.join("manifest.json")).unwrap(),
            1,
            "cut",
            "manifest.json is missing",
        ),
        ("bad manifest", |bundle| truncate(bundle, "manifest.json", 10), 1, "damaged", "manifest.json is damaged"),
        (
            "missing",
            |bundle| fs::remove_file(bundle.join("prompts.json")).unwrap(),
            1,
            "cut",
            "prompts.json cannot be read",
        ),
        (
            "linked",
            |bundle| {
                fs::remove_file(bundle.join("prompts.json")).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", bundle.join("prompts.json")).unwrap();
            },
            1,
            "damaged",
            "prompts.json cannot be read",
        ),
    ];
    for (name, damage, expected, state, finding) in cases {
        let home = exported();
        damage(&home.path("bundle"));
        let (code, out, err) = home.run(&["trajectory", "view", "bundle", "--no-html"]);
        assert_eq!((code, out.contains("user")), (expected, true), "{name}: {out}{err}");
        assert!(err.contains(finding) && err.contains(&format!("the bundle is {state}")), "{name}: {err}");
    }
    let home = exported();
    let (code, _, err) = home.run(&["trajectory", "view", "elsewhere"]);
    assert!(code == 2 && err.contains("Name the folder"), "{err}");
    // A page is put in the place of a link, not through it.
    fs::write(home.path("precious"), "mine").unwrap();
    std::os::unix::fs::symlink(home.path("precious"), home.path("bundle/trajectory.html")).unwrap();
    assert_eq!(home.run(&["trajectory", "view", "bundle"]).0, 0);
    assert_eq!(fs::read_to_string(home.path("precious")).unwrap(), "mine");
}

fn truncate(bundle: &Path, name: &str, by: u64) {
    let file = fs::OpenOptions::new().write(true).open(bundle.join(name)).unwrap();
    file.set_len(file.metadata().unwrap().len() - by).unwrap();
}

fn drop_line(bundle: &Path, index: usize) {
    let text = fs::read_to_string(bundle.join("events.jsonl")).unwrap();
    let index = index.min(text.lines().count() - 1);
    let kept: String =
        text.lines().enumerate().filter(|(at, _)| *at != index).map(|(_, line)| format!("{line}\n")).collect();
    fs::write(bundle.join("events.jsonl"), kept).unwrap();
}

fn replace(bundle: &Path, name: &str, from: &str, to: &str) {
    let text = fs::read_to_string(bundle.join(name)).unwrap();
    fs::write(bundle.join(name), text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_bundle_goes_to_the_workspace_and_nothing_is_overwritten() {
    let home = exported();
    let (code, told) = home.json(&["sessions", "export-trajectory", "trip", "--json"]);
    let place = Path::new(told["path"].as_str().unwrap()).to_owned();
    let place = home.path(place.to_str().unwrap().trim_start_matches("./"));
    assert_eq!((code, fs::metadata(&place).unwrap().permissions().mode() & 0o777), (0, 0o700), "{told}");
    assert!(
        place.to_str().unwrap().contains(".openclaw/trajectory-exports/openclaw-trajectory-"),
        "{}",
        place.display()
    );
    let (code, _, err) = home.run(&["sessions", "export-trajectory", "trip", "--output", "bundle"]);
    assert!(code == 2 && err.contains("is not an empty directory: name another one"), "{err}");
    let (code, _, err) = home.run(&["sessions", "export-trajectory", "nowhere"]);
    assert!(code == 2 && err.contains("there is no session nowhere"), "{err}");
    let (code, _, err) = home.run(&["sessions", "export-trajectory", "trip", "--output", "a.jsonl/x"]);
    assert!(code == 1 && err.contains("Nothing is left of it: make room there, or name another directory"), "{err}");
}

#[test]
fn secrets_that_this_machine_knows_are_in_no_file_of_a_bundle() {
    let config = "{ models: { providers: { s: { baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'plain-word-one' } } },
        mcp: { servers: { x: { command: 'true', env: { X_TOKEN: 'plain-word-two' } } } }, logging: { redactPatterns: ['acme-[0-9]+'] } }";
    let home = Home::with(config);
    let said = "plain-word-one plain-word-two plain-word-three plain-word-four acme-17 kept";
    let line = json!({ "type": "message", "id": "a", "parentId": null, "timestamp": "2026-01-02T03:04:06.000Z", "message": { "role": "user", "content": said } });
    fs::write(home.path("a.jsonl"), format!("{}\n{line}\n", SESSION.lines().next().unwrap())).unwrap();
    assert_eq!(home.run(&["sessions", "import", "a.jsonl", "trip"]).0, 0);
    let mut set = home.command(&["secrets", "set", "MINE"]);
    let mut set = set.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut set.stdin.take().unwrap(), b"plain-word-three\n").unwrap();
    assert!(set.wait().unwrap().success());
    let mut export = home.command(&["sessions", "export-trajectory", "trip", "--output", "bundle"]);
    assert!(export.env("SOME_PASSWORD", "plain-word-four").output().unwrap().status.success());
    let prompts = fs::read_to_string(home.path("bundle/prompts.json")).unwrap();
    assert!(prompts.contains("[redacted] [redacted] [redacted] [redacted] [redacted] kept"), "{prompts}");
    for file in fs::read_dir(home.path("bundle")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("plain-word") && !text.contains("acme-17"), "{text}");
    }
}

#[test]
fn the_programs_of_a_bundle_take_their_way_again() {
    let key = "sk-abcdefgh12345678";
    let code = "const began = Date.now(); await tools.write({ path: 'a.txt', content: 'one' });\n\
                const [first] = await Promise.all([tools.read({ path: 'a.txt' }), tools.ls({})]);\n\
                return [Math.random() < 2, Date.now() >= began, first !== undefined]";
    let keyed = format!("const key = '{key}'; return (await tools.ls({{}})) !== undefined && key.length > 3");
    let of = |id: &str, code: &str| call("exec", &json!({ "code": code })).replace("c_exec", id);
    let replies = [of("c1", code), of("c2", &keyed), text("Done.")];
    let plan = Plan::new("codeMode: { enabled: true }", &replies);
    // Before the session began, so no part of it.
    let (status, _) = plan.home.json(&["exec", "--session", "main", "--json", "-e", "return 'of another session'"]);
    assert_eq!(status, 0);
    assert_eq!(plan.message("main", "Write a file.")["status"], "ok");
    let (status, told) = plan.home.json(&["sessions", "export-trajectory", "main", "--output", "bundle", "--json"]);
    assert_eq!((status, &told["counts"]["programs"], &told["warnings"]), (0, &json!(2), &json!([])), "{told}");
    for file in fs::read_dir(plan.home.path("bundle/programs")).expect("programs") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("text");
        assert!(!text.contains(key) && !text.contains("another session"), "{text}");
    }
    let (status, replayed) = plan.home.json(&["runs", "replay", "./bundle", "--json"]);
    assert_eq!((status, &replayed["same"]), (0, &json!(true)), "{replayed}");
    assert_eq!(replayed["programs"].as_array().map(Vec::len), Some(2));
}
