//! `pincer agent`: a message and its answer, in one process or several.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use pincer_scripted::{Script, Server};
use serde_json::{Value, json};

use crate::common::Home;

fn served(replies: &[&str]) -> Server {
    let script = format!("{{ order: 'conversation', replies: [{}] }}", replies.join(", "));
    Server::start(Script::parse(&script).unwrap()).unwrap()
}

fn home(server: &Server, more: &str) -> Home {
    let home = Home::with(&format!(
        "{{ workspace: 'work', models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, \
         agents: {{ defaults: {{ model: 's/scripted' }} }}, {more} }}",
        server.url()
    ));
    fs::create_dir(home.path("work")).unwrap();
    home
}

const HELLO: &str = "{ parts: [{ text: 'Hello there.' }] }";
const AGAIN: &str = "{ parts: [{ text: 'Again.' }] }";
/// Asks by default.
const COMMAND: &str = "{ parts: [{ call: { id: 'c', name: 'exec', arguments: { command: 'rm -f nothing' } } }] }";

fn exec(code: &str) -> String {
    format!("{{ parts: [{{ call: {{ id: 'x', name: 'exec', arguments: {{ code: {} }} }} }}] }}", json!(code))
}

#[test]
fn a_session_is_compacted_from_the_command_line() {
    let replies = ["{ parts: [{ text: 'Fruit.' }] }", "{ parts: [{ text: 'Three.' }], repeat: true }"];
    let script = format!("{{ strict: true, replies: [{HELLO}, {AGAIN}, {}] }}", replies.join(", "));
    let server = Server::start(Script::parse(&script).unwrap()).unwrap();
    let home = home(&server, "");
    for word in ["apple", "pear"] {
        assert_eq!(home.run(&["agent", "-m", &format!("{word} {}", "word ".repeat(600))]).0, 0);
    }
    let (code, document) = home.json(&["sessions", "compact", "main", "--instructions", "keep names", "--json"]);
    assert_eq!((code, &document["key"], &document["compacted"]), (0, &json!("main"), &json!(true)), "{document}");
    assert!(server.requests()[2].text.contains("keep names"));
    let (_, shown, _) = home.run(&["sessions", "show", "main"]);
    assert!(shown.contains("apple") && shown.contains("compaction") && shown.contains("Fruit."), "{shown}");
    assert_eq!(home.run(&["agent", "-m", "And now?"]).1, "Three.\n");
    let last = server.requests()[3].text.clone();
    assert!(last.contains("Fruit.") && !last.contains("apple"), "{last}");
    // It is so in a copy too.
    assert_eq!(home.run(&["sessions", "export", "main", "main.jsonl"]).0, 0);
    assert_eq!(home.run(&["sessions", "import", "main.jsonl", "copy"]).0, 0);
    assert_eq!(home.run(&["agent", "--session", "copy", "-m", "Copied?"]).1, "Three.\n");
    let copied = server.requests()[4].text.clone();
    assert!(copied.contains("Fruit.") && copied.contains("And now?") && !copied.contains("apple"), "{copied}");
    let (code, _, error) = home.run(&["sessions", "compact", "nothing"]);
    assert!(code == 2 && error.contains("nothing"), "{code} {error}");
}

#[test]
fn a_short_session_is_not_compacted_and_the_reason_is_told() {
    let server = served(&[HELLO, AGAIN]);
    let home = home(&server, "");
    for word in ["apple", "pear"] {
        assert_eq!(home.run(&["agent", "-m", word]).0, 0);
    }
    let (code, out, error) = home.run(&["agent", "-m", "/compact"]);
    assert_eq!((code, error.as_str()), (0, ""), "nothing is said of a long conversation");
    assert!(out.contains("nothing to compact yet") && out.contains("4 messages"), "{out}");
    let (code, document) = home.json(&["sessions", "compact", "main", "--json"]);
    assert_eq!((code, &document["compacted"]), (0, &json!(false)), "{document}");
    assert!(document["text"].as_str().unwrap().contains("2 messages"), "{document}");
    assert_eq!(server.requests().len(), 2, "no model was asked");
}

