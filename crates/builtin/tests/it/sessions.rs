//! The tools about sessions tell what the store has.

use std::sync::Arc;

use crate::common::house;
use pincer_store::{
    Approvals, Claim, Cover, Journal, NewApproval, NewCall, NewRun, OwnerId, Permission, Repeat, RunEnd, RunId,
    RunState, Runs, Safety,
};
use serde_json::json;

#[tokio::test]
async fn status_list_and_history_are_what_the_store_has() {
    let house = house();
    let store = &house.store;
    let run = |id: &str, session: &str, user: &str, created_at| {
        let (id, session, user) = (id.into(), session.into(), user.into());
        let run = NewRun { id, session, user, agent_run: None, created_at, key: None, tools: None, recorded: None };
        let claim = Claim { owner: "p".into(), safety: Safety::Process };
        store.create_run(run, claim, None, Safety::Process).wait().unwrap()
    };
    let fence = run("cm_1", "main", "", 1_000);
    let (id, owner) = (RunId::from("cm_1"), OwnerId::from("p"));
    let input = json!({ "path": "a", "apiKey": "s3cret" }).to_string();
    let safety = Safety::Process;
    for (seq, input) in [input, "{}".into(), "{}".into()].into_iter().enumerate() {
        let (tool, repeat, cover) = ("openclaw:core:read".into(), Repeat::Pure, Cover::None);
        let call = NewCall {
            seq: seq as u32,
            tool,
            input: input.into(),
            repeat,
            cover,
            permission: Permission::Free,
            line: None,
            at: 0,
        };
        store.dispatch(&id, fence, &owner, call, safety).await.unwrap();
    }
    store.settle(&id, &owner, 0, Arc::new("{\"ok\": 1}".into()), 1, safety).await.unwrap();
    store.settle(&id, &owner, 1, Arc::new("{\"error\": {}}".into()), 1, safety).await.unwrap();
    store.finish_run(&id, fence, RunEnd::new(RunState::Completed, "{}"), 1, safety).await.unwrap();
    run("cm_2", "main", "", 2_000);
    run("cm_3", "other", "", 3_000);
    run("cm_4", "main", "another", 4_000);
    let question = |id: &str, session: &str| NewApproval {
        id: id.into(),
        run: None,
        session: session.into(),
        user: Some(String::new()),
        tool: "t".into(),
        seq: None,
        digest: b"d".into(),
        fingerprint: None,
        request: "{}".into(),
        created_at: 0,
        expires_at: None,
    };
    store.ask(question("ap_mine", "main")).await.unwrap();
    store.ask(question("ap_theirs", "other")).await.unwrap();

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
