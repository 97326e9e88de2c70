//! Entrances for the fuzzer, and no other caller: the readings and decisions that hostile text goes through first.

use std::path::Path;

use crate::shell::{Gate, literal_words};
use crate::{ExecMode, Workspace};

/// Returns the words of a command that a shell would run just as they are.
pub fn words(command: &str) -> Option<Vec<String>> {
    literal_words(command)
}

/// Returns the words of a command that runs unasked although every program is on the list.
pub fn unasked(command: &str) -> Option<Vec<String>> {
    let all = ["*".to_owned(), "/**".to_owned()];
    let gate = Gate::new(ExecMode::Allowlist, &all, "/usr/bin:/bin", Vec::new(), true).ok()?;
    gate.direct(command).map(|unasked| unasked.words)
}

/// Writes a file as the file tools do. Returns whether that was let happen.
pub fn write(workspace: &Workspace, path: &str) -> bool {
    workspace.target(path).is_ok_and(|target| target.write(b"mine").is_ok())
}