#[test]
fn a_compaction_says_why_it_happens() {
    const FULL: &str = "{ parts: [{ text: 'Again.' }], usage: { input: 35000, output: 10 } }";
    const TOO_LONG: &str = "{ status: 400, error: { code: 'context_length_exceeded', message: 'Too long.' } }";
    let words = |word: &str, count| format!("{word} {}", "word ".repeat(count));
    for (window, second, third, overflow, reason) in [
        ("", AGAIN, "/compact".to_owned(), "", "as you asked, the older part of the conversation gives way"),
        (", contextWindow: 40000", FULL, "And now?".to_owned(), "", "the conversation is long: its older part"),
        ("", AGAIN, words("And now?", 2_400), TOO_LONG, "the conversation was too long for the model: its older part"),
    ] {
        let replies = [
            HELLO,
            second,
            overflow,
            "{ parts: [{ text: 'Fruit.' }] }",
            "{ parts: [{ text: 'Three.' }], repeat: true }",
        ];
        let replies: Vec<&str> = replies.into_iter().filter(|reply| !reply.is_empty()).collect();
        let server =
            Server::start(Script::parse(&format!("{{ replies: [{}] }}", replies.join(", "))).unwrap()).unwrap();
        let home = home(&server, "");
        let config = fs::read_to_string(home.path("pincer.json5")).unwrap();
        let models = format!("apiKey: 'k', models: [{{ id: 'scripted'{window} }}]");
        let flush = "model: 's/scripted', compaction: { memoryFlush: { enabled: false } }";
        let config = config.replace("apiKey: 'k'", &models).replace("model: 's/scripted'", flush);
        fs::write(home.path("pincer.json5"), config).unwrap();
        for word in ["apple", "pear"] {
            assert_eq!(home.run(&["agent", "-m", &words(word, 2_000)]).0, 0);
        }
        let (code, out, error) = home.run(&["agent", "-m", &third]);
        assert!(code == 0 && error.contains(reason), "{reason}: {code} {out} {error}");
        assert_eq!(error.matches("gives way").count(), 1, "{error}");
    }
}

#[test]
fn a_hook_refuses_a_compaction_with_its_own_words() {
    let server = served(&[HELLO, AGAIN]);
    let gate = "grep -q '\"prompt\":\"/compact' && echo '{\"outcome\":\"block\",\"message\":\"Not this one.\"}'; true";
    let home = home(&server, &format!("hooks: {{ before_agent_run: [{{ command: {gate:?} }}] }}"));
    for word in ["apple", "pear"] {
        assert_eq!(home.run(&["agent", "-m", &format!("{word} {}", "word ".repeat(600))]).0, 0);
    }
    let (code, _, error) = home.run(&["sessions", "compact", "main"]);
    assert!(code == 1 && error.contains("Not this one."), "{code} {error}");
    let (code, out, error) = home.run(&["agent", "-m", "/compact"]);
    assert!(code == 1 && format!("{out}{error}").contains("Not this one."), "{code} {out} {error}");
    assert_eq!(server.requests().len(), 2, "no model was asked");
}

#[test]
fn a_terminal_says_that_a_hook_has_an_answer_revised_and_not_that_it_broke_off() {
    let server = served(&[HELLO, AGAIN]);
    let answer = json!({ "action": "revise", "retry": { "instruction": "Once more, please." } });
    let home = home(&server, &format!("hooks: {{ before_agent_finalize: [{{ command: ['echo', '{answer}'] }}] }}"));
    let (code, out, error) = home.run(&["agent", "-m", "Hi"]);
    assert!(code == 0 && out.ends_with("Again.\n"), "{code} {out} {error}");
    assert!(error.contains("(a hook has the model revise its answer: the reply so far does not count)"), "{error}");
    assert!(!error.contains("broke off"), "{error}");
}

