//! The file itself: private, versioned, whole after every kind of accident.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use pincer_store::{
    Journal, Millis, NewCall, NewRun, Park, Repeat, RunState, Runs, Safety, Snapshot, Snapshots, SqliteStore,
    StoreError,
};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state/pincer.db");
    (directory, path)
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).expect("a store")
}

fn run(id: &str) -> NewRun<'_> {
    NewRun { id, session: "s", caller: "me", agent_run: None, created_at: 0 }
}

fn park(snapshot: &Snapshot, expires_at: Option<Millis>) -> Park<'_> {
    Park { snapshot, result: "{}", expires_at, most: 100, most_of_session: 100 }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn it_is_private_with_all_its_companions() {
    let (_guard, path) = place();
    let store = open(&path);
    store.create_run(&run("a"), "p").expect("made");
    assert_eq!(mode(path.parent().expect("a directory")), 0o700);
    for entry in fs::read_dir(path.parent().expect("a directory")).expect("listed") {
        let entry = entry.expect("an entry").path();
        assert_eq!(mode(&entry), 0o600, "{}", entry.display());
    }
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("opened up");
    open(&path);
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn what_was_stored_is_there_after_it_is_opened_again() {
    let (_guard, path) = place();
    let fence = open(&path).create_run(&run("a"), "p").expect("made");
    open(&path).finish_run("a", fence, RunState::Completed, "{}", 1, Safety::Power).expect("changed");
    assert_eq!(open(&path).run("a").expect("there").state, RunState::Completed);
}

fn set_version(path: &Path, version: i64) {
    rusqlite::Connection::open(path).expect("a file").pragma_update(None, "user_version", version).expect("set");
}

#[test]
fn a_newer_schema_is_refused_with_a_sentence() {
    let (_guard, path) = place();
    drop(open(&path));
    set_version(&path, 99);
    let error = SqliteStore::open(&path).err().expect("refused");
    assert!(matches!(error, StoreError::Newer { found: 99, .. }));
    assert!(error.to_string().contains("has schema 99") && error.to_string().contains("use the version that wrote it"));
}

#[test]
fn a_file_that_is_something_else_is_reported_and_left_as_it_is() {
    let (_guard, path) = place();
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    let content = b"this is not a database, but somebody may want it back".repeat(100);
    fs::write(&path, &content).expect("written");
    let error = SqliteStore::open(&path).err().expect("refused");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("left untouched"));
    assert_eq!(fs::read(&path).expect("read"), content);
}

#[test]
fn damaged_pages_are_reported_and_left_as_they_are() {
    let (_guard, path) = place();
    let store = open(&path);
    for index in 0..200 {
        store.create_run(&run(&format!("run-{index}")), "p").expect("made");
    }
    drop(store);
    let mut bytes = fs::read(&path).expect("read");
    let len = bytes.len();
    bytes[100..len / 2].fill(0xa5);
    fs::write(&path, &bytes).expect("damaged");
    let error = SqliteStore::open(&path).err().expect("refused");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read(&path).expect("read"), bytes);
}

#[test]
fn a_directory_that_cannot_be_made_is_told() {
    let (guard, _) = place();
    let file = guard.path().join("file");
    fs::write(&file, "").expect("a file");
    assert!(matches!(SqliteStore::open(&file.join("x/pincer.db")), Err(StoreError::Open { .. })));
}

#[test]
fn a_full_disk_fails_the_operation_and_loses_nothing() {
    let (_guard, path) = place();
    let store = open(&path);
    let fence = store.create_run(&run("a"), "p").expect("made");
    let small = Snapshot { image: vec![0; 32], bytes: vec![7; 2000], detail: "{}".into() };
    store.park("a", fence, &park(&small, Some(5))).expect("parked");
    store.limit_pages(40).expect("limited");
    let large = Snapshot { bytes: vec![9; 2 << 20], ..small.clone() };
    let error = store.park("a", fence, &park(&large, Some(9))).expect_err("no room");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    // Neither half of it happened, and the store still works.
    assert_eq!(store.snapshot("a").expect("read"), Some(small));
    assert_eq!(store.run("a").expect("there").expires_at, Some(5));
    store.limit_pages(1_000_000).expect("room again");
    store.park("a", fence, &park(&large, Some(9))).expect("parked");
}

