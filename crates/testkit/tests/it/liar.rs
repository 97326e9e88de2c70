//! That each mode does the wrong thing it is there for.

use crate::common::{Server, post, text};
use pincer_testkit::liar::{Act, Liar, MODES, Mode, catalog_tools};
use serde_json::{Value, json};

const LIAR: &str = env!("CARGO_BIN_EXE_mcp-liar");

fn connected(mode: &str) -> Server {
    Server::connected(LIAR, &[mode], json!({}))
}

#[test]
fn other_crates_find_the_binaries() {
    assert_eq!(pincer_testkit::program("mcp-liar").unwrap(), std::path::Path::new(LIAR));
    assert!(pincer_testkit::program("mcp-nobody").is_err());
}

/// Names of all tools, by at most `pages` pages.
fn names(mode: Mode, pages: usize) -> Vec<Value> {
    let mut liar = Liar::new(mode);
    let (mut names, mut cursor) = (Vec::new(), None);
    for _ in 0..pages {
        let params = cursor.map_or(json!({}), |cursor: Value| json!({ "cursor": cursor }));
        let acts = liar.on(&json!({ "id": 1, "method": "tools/list", "params": params }));
        let page = acts.iter().find_map(|act| if let Act::Say(said) = act { Some(said) } else { None });
        let page = page.filter(|page| page["id"] == 1).expect("an answer");
        names.extend(page["result"]["tools"].as_array().expect("a list").iter().map(|tool| tool["name"].clone()));
        match page["result"].get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    names
}

#[test]
fn every_mode_has_one_name_and_lists_tools() {
    for (name, mode) in MODES {
        assert_eq!(Mode::named(name), Some(mode));
        if mode != Mode::FlakyList {
            assert!(!names(mode, 1).is_empty(), "{name}");
        }
    }
}

#[test]
fn lists_are_as_long_as_promised() {
    assert_eq!(names(Mode::Many, 1000).len(), 5000);
    assert_eq!(names(Mode::Duplicates, 10).iter().filter(|name| **name == "twin").count(), 20);
    let mut awkward: Vec<String> =
        names(Mode::Names, 1).iter().map(|name| name.as_str().expect("a string").to_owned()).collect();
    let all = awkward.len();
    awkward.sort();
    awkward.dedup();
    assert_eq!(awkward.len(), all, "no name is there twice");
}

#[test]
fn a_swap_is_told_and_takes_the_old_tool_away() {
    let mut server = connected("changing");
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "swap" } }));
    server.until(|message| message["method"] == "notifications/tools/list_changed");
    assert_eq!(server.call(2, "old", json!({}))["error"]["code"], -32602);
    assert!(text(&server.call(3, "new", json!({}))).contains("new"));
}

#[test]
fn broken_json_is_only_one_line() {
    let mut server = connected("invalid-json");
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "broken" } }));
    assert!(serde_json::from_str::<Value>(&server.line()).is_err());
    assert!(text(&server.call(2, "fine", json!({}))).contains("fine"));
}

#[test]
fn a_crash_has_a_code_and_last_words() {
    let mut server = connected("crash");
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "echo" } }));
    for server in [server, Server::start(LIAR, &["crash-start"])] {
        let (status, said) = server.end();
        assert_eq!(status.code(), Some(7));
        assert!(said.contains("something terrible"), "{said}");
    }
}

#[test]
fn noise_is_around_the_messages() {
    let mut server = connected("noise");
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    assert!(server.line().starts_with('['));
    server.until(|message| message["id"] == 1);
}

#[test]
fn questions_go_to_the_client_and_back() {
    for mode in ["elicit", "sample"] {
        let mut server = connected(mode);
        server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "echo" } }));
        let question = server.until(|message| message["method"].is_string());
        server.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "said": mode } }));
        assert_eq!(text(&server.until(|message| message["id"] == 1)), json!({ "said": mode }).to_string());
    }
}

#[test]
fn floods_are_numbered_and_end_with_the_answer() {
    let mut server = connected("flood");
    let params = json!({ "name": "progress", "arguments": { "count": 3 }, "_meta": { "progressToken": 5 } });
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
    for number in 0..3 {
        let told: Value = serde_json::from_str(&server.line()).expect("a message");
        assert_eq!((&told["params"]["progress"], &told["params"]["progressToken"]), (&json!(number), &json!(5)));
    }
    server.until(|message| message["id"] == 1);
    for name in ["log", "changed", "updated"] {
        server.send(&json!({ "jsonrpc": "2.0", "id": name, "method": "tools/call", "params": { "name": name, "arguments": { "count": 1 } } }));
        server.until(|message| message["method"].as_str().is_some_and(|method| method.starts_with("notifications/")));
        server.until(|message| message["id"] == name);
    }
}