#[test]
fn a_session_that_waits_is_not_compacted() {
    let server = served(&[COMMAND, AGAIN]);
    let home = home(&server, "");
    assert_eq!(home.run(&["agent", "-m", "Do it."]).0, 3);
    let (code, _, error) = home.run(&["sessions", "compact", "main"]);
    let remedy = "or stop the run with `pincer sessions abort main`";
    assert!(code == 1 && error.contains("waits for an answer") && error.contains(remedy), "{code} {error}");
    assert_eq!(home.json(&["sessions", "list", "--json"]).1[0]["queued"], 0);
}

#[test]
fn a_message_is_answered_on_standard_output_and_in_three_forms() {
    let server = served(&[HELLO, AGAIN, AGAIN, AGAIN]);
    let home = home(&server, "");
    assert_eq!(home.run(&["agent", "-m", "Hi."]), (0, "Hello there.\n".into(), String::new()));
    let (code, document) = home.json(&["agent", "-m", "Hi.", "--json"]);
    assert_eq!((code, &document["status"], &document["summary"]), (0, &json!("ok"), &json!("completed")));
    assert_eq!(document["result"]["payloads"], json!([{ "text": "Again." }]));
    assert_eq!(document["sessionKey"], "main");
    let (code, out, _) = home.run(&["agent", "-m", "Hi.", "--events"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(code, 0);
    assert_eq!(
        (&lines[0]["stream"], &lines[0]["data"]["phase"], &lines[0]["seq"]),
        (&json!("lifecycle"), &json!("start"), &json!(1))
    );
    let (last, events) = lines.split_last().unwrap();
    assert_eq!((&last["status"], &events.last().unwrap()["data"]["phase"]), (&json!("ok"), &json!("end")));
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    // Standard input is a message too.
    let mut child = home.command(&["agent"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"From a pipe.").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Again.\n");
    assert!(server.requests()[3].body["messages"].to_string().contains("From a pipe."));
}

#[test]
fn the_same_message_with_the_same_id_is_the_same_run() {
    let server = served(&[HELLO, AGAIN]);
    let home = home(&server, "");
    let first = home.json(&["agent", "-m", "Hi.", "--id", "one", "--json"]).1;
    let second = home.json(&["agent", "-m", "Hi.", "--id", "one", "--json"]).1;
    assert_eq!(first, second);
    assert_eq!(server.requests().len(), 1);
    let (code, _, err) = home.run(&["agent", "-m", "Bye.", "--id", "one"]);
    assert_eq!(code, 2);
    assert!(err.contains("use a new id"), "{err}");
}

#[test]
fn files_go_with_the_message() {
    let server = served(&[HELLO]);
    let home = home(&server, "");
    fs::write(home.path("notes.txt"), "the notes").unwrap();
    fs::write(home.path("dot.png"), b"\x89PNG\r\n\x1a\nrest").unwrap();
    let (code, _, err) = home.run(&["agent", "-m", "Look.", "--file", "notes.txt", "--file", "dot.png"]);
    assert_eq!(code, 0, "{err}");
    let content = server.requests()[0].body["messages"][1]["content"].clone();
    assert!(
        content[0]["text"].as_str().unwrap().contains("<file name=\"notes.txt\">\nthe notes\n</file>"),
        "{content}"
    );
    assert!(
        content[1]["image_url"]["url"].as_str().unwrap().starts_with("data:image/png;base64,iVBORw0K"),
        "{content}"
    );
    let (code, _, err) = home.run(&["agent", "-m", "Look.", "--file", "gone.txt"]);
    assert!(code == 2 && err.contains("gone.txt cannot be read"), "{err}");
}

#[test]
fn a_question_ends_the_command_with_3_and_another_command_goes_on() {
    let server = served(&[COMMAND, HELLO, AGAIN]);
    let home = home(&server, "");
    let (code, document) = home.json(&["agent", "-m", "Remove it.", "--json"]);
    assert_eq!((code, &document["status"]), (3, &json!("waiting")), "{document}");
    let approval = document["approvals"][0]["approvalId"].as_str().unwrap().to_owned();
    // A message behind it waits too.
    let (code, waiting) = home.json(&["agent", "-m", "And then?", "--json"]);
    assert_eq!((code, &waiting["waitsBehind"]), (3, &document["runId"]), "{waiting}");
    assert_ne!(waiting["runId"], document["runId"]);
    assert_eq!(waiting["agentId"], "main");
    // A command needs no run, so it has its answer at once.
    let (code, out, _) = home.run(&["agent", "-m", "/status"]);
    assert!(code == 0 && out.contains("waiting for an answer, 1 queued"), "{out}");
    let (code, out, _) = home.run(&["approvals", "allow", &approval]);
    assert_eq!(code, 0);
    assert!(out.contains("continue with: pincer agent --session main --continue"), "{out}");
    let (code, out, err) = home.run(&["agent", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "Hello there.\nAgain.\n"), "{err}");
    assert_eq!(server.requests().len(), 3);
    let (code, _, err) = home.run(&["agent", "--continue"]);
    assert!(code == 1 && err.contains("nothing was interrupted or waits"), "{err}");
}

#[test]
fn a_message_that_comes_before_what_is_queued_is_answered_at_once() {
    for (message, queue) in [("/new Hello.", "followup"), ("Hello.", "interrupt")] {
        let server = served(&[COMMAND, HELLO, AGAIN]);
        let home = home(&server, "");
        assert_eq!(home.run(&["agent", "-m", "Remove it."]).0, 3);
        let (code, _, err) = home.run(&["agent", "-m", "And then?"]);
        assert!(code == 3 && err.contains("your message is accepted as ar_"), "{err}");
        let (code, _, err) = home.run(&["agent", "-m", message, "--queue", queue]);
        // It begins the conversation anew, or goes on with it: the first reply asks again.
        assert!(code == 3 || code == 0, "{err}");
        let (_, runs) = home.json(&["sessions", "list", "--json"]);
        assert_eq!(runs[0]["queued"], 1, "the message before it is still queued: {runs}");
    }
}

#[test]
fn a_person_at_the_terminal_is_asked_there() {
    let server = served(&[COMMAND, HELLO]);
    let home = home(&server, "");
    let (code, shown) = home.on_a_terminal("y", &["agent", "-m", "Remove it."]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("rm -f nothing") && shown.contains("Hello there."), "{shown}");
    let (code, shown) = home.on_a_terminal("/stop", &["agent", "-m", "Remove it.", "--session", "other"]);
    assert!(code == 1 && shown.contains("the run was stopped"), "{shown}");
}

#[test]
fn nested_calls_are_drawn_under_the_line_that_made_them() {
    let program = exec(
        "const here = await tools.ls({});\nawait tools.write({ path: 'a.txt', content: 'x' });\nreturn here.entries.length",
    );
    let server = served(&[&program, HELLO]);
    let home = home(&server, "tools: { codeMode: true }");
    let (code, out, err) = home.run(&["agent", "-m", "Count."]);
    assert_eq!((code, out.as_str()), (0, "Hello there.\n"), "{err}");
    let lines: Vec<&str> = err.lines().filter(|line| line.contains('|') || line.contains('✓')).map(str::trim).collect();
    assert!(lines[0].starts_with("1 | const here"), "{err}");
    assert!(lines[1].starts_with("✓ openclaw:core:ls"), "{err}");
    assert!(lines[2].starts_with("2 | await tools.write"), "{err}");
}

#[test]
fn a_run_tells_as_much_of_itself_as_is_asked_for() {
    let call = "{ parts: [{ call: { id: 'c', name: 'ls', arguments: {} } }] }";
    let server = served(&[call, HELLO]);
    let home = home(&server, "");
    let told = |session: &str, options: &[&str]| {
        let (code, out, err) = home.run(&[&["agent", "-m", "Look.", "--session", session], options].concat());
        assert_eq!((code, out.as_str()), (0, "Hello there.\n"), "{err}");
        err
    };
    let plain = told("plain", &[]);
    assert!(plain.contains("▸ ls") && !plain.contains("✓ ls") && !plain.contains("tokens in"), "{plain}");
    assert!(told("line", &["--verbose", "on"]).contains("✓ ls: {\"entries\""));
    let full = told("full", &["--verbose", "full", "--trace"]);
    assert!(full.contains("✓ ls:\n    {\"entries\"") && full.contains("2 requests, 1 calls"), "{full}");
    // The session says it for its later runs.
    home.run(&["agent", "-m", "/trace on", "--session", "kept"]);
    assert!(told("kept", &[]).contains("tokens in"));
}

#[test]
fn output_of_commands_is_told_while_they_run() {
    let call = "{ parts: [{ call: { id: 'c', name: 'exec', arguments: { command: 'echo one; echo two >&2' } } }] }";
    let program = exec("await tools.exec({ command: 'echo one; echo two >&2' })");
    for (first, mode) in [(call, false), (program.as_str(), true)] {
        let server = served(&[first, HELLO]);
        let home = home(&server, &format!("tools: {{ codeMode: {mode}, exec: {{ mode: 'full' }} }}"));
        let (code, out, err) = home.run(&["agent", "-m", "Go.", "--events"]);
        assert_eq!(code, 0, "{err}");
        let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told = |stream: &str| {
            let of = |event: &&Value| event["stream"] == "command_output" && event["data"]["stream"] == stream;
            events.iter().filter(of).map(|event| event["data"]["output"].as_str().unwrap()).collect::<String>()
        };
        assert_eq!((told("stdout"), told("stderr")), ("one\n".into(), "two\n".into()), "{out}");
    }
}

#[test]
fn a_tool_of_the_caller_is_answered_by_another_command() {
    let call = "{ parts: [{ call: { id: 'c1', name: 'ask_user', arguments: { question: 'Which?' } } }] }";
    let server = served(&[call, HELLO]);
    let home = home(&server, "");
    let tools = json!([{ "name": "ask_user", "description": "Asks.", "parameters": { "type": "object", "properties": { "question": { "type": "string" } } } }]);
    fs::write(home.path("tools.json"), tools.to_string()).unwrap();
    let (code, document) = home.json(&["agent", "-m", "Ask.", "--client-tools", "tools.json", "--json"]);
    assert_eq!(code, 3, "{document}");
    assert_eq!(
        document["clientCalls"],
        json!([{ "callId": "c1", "name": "ask_user", "arguments": { "question": "Which?" } }])
    );
    let (code, _, err) = home.run(&["agent", "--continue", "--result", "c9=1"]);
    assert!(code == 2 && err.contains("has no call c9 for you. It has: c1"), "{err}");
    let (code, _, err) = home.run(&["agent", "-m", "More.", "--result", "c1=1"]);
    assert!(code == 2 && err.contains("--result"), "{err}");
    let (code, _, err) = home.run(&["agent", "--continue", "--result", "c1={"]);
    assert!(code == 2 && err.contains("not JSON"), "{err}");
    let (code, document) = home.json(&["agent", "--continue", "--result", "c1={\"answer\":\"blue\"}", "--json"]);
    assert_eq!((code, &document["status"]), (0, &json!("ok")), "{document}");
    assert!(server.requests()[1].body["messages"].to_string().contains("blue"));
}

#[test]
fn an_interrupt_stops_the_run_and_a_kill_leaves_it_to_the_next_command() {
    let stalls = "{ parts: [{ text: 'Well' }], wire: { stallAfter: 3 } }";
    let server = served(&[stalls]);
    let home = home(&server, "");
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let mut child = home
            .command(&["agent", "-m", "Think.", "--session", signal])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), code, "{signal}");
    }
    drop(server);
    let server = served(&["{ parts: [{ text: 'Done now.' }], repeat: true }"]);
    let config = fs::read_to_string(home.path("pincer.json5")).unwrap();
    let at = config.find("http://").unwrap();
    let end = config[at..].find("/v1").unwrap() + at;
    fs::write(home.path("pincer.json5"), format!("{}{}{}", &config[..at], server.url(), &config[end..])).unwrap();
    let (code, _, err) = home.run(&["agent", "--session", "INT", "--continue"]);
    assert!(code == 1 && err.contains("nothing was interrupted"), "{err}");
    let (code, out, err) = home.run(&["agent", "--session", "KILL", "--continue"]);
    assert_eq!((code, out.as_str()), (0, "Done now.\n"), "{err}");
}

