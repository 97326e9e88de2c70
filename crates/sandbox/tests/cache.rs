//! The cache on disk: used when it is sound, made again when it is damaged, never trusted when others could have written it.
//!
//! Not in `it`: it starts this test program again, by the names of its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use common::LONG;
use pincer_sandbox::{CacheProblem, Engine, Limits, Options, Program, Progress, TurnEnd};
use tempfile::TempDir;

/// A private directory, and a cache in it that this build has filled.
fn filled() -> (TempDir, PathBuf) {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let made = tempfile::tempdir().expect("a directory");
        load(made.path());
        made
    });
    let directory = tempfile::tempdir().expect("a directory");
    let cache = directory.path().join("cache");
    fs::create_dir(&cache).expect("a directory");
    set_mode(&cache, 0o700);
    for entry in fs::read_dir(made.path()).expect("the cache") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), cache.join(entry.file_name())).expect("a copy");
    }
    (directory, cache)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
}

/// Loads, runs a cell, and returns what took long and what went wrong with the cache.
fn load(cache: &Path) -> (Vec<Progress>, Vec<String>) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&steps);
    let progress = move |step| told.lock().expect("the steps").push(step);
    let options =
        Options { cache_dir: Some(cache.into()), live_cells: 4, progress: Some(Box::new(progress)), long_turn: None };
    let engine = Engine::load(options).expect("the engine");
    let mut cell = engine.start(Program::new("return 6 * 7"), Limits::default()).expect("a cell");
    let end = cell.run_turn(LONG).expect("a turn").end;
    assert!(matches!(end, TurnEnd::Value(Some(value)) if value.as_str() == "42"));
    let problems = engine.cache_problems().iter().map(CacheProblem::to_string).collect();
    let steps = steps.lock().expect("the steps").clone();
    (steps, problems)
}

fn file(cache: &Path, extension: &str) -> PathBuf {
    let mut found = fs::read_dir(cache).expect("the cache").map(|entry| entry.expect("an entry").path());
    found.find(|path| path.extension().is_some_and(|e| e == extension)).expect("a file")
}

const FROM_CACHE: &[Progress] = &[];
const COMPILED: &[Progress] = &[Progress::Compiling];
const ALL_MADE: &[Progress] = &[Progress::MakingImage, Progress::Compiling];

