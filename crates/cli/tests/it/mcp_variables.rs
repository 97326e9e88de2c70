//! MCP servers whose variables are not set.

use std::io::Write;
use std::process::Stdio;

use crate::common::Home;
use serde_json::{Value, json};

/// A server that works, one that names a variable which is not set, and one of those that is turned off.
fn home() -> Home {
    let fixture = |env: Value, enabled: bool| {
        let program = pincer_testkit::program("mcp-fixture").unwrap();
        json!({ "command": program, "args": ["stdio"], "env": env, "enabled": enabled })
    };
    let servers = json!({
        "good": fixture(json!({}), true),
        "lacking": fixture(json!({ "TOKEN": "${NOT_SET}" }), true),
        "off": fixture(json!({ "TOKEN": "${NOT_SET_EITHER}" }), false),
    });
    Home::with(&json!({ "mcp": { "servers": servers } }).to_string())
}

#[test]
fn a_variable_that_is_not_set_makes_its_server_down_and_nothing_else() {
    let home = home();
    let run = |code: &str| home.json(&["exec", "--json", "-e", code]);
    let (code, done) = run("return (await MCP.good.testSimpleText({})).content[0].type");
    assert_eq!((code, &done["value"]), (0, &json!("text")), "{done}");
    let (code, failed) = run("return await MCP.lacking.testSimpleText({})");
    let why = failed["error"].as_str().unwrap();
    assert!(code == 1 && why.contains("needs the environment variable NOT_SET, which is not set"), "{why}");
    for cached in [&["--cached"][..], &[]] {
        let (code, listed) = home.json(&[&["mcp", "list", "--json"], cached].concat());
        assert_eq!((code, &listed[1]["name"], &listed[1]["state"]), (0, &json!("lacking"), &json!("down")));
        assert_eq!(listed[1]["lastError"], "needs the environment variable NOT_SET, which is not set");
    }
    // Set, it is as if nothing had been.
    let output = home.command(&["mcp", "test", "lacking"]).env("NOT_SET", "x").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (code, _, err) = home.run(&["mcp", "test", "lacking"]);
    assert!(code == 1 && err.contains("NOT_SET"), "{err}");
    assert!(!err.contains("NOT_SET_EITHER"), "a server that is turned off is not warned of: {err}");
}

#[test]
fn a_client_is_answered_although_a_variable_is_not_set() {
    let home = home();
    let mut command = home.command(&["mcp", "serve"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    writeln!(child.stdin.take().unwrap(), "{hello}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"serverInfo\""), "{output:?}");
}

#[test]
fn the_check_of_the_config_tells_of_variables_that_are_not_set() {
    let home = home();
    let (code, told) = home.json(&["config", "validate", "--json"]);
    assert_eq!((code, &told["valid"], &told["code"]), (2, &json!(false), &json!("invalid_config")));
    let paths: Vec<&str> =
        told["problems"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["mcp.servers.lacking.env.TOKEN", "mcp.servers.off.env.TOKEN"]);
    let (code, _, err) = home.run(&["config", "validate"]);
    assert!(code == 2 && err.contains("NOT_SET is not set"), "{err}");
    let elsewhere = Home::with("{ mcp: { serve: { tokens: { me: '${NOT_SET}' } } } }");
    let (code, _, err) = elsewhere.run(&["exec", "-e", "return 1"]);
    assert!(code == 2 && err.contains("mcp.serve.tokens.me: the environment variable NOT_SET is not set"), "{err}");
}
