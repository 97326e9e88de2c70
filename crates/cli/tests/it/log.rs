//! The log: spans with their ids, as text and as JSON, and nothing of it unless it is asked for.

use crate::common::Home;
use serde_json::Value;

const PROGRAM: &str = "await tools.write({ path: 'a.txt', content: 'hush' }); return 1";

#[test]
fn spans_tell_what_took_how_long_and_carry_ids() {
    let home = Home::with("{}");
    let (code, _, log) = home.run(&["exec", "--log", "debug", "-e", PROGRAM]);
    assert_eq!(code, 0, "{log}");
    for span in [
        "run{run=cm_",
        "cell_turn",
        "call{call=",
        "tool=openclaw:core:write",
        "store_commit{synced=false}",
        "time.busy=",
    ] {
        assert!(log.contains(span), "{span} is not in:\n{log}");
    }
    assert!(!log.contains("hush"), "an input is in the log:\n{log}");
    let (_, _, quiet) = home.run(&["exec", "-e", PROGRAM]);
    assert_eq!(quiet, "");
}

#[test]
fn a_log_of_json_has_an_object_per_line() {
    let home = Home::with("{}");
    let (code, _, log) = home.run(&["exec", "--log", "warn,pincer_tools=debug", "--log-format", "json", "-e", PROGRAM]);
    assert_eq!(code, 0, "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let call = lines.iter().find(|line| line["span"]["name"] == "call").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&call["span"]["tool"], &call["target"]), (&"openclaw:core:write".into(), &"pincer_tools::door".into()));
    assert!(call["span"]["run"].as_str().is_some_and(|run| run.starts_with("cm_")), "{call}");
    assert!(lines.iter().all(|line| line["target"] == "pincer_tools::door"), "only that part was asked for: {log}");
}

#[test]
fn a_name_cannot_forge_a_line() {
    let home = Home::with("{}");
    let (_, _, log) = home.run(&["tools", "call", "x\n2026-01-01T00:00:00Z ERROR forged", "{}", "--log", "debug"]);
    let call = log.lines().find(|line| line.contains("call{call=")).unwrap_or_else(|| panic!("{log}"));
    assert!(call.contains(r"tool=x\n2026-01-01T00:00:00Z ERROR forged"), "{call}");
}

#[test]
fn a_wrong_filter_is_wrong_usage() {
    let home = Home::with("{}");
    let (code, _, log) = home.run(&["exec", "--log", "verbose", "-e", "1"]);
    assert_eq!(code, 2);
    assert!(log.contains("`verbose` is no level: use off, error, warn"), "{log}");
}
