//! Workspaces of agents, and of their sandboxed sessions, as the config says.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::common::Home;

/// Calls a tool for an agent in a session. Returns the exit code, and the text of both streams.
fn call(home: &Home, agent: &str, session: &str, tool: &str, input: serde_json::Value) -> (i32, String) {
    let input = input.to_string();
    let (code, out, err) = home.run(&["tools", "call", tool, &input, "--agent", agent, "--session", session, "--json"]);
    (code, out + &err)
}

fn write(home: &Home, agent: &str, session: &str, path: &str) {
    let (code, told) = call(home, agent, session, "write", json!({ "path": path, "content": agent }));
    assert_eq!(code, 0, "{told}");
}

/// The directories of sandboxed sessions in a directory.
fn boxes(root: PathBuf) -> Vec<PathBuf> {
    let mut boxes: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    boxes.sort();
    boxes
}

#[test]
fn agents_work_where_the_config_says_and_sandboxed_sessions_each_in_their_own_directory() {
    let home = Home::with(
        "{ workspace: 'work', agents: {
             defaults: { sandbox: { mode: 'non-main' } },
             writer: { workspace: 'writer' },
             guest: { sandbox: { mode: 'all', workspaceRoot: 'guests' } },
             open: { sandbox: { mode: 'off' } } } }",
    );
    fs::create_dir(home.path("work")).unwrap();
    write(&home, "writer", "main", "a");
    assert!(home.path("writer/a").exists(), "`main` is not sandboxed with `non-main`");
    write(&home, "open", "other", "b");
    assert!(home.path("work/b").exists(), "the agent's own mode counts");
    write(&home, "writer", "other", "c");
    write(&home, "writer", "../../other", "c");
    let sandboxes = boxes(home.path(".state/pincer/sandboxes"));
    assert_eq!(sandboxes.len(), 2, "{sandboxes:?}");
    assert!(sandboxes.iter().all(|sandbox| sandbox.join("c").exists()), "{sandboxes:?}");
    write(&home, "guest", "main", "d");
    assert!(boxes(home.path("guests"))[0].join("d").exists());
    // Protected paths are protected there too, though the workspace lies in the state directory.
    let (code, told) = call(&home, "writer", "other", "write", json!({ "path": ".git/config", "content": "" }));
    assert!(code == 1 && told.contains("git runs"), "{told}");
    // The operator's own command, which names no agent, works in the usual workspace.
    let (code, _, told) = home.run(&["tools", "call", "write", r#"{"path":"e","content":""}"#, "--session", "x"]);
    assert!(code == 0 && home.path("work/e").exists(), "{told}");
}

#[test]
fn a_sandboxed_session_has_the_tools_of_a_sandbox() {
    let home = Home::with(
        "{ tools: { sandbox: { tools: { deny: ['exec'] } } }, agents: { guest: { sandbox: { mode: 'all' } } } }",
    );
    let (code, told) = call(&home, "guest", "main", "exec", json!({ "command": "true" }));
    assert!(code != 0 && told.contains("unknown_tool"), "{told}");
    let (code, told) = call(&home, "guest", "main", "ls", json!({}));
    assert_eq!(code, 0, "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_of_a_sandboxed_session_writes_in_its_directory_only() {
    let home = Home::with("{ tools: { exec: { mode: 'full' } }, agents: { guest: { sandbox: { mode: 'all' } } } }");
    let outside = home.path("outside").display().to_string();
    let command = format!("echo in > inside; echo out > {outside}; cat inside");
    let (code, told) = call(&home, "guest", "main", "exec", json!({ "command": command }));
    assert!(code == 0 && told.contains(r#""stdout":"in\n""#) && told.contains("Permission denied"), "{told}");
    assert!(!home.path("outside").exists());
    assert!(boxes(home.path(".state/pincer/sandboxes"))[0].join("inside").exists());
    // The same agent's program does not run unasked because another agent could have written it.
    let allowed = format!(
        "{{ tools: {{ exec: {{ mode: 'allowlist', allow: ['{}/**'] }} }}, agents: {{ guest: {{ sandbox: {{ mode: 'all' }} }} }} }}",
        home.path("").display()
    );
    fs::write(home.path("pincer.json5"), allowed).unwrap();
    let program = boxes(home.path(".state/pincer/sandboxes"))[0].join("inside").display().to_string();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let input = json!({ "command": program }).to_string();
    let (code, out, err) = home.run(&["tools", "call", "exec", &input, "--json"]);
    assert!(code == 1 && (out.clone() + &err).contains("a file of a workspace"), "{out}{err}");
}
