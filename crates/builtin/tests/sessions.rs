//! The tools about sessions tell what the store has.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::house;
use pincer_store::{
    Approvals, Claim, Cover, Journal, NewApproval, NewCall, NewRun, Permission, Repeat, RunState, Runs, Safety,
};
use serde_json::json;

#[tokio::test]
async fn status_list_and_history_are_what_the_store_has() {
    let house = house();
    let store = &house.store;
    let run = |id, session, created_at| {
        let run = NewRun { id, session, caller: "", agent_run: None, created_at, key: None, tools: None };
        let claim = Claim { owner: "p", safety: Safety::Process };
        store.create_run(&run, claim, None, Safety::Process.into()).unwrap()
    };
    let fence = run("cm_1", "main", 1_000);
    let input = json!({ "path": "a", "apiKey": "s3cret" }).to_string();
    let commit = Safety::Process.into();
    for (seq, input) in [input.as_str(), "{}", "{}"].into_iter().enumerate() {
        let (tool, repeat, cover) = ("openclaw:core:read", Repeat::Pure, Cover::None);
        let call = NewCall { seq: seq as u32, tool, input, repeat, cover, permission: Permission::Free };
        store.dispatch("cm_1", fence, "p", &call, commit).unwrap();
    }
    store.settle("cm_1", "p", 0, "{\"ok\": 1}", 1, commit).unwrap();
    store.settle("cm_1", "p", 1, "{\"error\": {}}", 1, commit).unwrap();
    store.finish_run("cm_1", fence, RunState::Completed, "{}", 1, commit).unwrap();
    run("cm_2", "main", 2_000);
    run("cm_3", "other", 3_000);
    let theirs = NewRun {
        id: "cm_4",
        session: "main",
        caller: "another",
        agent_run: None,
        created_at: 4_000,
        key: None,
        tools: None,
    };
    store.create_run(&theirs, Claim { owner: "p", safety: Safety::Process }, None, commit).unwrap();
    let question = |id, session| NewApproval {
        id,
        run: None,
        session,
        user: Some(""),
        tool: "t",
        seq: None,
        digest: b"d",
        fingerprint: None,
        request: "{}",
        created_at: 0,
        expires_at: None,
    };
    store.ask(&question("ap_mine", "main")).unwrap();
    store.ask(&question("ap_theirs", "other")).unwrap();

    let status = house.ok("session_status", json!({})).await;
    assert_eq!((&status["session"], &status["runs"]), (&json!("main"), &json!({ "completed": 1, "running": 1 })));
    assert_eq!(status["openQuestions"], json!(["ap_mine"]));
    assert!(
        status["now"].as_str().unwrap().ends_with('Z') && status["workspace"].as_str().unwrap().ends_with("workspace")
    );

    let listed = house.ok("sessions_list", json!({ "limit": 1 })).await;
    let other = json!({ "session": "other", "runs": 1, "waiting": 1, "lastActive": "1970-01-01T00:00:03Z" });
    assert_eq!(listed, json!({ "sessions": [other], "total": 2 }));

    let history = house.ok("sessions_history", json!({})).await;
    assert_eq!(
        (&history["session"], &history["runs"][0]["runId"]),
        (&json!("main"), &json!("cm_2")),
        "the latest first"
    );
    let calls = &history["runs"][1]["calls"];
    assert_eq!(
        calls[0],
        json!({ "tool": "openclaw:core:read", "input": { "path": "a", "apiKey": "[redacted]" }, "succeeded": true })
    );
    assert_eq!((&calls[1]["succeeded"], calls[2].get("succeeded")), (&json!(false), None));
    assert_eq!(house.ok("sessions_history", json!({ "session": "other" })).await["runs"].as_array().unwrap().len(), 1);
}
