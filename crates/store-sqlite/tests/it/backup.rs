//! Backups: whole while everything goes on, and put in place whole or not at all.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pincer_store::{
    AgentRun, AgentRunState, ApprovalState, Asked, Call, CallState, Decision, DeliveryState, Grant, GrantKind,
    NewApproval, Run, RunState, Safety,
};
use pincer_store_contract::Blocking;
use pincer_store_sqlite::{Endings, Restored, SqliteError, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

use pincer_store_contract::deliveries::new as delivery;
use pincer_store_contract::session_words::{accepted, commit, held, incoming, message, session_fenced, storing, turn};
use pincer_store_contract::words::*;

fn place() -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let (store, backup) = (directory.path().join("state/pincer.db"), directory.path().join("backup.db"));
    (directory, store, backup)
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).expect("a store")
}

fn on(store: &SqliteStore) -> Blocking<'_> {
    Blocking(store)
}

fn told(run: &Run, calls: &[Call]) -> String {
    let settled = calls.iter().filter(|call| call.state == CallState::Settled).count();
    format!("\"{} was {} with {settled} of {} settled\"", run.id, run.state.as_str(), calls.len())
}

fn restore(from: &Path, to: &Path) -> Result<Restored, SqliteError> {
    let message = |run: &AgentRun| format!("\"{} was {}\"", run.id, run.state.as_str());
    SqliteStore::restore(from, to, &Endings { program: told, message })
}

