//! Attacks that were found to work once, or that others fell for, each with its verdict.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::common::Home;
use serde_json::json;

/// The lines of a corpus: a verdict and what it is about.
fn corpus(text: &'static str) -> impl Iterator<Item = (&'static str, String)> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (verdict, case) = line.split_once(' ').expect("a verdict and a case");
        (verdict, if case.starts_with('"') { serde_json::from_str(case).expect("a string") } else { case.to_owned() })
    })
}

/// Every file beneath a directory, with its content.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

fn program(path: &Path) {
    fs::write(path, "#!/bin/sh\ntouch pwned\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn commands_that_run_unasked_only_read() {
    let config = "{ workspace: 'work', tools: { exec: { mode: 'allowlist', allow: ['*', '/**'] } } }";
    let home = Home::with(config);
    fs::create_dir_all(home.path("work/sub")).unwrap();
    fs::write(home.path("work/a.txt"), "one\ntwo\n").unwrap();
    program(&home.path("work/x"));
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let mut command = Command::new("git");
        let done = command.args(identity).args(arguments).current_dir(home.path("work")).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let before = contents(&home.path("work"));
    for (verdict, command) in corpus(include_str!("../attacks/commands.txt")) {
        let input = json!({ "command": command }).to_string();
        let (code, _, err) = home.run(&["tools", "call", "exec", &input]);
        let is_blocked = code != 0 && err.contains("blocked");
        assert_eq!(is_blocked, verdict == "asks", "{command}: {code} {err}");
        assert!(is_blocked || code == 0, "{command}: {code} {err}");
    }
    assert!(contents(&home.path("work")) == before, "nothing was changed");
}

/// Shows the cost of a mistake in a table.
#[cfg(target_os = "linux")]
#[test]
fn a_command_that_runs_unasked_is_confined_to_reading() {
    let home = Home::with("{}");
    let confined = |script: &str| home.run(&["confine", "--no-network", "--", "sh", "-c", script]);
    let (_, out, _) = confined(
        "echo x > made; mkdir dir; rm pincer.json5; echo x >> pincer.json5; chmod 777 pincer.json5; touch -d 2000-01-01 pincer.json5; cat pincer.json5; echo y > /dev/null && echo ok",
    );
    assert_eq!(out, "{}ok\n");
    assert!(!home.path("made").exists() && !home.path("dir").exists());
    let config = fs::metadata(home.path("pincer.json5")).unwrap();
    assert!(config.mode() & 0o777 != 0o777 && config.modified().unwrap().elapsed().unwrap().as_secs() < 86_400);
    // The calls of newer kernels that change what Landlock does not count as writing.
    let newer = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n\
        for number in (463, 466, 469):\n  libc.syscall(number, -100, b'pincer.json5', 0, 0, 0, 0)\n  print(ctypes.get_errno())\n\
        import fcntl, os, struct\nf = os.open('pincer.json5', os.O_RDONLY)\n\
        for request in (0x40086602, 0x401c5820):\n  try:\n    fcntl.ioctl(f, request, struct.pack('l', 0) * 4)\n    print('set')\n  except OSError as error:\n    print(error.errno)";
    let (_, out, err) = home.run(&["confine", "--no-network", "--", "python3", "-c", newer]);
    assert_eq!(out, "1\n".repeat(5), "each is refused: {err}");
    let socket = "import socket\ntry:\n  socket.socket()\nexcept PermissionError:\n  print('refused')";
    assert_eq!(home.run(&["confine", "--no-network", "--", "python3", "-c", socket]).1, "refused\n");
    // A command that the list names whole runs as the settings say, without a shell.
    let home = Home::with("{ tools: { exec: { mode: 'allowlist', allow: ['touch made', 'cp *'] } } }");
    let call = |command: &str| home.run(&["tools", "call", "exec", &json!({ "command": command }).to_string()]).0;
    assert_eq!((call("touch made"), call("touch other"), call("cp made 'a * b'")), (0, 1, 0));
    assert!(home.path("made").exists() && home.path("a * b").exists() && !home.path("other").exists());
}

/// A repository that needs no `.git`: its config is a file like any other, and names a program.
#[test]
fn git_takes_no_directory_of_the_workspace_for_a_repository_of_its_own() {
    let home = Home::with("{ tools: { exec: { mode: 'allowlist', allow: ['git'] } } }");
    for directory in ["bare/objects", "bare/refs"] {
        fs::create_dir_all(home.path(directory)).unwrap();
    }
    fs::write(home.path("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
    program(&home.path("x"));
    let script = home.path("x").display().to_string();
    let config = format!("[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = {script}\n");
    fs::write(home.path("bare/config"), config).unwrap();
    let input = json!({ "command": "git status", "cwd": "bare" }).to_string();
    let (code, out, err) = home.run(&["tools", "call", "exec", &input, "--json"]);
    assert!(code == 0 && out.contains("128"), "{code} {out} {err}");
}

/// A question is one line for each of its parts, and the last one is what would run.
#[test]
fn no_command_forges_the_question_about_it() {
    let escapes = regex::Regex::new(r"\\u\{([0-9a-f]+)\}").unwrap();
    for (_, command) in corpus(include_str!("../attacks/questions.txt")) {
        let home = Home::with("{}");
        let input = json!({ "command": command }).to_string();
        let (code, out, err) = home.run(&["tools", "call", "exec", &input]);
        assert_eq!(code, 3, "{command:?}: {out} {err}");
        let (_, listed, _) = home.run(&["approvals", "list"]);
        let (_, on_terminal) = home.on_a_terminal("n", &["tools", "call", "exec", &input]);
        for shown in [listed, on_terminal.replace("\r\n", "\n").split("\n[y]es").next().unwrap().to_owned()] {
            let lines: Vec<&str> = shown.trim_end_matches('\n').split('\n').collect();
            let why = lines.iter().rposition(|line| line.starts_with("  why: ")).expect("a reason");
            let (last, always) = lines[why + 1..].split_last().expect("an input");
            let is_right =
                always.iter().all(|line| line.starts_with("  always: ")) && last.starts_with("  openclaw:core:exec {");
            assert!(is_right && !lines[why..].concat().contains(pincer_tools::is_hidden), "{command:?}: {shown}");
            let (_, input) = last.split_once("exec ").unwrap();
            let unescaped = escapes.replace_all(input, |found: &regex::Captures<'_>| {
                char::from_u32(u32::from_str_radix(&found[1], 16).unwrap()).unwrap().to_string()
            });
            let input: serde_json::Value = serde_json::from_str(&unescaped).unwrap();
            assert_eq!(input["command"], command.as_str(), "all of it is shown");
        }
    }
}

#[test]
fn no_path_leads_to_what_decides_or_outside() {
    let config = "{ plugins: { paths: ['plugins'] }, hooks: { before_tool_call: [{ matcher: 'ls', command: ['python3', 'hooks/check.py'] }] } }";
    let house = Home::with("{}");
    fs::create_dir_all(house.path("work")).unwrap();
    for (file, text) in [
        ("pincer.json5", config),
        ("hooks/check.py", "print('{}')"),
        (
            "plugins/first/pincer.plugin.json5",
            "{ id: 'first', version: '1.0.0', description: 'none', command: ['true'], tools: [] }",
        ),
        (".git/config", "[core]"),
        (".git/hooks/pre-commit", "exit"),
        ("sub/x", ""),
    ] {
        let file = house.path("work").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    for (link, to) in [("l", "."), ("g", ".git"), ("o", "..")] {
        std::os::unix::fs::symlink(to, house.path("work").join(link)).unwrap();
    }
    let run = |tool: &str, input: &serde_json::Value| {
        let pincer = house.command(&["tools", "call", tool, &input.to_string()]);
        let mut command = Command::new(pincer.get_program());
        command.args(pincer.get_args()).current_dir(house.path("work")).env_clear();
        command.envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let work = house.path("work/.state");
        command.env("XDG_STATE_HOME", work).output().unwrap()
    };
    // The state directory is in the workspace too.
    run("read", &json!({ "path": "sub/x" }));
    let kept = ["pincer.json5", "hooks", "plugins", ".git"].map(|name| house.path("work").join(name));
    let contents_of = || {
        kept.iter()
            .map(|path| if path.is_dir() { contents(path) } else { vec![(String::new(), fs::read(path).unwrap())] })
            .collect::<Vec<_>>()
    };
    let before = contents_of();
    for (verdict, path) in corpus(include_str!("../attacks/paths.txt")) {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+mine\n*** End Patch");
        for (tool, input) in
            [("write", json!({ "path": path, "content": "mine" })), ("apply_patch", json!({ "patch": patch }))]
        {
            if tool == "apply_patch" && (verdict == "made" || path.is_empty()) {
                continue;
            }
            let done = run(tool, &input);
            assert_eq!(done.status.success(), verdict == "made", "{tool} {path:?}: {done:?}");
        }
    }
    assert!(contents_of() == before, "nothing of it has changed");
    assert!(!house.path("outside.txt").exists() && !house.path("work/newdir").exists());
    assert!(!Path::new("/tmp/pincer-attack-outside.txt").exists());
}

#[test]
fn hostile_programs_end_as_they_must() {
    let home = Home::with(
        "{ tools: { deny: ['exec'], codeMode: { timeoutMs: 3000, memoryLimitBytes: 33554432, maxOutputBytes: 65536 } } }",
    );
    for (verdict, program) in corpus(include_str!("../attacks/programs.txt")) {
        let (_, result) = home.json(&["exec", "-e", &program, "--json"]);
        let came_to = match &result["status"] {
            status if status == "completed" => result["value"].to_string(),
            _ => result["code"].as_str().unwrap_or("none").to_owned(),
        };
        assert_eq!(came_to, verdict, "{program}: {result}");
    }
}
