//! Feeds the renderer of questions with whatever the fuzzer thinks of, in every part that others write.
//!
//! However the parts look, a question is a line for each of them, nothing in it is hidden, and the last line is the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pincer_store::{Approval, ApprovalState};
use pincer_tools::{ApprovalRequest, is_hidden};
use serde_json::json;

fuzz_target!(|parts: (String, String, String, String, String)| {
    let (title, reason, key, tool, input) = parts;
    let request = json!({
        "demand": { "title": title, "description": reason }, "grants": [key], "line": 7, "input": { "command": input },
    });
    let approval = Approval {
        id: "ap_1".into(),
        run: None,
        session: "s".into(),
        user: None,
        tool,
        seq: None,
        digest: Vec::new(),
        fingerprint: None,
        request: request.to_string(),
        state: ApprovalState::Pending,
        decided_by: None,
        decided_at: None,
        created_at: 0,
        expires_at: None,
        is_used: false,
    };
    let text = ApprovalRequest::of(&approval).text();
    let lines: Vec<&str> = text.split('\n').collect();
    let is_always_shown = approval.tool != request["grants"][0];
    assert_eq!(lines.len(), if is_always_shown { 4 } else { 3 }, "{text}");
    assert!(lines[0].ends_with(" (line 7 of the program)") && lines[1].starts_with("  why: "), "{text}");
    assert!(!lines.concat().contains(is_hidden), "{text:?}");
    let last = lines[lines.len() - 1];
    assert!(last.contains(" {\"command\":\"") || last.contains("characters left out"), "{text}");
});