#[test]
fn lists_without_end_and_measure_are_that() {
    assert_eq!(names(Mode::Endless, 1000).len(), 1000);
    assert_eq!(names(Mode::Fat, 1000).len(), 502);
    let acts = Liar::new(Mode::Restless).on(&json!({ "id": 1, "method": "tools/list" }));
    assert!(matches!(&acts[..], [Act::Say(_), Act::Say(told)] if told["method"] == "notifications/tools/list_changed"));
    let acts = Liar::new(Mode::Deaf).on(&json!({ "id": 1, "method": "tools/call", "params": { "name": "echo" } }));
    assert_eq!(acts, [Act::Wait(std::time::Duration::MAX)]);
}

#[test]
fn a_list_that_failed_works_the_second_time() {
    let mut server = connected("flaky-list");
    assert!(server.ask(1, "tools/list", json!({}))["error"].is_object());
    assert!(server.ask(2, "tools/list", json!({}))["result"]["tools"].is_array());
}

#[test]
fn http_statuses_come_in_the_promised_order() {
    let request = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "name": "echo" } });
    let cases: [(&str, &[(&str, &str)]); 5] = [
        ("rate", &[("tools/list", "200"), ("tools/call", "429"), ("tools/call", "429"), ("tools/call", "200")]),
        ("expired", &[("initialize", "200"), ("tools/list", "200"), ("tools/call", "401")]),
        ("unauthorized", &[("initialize", "401")]),
        ("redirect", &[("initialize", "307")]),
        ("error500", &[("initialize", "500")]),
    ];
    for (mode, steps) in cases {
        let server = Server::start(LIAR, &[mode, "http", "127.0.0.1:0"]);
        let address = server.line();
        for (method, status) in steps {
            let answer = post(&address, "Host: 127.0.0.1\r\n", &request(method));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{mode} {method}: {answer}");
        }
    }
}

#[test]
fn several_messages_are_events_over_http() {
    let server = Server::start(LIAR, &["wrong-ids", "http", "127.0.0.1:0"]);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "echo" } });
    let answer = post(&server.line(), "Host: 127.0.0.1\r\n", &call);
    assert_eq!(answer.matches("data: ").count(), 7, "{answer}");
}

#[test]
fn a_catalog_is_listed_by_server_whatever_its_schemas_are_called() {
    let lines = r#"
        {"server":"a","name":"one","description":"the first","schema":{"type":"object","title":"x"}}
        {"server":"b","name":"two","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}
        {"name":"three","parameters":{"properties":{}},"annotations":{"readOnlyHint":true}}"#;
    let tools = |server| catalog_tools(lines, server).unwrap();
    let one = json!({ "name": "one", "description": "the first", "inputSchema": { "type": "object", "title": "x" } });
    assert_eq!(tools(Some("a")), [one]);
    assert_eq!(tools(Some("b"))[0]["outputSchema"], json!({ "type": "object" }));
    assert_eq!(tools(Some(""))[0]["inputSchema"], json!({ "properties": {} }));
    assert_eq!(tools(None).len(), 3);
    assert!(catalog_tools("[]", None).is_err());
}

#[test]
fn a_catalog_is_served_in_pages() {
    let file = std::env::temp_dir().join(format!("pincer-catalog-{}.jsonl", std::process::id()));
    std::fs::write(&file, (0..501).map(|n| format!("{{\"name\":\"t{n}\"}}\n")).collect::<String>()).unwrap();
    let mut server = Server::connected(LIAR, &["catalog", file.to_str().unwrap()], json!({}));
    let first = server.ask(2, "tools/list", json!({}));
    let last = server.ask(3, "tools/list", json!({ "cursor": first["result"]["nextCursor"] }));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 500);
    assert_eq!(last["result"]["tools"], json!([{ "name": "t500", "inputSchema": { "type": "object" } }]));
    assert_eq!(last["result"].get("nextCursor"), None);
}
