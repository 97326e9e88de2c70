//! What must hold when a run has come to its end, whatever died on the way.

use std::collections::BTreeMap;

use pincer_agent::{RunOutcome, Status};
use pincer_sessions::Message;
use pincer_store::{AgentRunState, AgentRuns, Deliveries, EntryKind, EntryPage, Runs, Sessions};
use pincer_store_sqlite::SqliteStore;
use serde_json::Value;

use crate::child::{EFFECTS, KEY, OUTCOME, USER};
use crate::parent::Place;
use crate::scenes::Scene;

/// Fails if something does not hold.
pub(crate) fn check(scene: &Scene, place: &Place, case: &str) {
    let case = format!("{}, {case}", scene.name);
    let text = std::fs::read_to_string(place.file(OUTCOME)).expect("an outcome");
    let outcome: RunOutcome = serde_json::from_str(&text).expect("an outcome");
    assert_eq!((outcome.status, outcome.text()), (Status::Ok, "Done.".to_owned()), "{case}: {outcome:?}");

    let mut effects: BTreeMap<u32, u32> = BTreeMap::new();
    for line in std::fs::read_to_string(place.file(EFFECTS)).unwrap_or_default().lines() {
        *effects.entry(line.parse().expect("a number")).or_default() += 1;
    }
    let store = SqliteStore::open(&place.file("state").join("pincer.db")).expect("a store");
    let session = store.current_session(USER, &KEY.into()).wait().expect("read").expect("a session");
    let entries = store.entries(&session.id, EntryPage { after: 0, limit: 10_000 }).wait().expect("read");

    // Each effect once. One that is missing must have been told as uncertain.
    let told: String =
        entries.iter().filter(|entry| entry.kind == EntryKind::Message).map(|entry| entry.body.clone()).collect();
    let uncertain = told.matches("may or may not have run").count() as u32;
    assert!(effects.values().all(|count| *count == 1), "{case}: {effects:?}");
    let missing = scene.effects - effects.len() as u32;
    assert!(missing <= uncertain, "{case}: {missing} effects are missing, and {uncertain} were told as uncertain");

    // One message of the user, every call with one result, and a text at the end.
    let messages: Vec<Message> = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Message)
        .map(|entry| Message::parse(&entry.body).expect("a message"))
        .collect();
    let mut open: BTreeMap<String, u32> = BTreeMap::new();
    for message in &messages {
        for block in message.content.iter().filter(|block| block.kind == "toolCall") {
            open.insert(block.id.clone().expect("an id"), 0);
        }
        if let Some(call) = &message.tool_call_id {
            *open.get_mut(call).unwrap_or_else(|| panic!("{case}: a result without a call")) += 1;
        }
    }
    assert!(open.values().all(|results| *results == 1), "{case}: {open:?}");
    let users = messages.iter().filter(|message| message.role == pincer_sessions::Role::User).count();
    assert_eq!(users, 1, "{case}");

    // A compaction is stored as a whole or not at all.
    let compactions = entries.iter().filter(|entry| entry.kind == EntryKind::Compaction).count();
    assert_eq!(session.totals.compactions, compactions as i64, "{case}");
    assert_eq!(compactions, scene.compactions, "{case}");

    // Nothing is left open.
    let run = store.agent_run_with_key(USER, &KEY.into(), "the-one").wait().expect("read").expect("a run");
    assert_eq!((run.state, session.active, session.owner), (AgentRunState::Done, None, None), "{case}");
    assert!(store.runs_of_agent(&run.id).wait().expect("read").is_empty(), "{case}: programs are left");

    // The answer is to be sent where the message came from, once.
    let deliveries = store.deliveries_of_run(&run.id).wait().expect("read");
    let texts: Vec<&str> = deliveries.iter().map(|delivery| delivery.text.as_str()).collect();
    assert_eq!(texts, ["Done."], "{case}");

    // Stored events follow each other without a gap, and the last one is the end.
    let mut next = 1;
    let mut last = String::new();
    for entry in &entries {
        let events: Vec<Value> =
            entry.events.as_deref().map(|text| serde_json::from_str(text).expect("events")).unwrap_or_default();
        for event in events {
            let (from, seq) =
                (event["from"].as_u64().unwrap_or(event["seq"].as_u64().expect("a number")), event["seq"].as_u64());
            assert_eq!(from, next, "{case}: {event}");
            next = seq.expect("a number") + 1;
            last = event["data"]["phase"].as_str().unwrap_or_default().to_owned();
        }
    }
    assert_eq!((last.as_str(), next), ("end", u64::from(run.last_event) + 1), "{case}");
    assert_eq!(place.server.complaints(), Vec::<String>::new(), "{case}");
}
