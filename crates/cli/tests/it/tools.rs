//! `pincer tools`: the catalog, and single calls through the door.

use crate::common::Home;
use serde_json::{Value, json};

#[test]
fn the_catalog_is_listed_searched_described_and_explained() {
    let home = Home::with(
        "{ tools: { deny: ['web_fetch'] }, agents: { reader: { tools: { profile: 'minimal', alsoAllow: ['read'] } } } }",
    );
    let (_, listed) = home.json(&["tools", "list", "--json"]);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"openclaw:core:read") && !ids.contains(&"openclaw:core:web_fetch"), "{ids:?}");
    assert_eq!((&listed[0]["source"], &listed[0]["sourceName"]), (&json!("openclaw"), &json!("core")));
    let (_, narrow) = home.json(&["tools", "list", "--json", "--agent", "reader"]);
    assert_eq!(narrow.as_array().unwrap().len(), 2, "{narrow}");

    let (_, found) = home.json(&["tools", "search", "lines that match a regular expression", "--json"]);
    assert_eq!(found[0]["id"], "openclaw:core:grep");
    let (_, described) = home.json(&["tools", "describe", "read", "--json"]);
    assert_eq!(
        (&described["inputSchema"]["required"], &described["flags"]["readOnly"]),
        (&json!(["path"]), &json!(true))
    );
    let (code, out, _) = home.run(&["tools", "declarations"]);
    assert!(code == 0 && out.contains("read(input: {") && !out.contains("web_fetch("), "{out}");

    let (code, explained) = home.json(&["tools", "explain", "web_fetch", "--json"]);
    assert_eq!((code, &explained["included"]), (0, &json!(false)));
    let stops: Vec<&Value> =
        explained["steps"].as_array().unwrap().iter().filter(|step| step["passes"] == false).collect();
    assert_eq!(stops, [&json!({ "at": "tools", "passes": false, "reason": { "denied": "web_fetch" } })]);
    let (code, _, err) = home.run(&["tools", "describe", "web_fetch"]);
    assert_eq!(
        (code, err.as_str()),
        (1, "error: Unknown tool: web_fetch.\n"),
        "a denied tool is one that does not exist"
    );
}

#[test]
fn a_call_goes_through_the_door() {
    let home = Home::with("{ tools: { deny: ['write'] } }");
    std::fs::write(home.path("a.txt"), "hello").unwrap();
    let (code, value) = home.json(&["tools", "call", "read", "{\"path\": \"a.txt\"}", "--json"]);
    assert_eq!((code, &value["content"]), (0, &json!("hello")));
    for (arguments, code, told) in [
        (&["tools", "call", "read", "{\"pth\": \"a.txt\"}"][..], 2, "Did you mean: path?"),
        (&["tools", "call", "read", "{nope"], 2, "the input is not JSON"),
        (&["tools", "call", "write", "{}"], 2, "Unknown tool: write."),
        (&["tools", "call", "read", "{\"path\": \"b.txt\"}"], 1, "b.txt does not exist; did you mean a.txt?"),
        (&["tools", "call", "openclaw:core:nope"], 2, "Unknown tool: openclaw:core:nope."),
    ] {
        let (was, out, err) = home.run(arguments);
        assert_eq!((was, out.as_str()), (code, ""), "{err}");
        assert!(err.contains(told), "{err}");
    }
    let (code, _, err) = home.run(&["tools", "call", "exec", "{\"cmd\": \"ls\"}"]);
    assert!(code == 2 && err.contains("Did you mean: command?"), "{err}");
    let (code, error) = home.json(&["tools", "call", "read", "{\"path\": \"../x\"}", "--json"]);
    assert_eq!((code, &error["error"]["code"], &error["error"]["effect"]), (1, &json!("tool_failed"), &json!("none")));
}

