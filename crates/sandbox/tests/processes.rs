//! Across processes: the image is the same everywhere, and a snapshot made in one continues in another.
//!
//! The other process is this test binary again, running one of the tests named `child_…`, which do nothing on their own.
//!
//! Not in `it`: it starts this test program again, by the names of its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the test that started this program reads it")]

mod common;

use std::env;
use std::fs;
use std::process::{Command, Output};

use common::{LONG, engine, first_turn, json};
use pincer_sandbox::{Answer, Engine, Limits, Options, TurnEnd};

fn child(test: &str, variables: &[(&str, &str)]) -> Output {
    let output = Command::new(env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn said(output: &Output, key: &str) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once(key)).unwrap_or_else(|| panic!("no {key} in {text}"));
    line.1.to_owned()
}

#[test]
fn child_makes_an_image() {
    if env::var_os("PINCER_TEST_IMAGE").is_some() {
        let engine = Engine::load(Options::default()).expect("the engine");
        println!("image={}", engine.image_hash());
    }
}

#[test]
fn the_image_is_the_same_in_every_process() {
    // Without a cache both make it anew; the second runs with another clock zone, locale and address layout.
    let first = child("child_makes_an_image", &[("PINCER_TEST_IMAGE", "1")]);
    let second = child("child_makes_an_image", &[("PINCER_TEST_IMAGE", "1"), ("TZ", "Asia/Tokyo"), ("LANG", "tr_TR")]);
    assert_eq!(said(&first, "image="), said(&second, "image="));
    assert_eq!(said(&first, "image="), engine().image_hash().to_string());
}

#[test]
fn child_continues_a_snapshot() {
    let Some(path) = env::var_os("PINCER_TEST_SNAPSHOT") else { return };
    let snapshot = fs::read(path).expect("the snapshot");
    let mut cell = engine().restore(&snapshot, Limits::default()).expect("a cell");
    for id in cell.pending() {
        cell.deliver(Answer::value(id, json("{\"price\":4}"))).expect("a pending request");
    }
    match cell.run_turn(LONG).expect("a turn").end {
        TurnEnd::Value(Some(value)) => println!("value={value}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_parked_cell_is_continued_by_a_new_process() {
    let (mut cell, _) = first_turn(
        "const cart = new Map([['tea', 3]]); const { price } = await call('cake'); cart.set('cake', price); return [...cart]",
    );
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cell.snapshot");
    fs::write(&path, cell.park().expect("a snapshot")).expect("a file");
    let output = child("child_continues_a_snapshot", &[("PINCER_TEST_SNAPSHOT", path.to_str().expect("a plain path"))]);
    assert_eq!(said(&output, "value="), r#"[["tea",3],["cake",4]]"#);
}
