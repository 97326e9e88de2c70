//! `pincer sessions import` beside other processes, and what the next message finds.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use pincer_store::{Attach, EntryKind, Leases, NewEntry, NewSession, Safety, SessionCommit, Sessions};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use serde_json::{Value, json};

use crate::common::Home;

const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-02T03:04:05.006Z","cwd":"/w"}"#;
const MESSAGE: &str = r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"needle"}}"#;

/// The store of a home, as another process has it.
fn other(home: &Home) -> (SqliteStore, FileLeases) {
    let state = home.path(".state/pincer");
    (SqliteStore::open(&state.join("pincer.db")).unwrap(), FileLeases::new(state.join("owners")))
}

/// Returns the user whose sessions the commands show.
fn user(home: &Home) -> String {
    fs::write(home.path("first.jsonl"), format!("{HEADER}\n{MESSAGE}\n")).unwrap();
    let (code, made) = home.json(&["sessions", "import", "first.jsonl", "first", "--json"]);
    assert_eq!(code, 0, "{made}");
    made["user"].as_str().unwrap().to_owned()
}

fn entries() -> SessionCommit {
    let entry = NewEntry {
        id: "e".into(),
        attach: Attach::Leaf,
        kind: EntryKind::Message,
        run: None,
        call: None,
        body: r#"{"message":{"role":"user","content":"half"}}"#.into(),
        events: None,
        at: 1,
    };
    SessionCommit { entries: vec![entry], now: 1, ..SessionCommit::default() }
}

#[test]
fn what_a_dead_import_left_is_shown_by_no_command_and_removed_by_the_next() {
    let home = Home::with("{}");
    let user = user(&home);
    let (store, leases) = other(&home);
    let owner = leases.hold().wait().unwrap();
    let new = NewSession {
        id: "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".into(),
        user,
        key: "trip".into(),
        agent: None,
        label: None,
        parent: None,
        created_at: 1,
    };
    let draft = store.draft_session(new, &owner).wait().unwrap();
    store.commit_session(&draft.id, draft.fence, entries(), Safety::Process).wait().unwrap();
    let keys = || {
        let (_, listed) = home.json(&["sessions", "list", "--all", "--json"]);
        listed.as_array().unwrap().iter().map(|session| session["key"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(keys(), ["first"]);
    assert_eq!(home.run(&["sessions", "show", draft.id.as_str(), "--id"]).0, 2);
    assert_eq!(home.json(&["sessions", "search", "half", "--json"]).1, json!([]));
    // While its process lives, another import leaves it alone.
    assert_eq!(home.run(&["sessions", "import", "first.jsonl", "second"]).0, 0);
    assert_eq!(store.drafts().wait().unwrap().len(), 1);
    leases.release();
    let (code, out, err) = home.run(&["sessions", "import", "first.jsonl", "trip"]);
    assert_eq!((code, out.as_str()), (0, "imported first.jsonl as trip with 1 entry\n"), "{err}");
    assert_eq!(store.drafts().wait().unwrap(), []);
    assert_eq!(keys(), ["trip", "second", "first"]);
}

#[test]
fn a_deletion_waits_for_another_writer_as_long_as_the_config_says() {
    let home = Home::with("{ session: { writeLock: { acquireTimeoutMs: 70 } } }");
    let user = user(&home);
    let (store, leases) = other(&home);
    let owner = leases.hold().wait().unwrap();
    let session = store.current_session(&user, &"first".into()).wait().unwrap().unwrap();
    let taken = store.claim_session(&session.id, session.fence, &owner, SessionCommit::default()).wait();
    let (code, _, err) = home.run(&["sessions", "delete", "first", "--yes"]);
    assert!(code == 1 && err.contains("was not free within 70 ms"), "{code} {err}");
    assert!(store.commit_session(&session.id, taken.unwrap(), entries(), Safety::Process).wait().is_ok());
    leases.release();
    assert_eq!(home.run(&["sessions", "delete", "first", "--yes"]).0, 0);
}

#[test]
fn an_imported_session_begins_when_it_is_imported() {
    let home = Home::with("{}");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    for (key, year) in [("old", "1999"), ("future", "2999")] {
        let text = format!("{HEADER}\n{MESSAGE}\n").replace("2026-", &format!("{year}-"));
        let text = text
            .replace("\"parentId\":null", &format!("\"parentId\":null,\"timestamp\":\"{year}-01-02T03:04:05.006Z\""));
        fs::write(home.path("a.jsonl"), text).unwrap();
        let before = now();
        let (code, made) = home.json(&["sessions", "import", "a.jsonl", key, "--json"]);
        assert_eq!(code, 0, "{made}");
        for time in ["createdAt", "interactedAt", "updatedAt"] {
            // The clock of the store is not the one of this process.
            let off = made[time].as_i64().unwrap() - before;
            assert!(off.abs() < 3_600_000, "{key}: {time} is {off} ms off");
        }
        let (_, lines, _) = home.run(&["sessions", "export", key]);
        assert!(lines.lines().nth(1).unwrap().contains(&format!("\"timestamp\":\"{year}-")), "{lines}");
    }
}
