//! `pincer confine`: confines this process, and becomes a command.

use crate::print::{chain, note};
use crate::usage::ConfineArguments;
use crate::{FAILED, WRONG_USAGE};

#[cfg(target_os = "linux")]
pub(crate) fn run(arguments: &ConfineArguments) -> u8 {
    use std::os::unix::process::CommandExt;

    let Some((program, rest)) = arguments.command.split_first() else { return WRONG_USAGE };
    if let Err(error) = pincer_builtin::confine_this_process(arguments.write.as_deref(), !arguments.no_network) {
        note(&format!("error: the command was not run: {}", chain(&error)));
        return FAILED;
    }
    let error = std::process::Command::new(program).args(rest).exec();
    note(&format!("error: {program} cannot be run: {error}"));
    FAILED
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &ConfineArguments) -> u8 {
    note("error: the command was not run: commands can be confined on Linux only");
    FAILED
}
