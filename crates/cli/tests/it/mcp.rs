//! `pincer mcp list`, `test`, `savings` and `login`, and the tools of servers in all other commands.

use std::time::{Duration, Instant};

use crate::common::Home;
use serde_json::{Value, json};

/// A server that is one of the test programs, as a config has it.
fn server(program: &str, argument: &str) -> Value {
    json!({ "command": pincer_testkit::program(program).unwrap(), "args": [argument] })
}

fn home(servers: Value) -> Home {
    Home::with(&json!({ "mcp": { "servers": servers } }).to_string())
}

/// One that works, one that falls at once, one that is turned off.
fn three() -> Home {
    let mut off = server("mcp-fixture", "stdio");
    off["enabled"] = false.into();
    home(
        json!({ "fixture": server("mcp-fixture", "stdio"), "fallen": server("mcp-liar", "crash-start"), "spare": off }),
    )
}

#[test]
fn servers_are_listed_with_how_they_are() {
    let home = three();
    let state = |list: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(|server| (text(&server["name"]), text(&server["state"]))).collect()
    };
    let named = |states: [&str; 3]| -> Vec<(String, String)> {
        let pairs = ["fallen", "fixture", "spare"].iter().zip(states);
        pairs.map(|(name, state)| ((*name).to_owned(), state.to_owned())).collect()
    };
    let (code, cold) = home.json(&["mcp", "list", "--cached", "--json"]);
    assert_eq!((code, state(&cold)), (0, named(["unknown", "unknown", "off"])));
    let (code, asked) = home.json(&["mcp", "list", "--json"]);
    assert_eq!((code, state(&asked)), (0, named(["down", "up", "off"])));
    let (fallen, fixture) = (&asked[0], &asked[1]);
    let why = fallen["lastError"].as_str().unwrap();
    assert!(why.contains("exit status: 7") && why.contains("something terrible happened at line 42"), "{why}");
    assert_eq!((&fixture["transport"], &fixture["server"]["name"]), (&json!("stdio"), &json!("mcp-fixture")));
    assert!(fixture["tools"].as_u64().unwrap() > 30 && fixture["connectMs"].as_f64().unwrap() > 0.0, "{fixture}");
    // What was heard is kept.
    let (_, cached) = home.json(&["mcp", "list", "--cached", "--json"]);
    assert_eq!(state(&cached), named(["down", "cold", "off"]));
    assert_eq!(cached[1]["tools"], fixture["tools"]);
    let (code, out, err) = home.run(&["mcp", "list"]);
    assert_eq!(code, 0);
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATE", "TRANSPORT", "TOOLS", "LATENCY"]);
    assert_eq!(rows[1], ["fallen", "down", "stdio", "?"]);
    assert_eq!(rows[2][..3], ["fixture", "up", "stdio"]);
    assert_eq!(rows[3], ["spare", "off"]);
    assert!(err.contains("fallen: it ended (exit status: 7)"), "{err}");
    let (code, out, _) = Home::with("{}").run(&["mcp", "list"]);
    assert!(code == 0 && out.contains("pincer mcp import"), "{out}");
}