#[test]
fn without_a_terminal_a_question_is_stored_and_can_be_answered_later() {
    let home = Home::with("{}");
    let call = ["tools", "call", "exec", "{\"command\": \"ls; seq 1 2\"}", "--json"];
    let (code, waiting) = home.json(&call);
    assert_eq!((code, &waiting["status"]), (3, &json!("waiting")));
    let (code, again) = home.json(&call);
    assert_eq!(
        (code, &again["approvalId"]),
        (3, &waiting["approvalId"]),
        "it is one question, however often the call is tried"
    );
    let id = waiting["approvalId"].as_str().unwrap();
    assert_eq!(home.json(&["approvals", "list", "--json"]).1[0]["request"]["demand"]["title"], "Run a command");
    assert_eq!(home.run(&["approvals", "allow", id]).0, 0);
    let (code, done) = home.json(&call);
    assert_eq!((code, &done["stdout"]), (0, &json!("pincer.json5\n1\n2\n")));
    let (code, waiting) = home.json(&call);
    assert_eq!(code, 3, "once is once");
    let id = waiting["approvalId"].as_str().unwrap();
    let (code, _, err) = home.run(&["approvals", "allow", id, "--next", "3"]);
    assert!(code == 2 && err.contains("belongs to no run"), "{err}");
    assert_eq!(home.run(&["approvals", "allow", ""]).0, 2, "nothing is nobody's id");
    assert_eq!(home.run(&["approvals", "deny", id]).0, 0);
    let (code, denied) = home.json(&call);
    assert_eq!((code, &denied["error"]["code"]), (1, &json!("denied")), "a no waits for its caller too");
    assert_eq!(home.json(&call).0, 3);
}

#[test]
fn at_a_terminal_the_question_is_asked_there() {
    let home = Home::with("{}");
    let call = |answer: &str| home.on_a_terminal(answer, &["tools", "call", "exec", "{\"command\": \"seq 41 42\"}"]);
    let (code, shown) = call("n");
    assert!(
        code == 1 && shown.contains("Run a command") && shown.contains("seq 41 42") && shown.contains("was denied"),
        "{shown}"
    );
    let (code, shown) = call("y");
    assert!(code == 0 && shown.contains("42"), "{shown}");
    assert_eq!(call("^C").0, 130, "and can be left");
    let (code, shown) = call("a");
    assert!(code == 0 && shown.contains("[a]lways"), "{shown}");
    let (code, shown) = call("nobody asks");
    assert!(code == 0 && !shown.contains("Run a command"), "{shown}");
}

#[test]
fn hooks_and_rules_of_the_config_have_their_say() {
    let home = Home::with(
        r#"{
          hooks: { before_tool_call: [
            { matcher: "write", command: ["cat", "verdict.json"], timeoutMs: 5000 },
            { matcher: ["ls"], command: "echo '{\"params\": {\"path\": \"sub\"}}'" },
            { matcher: "find", command: "exit 1" },
          ] },
          approvals: { rules: [{ match: "group:web", decision: "deny" }, { match: "edit", decision: "ask" }] },
        }"#,
    );
    std::fs::create_dir(home.path("sub")).unwrap();
    std::fs::write(home.path("sub/inner"), "").unwrap();
    std::fs::write(home.path("verdict.json"), "{\"block\": true, \"blockReason\": \"not today\"}").unwrap();
    let write = ["tools", "call", "write", "{\"path\": \"x\", \"content\": \"\"}"];
    assert!(home.run(&write).2.contains("blocked by the hook hooks.before_tool_call[0]: not today"));
    let patch = json!({ "patch": "*** Begin Patch\n*** Delete File: verdict.json\n*** End Patch" }).to_string();
    assert!(home.run(&["tools", "call", "apply_patch", &patch]).2.contains("it decides what may be done here"));
    assert_eq!(
        home.json(&["tools", "call", "ls", "{}", "--json"]).1["entries"][0]["name"],
        "inner",
        "the hook changed the input"
    );
    assert!(
        home.run(&["tools", "call", "find", "{\"pattern\": \"*\"}"])
            .2
            .contains("could not be asked, so the call is blocked")
    );
    assert!(
        home.run(&["tools", "call", "web_fetch", "{\"url\": \"http://x\"}"])
            .2
            .contains("a rule denies calls of openclaw:core:web_fetch")
    );
    let edit = "{\"path\": \"x\", \"edits\": [{\"oldText\": \"a\", \"newText\": \"b\"}]}";
    assert_eq!(home.run(&["tools", "call", "edit", edit]).0, 3);
}

