//! The command of a plugin, and everything that its manifest brings.

use pincer_hooks::{HookName, Reach};
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

fn is_about_tools(hook: HookName) -> bool {
    matches!(hook, HookName::BeforeToolCall | HookName::AfterToolCall | HookName::ToolResultPersist)
}

pub(super) fn look_at(manifest: &Manifest, tree: &Tree, scan: &mut Scan, findings: &mut Findings) {
    // All keys by their names: a new one is not forgotten here.
    let Manifest { id, version: _, description: _, command, tools, hooks, namespaces, channels } = manifest;
    // As JSON: the words would run into each other otherwise.
    let words = one_line(&json!(command).to_string(), MOST_COMMAND);
    scan.runs.push(format!("{words} in its folder, with your rights and without secrets of the environment"));
    let name = |name: &str| one_line(name, MOST_NAME);
    for tool in tools {
        let claims = if tool.read_only { " (says that it changes nothing)" } else { "" };
        scan.brings.push(format!("tool plugin:{id}:{}{claims}", name(&tool.name)));
    }
    for hook in hooks {
        let tools = match hook.matcher.as_slice() {
            [] if is_about_tools(hook.event) => " on every tool".into(),
            [] => String::new(),
            tools => format!(" on {}", name(&tools.join(", "))),
        };
        scan.brings.push(format!("hook {}{tools}", hook.event));
    }
    for namespace in namespaces {
        scan.brings.push(format!("namespace {}", name(&namespace.global_name)));
    }
    for channel in channels {
        scan.brings.push(format!("channel {}", name(&channel.name)));
    }
    let mut add = |severity, rule, message: &str| {
        findings.add(Finding::new(severity, rule, message).at(Kind::Plugin.manifest(), None));
    };
    if hooks.iter().any(|hook| is_about_tools(hook.event) && hook.matcher.is_empty()) {
        add(Severity::Warning, "sees-every-call", "a hook of it sees the input of every call of every tool");
    }
    for (reach, rule, message) in [
        (
            Reach::Conversation,
            "reads-conversations",
            "a hook of it reads conversations; it is used only if `hooks.allowConversationAccess` of its entry is true",
        ),
        (
            Reach::Prompt,
            "adds-to-the-prompt",
            "a hook of it adds to the prompt, unless `hooks.allowPromptInjection` of its entry is false",
        ),
    ] {
        if hooks.iter().any(|hook| hook.event.spec().reach == reach) {
            add(Severity::Warning, rule, message);
        }
    }
    let Some(program) = command.first() else { return };
    let base = program.rsplit('/').next().unwrap_or(program);
    if FETCHERS.contains(&base) {
        let message = format!("it is started with {base}, which fetches what it runs: that is not looked at here");
        add(Severity::Warning, "fetches-its-program", &message);
    }
    if SHELLS.contains(&base) && command.get(1).is_some_and(|word| word.starts_with('-') && word.contains('c')) {
        add(Severity::Warning, "command-of-a-shell", "its command is a line for a shell");
    }
    for word in command {
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
