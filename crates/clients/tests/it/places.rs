//! Where the configs of clients are, and what a file is that somebody names.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;

use pincer_clients::{Client, ClientError, Format, Reach, Surroundings, System, files_of, known_files, recognise};

fn around(system: System, variables: &[(&str, &str)]) -> Surroundings {
    let mut around = Surroundings::new("/home/me", "/code/app", system);
    around.variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    around
}

#[test]
fn every_client_has_its_usual_places() {
    use Client::{ClaudeCode, ClaudeDesktop, Codex, Cursor, VsCode};
    use System::{Linux, MacOs, Windows};
    for (client, system, variables, expected) in [
        (ClaudeDesktop, Linux, &[][..], &["/home/me/.config/Claude/claude_desktop_config.json"][..]),
        (ClaudeDesktop, Linux, &[("XDG_CONFIG_HOME", "/x")], &["/x/Claude/claude_desktop_config.json"]),
        (
            ClaudeDesktop,
            Linux,
            &[("XDG_CONFIG_HOME", "relative")],
            &["/home/me/.config/Claude/claude_desktop_config.json"],
        ),
        (ClaudeDesktop, MacOs, &[], &["/home/me/Library/Application Support/Claude/claude_desktop_config.json"]),
        (ClaudeDesktop, Windows, &[("APPDATA", "/roam")], &["/roam/Claude/claude_desktop_config.json"]),
        (ClaudeCode, Linux, &[], &["/home/me/.claude.json", "/home/me/.claude.json", "/code/app/.mcp.json"]),
        (
            ClaudeCode,
            MacOs,
            &[("CLAUDE_CONFIG_DIR", "/c")],
            &["/c/.claude.json", "/c/.claude.json", "/code/app/.mcp.json"],
        ),
        (Cursor, Linux, &[], &["/home/me/.cursor/mcp.json", "/code/app/.cursor/mcp.json"]),
        (VsCode, Linux, &[], &["/home/me/.config/Code/User/mcp.json", "/code/app/.vscode/mcp.json"]),
        (
            VsCode,
            MacOs,
            &[],
            &["/home/me/Library/Application Support/Code/User/mcp.json", "/code/app/.vscode/mcp.json"],
        ),
        (Codex, Linux, &[], &["/home/me/.codex/config.toml", "/code/app/.codex/config.toml"]),
        (Codex, Linux, &[("CODEX_HOME", "/k")], &["/k/config.toml", "/code/app/.codex/config.toml"]),
        (Codex, Linux, &[("CODEX_HOME", "")], &["/home/me/.codex/config.toml", "/code/app/.codex/config.toml"]),
    ] {
        let files = files_of(client, &around(system, variables));
        let paths: Vec<&str> = files.iter().map(|file| file.path.to_str().unwrap()).collect();
        assert_eq!(paths, expected, "{client:?} {system:?}");
        assert!(files.iter().all(|file| file.client == Some(client)));
    }
    assert_eq!(known_files(&around(Linux, &[])).len(), 10);
}

#[test]
fn clients_have_names_for_the_command_line() {
    for client in Client::ALL {
        assert_eq!(Client::from_id(client.id()), Some(client));
    }
    assert_eq!(Client::from_id("emacs"), None);
}

#[test]
fn claude_code_has_servers_for_a_directory_in_the_users_file() {
    let files = files_of(Client::ClaudeCode, &around(System::Linux, &[]));
    assert_eq!(files[1].keys, ["projects", "/code/app", "mcpServers"]);
    assert_eq!(files.iter().map(|file| file.reach).collect::<Vec<_>>(), [Reach::User, Reach::Local, Reach::Project]);
}

#[test]
fn a_file_is_recognised_by_what_stands_in_it() {
    use Format::{Json, Toml};
    let server = r#"{ "command": "x" }"#;
    let both = format!(
        r#"{{ "mcpServers": {{ "a": {server} }}, "projects": {{ "/code/app": {{ "mcpServers": {{}} }}, "/other": {{}} }} }}"#
    );
    for (name, text, expected) in [
        ("any.json", format!(r#"{{ "mcpServers": {{ "a": {server} }} }}"#), vec![(None, Json, "mcpServers")]),
        (
            "any",
            format!(r#"{{ /* c */ "servers": {{ "a": {server}, }} }}"#),
            vec![(Some(Client::VsCode), Json, "servers")],
        ),
        ("any.json", r#"{ "servers": {}, "inputs": [] }"#.into(), vec![(Some(Client::VsCode), Json, "servers")]),
        ("any.json", format!(r#"{{ "a": {server}, "b": {{ "url": "http://x" }} }}"#), vec![(None, Json, "")]),
        (
            "claude_desktop_config.json",
            r#"{ "mcpServers": {} }"#.into(),
            vec![(Some(Client::ClaudeDesktop), Json, "mcpServers")],
        ),
        (
            ".claude.json",
            both,
            vec![
                (Some(Client::ClaudeCode), Json, "mcpServers"),
                (Some(Client::ClaudeCode), Json, "projects./code/app.mcpServers"),
            ],
        ),
        ("config.toml", "[mcp_servers.a]\ncommand = 'x'".into(), vec![(Some(Client::Codex), Toml, "mcp_servers")]),
        ("saved.txt", "[mcp_servers.a]\ncommand = 'x'".into(), vec![(Some(Client::Codex), Toml, "mcp_servers")]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, &text).unwrap();
        let found = recognise(&path, &around(System::Linux, &[])).unwrap_or_else(|error| panic!("{text}: {error}"));
        let found: Vec<_> = found.iter().map(|file| (file.client, file.format, file.keys.join("."))).collect();
        let expected: Vec<_> =
            expected.into_iter().map(|(client, format, keys)| (client, format, keys.to_owned())).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn what_has_no_servers_is_not_recognised() {
    for (name, text) in [
        ("a.json", "{}"),
        ("a.json", r#"{ "a": 1 }"#),
        ("a.json", r#"{ "servers": ["web-1", "web-2"] }"#),
        ("a.json", r#"{ "a": { "command": "x" }, "b": { "name": "y" } }"#),
        ("a.toml", "[other]\na = 1"),
        ("a.json", ""),
        ("a.json", "[]"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let error = recognise(&path, &around(System::Linux, &[])).expect_err(text);
        assert!(matches!(error, ClientError::Unrecognised { .. }), "{text}: {error}");
    }
}
