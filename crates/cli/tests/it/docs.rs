//! The documents say nothing that is not so: what they point to exists, and what they list is what there is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const DOCUMENTS: [&str; 25] = [
    "README.md",
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/channels.md",
    "docs/codemode.md",
    "docs/coverage.md",
    "docs/cron.md",
    "docs/guest.md",
    "docs/hooks.md",
    "docs/installs.md",
    "docs/mcp.md",
    "docs/models.md",
    "docs/operators.md",
    "docs/programs.md",
    "docs/sessions.md",
    "docs/skills.md",
    "docs/telemetry.md",
    "docs/tool-search.md",
    "docs/cli.md",
    "docs/config.md",
    "docs/plugins.md",
    "docs/tools.md",
    "docs/trajectory.md",
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

/// The pages of the repository: those at its top and all in `docs`.
fn pages() -> Vec<String> {
    let markdown = |folder: &str| -> Vec<String> {
        let files = fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry"));
        let names = files.map(|entry| entry.file_name().into_string().expect("a name"));
        names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}{name}")).collect()
    };
    [markdown(""), markdown("docs/")].concat()
}

/// The lines of a page outside blocks of code.
fn prose(page: &str) -> Vec<String> {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(str::to_owned).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> Vec<String> {
    let mut plain: Vec<String> = Vec::new();
    let mut anchors = Vec::new();
    for heading in prose(page).iter().filter_map(|line| line.strip_prefix('#')) {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        // The second of the same heading has a number.
        let before = plain.iter().filter(|other| **other == anchor).count();
        anchors.push(if before == 0 { anchor.clone() } else { format!("{anchor}-{before}") });
        plain.push(anchor);
    }
    anchors
}

#[test]
fn links_between_the_pages_lead_to_a_page_and_a_heading_that_are_there() {
    let mut dead = Vec::new();
    let mut count = 0;
    for document in pages() {
        let text = read(&document);
        for line in prose(&text) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                count += 1;
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = match path {
                    "" => root().join(&document),
                    path => root().join(&document).parent().expect("a folder").join(path),
                };
                let is_there = match fs::read_to_string(&target) {
                    Ok(page) => anchor.is_empty() || anchors(&page).iter().any(|known| known == anchor),
                    Err(_) => anchor.is_empty() && target.exists(),
                };
                if !is_there {
                    dead.push(format!("{document}: {link}"));
                }
            }
        }
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
    assert!(count > 80, "{count}");
}

#[test]
fn every_defence_in_the_threat_model_has_its_test() {
    assert!(tests_named_in("SECURITY.md") >= 15);
}

#[test]
fn every_promise_in_the_table_has_its_test() {
    assert!(tests_named_in("docs/coverage.md") >= 80);
}

/// How many tests a table names in its last column. All of them exist.
fn tests_named_in(document: &str) -> usize {
    let mut count = 0;
    for row in read(document).lines().filter(|line| line.starts_with("| ") && line.contains(".rs`")) {
        let test = row.rsplit('|').nth(1).expect("a last column");
        // A line may need more than one test.
        let parts: Vec<&str> = test.split('`').skip(1).step_by(2).collect();
        for pair in parts.chunks(2) {
            let [file, name] = pair else { panic!("a file without a test: {row}") };
            let source = read(file);
            assert!(
                source.contains(&format!("fn {name}(")) || source.contains(&format!("\"{name}\",")),
                "{file} has no {name}"
            );
            count += 1;
        }
    }
    count
}

