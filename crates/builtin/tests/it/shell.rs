//! Commands: what they say, how they end, who may run them.
#![allow(clippy::print_stdout, reason = "the test that started this program reads it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{House, context, house, house_with};
use pincer_builtin::{ExecMode, ExecSettings, Settings};
use pincer_store::{Approvals, Grants};
use pincer_testkit::doorway::Updates;
use pincer_tools::{Answer, ApprovalRequest, Context, Effect, ErrorCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

async fn sh(house: &House, command: &str) -> Value {
    house.ok("exec", json!({ "command": command })).await
}

/// Whether a process is still there, and not just not yet reaped.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn gone(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while runs(pid) {
        assert!(Instant::now() < deadline, "{pid} still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn quoting_chaining_and_here_documents_are_the_shells() {
    let house = house();
    for (command, stdout) in [
        ("echo 'a  b' \"c $((1+1))\" d\\ e", "a  b c 2 d e\n"),
        ("false || echo or; true && echo and", "or\nand\n"),
        ("cat <<'END'\n$HOME `x`\nEND", "$HOME `x`\n"),
        ("printf 'b\\na\\n' | sort", "a\nb\n"),
        ("for x in 1 2; do printf $x; done", "12"),
        ("(cd / && pwd)", "/\n"),
        ("echo $0", "sh\n"),
    ] {
        assert_eq!(sh(&house, command).await["stdout"], stdout, "{command}");
    }
    let done = sh(&house, "echo out; echo err >&2; exit 3").await;
    assert_eq!((&done["exitCode"], &done["stdout"], &done["stderr"]), (&json!(3), &json!("out\n"), &json!("err\n")));
    assert_eq!(sh(&house, "kill -9 $$").await["signal"], 9);
    house.put("sub/x", "");
    assert!(
        house.ok("exec", json!({ "command": "pwd", "cwd": "sub" })).await["stdout"]
            .as_str()
            .unwrap()
            .ends_with("workspace/sub\n")
    );
    assert_eq!(sh(&house, "read x; echo \"got $x\"").await["stdout"], "got \n", "there is no input to wait for");
    assert!(house.error("exec", json!({ "command": "echo a\0b" })).await.contains("NUL"));
}

#[tokio::test]
async fn of_a_flood_the_beginning_and_the_end_are_kept() {
    let house = house_with(|settings| Settings {
        exec: ExecSettings { output_bytes: 2000, ..ExecSettings::default() },
        ..settings
    });
    let done = sh(&house, "echo first; seq 1 1000000; echo last").await;
    let text = done["stdout"].as_str().unwrap();
    assert!(text.starts_with("first\n1\n2\n") && text.ends_with("1000000\nlast\n"), "{text}");
    assert!(text.len() < 2100 && done["leftOutBytes"].as_u64().unwrap() > 6_000_000, "{}", text.len());
    assert!(text.contains("bytes left out"));
    let endless = house.ok("exec", json!({ "command": "yes", "timeoutMs": 300 })).await;
    assert_eq!((&endless["timedOut"], endless["stdout"].as_str().unwrap().starts_with("y\ny\n")), (&json!(true), true));
}

#[tokio::test]
async fn output_is_told_while_the_command_runs() {
    let house = Arc::new(house());
    let updates = Arc::new(Updates::default());
    let (calling, told) = (Arc::clone(&house), Arc::clone(&updates));
    let call = tokio::spawn(async move {
        calling
            .call_with_updates(
                &context(),
                "exec",
                json!({ "command": "echo started; while [ ! -e go ]; do sleep 0.01; done" }),
                told,
            )
            .await
    });
    while updates.0.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(updates.0.lock().unwrap()[0], json!({ "stream": "stdout", "text": "started\n" }));
    house.put("go", "");
    assert!(call.await.unwrap().result.is_ok());
}

#[tokio::test]
async fn a_command_ends_with_everything_it_started() {
    let house = house();
    // Children in the background, in a session of their own, twice removed, and deaf to signals.
    let command = "trap '' TERM INT HUP
        sleep 1000 & echo $! >> pids
        setsid sleep 1000 & echo $! >> pids
        (setsid sh -c 'sleep 1000 & echo $! >> pids; wait' &) 
        while [ $(wc -l < pids) -lt 3 ]; do sleep 0.01; done
        echo ready";
    let done = sh(&house, command).await;
    assert_eq!(done["stdout"], "ready\n");
    assert!(done["note"].as_str().unwrap().contains("left behind were ended"), "{done}");
    for pid in house.get("pids").lines() {
        gone(pid).await;
    }
}

#[tokio::test]
async fn time_that_is_up_ends_commands_that_ignore_signals() {
    let house = house();
    let started = Instant::now();
    let command = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.05; done";
    let done = house.ok("exec", json!({ "command": command, "timeoutMs": 200 })).await;
    assert_eq!(done["timedOut"], true);
    gone(house.get("pid").trim()).await;
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn an_abort_ends_the_whole_group_within_a_second() {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        best = best.min(abort_and_wait().await);
    }
    assert!(best < Duration::from_secs(1), "{best:?}");
}

async fn abort_and_wait() -> Duration {
    let house = Arc::new(house());
    let abort = CancellationToken::new();
    let context = Context { abort: abort.clone(), ..context() };
    let calling = Arc::clone(&house);
    let command = "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > pid.tmp; mv pid.tmp pid; wait; sleep 1000";
    let call = tokio::spawn(async move { calling.call_as(&context, "exec", json!({ "command": command })).await });
    while !house.path("pid").exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let asked = Instant::now();
    abort.cancel();
    let outcome = call.await.unwrap();
    let error = outcome.result.unwrap_err();
    assert_eq!((error.code, outcome.effect), (ErrorCode::Aborted, Effect::Unknown));
    gone(house.get("pid").trim()).await;
    gone(house.get("child").trim()).await;
    asked.elapsed()
}

#[tokio::test]
async fn secrets_of_the_environment_stay_here() {
    // This test's own process is what they would come from: see `environment_of_the_test`.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shell::environment_of_the_test", "--nocapture"])
        .envs([
            ("MY_API_KEY", "hushed1"),
            ("GITHUB_TOKEN", "hushed2"),
            ("PASSED_TOKEN", "k3"),
            ("DATABASE_URL", "postgres://u:hushed4@h/db"),
            ("PLAIN", "k5"),
        ])
        .envs([("NOTE", "sk-k6k6k6k6k6k6"), ("PINCER_STATE_DIR", "hushed7"), ("npm_config__auth", "hushed8")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("PLAIN=k5") && said.contains("PASSED_TOKEN=k3") && said.contains("ADDED=yes"), "{said}");
    for secret in ["hushed", "k6k6"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

#[tokio::test]
async fn environment_of_the_test() {
    if std::env::var_os("PASSED_TOKEN").is_none() {
        return;
    }
    let house = house_with(|settings| {
        let exec = ExecSettings {
            environment: [("ADDED".to_owned(), "yes".to_owned())].into(),
            pass: vec!["PASSED_TOKEN".into()],
            ..ExecSettings::default()
        };
        Settings { exec, ..settings }
    });
    println!("{}", sh(&house, "env").await["stdout"].as_str().unwrap());
}

#[tokio::test]
async fn a_command_in_the_background_is_polled_written_to_and_ended() {
    let house = house();
    let started = house.ok("exec", json!({ "command": "echo hello; read line; echo \"got $line\"; sleep 1000 & echo $! > child; wait", "background": true })).await;
    let id = started["processId"].as_str().unwrap().to_owned();
    let process = |input: Value| house.call("process", input);
    let listed = process(json!({ "action": "list" })).await.unwrap();
    assert_eq!((&listed["processes"][0]["id"], &listed["processes"][0]["running"]), (&json!(id), &json!(true)));
    let mut said = String::new();
    let wait_for = async |said: &mut String, text: &str| {
        while !said.contains(text) {
            let polled = process(json!({ "action": "poll", "id": id, "waitMs": 5 })).await.unwrap();
            said.push_str(polled["stdout"].as_str().unwrap());
        }
    };
    wait_for(&mut said, "hello\n").await;
    process(json!({ "action": "write", "id": id, "text": "line\n" })).await.unwrap();
    wait_for(&mut said, "got line\n").await;
    while !house.path("child").exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let error = process(json!({ "action": "poll", "id": "p99" })).await.unwrap_err();
    assert!(error.contains("no command `p99`") && error.contains(&id), "{error}");
    let other = Context { session: "other".into(), ..Context::default() };
    let theirs = house.call_as(&other, "process", json!({ "action": "end", "id": id })).await;
    assert!(theirs.result.unwrap_err().message.contains("there are none"), "another session has no say");
    let ended = process(json!({ "action": "end", "id": id })).await.unwrap();
    assert_eq!(ended["processes"][0]["running"], false);
    gone(house.get("child").trim()).await;
    assert_eq!(process(json!({ "action": "list" })).await.unwrap()["processes"], json!([]));
    assert!(process(json!({ "action": "poll" })).await.unwrap_err().contains("`id` is missing"));
}

/// A program keeps ids while it is suspended, and another process may continue it: here the second house.
#[tokio::test]
async fn an_id_of_another_process_names_no_command_of_this_one() {
    let (before, after) = (house(), house());
    let start = async |house: &House| {
        let started = house.ok("exec", json!({ "command": "sleep 1000", "background": true })).await;
        started["processId"].as_str().unwrap().to_owned()
    };
    let (old, new) = (start(&before).await, start(&after).await);
    assert!(old.starts_with("p1-") && new.starts_with("p1-") && old != new, "{old} {new}");
    for action in ["poll", "write", "end"] {
        let error = after.error("process", json!({ "action": action, "id": old })).await;
        let other = format!("another one started `{old}`");
        for part in [other.as_str(), new.as_str(), "ended with it", "start it again with `exec`"] {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
    // A slip in the number, or in the form, is not another process.
    for garbled in [new.replace("p1-", "p2-"), "p1".into(), new.to_uppercase()] {
        let error = after.error("process", json!({ "action": "poll", "id": garbled })).await;
        assert!(error.contains(&format!("no command `{garbled}`")) && error.contains(&new), "{error}");
        assert!(!error.contains("another one"), "{error}");
    }
    let polled = after.ok("process", json!({ "action": "poll", "id": new })).await;
    assert_eq!(polled["processes"][0]["running"], true, "no id of another process has ended it");
    before.builtin.processes().end().await;
    after.builtin.processes().end().await;
}

#[tokio::test]
async fn commands_in_the_background_end_with_their_session_and_with_the_process() {
    let house = house();
    let start = async |session: &str, file: &str| {
        let context = Context { session: session.into(), ..Context::default() };
        let command = format!("trap '' TERM; setsid sleep 1000 & echo $! > {file}.tmp; mv {file}.tmp {file}; wait");
        house.call_as(&context, "exec", json!({ "command": command, "background": true })).await.result.unwrap();
        while !house.path(file).exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        house.get(file).trim().to_owned()
    };
    let (one, two) = (start("one", "a").await, start("two", "b").await);
    house.builtin.processes().end_session(&"one".into()).await;
    gone(&one).await;
    assert!(runs(&two), "the other session's goes on");
    house.builtin.processes().end().await;
    gone(&two).await;
}

#[tokio::test]
async fn a_person_is_asked_and_an_answer_for_ever_is_about_commands_like_it() {
    let house = Arc::new(house_with(|settings| Settings {
        exec_mode: ExecMode::Ask,
        exec_allow: vec!["ls".into()],
        ..settings
    }));
    let ask = |command: &str, answer: Answer| {
        let (house, command) = (Arc::clone(&house), command.to_owned());
        async move {
            let calling = Arc::clone(&house);
            let call = tokio::spawn(async move { calling.call("exec", json!({ "command": command })).await });
            let question = loop {
                if let Some(question) = house.store.pending_approvals().await.unwrap().pop() {
                    break question;
                }
                assert!(!call.is_finished(), "nobody was asked: {:?}", call.await);
                tokio::time::sleep(Duration::from_millis(2)).await;
            };
            house.door.answer(&question.id, answer, "me").await.unwrap();
            (call.await.unwrap(), ApprovalRequest::of(&question))
        }
    };
    let (done, request) = ask("seq 1 2 | sort -r", Answer::AllowAlways).await;
    assert_eq!(done.unwrap()["stdout"], "2\n1\n");
    assert_eq!(request.demand.title.as_deref(), Some("Run a command"));
    assert_eq!(request.input["command"], "seq 1 2 | sort -r");
    assert_eq!(sh(&house, "seq 3 4").await["stdout"], "3\n4\n", "it is remembered for each program");
    assert_eq!(house.store.grants().await.unwrap().len(), 2);
    for other in ["seq 1 2 | uniq", "seq -w 1 2", "seq 1 2 3", "sort -r -o file", "seq 1 2 > file", "ls"] {
        assert!(ask(other, Answer::Deny).await.0.unwrap_err().contains("denied"), "{other}");
    }
    // Of what cannot be told, that very command.
    assert!(ask("time ls", Answer::AllowAlways).await.0.is_ok());
    assert_eq!(sh(&house, "time ls").await["exitCode"], 0);
    for other in ["time sh -c id", "time ls -a", "/usr/bin/time ls"] {
        assert!(ask(other, Answer::Deny).await.0.is_err(), "{other}");
    }
    assert_eq!(house.store.grants().await.unwrap().len(), 3);
}

#[tokio::test]
async fn what_is_not_on_the_list_is_refused_where_nobody_is_asked() {
    let house =
        house_with(|settings| Settings { exec_mode: ExecMode::Allowlist, exec_allow: vec!["ls".into()], ..settings });
    assert!(
        house.error("exec", json!({ "command": "ls; cat x" })).await.contains("not on the list tools.exec.allow: ")
    );
    assert!(house.error("exec", json!({ "command": "ls $(rm x)" })).await.contains("it has a command substitution"));
    let house = house_with(|settings| Settings { exec_mode: ExecMode::Deny, ..settings });
    assert!(house.error("exec", json!({ "command": "ls" })).await.contains("commands are turned off"));
}

#[tokio::test]
async fn a_program_that_the_model_could_have_written_is_never_listed() {
    let house = house_with(|settings| Settings {
        exec_mode: ExecMode::Allowlist,
        exec_allow: vec!["*".into(), "tool".into()],
        ..settings
    });
    let tool = house.put("tool", "#!/bin/sh\necho pwned\n");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for command in ["./tool".to_owned(), "tool".into(), tool.display().to_string(), "cd . && ./tool".into()] {
        assert!(house.call("exec", json!({ "command": command })).await.is_err(), "{command}");
    }
}
