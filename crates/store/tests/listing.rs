//! Runs as they are listed, and the upkeep of the file: what each costs does not depend on how much is stored.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use pincer_store::{
    NewApproval, NewRun, Page, RunState, Safety, SessionCount, Snapshots, SqliteStore, Standing, StoreError, ToolSet,
    Upkeep,
};
use rusqlite::Connection;

use crate::common::{Store, claim, finish, full, made, park, question, run, with_store};

const ALL: Page<'_> = Page { session: None, caller: None, before: None, limit: u32::MAX };

fn ids(store: &dyn Store, page: &Page<'_>) -> Vec<String> {
    store.run_overviews(page).expect("listed").into_iter().map(|overview| overview.run.id).collect()
}

/// Runs of two sessions in turns.
fn with_runs(store: &dyn Store, count: usize) {
    for index in 0..count {
        let (id, session) = (format!("cm_{index:04}"), if index % 2 == 0 { "even" } else { "odd" });
        store.create_run(&run(&id, session), claim("p"), None, Safety::Process.into()).expect("made");
    }
}

#[test]
fn pages_follow_each_other_without_gaps() {
    with_store(|store| {
        with_runs(store, 25);
        for session in [None, Some("odd")] {
            let all = ids(store, &Page { session, ..ALL });
            let (mut paged, mut before): (Vec<String>, Option<String>) = (Vec::new(), None);
            loop {
                let page = ids(store, &Page { session, caller: None, before: before.as_deref(), limit: 4 });
                let Some(first) = page.first().cloned() else { break };
                assert!(page.len() <= 4);
                paged.splice(0..0, page);
                before = Some(first);
            }
            assert_eq!(paged, all, "{session:?}");
            assert_eq!(all.len(), if session.is_some() { 12 } else { 25 });
        }
        // The run that a page ends before may be gone.
        assert_eq!(
            ids(store, &Page { session: None, caller: None, before: Some("cm_0002x"), limit: 2 }),
            ["cm_0001", "cm_0002"]
        );
        assert_eq!(ids(store, &Page { session: Some("none"), ..ALL }), Vec::<String>::new());
    });
}

#[test]
fn runs_are_found_by_the_beginning_of_their_ids() {
    with_store(|store| {
        with_runs(store, 120);
        assert_eq!(store.runs_named("cm_0007").expect("read"), ["cm_0007"]);
        assert_eq!(store.runs_named("cm_001").expect("read").len(), 10);
        assert_eq!(store.runs_named("cm_").expect("read").len(), 100, "no more than a hundred");
        assert_eq!(store.runs_named("cm_9").expect("read"), Vec::<String>::new());
        assert!(matches!(store.run_overview("cm_001"), Err(StoreError::Missing { .. })));
    });
}

#[test]
fn sessions_and_states_are_counted() {
    with_store(|store| {
        with_runs(store, 5);
        let later = NewRun { created_at: 99, ..run("cm_9", "odd") };
        let fence = store.create_run(&later, claim("p2"), None, Safety::Process.into()).expect("made");
        finish(store, "cm_9", fence, RunState::Failed).expect("ends");
        let count = |session: &str, runs, open, last| SessionCount { session: session.into(), runs, open, last };
        assert_eq!(store.sessions(None).expect("read"), [count("odd", 3, 2, 99), count("even", 3, 3, 10)]);
        let mut counts = store.run_counts("odd", None).expect("read");
        counts.sort_by_key(|(_, count)| *count);
        assert_eq!(counts, [(RunState::Failed, 1), (RunState::Running, 2)]);
        let asked = ["cm_9", "gone", "cm_0000"].map(str::to_owned);
        let standing = |id: &str, state, owner: &str| Standing { id: id.into(), state, owner: owner.into() };
        let expected = [standing("cm_9", RunState::Failed, "p2"), standing("cm_0000", RunState::Running, "p")];
        assert_eq!(store.standings(&asked).expect("read"), expected);
    });
}