fn ids(path: &Path) -> Vec<String> {
    on(&open(path)).runs(None).expect("listed").into_iter().map(|run| run.id.to_string()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

/// The files beside the store.
fn companions(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().expect("a directory")).expect("listed");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_is_whole_while_others_write() {
    let (guard, path, backup) = place();
    let (store, end) = (open(&path), AtomicBool::new(false));
    made_at(on(&store), "first", "p", 1);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (path, end) = (&path, &end);
            scope.spawn(move || {
                let store = open(path);
                for index in 0.. {
                    let id = format!("{worker}-{index}");
                    let fence = made_at(on(&store), &id, "p", 1);
                    dispatch(on(&store), &id, fence, "p", &effect(0)).expect("dispatched");
                    if end.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        for round in 0..10 {
            let backup = guard.path().join(format!("backup-{round}.db"));
            store.backup(&backup).expect("made");
            assert_eq!(mode(&backup), 0o600);
            let copy = open(&backup);
            for run in on(&copy).runs(None).expect("listed") {
                assert!(on(&copy).snapshot(run.id.as_str()).expect("read").is_some(), "{}", run.id);
            }
            assert!(on(&copy).run("first").is_ok());
        }
        end.store(true, Ordering::Relaxed);
    });
    store.backup(&backup).expect("made");
    assert_eq!(ids(&backup), ids(&path));
    assert!(!companions(&backup).iter().any(|name| name.starts_with(".pincer")), "{:?}", companions(&backup));
}

#[test]
fn a_backup_replaces_no_file() {
    let (guard, path, backup) = place();
    let store = open(&path);
    fs::write(&backup, "somebody's").expect("written");
    let error = store.backup(&backup).expect_err("refused");
    assert!(matches!(error, SqliteError::Taken { .. }) && error.to_string().contains("name another file"), "{error}");
    assert_eq!(fs::read_to_string(&backup).expect("read"), "somebody's");
    let nowhere = store.backup(&guard.path().join("none/backup.db")).expect_err("refused");
    assert!(matches!(nowhere, SqliteError::Copy { .. }), "{nowhere}");
    assert!(matches!(store.backup(store.path()), Err(SqliteError::Taken { .. })));
}

#[test]
fn what_had_not_ended_in_a_backup_ends_when_it_is_restored() {
    let (_guard, path, backup) = place();
    let store = open(&path);
    let fence = made_at(on(&store), "ran", "p", 2);
    dispatch(on(&store), "ran", fence, "p", &effect(0)).expect("dispatched");
    settle(on(&store), "ran", "p", 0, "1").expect("settled");
    dispatch(on(&store), "ran", fence, "p", &effect(1)).expect("dispatched");
    let waiting = made(on(&store), "waits", "p");
    on(&store).park("waits", waiting, &park(full(1, b"x"), Some(100))).expect("parked");
    on(&store).ask(&NewApproval { run: Some("waits".into()), ..question("asked") }).expect("asked");
    let done = made(on(&store), "done", "p");
    on(&store).finish_run("done", done, RunState::Completed, "\"result\"", 9, Safety::Power).expect("ended");
    // An answer for one call, and grants.
    on(&store).ask(&NewApproval { run: None, seq: None, ..question("once") }).expect("asked");
    on(&store).resolve("once", Decision::Allow, &[], "me", 1).expect("answered");
    let grant = |id: &str, kind| Grant {
        id: id.into(),
        tool: "t".into(),
        fingerprint: None,
        user: Some("me".into()),
        kind,
        created_at: 0,
    };
    on(&store).grant(&grant("always", GrantKind::Always)).expect("granted");
    on(&store).grant(&grant("next", GrantKind::Next { run: "ran".into(), remaining: 5 })).expect("granted");
    store.backup(&backup).expect("made");
    // It goes on.
    on(&store).abort_run("waits", 10).expect("aborted");
    made(on(&store), "later", "p");
    drop(store);

    let restored = restore(&backup, &path).expect("restored");
    assert_eq!((restored.runs, restored.grants), (3, 1));
    assert_eq!(restored.ended, ["ran", "waits"]);
    let store = open(&path);
    assert!(on(&store).run("later").is_err());
    let result = |id| on(&store).run_result(id).expect("read").expect("told");
    assert_eq!(result("ran"), "\"ran was running with 1 of 2 settled\"");
    assert_eq!(result("waits"), "\"waits was waiting with 0 of 0 settled\"");
    assert_eq!(result("done"), "\"result\"");
    for (id, fence) in [("ran", fence), ("waits", waiting)] {
        let run = on(&store).run(id).expect("there");
        assert_eq!((run.state, run.expires_at), (RunState::Aborted, None));
        assert_eq!(on(&store).snapshot(id).expect("read"), None);
        fenced(on(&store).claim_run(id, (RunState::Running, fence), claim("p")));
        fenced(dispatch(on(&store), id, fence, "p", &read_only(9)));
    }
    assert_eq!(on(&store).calls("ran").expect("read").len(), 2, "what it did is still known");
    assert_eq!(on(&store).approval("asked").expect("there").state, ApprovalState::Cancelled);
    let free = Asked {
        session: "s".into(),
        user: "me".into(),
        call: None,
        digest: b"digest".into(),
        fingerprint: b"print".into(),
    };
    assert_eq!(on(&store).standing_question(&free, 2).expect("read"), None, "it may have been used since");
    let left: Vec<_> = on(&store).grants().expect("read").into_iter().map(|grant| grant.id).collect();
    assert_eq!(left, ["always"]);
    // The backup is as it was, and can be used again.
    drop(store);
    assert_eq!(restore(&backup, &path).expect("restored").ended.len(), 2);
}

/// A message that waits in a backup may have had its answer since: it is not acted on again.
#[test]
fn runs_of_agents_that_had_not_ended_in_a_backup_end_when_it_is_restored() {
    let (_guard, path, backup) = place();
    let store = open(&path);
    let fence = held(on(&store), "s", "main");
    for id in ["running", "waiting", "queued", "done"] {
        accepted(on(&store), &incoming(id, "main"));
    }
    commit(on(&store), "s", fence, [message("a")]);
    for (id, state) in
        [("done", AgentRunState::Done), ("waiting", AgentRunState::Waiting), ("running", AgentRunState::Running)]
    {
        turn(on(&store), "s", fence, id, state);
    }
    let asked = NewApproval { run: Some("waiting".into()), expires_at: None, ..question("q") };
    on(&store).ask(&asked).expect("asked");
    on(&store).enqueue(&delivery("d", "ann")).expect("stored");
    store.backup(&backup).expect("copied");
    drop(store);
    assert_eq!(restore(&backup, &path).expect("restored").messages, ["queued", "running", "waiting"]);

    let store = open(&path);
    let results = ["running", "waiting", "queued", "done"].map(|id| on(&store).agent_run(id).expect("there").result);
    let told = |text: &str| Some(text.to_owned());
    let expected =
        [told("\"running was running\""), told("\"waiting was waiting\""), told("\"queued was queued\""), None];
    assert_eq!(results, expected);
    let states = ["running", "waiting", "queued", "done"].map(|id| on(&store).agent_run(id).expect("there").state);
    let aborted = AgentRunState::Aborted;
    assert_eq!(states, [aborted, aborted, aborted, AgentRunState::Done]);
    assert!(on(&store).agent_run("queued").expect("there").ended_at.is_some());
    assert_eq!(on(&store).sessions_with_work().expect("read"), []);
    assert_eq!(on(&store).approval("q").expect("there").state, ApprovalState::Cancelled);
    // It may have been sent since.
    assert_eq!(on(&store).delivery("d").expect("there").state, DeliveryState::Cancelled);
    let stands = on(&store).session("s").expect("there");
    assert_eq!((stands.owner, stands.active, stands.entries), (None, None, 1));
    session_fenced(on(&store).commit_session("s", fence, &storing([message("b")])));
    on(&store).claim_session("s", stands.fence, "p", &storing([message("b")])).expect("goes on");
}

#[test]
fn a_store_is_made_from_a_backup_where_there_is_none() {
    let (_guard, path, backup) = place();
    let elsewhere = path.parent().and_then(Path::parent).expect("a directory").join("other/pincer.db");
    made_at(on(&open(&path)), "a", "p", 1);
    open(&path).backup(&backup).expect("made");
    fs::set_permissions(&backup, fs::Permissions::from_mode(0o644)).expect("opened up");
    restore(&backup, &elsewhere).expect("restored");
    assert_eq!(companions(&elsewhere), ["pincer.db", "pincer.lock"]);
    assert_eq!((mode(elsewhere.parent().expect("a directory")), mode(&elsewhere)), (0o700, 0o600));
    assert_eq!(ids(&elsewhere), ["a"]);
}

#[test]
fn a_store_that_is_in_use_is_not_replaced() {
    let (_guard, path, backup) = place();
    let store = open(&path);
    made(on(&store), "a", "p");
    store.backup(&backup).expect("made");
    made(on(&store), "b", "p");
    let error = restore(&backup, &path).expect_err("refused");
    assert!(matches!(error, SqliteError::InUse { .. }) && error.to_string().contains("is in use"), "{error}");
    made(on(&store), "c", "p");
    drop(store);
    // A process of an earlier version has it open without the lock.
    let other = Connection::open(&path).expect("another");
    other.execute_batch("BEGIN; SELECT count(*) FROM run").expect("it reads");
    let error = restore(&backup, &path).expect_err("refused");
    assert!(matches!(error, SqliteError::InUse { .. }), "{error}");
    other.execute_batch("COMMIT").expect("it is done");
    drop(other);
    assert_eq!(ids(&path), ["a", "b", "c"]);
    restore(&backup, &path).expect("restored");
    assert_eq!(ids(&path), ["a"]);
}

#[test]
fn what_is_no_backup_is_refused_and_the_store_left_as_it_was() {
    let (guard, path, backup) = place();
    let store = open(&path);
    for index in 0..100 {
        made_at(on(&store), &format!("run-{index}"), "p", 1);
    }
    store.backup(&backup).expect("made");
    drop(store);
    let (before, good) = (fs::read(&path).expect("read"), fs::read(&backup).expect("read"));
    let bad = |name: &str, content: &[u8]| {
        let path = guard.path().join(name);
        fs::write(&path, content).expect("written");
        path
    };
    let mut damaged = good.clone();
    let (from, to) = (damaged.len() / 4, damaged.len() / 2);
    damaged[from..to].fill(0xa5);
    let other = guard.path().join("other.db");
    Connection::open(&other)
        .expect("made")
        .execute_batch("CREATE TABLE run (id); PRAGMA user_version = 0")
        .expect("made");
    let newer = bad("newer.db", &good);
    Connection::open(&newer).expect("a file").pragma_update(None, "user_version", 99).expect("set");
    for backup in [
        bad("garbage", &b"not a database at all ".repeat(1000)),
        bad("empty", b""),
        bad("short", &good[..good.len() / 2]),
        bad("damaged", &damaged),
        other,
    ] {
        let error = restore(&backup, &path).expect_err("refused");
        assert!(matches!(error, SqliteError::NotABackup { .. }), "{}: {error}", backup.display());
        assert!(error.to_string().contains(&backup.display().to_string()), "{error}");
    }
    assert!(matches!(restore(&newer, &path), Err(SqliteError::Newer { found: 99, .. })));
    assert!(matches!(restore(&guard.path().join("none"), &path), Err(SqliteError::Open { .. })));
    assert!(matches!(restore(guard.path(), &path), Err(SqliteError::Copy { .. })));
    assert!(matches!(restore(&path, &path), Err(SqliteError::Taken { .. })));
    assert_eq!(fs::read(&path).expect("read"), before);
    assert_eq!(companions(&path), ["pincer.db", "pincer.lock"]);
}

/// The log of a store that was killed is not taken for that of its successor.
#[test]
fn nothing_of_the_old_store_stays() {
    let (guard, path, backup) = place();
    let store = open(&path);
    made(on(&store), "a", "p");
    store.backup(&backup).expect("made");
    for index in 0..50 {
        made(on(&store), &format!("later-{index}"), "p");
    }
    // As a kill leaves it: the file and its log.
    let killed = guard.path().join("killed/pincer.db");
    fs::create_dir(killed.parent().expect("a directory")).expect("made");
    for suffix in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        fs::copy(name(&path), name(&killed)).expect("copied");
    }
    let leftover = killed.with_file_name(".pincer-restore-abc");
    fs::create_dir(&leftover).expect("a leftover");
    restore(&backup, &killed).expect("restored");
    assert_eq!(companions(&killed), ["pincer.db", "pincer.lock"]);
    assert_eq!(ids(&killed), ["a"]);
    // A store that is damaged is replaced too.
    fs::write(&killed, b"damaged ".repeat(1000)).expect("damaged");
    fs::write(format!("{}-wal", killed.display()), b"what is this").expect("damaged");
    restore(&backup, &killed).expect("restored");
    assert_eq!(ids(&killed), ["a"]);
    // A copy of a store in use, with its log, is one too.
    let copy = guard.path().join("copy.db");
    fs::copy(&path, &copy).expect("copied");
    fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).expect("copied");
    assert_eq!(restore(&copy, &killed).expect("restored").runs, 51);
}

/// Restores two backups in turns, and says so, until it is killed.
#[test]
fn child_restores_until_it_is_killed() {
    let Some(directory) = std::env::var_os("PINCER_TEST_RESTORE").map(PathBuf::from) else { return };
    let mut out = std::io::stdout();
    for index in 0.. {
        let backup = directory.join(if index % 2 == 0 { "one.db" } else { "two.db" });
        restore(&backup, &directory.join("state/pincer.db")).expect("restored");
        writeln!(out, "restored").and_then(|()| out.flush()).expect("said");
    }
}

#[test]
fn a_restoration_that_is_killed_leaves_one_store_or_the_other() {
    let (guard, path, _) = place();
    for (name, runs) in [("one", 40), ("two", 80)] {
        let from = guard.path().join(name).join("pincer.db");
        let store = open(&from);
        for index in 0..runs {
            made_at(on(&store), &format!("{name}-{index:02}"), "p", 1);
        }
        store.backup(&guard.path().join(format!("{name}.db"))).expect("made");
    }
    for round in 0..15u64 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "backup::child_restores_until_it_is_killed", "--nocapture"])
            .env("PINCER_TEST_RESTORE", guard.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.by_ref().any(|line| line.expect("a line").ends_with("restored")));
        thread::sleep(Duration::from_micros(round * 1700));
        child.kill().expect("killed");
        child.wait().expect("gone");
        let runs = ids(&path);
        let expected = if runs[0].starts_with("one") { 40 } else { 80 };
        assert!(runs.len() == expected && runs.iter().all(|id| id[..3] == runs[0][..3]), "round {round}: {runs:?}");
        let sound: String = Connection::open(&path)
            .and_then(|file| file.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
            .expect("checked");
        assert_eq!(sound, "ok", "round {round}");
        // What the store takes now is part of it, whatever was left.
        made(on(&open(&path)), "more", "p");
        assert!(on(&open(&path)).run("more").is_ok());
    }
}
