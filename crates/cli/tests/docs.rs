//! The documents say nothing that is not so: what they point to exists, and what they list is what there is.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const DOCUMENTS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/guest.md",
    "docs/cli.md",
    "docs/config.md",
];

#[test]
fn paths_in_the_documents_exist() {
    for document in DOCUMENTS {
        let text = read(document);
        let code =
            text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("crates/") || code.starts_with("fuzz/"));
        let links =
            text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://"));
        for path in code
            .map(|code| (Path::new(""), code))
            .chain(links.map(|link| (Path::new(document).parent().unwrap(), link)))
        {
            let (base, path) = path;
            let path = path.split([' ', '#']).next().unwrap_or_default();
            assert!(root().join(base).join(path).exists(), "{document} names {path}, which does not exist");
        }
    }
}

#[test]
fn every_defence_in_the_threat_model_has_its_test() {
    let mut count = 0;
    for row in read("SECURITY.md").lines().filter(|line| line.starts_with("| ") && line.contains(".rs`")) {
        let test = row.rsplit('|').nth(1).expect("a last column");
        let mut parts = test.split('`').skip(1).step_by(2);
        let (file, name) = (parts.next().expect("a file"), parts.next().expect("a name"));
        let source = read(file);
        assert!(
            source.contains(&format!("fn {name}(")) || source.contains(&format!("\"{name}\",")),
            "{file} has no {name}"
        );
        count += 1;
    }
    assert!(count >= 15, "only {count} rows");
}

#[test]
fn the_commands_of_the_cli_page_are_those_of_the_binary() {
    let page = read("docs/cli.md");
    for (command, options) in [
        (&["exec"][..], &["--json", "--timeout-ms", "-e"][..]),
        (&["demo"], &[]),
        (&["tools"], &["--json", "--agent", "--provider", "--model", "--sender", "--sandboxed"]),
        (&["config"], &["--json", "--config", "--state-dir"]),
        (&["bench", "cells"], &["--json", "--rounds"]),
        (&["bench", "search"], &["--json", "--data"]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_pincer")).args(command).arg("--help").output().expect("pincer");
        let help = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(page.contains(&format!("pincer {}", command.join(" "))), "{command:?} is not in docs/cli.md");
        for option in options {
            assert!(page.contains(option) && help.contains(option), "{command:?} {option}");
        }
    }
}
