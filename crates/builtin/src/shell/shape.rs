//! The commands that an answer for ever to a question about one of them covers.

use std::fmt::Write;

use pincer_tools::hooks::Standing;

use super::programs::Argument;

/// The longest command that an answer for ever can be about. A person should see all of it.
pub(super) const LONGEST_REMEMBERED: usize = 300;

/// Returns what an answer for ever covers where it cannot be told what a command does: that very command. No path begins with a
/// quote, so it is never taken for a shape.
pub(super) fn this_command(command: &str, directory: Option<&str>) -> Standing {
    if command.len() > LONGEST_REMEMBERED {
        return Standing::Never;
    }
    Standing::Parts(vec![match directory {
        Some(directory) => format!("{command:?} in {directory:?}"),
        None => format!("{command:?}"),
    }])
}

/// Returns the shape of a command: its program, its options with what follows each, plain words such as `commit`, and `*` for a word
/// that looks like a path or a number, if the program is an ordinary one that does no more with it than read or write it.
pub(super) fn shape(program: &str, is_ordinary: bool, arguments: &[Argument]) -> String {
    let mut shape = program.to_owned();
    let mut follows_option = false;
    for argument in arguments {
        let text = argument.text.as_str();
        let is_option = text.starts_with('-');
        let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let is_path =
            text.starts_with(|c: char| c.is_alphanumeric() || "./_".contains(c)) && !text.contains(['=', ':']);
        shape.push(' ');
        match !is_ordinary || is_option || follows_option || is_plain || !is_path {
            // Quoted where it could be taken for something else.
            true if text.is_empty() || text.contains(|c: char| !c.is_ascii_graphic() || "*\"\\+".contains(c)) => {
                let _ = write!(shape, "{text:?}");
            }
            true => shape.push_str(text),
            false => shape.push('*'),
        }
        follows_option = is_option;
    }
    shape
}
