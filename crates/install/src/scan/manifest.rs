//! The command, tools, hooks and namespaces in the manifest of a plugin.

use pincer_plugins::Manifest;
use pincer_tools::one_line;
use serde_json::json;

use crate::digest::Tree;
use crate::scan::Scan;
use crate::scan::findings::{Finding, Findings, Severity};
use crate::target::Kind;

const MOST_COMMAND: usize = 400;
const MOST_NAME: usize = 100;
/// Programs that fetch what they run.
const FETCHERS: [&str; 10] = ["npx", "uvx", "pipx", "bunx", "docker", "podman", "curl", "wget", "deno", "nix"];
const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "ksh", "fish"];

pub(super) fn look_at(manifest: &Manifest, tree: &Tree, scan: &mut Scan, findings: &mut Findings) {
    // As JSON: the words would run into each other otherwise.
    let command = one_line(&json!(manifest.command).to_string(), MOST_COMMAND);
    scan.runs.push(format!("{command} in its folder, with your rights and without secrets of the environment"));
    let name = |name: &str| one_line(name, MOST_NAME);
    for tool in &manifest.tools {
        let claims = if tool.read_only { " (says that it changes nothing)" } else { "" };
        scan.brings.push(format!("tool plugin:{}:{}{claims}", manifest.id, name(&tool.name)));
    }
    for hook in &manifest.hooks {
        let event = json!(hook.event);
        let tools = if hook.matcher.is_empty() { "every tool".into() } else { name(&hook.matcher.join(", ")) };
        scan.brings.push(format!("hook {} on {tools}", event.as_str().unwrap_or_default()));
    }
    for namespace in &manifest.namespaces {
        scan.brings.push(format!("namespace {}", name(&namespace.global_name)));
    }
    let mut add = |severity, rule, message: &str| {
        findings.add(Finding::new(severity, rule, message).at(Kind::Plugin.manifest(), None));
    };
    if manifest.hooks.iter().any(|hook| hook.matcher.is_empty()) {
        add(Severity::Warning, "sees-every-call", "a hook of it sees the input of every call of every tool");
    }
    let Some(program) = manifest.command.first() else { return };
    let base = program.rsplit('/').next().unwrap_or(program);
    if FETCHERS.contains(&base) {
        let message = format!("it is started with {base}, which fetches what it runs: that is not looked at here");
        add(Severity::Warning, "fetches-its-program", &message);
    }
    if SHELLS.contains(&base) && manifest.command.get(1).is_some_and(|word| word.starts_with('-') && word.contains('c'))
    {
        add(Severity::Warning, "command-of-a-shell", "its command is a line for a shell");
    }
    for word in &manifest.command {
        if word.starts_with('/') || word.split('/').any(|part| part == "..") {
            let message = format!("its command names a place outside its folder: {}", name(word));
            add(Severity::Warning, "starts-from-elsewhere", &message);
        }
    }
    let within = program.strip_prefix("./").unwrap_or(program);
    if program.contains('/') && !program.starts_with('/') && tree.get(within).is_none_or(|file| !file.executable) {
        let message = format!("its program {} is not in its folder, or may not be started", name(program));
        add(Severity::Warning, "missing-program", &message);
    }
}
