//! Commands and servers that take long to start.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::Home;
use serde_json::{Value, json};

/// Far from what the server may take to start.
const SOON: Duration = Duration::from_secs(20);

/// One server that never answers the greeting, and one that is slow if the home has a file `slow`.
fn home() -> Home {
    let fixture = pincer_testkit::program("mcp-fixture").unwrap();
    let liar = pincer_testkit::program("mcp-liar").unwrap();
    let script = "[ -e \"$HOME/slow\" ] && sleep 300; exec \"$0\" stdio";
    let servers = json!({
        "silent": { "command": liar, "args": ["silent-init"], "connectTimeoutMs": 300_000, "timeoutMs": 1000 },
        "known": { "command": "sh", "args": ["-c", script, fixture], "connectTimeoutMs": 300_000, "timeoutMs": 1000 },
    });
    let home = Home::with(&json!({ "mcp": { "servers": servers } }).to_string());
    assert_eq!(home.run(&["mcp", "test", "known"]).0, 0);
    fs::write(home.path("slow"), "").unwrap();
    home
}

#[test]
fn a_program_is_told_within_its_time_that_a_server_is_starting() {
    let home = home();
    let began = Instant::now();
    for (server, code) in
        [("silent", "return await MCP.silent.echo({})"), ("known", "return await MCP.known.testSimpleText({})")]
    {
        let (exit, failed) = home.json(&["exec", "--json", "--timeout-ms", "3000", "-e", code]);
        let said = failed["error"].as_str().unwrap_or_default();
        assert!(exit == 1 && said.contains(&format!("the MCP server {server} is still starting")), "{failed}");
    }
    let (exit, listed) = home.json(&["exec", "--json", "--timeout-ms", "2000", "-e", "return await MCP.$api()"]);
    assert_eq!(exit, 0, "{listed}");
    let silent =
        listed["value"]["servers"].as_array().unwrap().iter().find(|one| one["serverName"] == "silent").unwrap();
    assert_eq!(silent["state"], "starting", "it is not down: {silent}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn commands_do_not_wait_for_a_start_beyond_its_bound() {
    let home = home();
    let began = Instant::now();
    let (code, _, err) = home.run(&["tools", "call", "mcp:known:test_simple_text"]);
    assert!(code == 1 && err.contains("the MCP server known is still starting"), "{err}");
    let (code, _, err) = home.run(&["tools", "call", "mcp:silent:echo"]);
    assert!(code == 2 && err.contains("the MCP server silent is still starting"), "{err}");
    let (code, out, err) = home.run(&["tools", "list"]);
    assert!(code == 0 && out.contains("mcp:known:test_simple_text"), "{err}");
    assert!(err.contains("the MCP server silent is still starting: its tools are left out"), "{err}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn clients_are_answered_while_a_server_is_starting() {
    let home = home();
    for surface in ["code", "direct", "search"] {
        let began = Instant::now();
        let mut command = home.command(&["mcp", "serve", "--surface", surface]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut input, mut output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        let mut ask = |id: u64, method: &str, params: Value| -> Value {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            writeln!(input, "{request}").unwrap();
            loop {
                let line = output.next().expect("an answer").unwrap();
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"] == id && message.get("method").is_none() {
                    return message;
                }
            }
        };
        let client = json!({ "name": "test", "version": "1" });
        ask(0, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }));
        let (name, arguments) = match surface {
            "code" => ("exec", json!({ "code": "return await MCP.known.testSimpleText({})" })),
            "direct" => ("test_simple_text", json!({})),
            _ => ("tool_call", json!({ "id": "mcp:known:test_simple_text", "args": {} })),
        };
        let answer = ask(1, "tools/call", json!({ "name": name, "arguments": arguments }));
        let said = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(said.contains("the MCP server known is still starting"), "{surface}: {answer}");
        assert!(began.elapsed() < SOON, "{surface}: {:?}", began.elapsed());
        drop((input, output));
        assert_eq!(child.wait().unwrap().code(), Some(0), "{surface}");
        assert!(began.elapsed() < 2 * SOON, "{surface}: {:?}", began.elapsed());
    }
}
