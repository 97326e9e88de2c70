use pincer_store::{Attach, EntryKind, NewEntry};
use serde_json::json;

use super::*;
use crate::record::CallResult;
use crate::surface::Meaning;

fn weight(tokens: u64) -> Weight {
    Weight { bytes: 4 * tokens, tokens }
}

/// A surface of this name whose requests carry so many tokens, and would carry so many directly.
fn exposed(surface: &str, sent: u64, direct: u64) -> Exposed {
    Exposed {
        surface: surface.into(),
        tools: weight(sent),
        direct: weight(direct),
        catalog_size: 9,
        schemas_shown: 3,
        ..Exposed::default()
    }
}

fn child(tool: &str, error: Option<&str>) -> NewEntry {
    let body = json!({ "program": "p", "seq": 0, "tool": tool, "input": {}, "error": error }).to_string();
    NewEntry {
        id: "e".into(),
        attach: Attach::Beside(1),
        kind: EntryKind::NestedCall,
        run: None,
        call: None,
        at: 0,
        body: body.into(),
        events: None,
    }
}

#[test]
fn each_request_counts_with_its_tools_and_a_cache_holds_no_more_than_was_sent() {
    let mut used = ToolUse::default();
    let (searching, direct) = (exposed("tools", 100, 900), exposed("direct", 900, 900));
    used.answered(&searching, Weight::default(), Answer::Other, 0);
    used.answered(&searching, weight(10), Answer::Other, 5000);
    used.answered_without_tools(&[(weight(40), 0)]);
    let told = used.telemetry(None).expect("telemetry");
    assert_eq!((told.requests, told.sent, told.direct_sent), (3, weight(250), weight(1850)));
    assert_eq!((told.saved, told.cached_tokens), (Saved { bytes: 6400, tokens: 1600 }, 110));
    assert_eq!((told.tools, told.direct, told.surface.as_str()), (weight(100), weight(900), "tools"));
    // The next worker counts on from what is stored, with another config.
    let mut used: ToolUse = serde_json::from_str(&serde_json::to_string(&used).expect("JSON")).expect("the same");
    used.answered(&direct, Weight::default(), Answer::Other, 0);
    let told = used.telemetry(Some(&direct)).expect("telemetry");
    assert_eq!((told.requests, told.surface.as_str(), told.tools), (4, "mixed", weight(100)));
    assert_eq!(told.saved.tokens, 1600, "direct exposure saves nothing");
}

#[test]
fn a_request_for_nothing_but_lookups_is_none_of_direct_exposure() {
    let mut used = ToolUse::default();
    let searching = exposed("tools", 100, 900);
    used.answered(&searching, Weight::default(), Answer::Lookups, 0);
    let found = CallResult::text("x".repeat(40));
    for meaning in [Meaning::Search, Meaning::Describe] {
        used.settled(&SettledCall { meaning: Some(&meaning), result: &found, children: &[], is_made: false });
    }
    used.answered(&searching, Weight::default(), Answer::Other, 0);
    let told = used.telemetry(None).expect("telemetry");
    assert_eq!((told.requests, told.lookup_requests, told.lookups), (2, 1, Weight { bytes: 80, tokens: 20 }));
    assert_eq!((told.sent, told.direct_sent, told.saved.tokens), (weight(200), weight(900), 700));
}

#[test]
fn a_run_that_no_model_has_answered_tells_what_its_requests_would_carry() {
    let used = ToolUse::default();
    assert_eq!(used.telemetry(None), None);
    let told = used.telemetry(Some(&exposed("tools", 100, 900))).expect("telemetry");
    assert_eq!((told.requests, told.sent, told.saved, told.tools), (0, weight(0), Saved::default(), weight(100)));
}

