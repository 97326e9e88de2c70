//! Checks that the programs of hooks are there. None is started: a hook may do anything.

use std::env::{split_paths, var_os};
use std::path::Path;

use pincer_config::Loaded;
use pincer_hooks::OnFailure;
use pincer_runtime::{HookProgram, hook_programs};
use rustix::fs::{Access, access};

use super::check::Check;
use crate::print::count;

/// Checks the programs of the hooks of the config. Without hooks there is no check.
pub(super) fn hooks(loaded: &Loaded) -> Option<Check> {
    let programs = hook_programs(loaded);
    if programs.is_empty() {
        return None;
    }
    let missing: Vec<&HookProgram> = programs.iter().filter(|hook| !can_be_started(&hook.program)).collect();
    if missing.is_empty() {
        return Some(Check::ok("hooks", format!("{} of the config can be started", count(programs.len(), "hook"))));
    }
    let told = |hook: &&HookProgram| {
        let effect = match hook.on_failure {
            OnFailure::Block => "all that it is asked about is blocked",
            OnFailure::Skip => "it is skipped each time",
        };
        format!("{}: there is no program {:?} that can be started, so {effect}", hook.at, hook.program)
    };
    let message = missing.iter().map(told).collect::<Vec<_>>().join("\n");
    let remedy = "correct `command`, install the program, or make it executable (`chmod +x`)";
    Some(match missing.iter().any(|hook| hook.on_failure == OnFailure::Block) {
        true => Check::fail("hooks", message, remedy),
        false => Check::warn("hooks", message, remedy),
    })
}

/// Returns whether a program is there: at its path, or in a directory of `PATH`.
fn can_be_started(program: &str) -> bool {
    let is_program = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    match program.contains('/') {
        true => is_program(Path::new(program)),
        false => split_paths(&var_os("PATH").unwrap_or_default()).any(|place| is_program(&place.join(program))),
    }
}
