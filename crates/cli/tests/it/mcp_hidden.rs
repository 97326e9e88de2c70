//! Secrets of MCP servers are in no output, log or error, wherever they stand in the config.

use std::fs;
use std::path::Path;

use crate::common::Home;
use serde_json::{Value, json};

/// Words that must not be seen: each stands in another place.
const SECRETS: [&str; 10] = [
    "after-a-flag",
    "behind-a-sign",
    "in-an-address",
    "in-a-query",
    "in-a-header",
    "in-the-token",
    "in-the-environment",
    "in-a-variable",
    "of-a-plugin",
    "of-a-hook",
];

/// A program that repeats what it was given before it falls, and an address where nothing listens.
fn servers() -> Value {
    let loud = "echo \"$@\" \"$API_TOKEN\" >&2; exit 1";
    let args = [
        "-c",
        loud,
        "loud",
        "--password",
        "after-a-flag",
        "--token=behind-a-sign",
        "db://me:in-an-address@h/x",
        "${ACME_TOKEN}",
    ];
    json!({
        "loud": { "command": "sh", "args": args, "env": { "API_TOKEN": "in-the-environment" } },
        "far": {
            "url": "http://127.0.0.1:9/mcp?api_key=in-a-query",
            "headers": { "X-Some": "in-a-header" }, "auth": { "token": "in-the-token" },
        },
    })
}

fn check(what: &str, shown: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{what} shows {secret}: {shown}");
    }
}

/// Every file below a directory.
fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path => {
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
                found.push((path.display().to_string(), text));
            }
        }
    }
}

#[test]
fn no_output_log_or_error_has_a_secret_of_a_server_in_it() {
    let config = json!({
        "mcp": { "servers": servers() },
        "tools": { "exec": { "env": { "MINE": "in-the-environment" } } },
        "hooks": { "before_tool_call": [{ "matcher": "write", "command": "curl -H 'Authorization: Bearer of-a-hook' x" }] },
    });
    let home = Home::with(&config.to_string());
    let run = |arguments: &[&str]| {
        let output = home.command(arguments).env("ACME_TOKEN", "in-a-variable").output().unwrap();
        let shown = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        check(&arguments.join(" "), &shown);
        shown
    };
    let shown = run(&["config", "show"]);
    assert!(shown.contains("--password") && shown.contains("${ACME_TOKEN}") && shown.contains("X-Some"), "{shown}");
    run(&["config", "show", "--json"]);
    run(&["config", "validate"]);
    let shown = run(&["mcp", "list"]);
    assert!(shown.contains("said: --password [redacted] --token=[redacted] db://me:[redacted]@h/x"), "{shown}");
    run(&["mcp", "list", "--json"]);
    run(&["mcp", "list", "--cached", "--json"]);
    for name in ["loud", "far"] {
        run(&["mcp", "test", name]);
        run(&["mcp", "test", name, "--json"]);
        run(&["exec", "--json", "-e", &format!("return await MCP.{name}.x({{}})")]);
        run(&["tools", "call", &format!("mcp:{name}:x")]);
    }
    run(&["mcp", "login", "far"]);
    let mut kept = Vec::new();
    files(&home.path(".state"), &mut kept);
    assert!(kept.iter().any(|(path, _)| path.ends_with("logs/mcp/loud.log")), "it has a log");
    kept.iter().for_each(|(path, text)| check(path, text));
}

#[test]
fn an_import_shows_no_secret_of_what_it_takes() {
    let home = Home::with("{}");
    fs::create_dir(home.path(".cursor")).unwrap();
    fs::write(home.path(".cursor/mcp.json"), json!({ "mcpServers": servers() }).to_string()).unwrap();
    for more in [&["--dry-run"][..], &["--json"], &["--write"]] {
        let (code, out, err) = home.run(&[&["mcp", "import", "cursor"], more].concat());
        assert_eq!(code, 0, "{err}");
        check("mcp import", &format!("{out}{err}"));
    }
}

#[test]
fn what_is_wrong_is_told_without_the_value_where_secrets_are_kept() {
    for config in [
        "{ mcp: { servers: { a: { command: 'x', env: 'in-the-environment' } } } }",
        "{ mcp: { servers: { a: { command: 'x', args: 'after-a-flag' } } } }",
        "{ mcp: { servers: { a: { url: ['in-a-query'] } } } }",
        "{ mcp: { servers: { a: { url: 'x', headers: { X: ['in-a-header'] } } } } }",
        "{ mcp: { servers: { a: { url: 'in-a-query' } } } }",
        "{ mcp: { servers: { a: { url: 'https://x', auth: 'in-the-token' } } } }",
        "{ mcp: { serve: { tokens: 'in-the-token' } } }",
        "{ plugins: { entries: { a: { env: 'of-a-plugin' } } } }",
    ] {
        let (code, out, err) = Home::with(config).run(&["config", "validate", "--json"]);
        assert_eq!(code, 2, "{config}");
        check(config, &format!("{out}{err}"));
    }
}