#[test]
fn calls_count_by_the_tool_that_they_reach_and_once() {
    let tool = Meaning::Tool { id: "mcp:a:b".into(), flags: Default::default() };
    let (ok, error) = (CallResult::text("1"), CallResult::error("no"));
    let program = |status: &str| CallResult {
        details: Some(
            json!({ "status": status, "telemetry": pincer_codemode::Telemetry { search_count: 2, describe_count: 1, ..Default::default() } }),
        ),
        ..CallResult::text("1")
    };
    let (waiting, ended) = (program("waiting"), program("completed"));
    let calls = [child("mcp:a:b", None), child("openclaw:core:ls", Some("denied"))];
    let mut used = ToolUse::default();
    for (meaning, result, children, is_made) in [
        (Some(&tool), &ok, &calls[..0], true),
        (Some(&tool), &error, &calls[..0], true),
        // Something was told in place of a call.
        (Some(&tool), &error, &calls[..0], false),
        (Some(&Meaning::Search), &ok, &calls[..0], false),
        (Some(&Meaning::Search), &error, &calls[..0], false),
        (Some(&Meaning::Describe), &ok, &calls[..0], false),
        // The call of `tool_call` is the one in its entry.
        (Some(&Meaning::Call), &ok, &calls[..1], true),
        (Some(&Meaning::Exec), &waiting, &calls[..1], true),
        (Some(&Meaning::Wait), &ended, &calls[1..], true),
        (None, &error, &calls[..0], false),
    ] {
        used.settled(&SettledCall { meaning, result, children, is_made });
    }
    let told = used.telemetry(Some(&exposed("tools", 1, 1))).expect("telemetry");
    assert_eq!((told.search_count, told.describe_count, told.call_count, told.failed_count), (3, 2, 5, 2));
    let calls: Vec<_> =
        told.calls.iter().map(|call| (call.id.as_str(), call.source.as_str(), call.count, call.failed)).collect();
    assert_eq!(calls, [("mcp:a:b", "mcp", 4, 1), ("openclaw:core:ls", "openclaw", 1, 1)]);
}

#[test]
fn tools_without_end_are_counted_together() {
    let mut used = ToolUse::default();
    for number in 0..1000 {
        let children = [child(&format!("mcp:a:{number}"), Some("no"))];
        used.settled(&SettledCall {
            meaning: None,
            result: &CallResult::default(),
            children: &children,
            is_made: true,
        });
    }
    let told = used.telemetry(Some(&exposed("code", 1, 1))).expect("telemetry");
    assert_eq!((told.calls.len(), told.call_count, told.failed_count), (200, 1000, 1000));
    assert_eq!(told.in_event().calls.len(), MOST_IN_EVENT);
}

#[test]
fn sums_are_those_of_all_runs() {
    let run = |surface: &str, sent: u64, direct: u64, tool: &str| {
        let mut used = ToolUse::default();
        used.answered(&exposed(surface, sent, direct), Weight::default(), Answer::Other, 3);
        used.settled(&SettledCall {
            meaning: None,
            result: &CallResult::default(),
            children: &[child(tool, None)],
            is_made: true,
        });
        used.telemetry(None).expect("telemetry")
    };
    let mut sum = ToolTelemetry::default();
    sum.add(&run("tools", 100, 900, "mcp:a:b"));
    assert_eq!((sum.surface.as_str(), sum.saved.tokens), ("tools", 800));
    // Of few tools, the tools that search take more.
    sum.add(&run("code", 500, 100, "mcp:a:b"));
    sum.add(&run("direct", 200, 200, "mcp:a:c"));
    assert_eq!((sum.requests, sum.sent, sum.direct_sent), (3, weight(800), weight(1200)));
    assert_eq!((sum.saved, sum.cached_tokens), (Saved { bytes: 1600, tokens: 400 }, 9));
    assert_eq!((sum.surface.as_str(), sum.catalog_size, sum.schemas_shown, sum.call_count), ("mixed", 9, 3, 3));
    let called: Vec<_> = sum.most_called(1).into_iter().map(|call| (call.id, call.count)).collect();
    assert_eq!(called, [("mcp:a:b".to_owned(), 2)]);
}