#[test]
fn the_next_due_is_the_first_to_expire_or_to_be_forgotten() {
    with_store(|store| {
        assert_eq!(store.next_due(1000).expect("read"), None);
        for (id, until) in [("a", 500), ("b", 300)] {
            let fence = made(store, id, "p");
            store.park(id, fence, &park(full(0, b"x"), Some(until))).expect("parked");
        }
        assert_eq!(store.next_due(1000).expect("read"), Some(300));
        assert_eq!(store.expire_runs(300).expect("swept"), ["b"]);
        assert_eq!(store.next_due(1000).expect("read"), Some(500));
        assert_eq!(store.next_due(100).expect("read"), Some(400), "b ended at 300");
    });
}

#[test]
fn what_belongs_to_a_forgotten_run_goes_with_it_and_nothing_else() {
    with_store(|store| {
        let tools = |hash: &'static [u8]| Some(ToolSet { hash, tools: "[]" });
        for (id, hash) in [("a", b"one"), ("b", b"two"), ("c", b"two")] {
            let run = NewRun { tools: tools(hash), ..run(id, "s") };
            let fence = store.create_run(&run, claim("p"), None, Safety::Process.into()).expect("made");
            store.ask(&NewApproval { run: Some(id), ..question(&format!("ap_{id}")) }).expect("asked");
            if id != "c" {
                finish(store, id, fence, RunState::Completed).expect("ends");
            }
        }
        assert_eq!(store.forget_runs(1000).expect("forgotten"), 2);
        let is_there = |id: &str| store.approval(id).is_ok();
        assert_eq!(["ap_a", "ap_b", "ap_c"].map(is_there), [false, false, true]);
        let is_kept = |hash: &[u8]| store.tool_set(hash).expect("read").is_some();
        assert_eq!((is_kept(b"one"), is_kept(b"two")), (false, true));
    });
}

#[test]
fn space_comes_back_when_runs_are_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    let store = SqliteStore::open(&path).expect("a store");
    let size = |path| std::fs::metadata(path).expect("there").len();
    let large = vec![7; 200 << 10];
    for index in 0..100 {
        let id = format!("cm_{index}");
        let fence = made(&store, &id, "p");
        store.checkpoint(&id, fence, &full(0, &large), Safety::Process.into()).expect("kept");
        finish(&store, &id, fence, RunState::Completed).expect("ends");
        store.fold().expect("folded");
        // One after the other: the space of the first is used again.
        assert!(size(&path) < 4 << 20, "{} bytes after {index}", size(&path));
    }
    let fences: Vec<_> = (0..100).map(|index| made(&store, &format!("at_once_{index}"), "p")).collect();
    for (index, fence) in fences.iter().enumerate() {
        let id = format!("at_once_{index}");
        store.checkpoint(&id, *fence, &full(0, &large), Safety::Process.into()).expect("kept");
    }
    store.fold().expect("folded");
    assert!(size(&path) > 19 << 20);
    assert!(!store.give_space_back().expect("looked"), "nothing is free");
    for (index, fence) in fences.into_iter().enumerate() {
        finish(&store, &format!("at_once_{index}"), fence, RunState::Completed).expect("ends");
    }
    let rounds = (0..100).take_while(|_| store.give_space_back().expect("given back")).count();
    assert!((10..99).contains(&rounds), "{rounds} rounds: each is short");
    store.fold().expect("folded");
    assert!(size(&path) < 6 << 20, "{} bytes are left", size(&path));
    assert_eq!(ids(&store, &ALL).len(), 200);
}

#[test]
fn a_file_of_an_earlier_version_can_give_space_back_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    made(&SqliteStore::open(&path).expect("a store"), "a", "p");
    let file = Connection::open(&path).expect("the file");
    file.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").expect("as before");
    let mode = |file: &Connection| file.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0));
    assert_eq!(mode(&file).expect("read"), 0);
    drop(file);
    let store = SqliteStore::open(&path).expect("a store");
    assert_eq!(mode(&Connection::open(&path).expect("the file")).expect("read"), 2);
    assert_eq!(ids(&store, &ALL), ["a"]);
}
