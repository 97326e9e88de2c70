//! How the build gets the engine, and every way it can fail: each error says what to do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../build/fetch.rs"]
mod fetch;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fetch::{FetchError, WASM_SHA256, fetch};
use tempfile::TempDir;

fn engine_manifest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("engine")
}

/// The engine that this build was made with.
fn sound_engine() -> PathBuf {
    PathBuf::from(env!("PINCER_ENGINE_WASM"))
}

fn out() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A program in the place of npm.
fn npm_that(script: &str, directory: &Path) -> PathBuf {
    let path = directory.join("npm");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    path
}

#[test]
fn a_named_file_with_the_right_hash_is_taken_without_npm() {
    let out = out();
    let got = fetch(&engine_manifest(), out.path(), "/no/such/npm".as_ref(), Some(sound_engine().as_os_str()));
    assert_eq!(fs::read(got.expect("the engine")).expect("a file"), fs::read(sound_engine()).expect("a file"));
}

#[test]
fn a_named_file_with_another_hash_is_refused() {
    let out = out();
    let other = out.path().join("other.wasm");
    fs::write(&other, b"\0asm\x01\0\0\0").expect("a file");
    let error = fetch(&engine_manifest(), out.path(), "npm".as_ref(), Some(other.as_os_str())).expect_err("refused");
    assert!(matches!(error, FetchError::WrongHash { .. }));
    let text = error.to_string();
    assert!(
        text.contains(WASM_SHA256)
            && text.contains("quickjs-wasi 3.6.2")
            && text.contains("PINCER_QUICKJS_WASM is set")
    );
}

#[test]
fn a_named_file_that_is_not_there_is_told() {
    let out = out();
    let error =
        fetch(&engine_manifest(), out.path(), "npm".as_ref(), Some("/no/such/file".as_ref())).expect_err("refused");
    assert!(matches!(error, FetchError::Unreadable { .. }));
    assert!(error.to_string().contains("/no/such/file"));
}

#[test]
fn missing_npm_is_told() {
    let out = out();
    let error = fetch(&engine_manifest(), out.path(), "/no/such/npm".as_ref(), None).expect_err("refused");
    assert!(matches!(error, FetchError::NpmMissing { .. }));
    let text = error.to_string();
    assert!(text.contains("Install Node.js with npm") && text.contains("PINCER_QUICKJS_WASM"));
}

#[test]
fn a_failing_npm_is_told_with_its_own_words() {
    let out = out();
    let npm = npm_that("echo 'npm error network unreachable' >&2; exit 1", out.path());
    let error = fetch(&engine_manifest(), out.path(), npm.as_os_str(), None).expect_err("refused");
    assert!(matches!(error, FetchError::NpmFailed { .. }));
    let text = error.to_string();
    assert!(text.contains("network unreachable") && text.contains("reaches the npm registry"));
}

#[test]
fn what_npm_brings_is_checked_too() {
    let out = out();
    let script = "mkdir -p node_modules/quickjs-wasi && echo forged > node_modules/quickjs-wasi/quickjs.wasm";
    let npm = npm_that(script, out.path());
    let error = fetch(&engine_manifest(), out.path(), npm.as_os_str(), None).expect_err("refused");
    assert!(matches!(error, FetchError::WrongHash { .. }));
}

#[test]
fn an_engine_that_is_already_there_is_not_fetched_again() {
    let out = out();
    fs::copy(sound_engine(), out.path().join("quickjs.wasm")).expect("a copy");
    fetch(&engine_manifest(), out.path(), "/no/such/npm".as_ref(), None).expect("the engine");
    fs::write(out.path().join("quickjs.wasm"), "damaged").expect("a file");
    let error = fetch(&engine_manifest(), out.path(), "/no/such/npm".as_ref(), None).expect_err("refused");
    assert!(matches!(error, FetchError::NpmMissing { .. }));
}

#[test]
fn the_lock_file_pins_version_and_integrity() {
    let lock = fs::read_to_string(engine_manifest().join("package-lock.json")).expect("the lock file");
    assert!(lock.contains("\"version\": \"3.6.2\"") && lock.contains("\"integrity\": \"sha512-"));
}
