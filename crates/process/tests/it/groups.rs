//! Groups: a program ends with everything that it has started.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use pincer_process::{Group, Start};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::ChildStdout;

/// How long an event may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a script of the shell.
fn sh(script: &str) -> Group {
    started(&["sh", "-c", script]).unwrap()
}

fn started(words: &[&str]) -> io::Result<Group> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let environment = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
    Group::start(Start { words: &words, directory: "/".into(), environment, stdin: Stdio::null() })
}

/// Returns the lines that a program prints, after the first `count` of them have come.
async fn after_lines(group: &mut Group, count: usize) -> (Lines<BufReader<ChildStdout>>, Vec<String>) {
    let mut lines = BufReader::new(group.child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen.len() < count {
        let next = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("a line in time");
        seen.push(next.unwrap().expect("a line"));
    }
    (lines, seen)
}

/// Waits until every process is over that has the output of a program open, and returns what else they have printed. The system
/// closes the files of a process when it is over, so that a process that lives on is noticed.
async fn all_over(mut lines: Lines<BufReader<ChildStdout>>) -> String {
    let mut rest = String::new();
    let read = lines.get_mut().read_to_string(&mut rest);
    tokio::time::timeout(PATIENCE, read).await.expect("a process has outlived its group").unwrap();
    rest
}

/// Each of these prints a line when it is up, and lives for as long as it is let. All of them are deaf to a request to end.
const FAMILIES: [(&str, &str); 4] = [
    ("children of children", "trap '' TERM; sh -c 'sh -c \"echo up; sleep 1000\" & wait' & wait"),
    ("a child without the mark in the group", "trap '' TERM; env -i sh -c 'echo up; sleep 1000' & wait"),
    ("a child in a session of its own", "trap '' TERM; setsid sh -c 'echo up; sleep 1000' & wait"),
    (
        "a grandchild in a session of its own whose parent is over",
        "trap '' TERM; (setsid sh -c 'echo up; sleep 1000' &); sleep 1000",
    ),
];

#[tokio::test]
async fn an_ended_group_leaves_nothing() {
    for (name, script) in FAMILIES {
        let mut group = sh(script);
        let (lines, _) = after_lines(&mut group, 1).await;
        group.end().await;
        assert_eq!(all_over(lines).await, "", "{name}");
    }
}

#[tokio::test]
async fn a_dropped_group_leaves_nothing() {
    for (name, script) in FAMILIES {
        let mut group = sh(script);
        let (lines, _) = after_lines(&mut group, 1).await;
        drop(group);
        assert_eq!(all_over(lines).await, "", "{name}");
    }
}

#[tokio::test]
async fn a_group_ends_nothing_of_another() {
    let mut other = sh("setsid sh -c 'echo up; read line; echo still here' & wait");
    let words = ["sh".to_owned(), "-c".to_owned(), "echo up; read line; echo \"got $line\"".to_owned()];
    let environment = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
    let (read, write) = io::pipe().unwrap();
    let mut listening =
        Group::start(Start { words: &words, directory: "/".into(), environment, stdin: read.into() }).unwrap();
    let (lines, _) = after_lines(&mut listening, 1).await;
    let (others, _) = after_lines(&mut other, 1).await;
    other.end().await;
    all_over(others).await;
    io::Write::write_all(&mut { write }, b"a line\n").unwrap();
    assert_eq!(all_over(lines).await, "got a line\n");
    assert!(listening.child.wait().await.unwrap().success());
}

#[tokio::test]
async fn programs_are_asked_to_end_before_they_are_killed() {
    // The one is in the group and has no mark, the other has left the group and has one.
    for how in ["env -i", "setsid"] {
        let child = format!("{how} sh -c \"trap 'echo child; exit' TERM; echo up; while :; do sleep 0.01; done\"");
        let script = format!("trap 'wait $!; echo program; exit 3' TERM; {child} & echo up; wait");
        let mut results = Vec::new();
        // They have 300 ms, which may be too few on a busy machine.
        while results.len() < 10 {
            let mut group = sh(&script);
            let (lines, _) = after_lines(&mut group, 2).await;
            group.end().await;
            let status = group.child.wait().await.unwrap();
            let result = (all_over(lines).await, status.code());
            if result == ("child\nprogram\n".to_owned(), Some(3)) {
                break;
            }
            results.push(result);
        }
        assert!(results.len() < 10, "{how}: {results:?}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_end_when_asked_is_killed() {
    let mut group = sh("trap '' TERM; echo up; while :; do sleep 0.01; done");
    let (lines, _) = after_lines(&mut group, 1).await;
    group.end().await;
    all_over(lines).await;
    let status = group.child.wait().await.unwrap();
    assert_eq!(status.signal(), Some(9));
}

#[tokio::test]
async fn a_sweep_ends_and_counts_what_a_program_has_left_behind() {
    let left = "sh -c 'echo up; sleep 1000'";
    for (script, count) in [
        ("echo up".to_owned(), 0),
        (format!("{left} & read line"), 2),
        (format!("setsid {left} & read line"), 2),
        (format!("env -i {left} & read line"), 1),
    ] {
        let mut group = sh(&script);
        let (lines, _) = after_lines(&mut group, 1).await;
        group.child.wait().await.unwrap();
        // The shell may become the `sleep`, or start one.
        let swept = group.sweep();
        assert!(if count == 0 { swept == 0 } else { (1..=count).contains(&swept) }, "{script}: {swept}");
        assert_eq!(all_over(lines).await, "", "{script}");
    }
}

#[tokio::test]
async fn a_program_begins_in_a_session_and_a_process_group_of_its_own() {
    let code = "import os; print(os.getsid(0) == os.getpid() == os.getpgrp(), os.getpid())";
    let mut group = started(&["python3", "-c", code]).unwrap();
    let (_, seen) = after_lines(&mut group, 1).await;
    assert_eq!(seen, [format!("True {}", group.pid())]);
}

#[tokio::test]
async fn a_program_has_the_given_environment_and_a_mark_of_its_own_and_nothing_else() {
    let mut marks = BTreeSet::new();
    for _ in 0..2 {
        let mut group = started(&["env"]).unwrap();
        let (_, mut seen) = after_lines(&mut group, 2).await;
        seen.sort();
        assert!(seen[0].starts_with("PATH=") && seen[1].starts_with("PINCER_GROUP="), "{seen:?}");
        let mut rest = String::new();
        group.child.wait().await.unwrap();
        group.child.stderr.take().unwrap().read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "");
        marks.insert(seen.remove(1));
    }
    assert_eq!(marks.len(), 2, "{marks:?}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error() {
    let error = |words: &[&str]| started(words).err().map(|error| error.kind());
    assert_eq!(error(&["/no/such/program"]), Some(io::ErrorKind::NotFound));
    assert_eq!(error(&[]), Some(io::ErrorKind::InvalidInput));
}
