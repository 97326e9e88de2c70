//! Snapshots of earlier builds. Each must continue to its recorded result or be refused; nothing else is possible.
//!
//! `tests/golden/<image>-<name>.snapshot` was parked against the image whose hash starts so. When the image changes, on
//! purpose, add the new build's snapshots and keep the old ones:
//!
//! ```text
//! PINCER_GOLDEN_WRITE=1 cargo test -p pincer-sandbox --test golden
//! ```
//!
//! Not in `it`: the command above names it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use common::{LONG, engine, first_turn, json};
use pincer_sandbox::{Answer, Error, Limits, TurnEnd};

/// Name, program, and what it comes to when its pending requests are answered with 10, 11, 12, …
const CASES: &[(&str, &str, &str)] = &[
    ("small", "const a = [1, 2, 3]; const x = await call('x'); return a.length + x", "13"),
    ("parallel", "return await Promise.all([call('a'), call('b'), call('c')])", "[10,11,12]"),
    (
        "generator",
        "function* g() { const a = yield 1; return a * 2 } const i = g(); i.next(); return i.next(await call()).value",
        "20",
    ),
    (
        "classes",
        "class A { #x = 1; add(y) { return (this.#x += y) } } const a = new A(); a.add(1); return a.add(await call())",
        "12",
    ),
    (
        "collections",
        "const k = {}; const m = new Map([[k, 1]]); const w = new WeakMap([[k, 2]]); const n = await call(); return [m.get(k), w.get(k), n]",
        "[1,2,10]",
    ),
    (
        "timers",
        "const log = []; setTimeout((x) => log.push(x), 5, 'tick'); log.push(await call()); return log",
        "[\"tick\",11]",
    ),
    (
        "binary",
        "const b = new Uint8Array(200000).map((_, i) => i); const n = await call(); return b.reduce((s, x) => s + x, n)",
        "25493866",
    ),
    (
        "errors",
        "try { throw new TypeError('kept') } catch (e) { return [await call(), e.message, e.stack.length > 0] }",
        "[10,\"kept\",true]",
    ),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Enough of the hash to tell images apart by eye.
fn image() -> String {
    engine().image_hash().to_string()[..12].to_owned()
}

fn resume(snapshot: &[u8]) -> Result<TurnEnd, Error> {
    let mut cell = engine().restore(snapshot, Limits::default())?;
    for (index, id) in cell.pending().into_iter().enumerate() {
        cell.deliver(Answer::value(id, json(&(10 + index).to_string())))?;
    }
    Ok(cell.run_turn(LONG)?.end)
}

fn write_missing() {
    for (name, source, _) in CASES {
        let path = directory().join(format!("{}-{name}.snapshot", image()));
        if !path.exists() {
            let (mut cell, _) = first_turn(source);
            fs::create_dir_all(directory()).expect("a directory");
            fs::write(path, cell.park().expect("a snapshot")).expect("a file");
        }
    }
}

#[test]
fn stored_snapshots_continue_or_are_refused() {
    if env::var_os("PINCER_GOLDEN_WRITE").is_some() {
        write_missing();
    }
    let mut current = 0;
    for entry in fs::read_dir(directory()).expect("the corpus") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name");
        let (made_for, case) = name.split_once('-').expect("a name of the form image-case");
        let (_, _, expected) = CASES.iter().find(|(name, ..)| *name == case).expect("a known case");
        match resume(&fs::read(&path).expect("a snapshot")) {
            Ok(TurnEnd::Value(Some(value))) => assert_eq!(value.as_str(), *expected, "{name}"),
            Err(Error::Restore(_)) if made_for != image() => continue,
            other => panic!("{name} came to {other:?}"),
        }
        current += usize::from(made_for == image());
    }
    assert_eq!(
        current,
        CASES.len(),
        "the corpus has no snapshots of this build's image {}. An image must only change on purpose: if it did, add them as \
         the top of this file says; if not, this machine makes another image than others do",
        image()
    );
}
