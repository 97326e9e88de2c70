//! The file itself: private, versioned, whole after every kind of accident.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use pincer_store::{
    Changes, Claim, DatabaseError, Journal, Park, Room, RunEnd, RunState, Runs, Safety, Snapshots, StoreError,
};
use pincer_store_contract::Blocking;
use pincer_store_sqlite::{Examined, Integrity, SqliteError, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

use pincer_store_contract::words::{claim, effect, full, made, made_at, park, run};

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state/pincer.db");
    (directory, path)
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).expect("a store")
}

fn on(store: &SqliteStore) -> Blocking<'_> {
    Blocking(store)
}

/// The error of SQLite behind that of the store.
fn sqlite(error: &StoreError) -> Option<&SqliteError> {
    match error {
        StoreError::Database(error) => DatabaseError::downcast_ref(error),
        _ => None,
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn it_is_private_with_all_its_companions() {
    let (_guard, path) = place();
    let store = open(&path);
    made(on(&store), "a", "p");
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
    let fence = made(on(&open(&path)), "a", "p");
    on(&open(&path)).finish_run("a", fence, RunState::Completed, "{}", 1, Safety::Power).expect("changed");
    assert_eq!(on(&open(&path)).run("a").expect("there").state, RunState::Completed);
}

fn set_version(path: &Path, version: i64) {
    Connection::open(path).expect("a file").pragma_update(None, "user_version", version).expect("set");
}

#[test]
fn a_newer_schema_is_refused_with_a_sentence() {
    let (_guard, path) = place();
    drop(open(&path));
    set_version(&path, 99);
    let error = SqliteStore::open(&path).err().expect("refused");
    assert!(matches!(error, SqliteError::Newer { found: 99, .. }));
    assert!(error.to_string().contains("has schema 99") && error.to_string().contains("use the version that wrote it"));
}

#[test]
fn a_file_that_is_something_else_is_reported_and_left_as_it_is() {
    let (_guard, path) = place();
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    let content = b"this is not a database, but somebody may want it back".repeat(100);
    fs::write(&path, &content).expect("written");
    let error = SqliteStore::open(&path).err().expect("refused");
    assert!(matches!(error, SqliteError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("left untouched"));
    assert_eq!(fs::read(&path).expect("read"), content);
}

#[test]
fn damaged_pages_are_reported_and_left_as_they_are() {
    let (_guard, path) = place();
    let store = open(&path);
    for index in 0..200 {
        made(on(&store), &format!("run-{index}"), "p");
    }
    drop(store);
    let mut bytes = fs::read(&path).expect("read");
    let len = bytes.len();
    bytes[100..len / 2].fill(0xa5);
    fs::write(&path, &bytes).expect("damaged");
    let error = SqliteStore::open(&path).err().expect("refused");
    assert!(matches!(error, SqliteError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read(&path).expect("read"), bytes);
}

#[test]
fn a_look_at_a_store_tells_how_it_is_and_changes_nothing() {
    let (_guard, path) = place();
    assert!(matches!(SqliteStore::examine(&path), Err(SqliteError::Open { .. })));
    assert!(!path.exists(), "nothing is made");
    let store = open(&path);
    made(on(&store), "a", "p");
    let Examined { schema, known, integrity, .. } = SqliteStore::examine(&path).expect("in use");
    assert_eq!((schema, integrity), (known, Integrity::Sound));
    drop(store);
    set_version(&path, known - 1);
    let older = SqliteStore::examine(&path).expect("older");
    assert_eq!((older.schema, SqliteStore::examine(&path).expect("as it was").schema), (known - 1, known - 1));
    set_version(&path, 99);
    assert!(matches!(SqliteStore::examine(&path), Err(SqliteError::Newer { found: 99, .. })));
    fs::write(&path, "not a database, but a text that is long enough to be looked at").expect("written");
    assert!(matches!(SqliteStore::examine(&path), Err(SqliteError::Corrupt { .. })));
}

#[test]
fn a_look_finds_damaged_pages() {
    let (_guard, path) = place();
    let store = open(&path);
    for number in 0..200 {
        made(on(&store), &format!("run-{number}"), "p");
    }
    store.fold().expect("one file");
    drop(store);
    let mut bytes = fs::read(&path).expect("read");
    let page = 4096;
    assert!(bytes.len() > 8 * page);
    // The first page has the schema: the rest is damaged.
    bytes[page..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(&path, bytes).expect("written");
    match SqliteStore::examine(&path) {
        Ok(Examined { integrity: Integrity::Damaged(_), .. }) | Err(SqliteError::Corrupt { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_told() {
    let (guard, _) = place();
    let file = guard.path().join("file");
    fs::write(&file, "").expect("a file");
    assert!(matches!(SqliteStore::open(&file.join("x/pincer.db")), Err(SqliteError::Open { .. })));
}

#[test]
fn a_full_disk_fails_the_operation_and_loses_nothing() {
    let (_guard, path) = place();
    let store = open(&path);
    let fence = made(on(&store), "a", "p");
    on(&store).checkpoint("a", fence, &full(1, &[7; 2000]), Safety::Process).expect("kept");
    store.limit_pages(60).expect("limited");
    let large = vec![9; 2 << 20];
    let error = on(&store).park("a", fence, &park(full(2, &large), Some(9))).expect_err("no room");
    assert!(matches!(sqlite(&error), Some(SqliteError::Full { .. })), "{error}");
    // Neither half of it happened, and the store still works.
    assert_eq!(on(&store).snapshot("a").expect("read").expect("there").parts, [vec![7; 2000]]);
    assert_eq!(on(&store).run("a").expect("there").state, RunState::Running);
    store.limit_pages(1_000_000).expect("room again");
    on(&store).park("a", fence, &park(full(2, &large), Some(9))).expect("parked");
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
                    made(on(&store), &format!("{worker}-{index}"), "p");
                }
            });
        }
    });
    assert_eq!(on(&open(&path)).runs(None).expect("listed").len(), 100);
}

#[test]
fn one_of_many_takes_a_run_over() {
    let (_guard, path) = place();
    let seen = (RunState::Running, made(on(&open(&path)), "a", "p"));
    let winners: usize = thread::scope(|scope| {
        let claims: Vec<_> = (0..6)
            .map(|worker| {
                let path = &path;
                scope.spawn(move || on(&open(path)).claim_run("a", seen, claim(&format!("p{worker}"))).is_ok())
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
        let fence = made_at(on(&store), &id, "child", 1);
        on(&store).dispatch(&id, fence, "child", &effect(0), Safety::Process).expect("dispatched");
        writeln!(out, "dispatched {id}").expect("said");
        on(&store).settle(&id, "child", 0, "\"done\"", 1, Safety::Process).expect("settled");
        writeln!(out, "settled {id}").expect("said");
        let bytes = vec![index as u8; 3000];
        let many = Park {
            room: Room { all: u32::MAX, of_user: u32::MAX, of_session: u32::MAX },
            ..park(full(1, &bytes), None)
        };
        on(&store).park(&id, fence, &many).expect("parked");
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
            .args(["--exact", "file::child_writes_until_it_is_killed", "--nocapture"])
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
            "dispatched" => assert_eq!(on(&store).calls(id).expect("read").len(), 1, "{line}"),
            "settled" => {
                assert_eq!(on(&store).calls(id).expect("read")[0].outcome.as_deref(), Some("\"done\""), "{line}")
            }
            "parked" => {
                assert_eq!(on(&store).run(id).expect("there").state, RunState::Waiting, "{line}");
                assert_eq!(on(&store).snapshot(id).expect("read").expect("there").parts[0].len(), 3000, "{line}");
            }
            _ => continue,
        }
        count += 1;
    }
    assert!(count > 100, "only {count} acknowledgements");
}

/// Whatever the caller's own thread cannot commit at once is committed by another, in the order in which it was asked for.
#[test]
fn commits_wait_for_another_process_without_blocking_their_callers() {
    let (_guard, path) = place();
    let store = open(&path);
    let fence = made_at(on(&store), "a", "p", 5);
    let other = Connection::open(&path).expect("another");
    other.execute_batch("BEGIN IMMEDIATE").expect("it writes");
    let id = "a".into();
    let dispatched = store.dispatch(&id, fence, &"p".into(), effect(0), Safety::Process);
    let kept = store.checkpoint(&id, fence, full(5, b"x"), Safety::Process);
    let finished = store.finish_run(&id, fence, RunEnd::new(RunState::Completed, "{}"), 1, Safety::Process);
    assert!(format!("{dispatched:?}").contains("Later"), "it has returned, and its answer comes later");
    assert_eq!(on(&store).calls("a").expect("reading goes on"), []);
    other.execute_batch("ROLLBACK").expect("it is done");
    dispatched.wait().expect("its turn");
    kept.wait().expect("its turn");
    finished.wait().expect("its turn");
    assert_eq!(on(&store).calls("a").expect("read").len(), 1);
}

/// The fast path of nested calls: no other thread takes part.
#[test]
fn a_small_commit_is_answered_at_once() {
    let (_guard, path) = place();
    let store = open(&path);
    let fence = made_at(on(&store), "a", "p", 5);
    let (id, owner) = ("a".into(), "p".into());
    let is_ready = |reply: &dyn std::fmt::Debug| format!("{reply:?}").contains("Ready");
    assert!(is_ready(&store.dispatch(&id, fence, &owner, effect(0), Safety::Process)));
    assert!(is_ready(&store.settle(&id, &owner, 0, Arc::new("1".into()), 7, Safety::Process)));
    assert!(is_ready(&store.checkpoint(&id, fence, full(5, b"x"), Safety::Process)));
    assert!(is_ready(&store.run(&id)));
    assert!(
        !is_ready(&store.finish_run(&id, fence, RunEnd::new(RunState::Completed, "{}"), 1, Safety::Power)),
        "it is synced"
    );
}

#[test]
fn commits_of_this_process_are_no_news_to_it() {
    let (_guard, path) = place();
    let (store, other) = (open(&path), open(&path));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut watch = store.watch(Duration::from_millis(1));
        made(on(&store), "a", "p");
        let none = tokio::time::timeout(Duration::from_millis(50), watch.changed()).await;
        assert!(none.is_err());
        made(on(&other), "b", "p");
        watch.changed().await;
    });
}

/// Nothing is promised about a store that will be gone with the process.
#[test]
fn a_store_that_was_removed_or_replaced_takes_nothing_more() {
    for replace in [false, true] {
        let (_guard, path) = place();
        let store = open(&path);
        let fence = made_at(on(&store), "a", "p", 5);
        let waiting = made(on(&store), "w", "p");
        on(&store).park("w", waiting, &park(full(0, b"x"), None)).expect("parked");
        fs::remove_dir_all(path.parent().expect("a directory")).expect("removed");
        let other = replace.then(|| open(&path));
        let results = [
            on(&store).create_run(&run("b", "s"), claim("p"), None, Safety::Process).map(drop),
            on(&store).claim_run("w", (RunState::Waiting, waiting), claim("p")).map(drop),
            on(&store).park("a", fence, &park(full(5, b"x"), None)),
            on(&store).checkpoint("a", fence, &full(5, b"x"), Safety::Power),
            on(&store).dispatch("a", fence, "p", &effect(0), Safety::Power),
            on(&store).settle("a", "p", 0, "1", 7, Safety::Power).map(drop),
            on(&store).finish_run("a", fence, RunState::Completed, "{}", 1, Safety::Power),
            on(&store).abort_run("a", 1).map(drop),
        ];
        for (index, result) in results.into_iter().enumerate() {
            let gone = result.as_ref().err().and_then(sqlite);
            assert!(matches!(gone, Some(SqliteError::Gone { .. })), "{index}: {result:?}");
        }
        if let Some(other) = other {
            assert_eq!(on(&other).runs(None).expect("listed"), []);
            made(on(&other), "b", "p");
        }
    }
}

#[test]
fn a_copy_of_a_folded_file_is_a_copy_of_the_store() {
    let (guard, path) = place();
    let (store, other) = (open(&path), open(&path));
    for index in 0..50 {
        made_at(on(if index % 2 == 0 { &store } else { &other }), &format!("run-{index}"), "p", 1);
    }
    let log = path.with_extension("db-wal");
    assert!(fs::metadata(&log).expect("there").len() > 0);
    store.fold().expect("folded");
    assert_eq!(fs::metadata(&log).map_or(0, |log| log.len()), 0);
    let copy = guard.path().join("copy.db");
    fs::copy(&path, &copy).expect("copied");
    assert_eq!(on(&open(&copy)).runs(None).expect("listed").len(), 50);
    // It goes on as before, also while another process reads: then folding is left to the next one.
    made(on(&other), "more", "p");
    let reader = Connection::open(&path).expect("another");
    reader.execute_batch("BEGIN; SELECT count(*) FROM run").expect("it reads");
    made(on(&store), "still more", "p");
    store.fold().expect("as far as it can");
    drop(reader);
    store.fold().expect("folded");
    assert_eq!(fs::metadata(&log).map_or(0, |log| log.len()), 0);
}

/// A power cut, as far as a test can see it: the file was written under another boot.
#[test]
fn a_run_that_ran_when_the_machine_went_down_is_known() {
    let (_guard, path) = place();
    let store = open(&path);
    made_at(on(&store), "ran", "p", 1);
    let synced = Claim { owner: "p".into(), safety: Safety::Power };
    on(&store).create_run(&run("synced", "s"), synced, None, Safety::Power).expect("made");
    let fence = made(on(&store), "waits", "p");
    on(&store).park("waits", fence, &park(full(0, b"x"), None)).expect("parked");
    let fence = made_at(on(&store), "given back", "p", 1);
    assert!(on(&store).let_wait("given back", fence, 100).expect("asked"));
    let another_boot = "UPDATE run SET boot = 'another' WHERE boot IS NOT NULL";
    let changed = Connection::open(&path).expect("a file").execute(another_boot, []).expect("changed");
    assert_eq!(changed, 2, "those of unsynced checkpoints that were claimed and not given back");
    let cut = || {
        let runs = on(&store).runs(None).expect("listed").into_iter();
        runs.filter(|run| run.power_cut).map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(cut(), ["ran"]);
    assert!(on(&store).running().expect("listed").iter().any(|run| run.power_cut));
    // One that was acknowledged is continued in this boot, and known to run in it.
    let waits = on(&store).run("waits").expect("there");
    on(&store).claim_run("waits", (RunState::Waiting, waits.fence), claim("p2")).expect("goes on");
    assert_eq!(cut(), ["ran"]);
}

#[test]
fn a_process_that_comes_later_goes_by_the_clock_of_the_first() {
    let (_guard, path) = place();
    let first = open(&path);
    let ahead = 3_600_000;
    let connection = Connection::open(&path).expect("a file");
    connection.execute("UPDATE clock SET shift = shift + ?1", [ahead]).expect("another wall clock");
    let second = open(&path);
    let apart = on(&second).now() - on(&first).now();
    assert!((ahead..ahead + 1000).contains(&apart), "{apart}");
}

const AT_ONCE: usize = 16;
const ROUNDS: usize = 20;

#[test]
fn threads_that_make_the_store_at_once_all_get_it() {
    for round in 0..ROUNDS {
        let (_guard, path) = place();
        let start = Barrier::new(AT_ONCE);
        thread::scope(|scope| {
            for worker in 0..AT_ONCE {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    made(on(&open(path)), &format!("{worker}"), "p");
                });
            }
        });
        assert_eq!(on(&open(&path)).runs(None).expect("listed").len(), AT_ONCE, "round {round}");
    }
}

/// Waits for a file to appear, and is one of many that make a store then.
#[test]
fn child_makes_the_store() {
    let Some(path) = std::env::var_os("PINCER_TEST_FIRST").map(PathBuf::from) else { return };
    let go = path.parent().and_then(Path::parent).expect("a directory").join("go");
    while !go.exists() {
        thread::yield_now();
    }
    made(on(&open(&path)), &format!("{}", std::process::id()), "p");
}

#[test]
fn processes_that_make_the_store_at_once_all_get_it() {
    for round in 0..ROUNDS {
        let (guard, path) = place();
        let children: Vec<Child> = (0..AT_ONCE)
            .map(|_| {
                Command::new(std::env::current_exe().expect("this test"))
                    .args(["--exact", "file::child_makes_the_store"])
                    .env("PINCER_TEST_FIRST", &path)
                    .stdout(Stdio::null())
                    .spawn()
                    .expect("a process")
            })
            .collect();
        fs::write(guard.path().join("go"), "").expect("started");
        for mut child in children {
            assert!(child.wait().expect("ended").success(), "round {round}");
        }
        assert_eq!(on(&open(&path)).runs(None).expect("listed").len(), AT_ONCE, "round {round}");
    }
}