#[test]
fn wrong_usage_is_told_before_anything_is_accepted() {
    let server = served(&[HELLO]);
    let home = home(&server, "");
    for (arguments, told) in [
        (vec!["agent", "-m", ""], "empty"),
        (vec!["agent", "-m", "x", "--agent", "nobody"], "no agent \"nobody\""),
        (vec!["agent", "-m", "/think loudly"], "the levels are"),
        (vec!["agent", "-m", "x", "--session", ""], "is empty"),
        (vec!["agent", "-m", "x", "--thinking", "loud"], "the levels are"),
        (vec!["agent", "-m", "x", "--continue"], "cannot be used with"),
    ] {
        let (code, _, err) = home.run(&arguments);
        assert!(code == 2 && err.contains(told), "{arguments:?}: {code} {err}");
    }
    assert_eq!(server.requests().len(), 0);
    let (code, _, err) = Home::with("{}").run(&["agent", "-m", "x"]);
    assert!(code == 1 && err.contains("agents.defaults.model"), "{err}");
}

#[test]
fn a_signal_ends_the_wait_for_hooks_that_observe_and_the_hooks_with_it() {
    use rustix::process::{Pid, Signal, kill_process};
    let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 0)] {
        let server = served(&[HELLO]);
        // Without the signal it would run for hours.
        let hook =
            "command: 'echo $$ > \"$HOME/new\"; mv \"$HOME/new\" \"$HOME/begun\"; sleep 36000', timeoutMs: 600000";
        let home = home(&server, &format!("hooks: {{ agent_end: [{{ {hook} }}] }}"));
        let mut command = home.command(&["agent", "-m", "Hi.", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The command has told the answer, and the hook has begun.
        let mut answer = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut answer).unwrap();
        assert!(answer.contains("Hello there."), "{answer}");
        let hook = loop {
            match fs::read_to_string(home.path("begun")) {
                Ok(text) => break text.trim().to_owned(),
                Err(_) => pause(),
            }
        };
        // A signal that comes before the command listens for it is lost.
        let ended = loop {
            kill_process(Pid::from_child(&child), signal).unwrap();
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => pause(),
            }
        };
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert_eq!(ended.code(), Some(code), "{signal:?}: {error}");
        assert!(error.contains("hooks that observe are not waited for"), "{error}");
        // In a container nothing may clear it away.
        let stat = || fs::read_to_string(format!("/proc/{hook}/stat")).unwrap_or_default();
        while !stat().is_empty() && !stat().contains(") Z ") {
            pause();
        }
    }
}

#[test]
fn a_hook_that_names_a_provider_without_a_model_is_told_of() {
    let server = served(&[HELLO]);
    let hook = "echo '{\"providerOverride\":\"nope\"}'";
    let home = home(&server, &format!("hooks: {{ before_model_resolve: [{{ command: {hook:?} }}] }}"));
    let (code, out, error) = home.run(&["agent", "-m", "Hi."]);
    assert!(code == 0 && out == "Hello there.\n", "{code} {out} {error}");
    assert!(error.contains("chose the provider \"nope\" and no model"), "{error}");
}
