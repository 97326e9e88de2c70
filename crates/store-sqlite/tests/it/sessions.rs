//! Sessions of a size that people reach in years.

use std::fs;
use std::path::Path;
use std::time::Instant;

use pincer_store::{NewEntry, SessionCommit, SessionPage};
use pincer_store_contract::Blocking;
use pincer_store_contract::session_words::{
    ALL, accepted, commit, compaction, held, incoming, message, nested, release, session, storing,
};
use pincer_store_sqlite::SqliteStore;
use rusqlite::Connection;

const ENTRIES: u32 = 100_000;
const AT_ONCE: u32 = 1000;
/// The first entry that the compaction keeps.
const KEPT: u32 = ENTRIES - 50;

/// Of ten entries, one is a reply and four are nested calls of it.
fn entry(position: u32) -> NewEntry {
    let id = format!("e{position}");
    match position % 10 {
        digit @ 2..=5 => nested(&id, position - digit + 1),
        _ => message(&id),
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "figures for whoever runs it with --nocapture")]
fn the_context_of_a_long_session_is_read_without_what_was_compacted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let store = SqliteStore::open(&path).expect("a store");
    let on = Blocking(&store);
    let fence = held(on, "s", "main");
    for first in (0..ENTRIES).step_by(AT_ONCE as usize) {
        commit(on, "s", fence, (first + 1..=first + AT_ONCE).map(entry));
    }
    let compact = SessionCommit { context_from: Some(KEPT), ..storing([compaction("sum", &format!("e{KEPT}"))]) };
    on.commit_session("s", fence, &compact).expect("stored");
    commit(on, "s", fence, [message("last")]);

    let began = Instant::now();
    let context = on.context("s").expect("read");
    println!("the context of {ENTRIES} entries took {:?}", began.elapsed());
    let is_sent = |position: &u32| *position > ENTRIES || !(2..=5).contains(&(position % 10));
    let expected: Vec<u32> = (KEPT..=ENTRIES + 2).filter(is_sent).collect();
    assert_eq!(context.iter().map(|entry| entry.position).collect::<Vec<_>>(), expected);
    assert_eq!(on.entry_named("s", "e99999").expect("read").expect("there").position, 99_999);

    // Nothing before is needed: whatever stands there is not looked at.
    let file = Connection::open(&path).expect("the file");
    file.execute("UPDATE entry SET kind = 'damaged', parent = position WHERE position < ?1", [KEPT]).expect("damaged");
    assert!(on.entries("s", ALL).is_err(), "it shows where it is read");
    assert_eq!(on.context("s").expect("read"), context);
}

#[test]
fn sessions_that_are_idle_are_not_written_to() {
    const SESSIONS: u32 = 10_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let store = SqliteStore::open(&path).expect("a store");
    let fence = held(Blocking(&store), "s", "main");
    commit(Blocking(&store), "s", fence, [message("a")]);
    Blocking(&store).commit_session("s", fence, &release()).expect("given up");
    accepted(Blocking(&store), &incoming("r", "main"));
    // One statement: ten thousand commits that are synced take long.
    let file = Connection::open(&path).expect("the file");
    let fill = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
        INSERT INTO session (id, user, key, is_current, created_at, interacted_at, updated_at, fence)
        SELECT 's' || n, 'me', 'k' || n, 1, n, n, n, 1 FROM number";
    file.execute(fill, [SESSIONS]).expect("filled");
    drop((file, store));

    let before = contents(&path);
    let watch = Connection::open(&path).expect("the file");
    let version = || watch.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).expect("read");
    let first = version();
    let store = SqliteStore::open(&path).expect("a store");
    let on = Blocking(&store);
    let (mut count, mut last) = (0u32, None);
    loop {
        let page = SessionPage { before: last, limit: 300, ..SessionPage::default() };
        let page = on.session_page(&page).expect("read");
        let Some(end) = page.last() else { break };
        last = Some((end.updated_at, end.id.clone()));
        count += page.len() as u32;
    }
    assert_eq!(count, SESSIONS + 1);
    for number in [1, 77, SESSIONS] {
        let id = on.current_session("me", &format!("k{number}")).expect("read").expect("there").id;
        assert_eq!(id, format!("s{number}").as_str());
        on.session(id.as_str()).expect("there");
        assert_eq!(on.context(id.as_str()).expect("read"), []);
        assert_eq!(on.open_runs("me", &format!("k{number}")).expect("read"), []);
    }
    assert_eq!(on.sessions_with_work().expect("read"), [("me".into(), "main".into())]);
    assert_eq!(on.search_entries(Some("me"), &["a"], 9).expect("read").len(), 1);
    assert_eq!(on.forget_sessions(0).expect("looked"), 0);
    assert_eq!(version(), first, "something was committed");
    // It would show.
    on.create_session(&session("new", "new")).expect("made");
    assert_ne!(version(), first);
    on.delete_session("new", pincer_store::Fence::FIRST).expect("deleted");
    drop((watch, store));
    assert_ne!(contents(&path), before);

    let before = contents(&path);
    let store = SqliteStore::open(&path).expect("a store");
    let listed = Blocking(&store).session_page(&SessionPage { limit: u32::MAX, ..SessionPage::default() });
    assert_eq!(listed.expect("read").len(), SESSIONS as usize + 1);
    drop(store);
    assert!(contents(&path) == before, "the file has changed");
}

fn contents(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the file")
}