#[test]
fn the_gate_and_the_shell_find_the_same_programs() {
    let home = Home::with(
        "{ tools: { exec: { mode: 'allowlist', allow: ['ls'], env: { PATH: ':.:sub/..:/usr/bin:/bin' } } } }",
    );
    let planted = home.path("ls");
    std::fs::write(&planted, "#!/bin/sh\necho planted\n").unwrap();
    std::fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let call = ["tools", "call", "exec", "{\"command\": \"ls\"}", "--json"];
    let (code, done) = home.json(&call);
    assert_eq!((code, &done["stdout"]), (0, &json!("ls\npincer.json5\n")));
    assert_eq!(home.run(&call).2, "ls\npincer.json5\n", "what it says is shown while it runs");
}

#[test]
fn an_answer_for_ever_is_never_about_all_commands() {
    let home =
        Home::with("{ tools: { exec: { mode: 'full' } }, approvals: { rules: [{ match: 'exec', decision: 'ask' }] } }");
    let call = |command: &str| {
        let input = json!({ "command": command }).to_string();
        home.json(&["tools", "call", "exec", &input, "--json"])
    };
    let (code, waiting) = call("ls; echo sk-aaaaaaaaaaaa;id");
    assert_eq!(code, 3);
    let (_, listed) = home.json(&["approvals", "list", "--json"]);
    assert_eq!(
        listed[0]["request"]["input"]["command"], "ls; echo sk-aaaaaaaaaaaa;id",
        "whoever decides sees all of it"
    );
    home.run(&["approvals", "allow", waiting["approvalId"].as_str().unwrap(), "--always"]);
    assert_eq!(call("ls; echo sk-aaaaaaaaaaaa;id").0, 0, "this once");
    assert_eq!(call("id && ls").0, 0, "these programs");
    for other in ["seq 1", "sh -c id", "id > file"] {
        assert_eq!(call(other).0, 3, "{other}");
    }
}

#[test]
fn an_answer_for_the_next_calls_is_for_commands_like_it_and_for_so_many() {
    let home = Home::with("{ tools: { codeMode: { enabled: true }, exec: { mode: 'ask' } } }");
    let touched = || (1..=9).filter(|n| home.path(&format!("f{n}.txt")).exists()).count();
    let code = "for (let n = 1; n <= 4; n++) await tools.exec({ command: `touch f${n}.txt` });
        await tools.exec({ command: 'cp f1.txt f9.txt' })";
    let (_, mut run) = home.json(&["exec", "-e", code, "--json"]);
    let asked = |run: &serde_json::Value| {
        let (_, listed) = home.json(&["approvals", "list", "--json"]);
        assert_eq!((&run["status"], listed.as_array().unwrap().len()), (&json!("waiting"), 1), "{run} {listed}");
        let command = listed[0]["request"]["input"]["command"].as_str().unwrap().to_owned();
        (command, listed[0]["id"].as_str().unwrap().to_owned())
    };
    for (command, before, next) in [("touch f1.txt", 0, "3"), ("touch f4.txt", 3, "9"), ("cp f1.txt f9.txt", 4, "1")] {
        let (asked_command, id) = asked(&run);
        assert_eq!((asked_command.as_str(), touched()), (command, before));
        assert_eq!(home.run(&["approvals", "allow", &id, "--next", next]).0, 0);
        run = home.json(&["wait", run["runId"].as_str().unwrap(), "--json"]).1;
    }
    assert_eq!((&run["status"], touched()), (&json!("completed"), 5), "{run}");
}

#[test]
fn what_decides_over_the_tools_cannot_be_changed_by_them() {
    let home = Home::with("{ tools: { exec: { mode: 'deny' } } }");
    for path in ["pincer.json5", ".state/pincer/pincer.db", ".git/config", "sub/.GIT/hooks/pre-commit", "link"] {
        if path == "link" {
            std::os::unix::fs::symlink("pincer.json5", home.path("link")).unwrap();
        }
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
        for (tool, input) in
            [("write", json!({ "path": path, "content": "{}" })), ("apply_patch", json!({ "patch": patch }))]
        {
            let (code, _, err) = home.run(&["tools", "call", tool, &input.to_string()]);
            assert!(code == 1 && err.contains("can be read but not changed by this tool"), "{tool} {path}: {err}");
        }
    }
    assert_eq!(home.run(&["tools", "call", "read", "{\"path\": \"pincer.json5\"}"]).0, 0);
    // Where there is no config yet, none can be made either.
    std::fs::remove_file(home.path("pincer.json5")).unwrap();
    assert_eq!(home.run(&["tools", "call", "write", "{\"path\": \"pincer.json5\", \"content\": \"{}\"}"]).0, 1);
}