#[test]
fn one_server_is_tried_step_by_step() {
    let home = three();
    let (code, out, err) = home.run(&["mcp", "test", "fixture"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains(" over stdio: mcp-fixture ") && out.contains(", and resources and prompts"), "{out}");
    assert!(out.contains("\n  test_simple_text  Returns a line of text\n"), "{out}");
    for (name, code, says) in [
        ("fallen", 1, "error: the MCP server fallen ended (exit status: 7)"),
        ("spare", 2, "set mcp.servers.spare.enabled to true"),
        ("fixtur", 2, "did you mean fixture?"),
        ("nothing-like-it", 2, "there is no MCP server nothing-like-it; `pincer mcp list` shows them"),
    ] {
        let (was, out, err) = home.run(&["mcp", "test", name]);
        assert_eq!((was, out.as_str()), (code, ""), "{name}: {err}");
        assert!(err.contains(says), "{name}: {err}");
    }
    let (code, tried) = home.json(&["mcp", "test", "fallen", "--json"]);
    assert_eq!((code, &tried["works"], &tried["state"]), (1, &json!(false), &json!("down")));
    assert!(tried["error"].as_str().unwrap().starts_with("the MCP server fallen ended"), "{tried}");
    let (code, tried) = home.json(&["mcp", "test", "fixture", "--json"]);
    assert_eq!((code, &tried["works"]), (0, &json!(true)));
}

#[test]
fn savings_compare_all_tools_with_two() {
    let home = three();
    let (code, saved) = home.json(&["mcp", "savings", "--json"]);
    assert_eq!((code, &saved["pincer"]["tools"], &saved["down"]), (0, &json!(2), &json!(["fallen"])));
    assert_eq!(saved["servers"]["fixture"], saved["direct"]);
    assert!(saved["direct"]["tokens"].as_u64().unwrap() > 500, "{saved}");
    assert!(saved["servers"].get("spare").is_none() && saved["tokenizer"] == "o200k_base", "{saved}");
    let (code, out, err) = home.run(&["mcp", "savings"]);
    assert!(code == 0 && out.contains("with Pincer") && err.contains("pincer mcp test fallen"), "{out}{err}");
}

#[test]
fn who_cannot_be_logged_in_to_is_told_why() {
    let home = home(json!({ "fixture": server("mcp-fixture", "stdio"), "far": { "url": "http://127.0.0.1:9/mcp" } }));
    for (arguments, code, says) in [
        (["mcp", "login", "fixture"], 2, "the MCP server fixture is a program: it needs no login here"),
        (["mcp", "logout", "fixture"], 2, "is a program"),
        (["mcp", "login", "fixtrue"], 2, "did you mean fixture?"),
        (["mcp", "login", "far"], 1, "error: "),
    ] {
        let (was, out, err) = home.run(&arguments);
        assert_eq!((was, out.as_str()), (code, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    let (code, forgot) = home.json(&["mcp", "logout", "far", "--json"]);
    assert_eq!((code, &forgot["wasLoggedIn"]), (0, &json!(false)));
}

#[test]
fn tools_of_servers_are_tools() {
    let home = three();
    let call = |arguments: &[&str]| home.run(&[&["tools", "call"], arguments].concat());
    let (code, out, err) = call(&["mcp:fixture:test_simple_text", "--json"]);
    assert!(code == 0 && out.contains("This is a simple text response"), "{out}{err}");
    let (code, out, err) = call(&["mcp:fixture:test_structured", "{\"nme\": \"x\"}"]);
    assert!(code == 2 && out.is_empty() && err.contains("name"), "{out}{err}");
    let (code, _, err) = call(&["mcp:fixture:test_simple_txt"]);
    assert!(code == 2 && err.contains("test_simple_text"), "{err}");
    let (_, listed) = home.json(&["tools", "list", "--json"]);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"mcp:fixture:test_simple_text") && ids.contains(&"openclaw:core:read"), "{ids:?}");
    let (code, described) = home.json(&["tools", "describe", "mcp:fixture:test_structured", "--json"]);
    assert_eq!((code, &described["inputSchema"]["required"]), (0, &json!(["name"])));
}

#[test]
fn programs_call_servers_and_are_told_of_those_that_are_down() {
    let home = three();
    let run = |code: &str| home.json(&["exec", "--json", "-e", code]);
    let (code, done) = run("return unwrap(await MCP.fixture.testStructured({ name: 'x', count: 2 }))");
    assert_eq!((code, &done["value"]), (0, &json!({ "name": "x", "count": 2 })), "{done}");
    let (code, done) = run("return [Object.keys(MCP), await API.list('mcp')]");
    assert_eq!((code, &done["value"][0]), (0, &json!(["$api", "fallen", "fixture"])), "{done}");
    let (code, failed) = run("return await MCP.fallen.echo({})");
    assert_eq!(code, 1);
    assert!(failed["error"].as_str().unwrap().contains("exit status: 7"), "{failed}");
    // A program that waits goes on in another process, with a server of its own.
    let (code, waiting) = run("await yield_control(); return (await MCP.fixture.testSimpleText({})).content[0].type");
    assert_eq!(code, 3);
    let (code, done) = home.json(&["wait", "--json", waiting["runId"].as_str().unwrap()]);
    assert_eq!((code, &done["value"]), (0, &json!("text")));
}

#[test]
fn a_server_that_never_answers_delays_nobody_who_does_not_need_it() {
    let mut silent = server("mcp-liar", "silent-init");
    silent["connectTimeoutMs"] = 300_000.into();
    let home = home(json!({ "fixture": server("mcp-fixture", "stdio"), "silent": silent }));
    let began = Instant::now();
    for code in ["return (await MCP.fixture.testSimpleText({})).content[0].type", "return 'text'"] {
        let (exit, done) = home.json(&["exec", "--json", "-e", code]);
        assert_eq!((exit, &done["value"]), (0, &json!("text")), "{code}: {done}");
    }
    for command in ["call", "describe"] {
        let (code, out, err) = home.run(&["tools", command, "mcp:fixture:test_simple_text"]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
    }
    let (code, listed) = home.json(&["tools", "list", "--json"]);
    assert!(code == 0 && listed.as_array().unwrap().iter().any(|tool| tool["id"] == "mcp:fixture:test_simple_text"));
    // Far from what the silent one may take.
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
}
