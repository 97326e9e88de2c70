//! The arrows between the crates are those of the list at the top of `ARCHITECTURE.md`. The list is the only place that has them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PREFIX: &str = "pincer-";
/// Test servers and a faulty store. Every crate may use it in tests, and none otherwise.
const TESTKIT: &str = "testkit";
const ARROW: &str = "──▶";

/// Crates that must stay small, and what they must not depend on.
const NOT_WITH: [(&str, &[&str]); 7] = [
    ("json", &ASYNC_AND_IO),
    ("snapshot", &ASYNC_AND_IO),
    ("sandbox", &ASYNC_AND_IO),
    ("source", &ASYNC_AND_IO),
    ("catalog", &ASYNC_AND_IO),
    ("store", &ASYNC_AND_IO),
    // It draws nothing and parses no arguments.
    ("runtime", &["clap", "console", "indicatif"]),
];
const ASYNC_AND_IO: [&str; 7] = ["axum", "hyper", "reqwest", "rmcp", "rusqlite", "tokio", "tokio-util"];

/// A crate as the list has it: what it is called, and the crates that it uses.
struct Row {
    name: String,
    uses: BTreeSet<String>,
}

/// Reads the list: in the first block of code, a line for each crate, from the top down.
fn listed(page: &str) -> Vec<Row> {
    let block = page.split("```").nth(1).expect("a block of code");
    let rows = block.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let (left, right) = line.split_once(ARROW).unwrap_or((line, ""));
        let name = left.split_whitespace().next().expect("a crate").to_owned();
        let uses = right.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty() && name != "–");
        Row { name, uses: uses.collect() }
    });
    rows.collect()
}

/// What one crate depends on by its manifest.
#[derive(Default)]
struct Manifest {
    /// Crates of ours that it is made with.
    ours: BTreeSet<String>,
    /// Crates of ours that only its tests use.
    ours_in_tests: BTreeSet<String>,
    /// Crates of others.
    others: BTreeSet<String>,
}

fn manifests() -> BTreeMap<String, Manifest> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap().iter().map(|package| {
        let mut manifest = Manifest::default();
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            let is_for_tests = dependency["kind"] == "dev";
            match (name.strip_prefix(PREFIX), is_for_tests) {
                (Some(name), true) => manifest.ours_in_tests.insert(name.to_owned()),
                (Some(name), false) => manifest.ours.insert(name.to_owned()),
                (None, true) => false,
                (None, false) => manifest.others.insert(name.to_owned()),
            };
        }
        // The list has the names of directories: the package of `cli` is called after the binary.
        let directory = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        (directory.file_name().unwrap().to_str().unwrap().to_owned(), manifest)
    });
    packages.collect()
}

#[test]
fn crates_depend_on_each_other_as_architecture_md_says() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md")).unwrap();
    let (rows, manifests) = (listed(&page), manifests());
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let mut wrong = Vec::new();
    for name in manifests.keys().filter(|name| !names.contains(&name.as_str())) {
        wrong.push(format!("{name} has no line in the list"));
    }
    for (at, Row { name, uses }) in rows.iter().enumerate() {
        let Some(manifest) = manifests.get(name) else {
            wrong.push(format!("{name} is in the list, and there is no such crate"));
            continue;
        };
        let is_below = |other: &str| names[at + 1..].contains(&other);
        for other in uses.iter().filter(|other| !is_below(other)) {
            wrong.push(format!("{name} {ARROW} {other} in the list points up: {other} must be on a line below {name}"));
        }
        for other in manifest.ours.difference(uses) {
            wrong.push(format!("{name} {ARROW} {other} is in the manifest and not in the list"));
        }
        for other in uses.difference(&manifest.ours) {
            wrong.push(format!("{name} {ARROW} {other} is in the list and not in the manifest"));
        }
        if manifest.ours.contains(TESTKIT) {
            wrong.push(format!("{name} uses {TESTKIT}, which is for tests"));
        }
        for other in manifest.ours_in_tests.iter().filter(|other| *other != TESTKIT && !is_below(other)) {
            wrong.push(format!("the tests of {name} use {other}, which is not below {name}"));
        }
    }
    assert!(wrong.is_empty(), "change ARCHITECTURE.md or the manifests:\n{}", wrong.join("\n"));
}

#[test]
fn crates_that_must_stay_small_have_no_async_runtime_network_or_database() {
    let manifests = manifests();
    for (name, forbidden) in NOT_WITH {
        let others = &manifests[name].others;
        let found: Vec<&&str> = forbidden.iter().filter(|forbidden| others.contains(**forbidden)).collect();
        assert!(found.is_empty(), "{name} depends on {found:?}");
    }
}

#[test]
fn a_list_is_read_line_by_line() {
    let rows = listed(
        "text\n```\n cli  the binary  ──▶ tools, store\n tools  the door ──▶ store\n store  what survives\n```\n",
    );
    let read: Vec<_> =
        rows.iter().map(|row| (row.name.as_str(), row.uses.iter().cloned().collect::<Vec<_>>())).collect();
    let expected = [("cli", vec!["store", "tools"]), ("tools", vec!["store"]), ("store", vec![])];
    assert_eq!(read, expected.map(|(name, uses)| (name, uses.into_iter().map(str::to_owned).collect())));
}