#[test]
fn many_threads_and_connections_write_at_once() {
    let (_guard, path) = place();
    open(&path);
    thread::scope(|scope| {
        for worker in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let store = open(path);
                for index in 0..25 {
                    store.create_run(&run(&format!("{worker}-{index}")), "p").expect("made");
                }
            });
        }
    });
    assert_eq!(open(&path).runs(None).expect("listed").len(), 100);
}

#[test]
fn one_of_many_takes_a_run_over() {
    let (_guard, path) = place();
    let seen = open(&path).create_run(&run("a"), "p").expect("made");
    let winners: usize = thread::scope(|scope| {
        let claims: Vec<_> = (0..6)
            .map(|worker| {
                let path = &path;
                scope.spawn(move || open(path).claim_run("a", seen, &format!("p{worker}")).is_ok())
            })
            .collect();
        claims.into_iter().map(|claim| usize::from(claim.join().expect("a thread"))).sum()
    });
    assert_eq!(winners, 1);
}

/// Writes for ever, and says after each commit what is stored now.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os("PINCER_TEST_STORE") else { return };
    let store = open(Path::new(&path));
    let mut out = std::io::stdout();
    let name = std::env::var("PINCER_TEST_NAME").expect("a name");
    for index in 0.. {
        let id = format!("{name}-{index}");
        let fence = store.create_run(&run(&id), "child").expect("made");
        let call = NewCall { seq: 0, tool: "t", input: "{}", asked: b"", repeat: Repeat::Unknown };
        store.note_calls(&id, fence, "child", &[call], Safety::Process.into()).expect("noted");
        writeln!(out, "noted {id}").expect("said");
        store.settle_call(&id, "child", 0, "\"done\"", Safety::Process.into()).expect("settled");
        writeln!(out, "settled {id}").expect("said");
        let bytes = vec![index as u8; 3000];
        let snapshot = Snapshot { image: vec![0; 32], bytes, detail: "{}".into() };
        store
            .park(&id, fence, &Park { most: u32::MAX, most_of_session: u32::MAX, ..park(&snapshot, None) })
            .expect("parked");
        writeln!(out, "parked {id}").expect("said");
        out.flush().expect("said");
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_at_any_point() {
    let (_guard, path) = place();
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child_writes_until_it_is_killed", "--nocapture"])
            .env("PINCER_TEST_STORE", &path)
            .env("PINCER_TEST_NAME", format!("r{round}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        // Another number of acknowledgements each time, and then wherever it happens to be.
        for _ in 0..(round * 7 + 3) {
            let mut line = String::new();
            lines.read_line(&mut line).expect("a line");
            acknowledged.push(line);
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        let mut rest = String::new();
        lines.read_to_string(&mut rest).expect("the rest");
        // The last line may be cut off; what is whole was acknowledged.
        acknowledged.extend(rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned));
    }
    let store = open(&path);
    let mut count = 0;
    for line in &acknowledged {
        let Some((what, id)) = line.trim().split_once(' ') else { continue };
        match what {
            "noted" => assert_eq!(store.calls(id).expect("read").len(), 1, "{line}"),
            "settled" => assert_eq!(store.calls(id).expect("read")[0].outcome.as_deref(), Some("\"done\""), "{line}"),
            "parked" => {
                assert_eq!(store.run(id).expect("there").state, RunState::Waiting, "{line}");
                assert_eq!(store.snapshot(id).expect("read").expect("there").bytes.len(), 3000, "{line}");
            }
            _ => continue,
        }
        count += 1;
    }
    assert!(count > 100, "only {count} acknowledgements");
}