#[test]
fn the_home_directory_is_no_workspace_unless_it_is_meant_to_be() {
    let input = json!({ "path": ".bashrc", "content": "mine" }).to_string();
    let write = |home: &Home, place: &std::path::Path| {
        let pincer = home.command(&["tools", "call", "write", &input]);
        let mut command = std::process::Command::new(pincer.get_program());
        command.args(pincer.get_args()).current_dir(place).env_clear();
        command.envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?)))).output().unwrap()
    };
    // The home, and a directory that has it in it.
    let home = Home::with("{}");
    std::fs::remove_file(home.path("pincer.json5")).unwrap();
    for place in [home.path("."), home.path("..")] {
        let _ = std::fs::remove_dir_all(home.path(".local"));
        let output = write(&home, &place);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && err.contains("not in this directory: set `workspace`"), "{err}");
        assert!(!home.path(".bashrc").exists() && !place.join(".bashrc").exists());
        assert!(home.path(".local/share/pincer/workspace/.bashrc").exists());
    }
    // A project in it is a workspace, and so is the home of a user who keeps a config there, or says so.
    std::fs::create_dir(home.path("project")).unwrap();
    assert!(write(&home, &home.path("project")).stderr.is_empty() && home.path("project/.bashrc").exists());
    std::fs::create_dir_all(home.path(".config/pincer")).unwrap();
    std::fs::write(home.path(".config/pincer/pincer.json5"), "{ workspace: '../..' }").unwrap();
    assert!(write(&home, &home.path(".")).status.success() && home.path(".bashrc").exists());
    let home = Home::with("{}");
    assert!(write(&home, &home.path(".")).status.success() && home.path(".bashrc").exists());
}

/// The active config lies elsewhere, and there is room for more plugins.
#[test]
fn a_config_or_a_plugin_for_the_next_start_cannot_be_made() {
    let home = Home::with("{}");
    std::fs::remove_file(home.path("pincer.json5")).unwrap();
    std::fs::create_dir_all(home.path("extensions/first")).unwrap();
    std::fs::create_dir(home.path("elsewhere")).unwrap();
    let config = "{ workspace: '..', plugins: { paths: ['../extensions'], entries: { first: { enabled: false } } } }";
    std::fs::write(home.path("elsewhere/active.json5"), config).unwrap();
    let first = "{ id: 'first', version: '1.0.0', description: 'none', command: ['true'], tools: [] }";
    std::fs::write(home.path("extensions/first/pincer.plugin.json5"), first).unwrap();
    let write = |path: &str| {
        let input = json!({ "path": path, "content": "{}" }).to_string();
        home.run(&["tools", "call", "write", &input, "--config", "elsewhere/active.json5"])
    };
    let found =
        ["pincer.json5", "new/../pincer.json5", "extensions/mine/pincer.plugin.json5", "elsewhere/active.json5"];
    for path in found {
        let (code, _, err) = write(path);
        let is_refused = err.contains("not changed by this tool") || err.contains("which does not exist");
        assert!(code == 1 && is_refused && !home.path("new").exists(), "{path}: {err}");
    }
    assert!(!home.path("pincer.json5").exists() && !home.path("extensions/mine").exists());
    // A program whose state is elsewhere, and whose workspace holds what a start without a config looks for.
    for path in [".config/pincer/pincer.json5", ".state/pincer/plugins/mine/pincer.plugin.json5"] {
        let input = json!({ "path": path, "content": "{}" }).to_string();
        let named = ["--config", "elsewhere/none.json5"];
        std::fs::write(home.path(named[1]), "{ workspace: '..' }").unwrap();
        let mut command =
            home.command(&[&["tools", "call", "write", &input, "--state-dir", "other-state"], &named[..]].concat());
        let output = command.env("XDG_CONFIG_HOME", home.path(".config")).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && err.contains("not changed by this tool"), "{path}: {err}");
    }
    let (code, _, err) = write("elsewhere/other.json5");
    assert_eq!(code, 0, "{err}");
}