#[test]
fn a_first_start_fills_the_cache_and_the_second_uses_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = directory.path().join("a/b/pincer");
    assert_eq!(load(&cache), (ALL_MADE.to_vec(), vec![]));
    assert_eq!(load(&cache), (FROM_CACHE.to_vec(), vec![]));
    assert_eq!(fs::metadata(&cache).expect("the cache").permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&cache).expect("the cache") {
        let mode = entry.expect("an entry").metadata().expect("its metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn damaged_files_are_made_again() {
    let (_guard, cache) = filled();
    assert_eq!(load(&cache), (FROM_CACHE.to_vec(), vec![]));
    type Damage = (&'static str, fn(&mut Vec<u8>));
    let damages: [Damage; 6] = [
        ("emptied", Vec::clear),
        ("cut off", |bytes| bytes.truncate(bytes.len() / 2)),
        ("shorter than its checksum", |bytes| bytes.truncate(10)),
        ("changed at the front", |bytes| bytes[3] ^= 1),
        ("changed in the middle", |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x80;
        }),
        ("grown", |bytes| bytes.push(0)),
    ];
    for (extension, made) in [("code", COMPILED), ("recipe", &ALL_MADE[..1])] {
        for (name, damage) in damages {
            let path = file(&cache, extension);
            let mut bytes = fs::read(&path).expect("the file");
            damage(&mut bytes);
            fs::write(&path, bytes).expect("the file");
            assert_eq!(load(&cache), (made.to_vec(), vec![]), "{extension} {name}");
            assert_eq!(load(&cache), (FROM_CACHE.to_vec(), vec![]), "{extension} {name}, afterwards");
        }
    }
}

#[test]
fn an_image_under_a_wrong_name_is_not_taken() {
    let (_guard, cache) = filled();
    // A sound file, checksum and all, but not what its name says.
    fs::copy(file(&cache, "code"), file(&cache, "image")).expect("a copy");
    assert_eq!(load(&cache), (ALL_MADE[..1].to_vec(), vec![]));
    assert_eq!(load(&cache), (FROM_CACHE.to_vec(), vec![]));
}

#[test]
fn code_of_something_else_is_compiled_again() {
    let (_guard, cache) = filled();
    fs::copy(file(&cache, "image"), file(&cache, "code")).expect("a copy");
    assert_eq!(load(&cache), (COMPILED.to_vec(), vec![]));
}

#[test]
fn a_directory_that_others_may_write_is_not_used() {
    for mode in [0o777, 0o770, 0o702, 0o1777] {
        let (_guard, cache) = filled();
        set_mode(&cache, mode);
        let (steps, problems) = load(&cache);
        assert_eq!(steps, ALL_MADE, "mode {mode:o}");
        assert!(problems[0].contains("others may write") && problems[0].contains("chmod"), "{problems:?}");
    }
}

#[test]
fn a_directory_above_that_others_may_write_is_not_trusted_unless_it_is_sticky() {
    let (guard, cache) = filled();
    set_mode(guard.path(), 0o777);
    assert_eq!(load(&cache).0, ALL_MADE);
    set_mode(guard.path(), 0o1777);
    assert_eq!(load(&cache), (FROM_CACHE.to_vec(), vec![]));
}

#[test]
fn a_file_that_others_may_write_is_not_read() {
    let (_guard, cache) = filled();
    set_mode(&file(&cache, "code"), 0o666);
    assert_eq!(load(&cache), (COMPILED.to_vec(), vec![]));
    assert_eq!(load(&cache), (FROM_CACHE.to_vec(), vec![]));
}

#[test]
fn a_link_to_a_directory_is_judged_by_where_it_leads() {
    let (guard, cache) = filled();
    let link = guard.path().join("link");
    symlink(&cache, &link).expect("a link");
    assert_eq!(load(&link), (FROM_CACHE.to_vec(), vec![]));
    set_mode(&cache, 0o777);
    assert_eq!(load(&link).0, ALL_MADE);
}

#[test]
fn a_cache_that_cannot_be_used_costs_time_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a-file");
    fs::write(&path, "in the way").expect("a file");
    let (steps, problems) = load(&path.join("cache"));
    assert_eq!(steps, ALL_MADE);
    assert!(problems[0].contains("cannot be used"), "{problems:?}");
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = directory.path().join("cache");
    load(&cache);
    // A directory where the file should go: permissions would not stop root.
    let code = file(&cache, "code");
    fs::remove_file(&code).expect("removed");
    fs::create_dir(&code).expect("a directory");
    fs::write(code.join("keep"), "").expect("a file");
    let (steps, problems) = load(&cache);
    assert_eq!(steps, COMPILED);
    assert!(problems[0].contains("cannot be stored"), "{problems:?}");
    let leftovers = fs::read_dir(&cache)
        .expect("the cache")
        .filter(|e| e.as_ref().is_ok_and(|e| e.file_name().as_encoded_bytes().starts_with(b".")));
    assert_eq!(leftovers.count(), 0, "temporary files stay behind");
}

#[test]
fn child_loads_a_cache() {
    if let Some(cache) = std::env::var_os("PINCER_TEST_CACHE") {
        assert_eq!(load(Path::new(&cache)).1, Vec::<String>::new());
    }
}

#[test]
fn concurrent_first_starts_do_not_disturb_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = directory.path().join("cache");
    let start = || {
        Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child_loads_a_cache"])
            .env("PINCER_TEST_CACHE", &cache)
            .spawn()
            .expect("a process")
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
    assert_eq!(load(&cache), (FROM_CACHE.to_vec(), vec![]));
}
