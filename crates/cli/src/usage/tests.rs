//! The examples in the help of commands.

use clap::{Command, CommandFactory};

use super::*;

/// Collects the commands without an example of themselves in their help.
fn collect_without_example(command: &Command, path: &str, found: &mut Vec<String>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
        let is_example = |line: &str| line.starts_with("  ") && format!("{line} ").contains(&format!("{path} "));
        if !help.starts_with("Example") || !help.lines().any(is_example) {
            found.push(path.clone());
        }
        collect_without_example(sub, &path, found);
    }
}

#[test]
fn every_command_has_an_example_of_itself() {
    let mut found = Vec::new();
    collect_without_example(&Cli::command(), "pincer", &mut found);
    assert!(found.is_empty(), "no example in `--help`: {found:#?}");
}