/// Processes that run `sleep` for so many seconds.
fn sleepers(seconds: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let sleeps = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == format!("sleep\0{seconds}\0").as_bytes()
    };
    all.filter(sleeps).collect()
}

#[test]
fn nothing_a_command_starts_outlives_it_whatever_it_forgets() {
    let home = Home::with("{ tools: { exec: { mode: 'full' } } }");
    let command = "env -i setsid sleep 77123 >/dev/null 2>&1 & (env -i setsid sh -c 'sleep 77123 & sleep 77123' >/dev/null 2>&1 &) ; sleep 0.2";
    assert_eq!(home.run(&["tools", "call", "exec", &json!({ "command": command }).to_string()]).0, 0);
    let left = sleepers("77123");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_signal_ends_the_call_and_all_of_its_command_however_loud_it_is() {
    for (number, (signal, seconds)) in [("INT", "77201"), ("TERM", "77202"), ("HUP", "77203")].into_iter().enumerate() {
        let home = Home::with("{ tools: { exec: { mode: 'full' } } }");
        let command = format!("trap '' TERM; sleep {seconds} & yes a & yes b >&2 & touch started; wait");
        let input = json!({ "command": command }).to_string();
        let mut pincer = home.command(&["tools", "call", "exec", &input]);
        // Nobody reads what it reports.
        let mut pincer =
            pincer.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        while !home.path("started").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let sent = std::process::Command::new("kill")
            .args([&format!("-{signal}"), &pincer.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success() && number < 3);
        assert_eq!(pincer.wait().unwrap().code(), Some(130), "{signal}");
        assert!(sleepers(seconds).is_empty(), "{signal}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_confined_command_writes_in_the_workspace_only() {
    let home = Home::with("{ workspace: 'work', tools: { exec: { mode: 'full', confine: true, network: false } } }");
    std::fs::create_dir(home.path("work")).unwrap();
    std::fs::write(home.path("outside"), "before").unwrap();
    let command = "echo in > inside; echo no > ../outside; echo no >> ../outside; true > ../outside; rm -f ../outside; mkdir ../dir; ln -s x ../link; \
                   mv inside ../moved; echo to-null > /dev/null && cat inside ../outside";
    let input = json!({ "command": command }).to_string();
    let (code, done) = home.json(&["tools", "call", "exec", &input, "--json"]);
    assert_eq!((code, &done["stdout"]), (0, &json!("in\nbefore")), "{done}");
    for name in ["dir", "link", "moved"] {
        assert!(!home.path(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(home.path("outside")).unwrap(), "before");

    let sockets = "import socket\nfor family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):\n  try:\n    socket.socket(family)\n    print('made one')\n  except PermissionError:\n    print('refused')\na, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))\ntry:\n  socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n  print('made one')\nexcept PermissionError:\n  print('refused')\ntry:\n  open('/dev/tty')\n  print('a terminal')\nexcept OSError:\n  print('no terminal')";
    let input = json!({ "command": format!("python3 - <<'END'\n{sockets}\nEND") }).to_string();
    let (_, done) = home.json(&["tools", "call", "exec", &input, "--json"]);
    assert_eq!(done["stdout"], "refused\nrefused\nrefused\nrefused\nb'x'\nrefused\nno terminal\n", "{done}");

    // The kernel refuses the seventeenth confinement in a row: then nothing runs.
    let pincer = env!("CARGO_BIN_EXE_pincer");
    let nested = |times: usize, file: &str| {
        let once = ["confine", "--write", ".", "--", pincer];
        let words: Vec<&str> = once.repeat(times - 1);
        let words = words.into_iter().chain(["confine", "--write", ".", "--", "touch", file]).collect::<Vec<_>>();
        home.run(&words)
    };
    assert_eq!(nested(16, "made").0, 0);
    let (code, _, err) = nested(17, "not-made");
    assert!(code == 1 && err.contains("the command was not run: this kernel cannot confine commands"), "{err}");
    assert!(home.path("made").exists() && !home.path("not-made").exists());

    let nowhere = ["confine", "--write", "nowhere", "--", "touch", "outside2"];
    assert!(home.run(&nowhere).2.contains("the command was not run: nowhere cannot be opened"));
    assert!(!home.path("outside2").exists());
}