#[test]
fn the_commands_of_the_cli_page_are_those_of_the_binary() {
    let page = read("docs/cli.md");
    for (command, options) in [
        (&["exec"][..], &["--json", "--timeout-ms", "-e", "--ts", "--session", "--agent", "--id"][..]),
        (&["init"], &["--force", "--yes", "--model", "--json"]),
        (&["doctor"], &["--offline", "--json"]),
        (
            &["agent"],
            &[
                "--session",
                "--model",
                "--thinking",
                "--file",
                "--id",
                "--continue",
                "--result",
                "--client-tools",
                "--prompt-mode",
                "--extra-system-prompt",
                "--show-prompt",
                "--no-tools",
                "--queue",
                "--timeout",
                "--json",
                "--events",
            ],
        ),
        (&["wait"], &["--json", "--timeout-ms", "--session"]),
        (&["runs"], &["--json", "--session"]),
        (&["sessions"], &["--json"]),
        (&["sessions", "list"], &["--all", "--limit"]),
        (&["sessions", "show"], &["--all-branches", "--full", "--id"]),
        (&["sessions", "search"], &["--limit"]),
        (&["sessions", "fork"], &["--at"]),
        (&["sessions", "delete"], &["--yes"]),
        (
            &["cron", "add"],
            &[
                "--at",
                "--every",
                "--cron",
                "--tz",
                "--agent",
                "--session",
                "--isolated",
                "--model",
                "--timeout",
                "--missed",
                "--delete-after-run",
                "--user",
            ],
        ),
        (&["cron", "list"], &["--all-users", "--limit", "--json"]),
        (&["cron", "show"], &[]),
        (&["cron", "run"], &["--due", "--watch"]),
        (&["cron", "runs"], &["--limit"]),
        (&["cron", "disable"], &[]),
        (&["cron", "enable"], &[]),
        (&["cron", "remove"], &[]),
        (&["demo"], &[]),
        (&["tools"], &["--json", "--agent", "--provider", "--model", "--sender", "--sandboxed"]),
        (&["tools", "call"], &["--json", "--session"]),
        (&["plugins"], &["--json"]),
        (&["plugins", "install"], &["--yes", "--accept-findings", "--dry-run", "--json"]),
        (&["plugins", "remove"], &["--yes", "--dry-run", "--json"]),
        (&["skills", "install"], &["--yes", "--accept-findings", "--dry-run", "--json"]),
        (&["skills", "update"], &["--yes", "--accept-findings", "--dry-run", "--json"]),
        (&["skills"], &["--json", "--agent", "--session"]),
        (&["channels"], &["--json"]),
        (&["channels", "send"], &["--to", "--thread", "-m", "--id", "--timeout"]),
        (&["channels", "deliveries"], &["--channel", "--state", "--limit"]),
        (&["mcp", "serve"], &["--http", "--surface", "--session"]),
        (&["mcp", "import"], &["--secrets", "--replace", "--write", "--keep", "--dry-run", "--undo", "--json"]),
        (&["mcp", "list"], &["--cached", "--json"]),
        (&["mcp", "login"], &["--no-browser", "--json"]),
        (&["secrets"], &["--json", "--keychain"]),
        (&["backup"], &["--json"]),
        (&["restore"], &["--json"]),
        (&["confine"], &["--write", "--no-network"]),
        (&["config"], &["--json", "--config", "--state-dir"]),
        (&["bench", "cells"], &["--json", "--rounds"]),
        (&["bench", "calls"], &["--json", "--rounds"]),
        (&["bench", "mcp"], &["--json", "--rounds"]),
        (&["bench", "model"], &["--json"]),
        (&["bench", "agent"], &["--json", "--runs", "--sessions"]),
        (&["bench", "hooks"], &["--json", "--rounds"]),
        (&["bench", "cron"], &["--json", "--jobs", "--seconds"]),
        (&["bench", "prompt"], &["--json", "--rounds"]),
        (&["savings"], &["--session", "--since", "--by", "--limit", "--json"]),
        (&["bench", "surfaces"], &["--data", "--tools", "--rounds", "--json"]),
        (&["bench", "search"], &["--json", "--data", "--beside"]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_pincer")).args(command).arg("--help").output().expect("pincer");
        let help = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(page.contains(&format!("pincer {}", command.join(" "))), "{command:?} is not in docs/cli.md");
        for option in options {
            assert!(page.contains(option) && help.contains(option), "{command:?} {option}");
        }
    }
}

#[test]
fn the_page_of_tools_has_all_of_them() {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pincer"));
    command.args(["tools", "list", "--json"]).current_dir(home.path()).env_clear().env("HOME", home.path());
    let listed = command.output().expect("pincer").stdout;
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&listed).expect("a list");
    let page = read("docs/tools.md");
    for name in listed.iter().filter_map(|tool| tool["name"].as_str()) {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/tools.md");
    }
    assert_eq!(listed.len(), 13);
}

#[test]
fn the_samples_are_right_and_the_page_of_plugins_has_all_keys() {
    for sample in ["notes", "clock", "irc"] {
        let folder = root().join("examples").join(sample);
        let checked =
            Command::new(env!("CARGO_BIN_EXE_pincer")).args(["plugins", "check"]).arg(folder).output().expect("pincer");
        assert!(checked.status.success(), "{sample}: {}", String::from_utf8_lossy(&checked.stderr));
    }
    let page = read("docs/plugins.md");
    let schema = serde_json::to_value(pincer_plugins::Manifest::schema()).expect("a schema");
    let mut keys: Vec<String> = Vec::new();
    for shape in schema["$defs"].as_object().expect("shapes").values().chain([&schema]) {
        keys.extend(shape["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()));
    }
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        assert!(
            page.contains(&format!("`{key}`")) || page.contains(&format!("`{key}[]`")),
            "{key} is not in docs/plugins.md"
        );
    }
}

/// The configs that the pages show are right ones.
#[test]
fn the_configs_in_the_documents_are_valid() {
    let mut count = 0;
    for document in [
        "docs/channels.md",
        "docs/cron.md",
        "docs/hooks.md",
        "docs/installs.md",
        "docs/mcp.md",
        "docs/models.md",
        "docs/operators.md",
    ] {
        for block in read(document).split("```json5\n").skip(1) {
            let block = block.split("```").next().expect("a closed block");
            let long_enough = |_: &str| Some("a-token-that-is-long-enough".to_owned());
            if let Err(wrong) = pincer_config::parse(block, &long_enough) {
                panic!("{document}: {wrong}\n{block}");
            }
            count += 1;
        }
    }
    assert!(count >= 3);
}

#[test]
fn the_page_lists_the_well_known_providers() {
    let page = read("docs/models.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `") && line.contains("://")).collect();
    let expected: Vec<String> = pincer_model::PRESETS
        .iter()
        .map(|preset| {
            let variables: Vec<String> = preset.variables.iter().map(|name| format!("`{name}` ")).collect();
            let variables = variables.join("").trim_end().replace("` `", "`, `");
            let end = if variables.is_empty() { String::new() } else { format!("{variables} ") };
            format!("| `{}` | `{}` | `{}` | {end}|", preset.id, preset.base_url, preset.api.name())
        })
        .collect();
    assert_eq!(rows, expected);
}
