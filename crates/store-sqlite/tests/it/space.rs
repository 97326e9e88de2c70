//! The upkeep of the file: its space comes back.

use pincer_store::{Page, RunId, RunState, Safety};
use pincer_store_contract::Blocking;
use pincer_store_contract::words::{finish, full, made};
use pincer_store_sqlite::SqliteStore;
use rusqlite::Connection;

fn on(store: &SqliteStore) -> Blocking<'_> {
    Blocking(store)
}

fn ids(store: &SqliteStore) -> Vec<RunId> {
    let listed = Blocking(store).run_overviews(&Page { limit: u32::MAX, ..Page::default() }).expect("listed");
    listed.into_iter().map(|overview| overview.run.id).collect()
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
        let fence = made(on(&store), &id, "p");
        on(&store).checkpoint(&id, fence, &full(0, &large), Safety::Process).expect("kept");
        finish(on(&store), &id, fence, RunState::Completed).expect("ends");
        store.fold().expect("folded");
        // One after the other: the space of the first is used again.
        assert!(size(&path) < 4 << 20, "{} bytes after {index}", size(&path));
    }
    let fences: Vec<_> = (0..100).map(|index| made(on(&store), &format!("at_once_{index}"), "p")).collect();
    for (index, fence) in fences.iter().enumerate() {
        let id = format!("at_once_{index}");
        on(&store).checkpoint(&id, *fence, &full(0, &large), Safety::Process).expect("kept");
    }
    store.fold().expect("folded");
    assert!(size(&path) > 19 << 20);
    assert!(!on(&store).give_space_back().expect("looked"), "nothing is free");
    for (index, fence) in fences.into_iter().enumerate() {
        finish(on(&store), &format!("at_once_{index}"), fence, RunState::Completed).expect("ends");
    }
    let rounds = (0..100).take_while(|_| on(&store).give_space_back().expect("given back")).count();
    assert!((10..99).contains(&rounds), "{rounds} rounds: each is short");
    store.fold().expect("folded");
    assert!(size(&path) < 6 << 20, "{} bytes are left", size(&path));
    assert_eq!(ids(&store).len(), 200);
}

#[test]
fn a_file_of_an_earlier_version_can_give_space_back_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    made(on(&SqliteStore::open(&path).expect("a store")), "a", "p");
    let file = Connection::open(&path).expect("the file");
    file.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").expect("as before");
    let mode = |file: &Connection| file.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0));
    assert_eq!(mode(&file).expect("read"), 0);
    drop(file);
    let store = SqliteStore::open(&path).expect("a store");
    assert_eq!(mode(&Connection::open(&path).expect("the file")).expect("read"), 2);
    assert_eq!(ids(&store), ["a"]);
}
