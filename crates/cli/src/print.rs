//! Text for people: errors with their causes, values, sizes and times.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use console::StyledObject;
pub(crate) use pincer_runtime::chain;
use pincer_sandbox::Json;
use pincer_tools::is_hidden;

use crate::FAILED;

/// A string as it is, anything else as indented JSON.
pub(crate) fn value(json: &Json) -> String {
    json.to::<String>().unwrap_or_else(|_| indented(json.as_str()))
}

/// JSON with line breaks, its keys in their order.
fn indented(json: &str) -> String {
    let (mut out, mut depth, mut in_string, mut escaped) = (String::new(), 0, false, false);
    let break_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    for c in json.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            out.push(c);
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '[' | '{' => {
                depth += 1;
                out.push(c);
                break_line(&mut out, depth);
            }
            ']' | '}' => {
                depth -= 1;
                match out.trim_end().ends_with(['[', '{']) {
                    true => out.truncate(out.trim_end().len()),
                    false => break_line(&mut out, depth),
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// `41.2 µs`, `3.41 ms`, `1.2 s`.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_nanos() as f64 / 1000.0;
    match micros {
        _ if micros < 1000.0 => format!("{micros:.1} µs"),
        _ if micros < 1_000_000.0 => format!("{:.2} ms", micros / 1000.0),
        _ => format!("{:.2} s", micros / 1_000_000.0),
    }
}

/// `1812 bytes`, `18.1 KB`, `3.4 MB`.
pub(crate) fn bytes(count: usize) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// `812`, `18.1k`, `3.4M`, `-18.1k`.
pub(crate) fn short(count: i64) -> String {
    match count.unsigned_abs() {
        ..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// `1 run`, `2 runs`.
pub(crate) fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

static UNPRINTED: AtomicBool = AtomicBool::new(false);

/// The code to end with: a failure if something could not be printed.
pub(crate) fn exit_code(code: u8) -> u8 {
    if UNPRINTED.load(Ordering::Relaxed) { FAILED } else { code }
}

/// Prints to stdout. A reader that has gone away is no error of ours (`pincer exec … | head -1`); a full disk is.
pub(crate) fn line(text: &str) {
    // A program's text must not move the cursor, change colours or rename the window of whoever reads it.
    match io::stdout().is_terminal() {
        true => prepared(&harmless(text)),
        false => prepared(text),
    }
}

/// Prints text to stdout as it is: our own colours, and texts of others that are escaped already.
pub(crate) fn prepared(text: &str) {
    let stdout = io::stdout();
    match writeln!(stdout.lock(), "{text}").and_then(|()| stdout.lock().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            note(&format!("error: standard output cannot be written: {error}"));
            // What is under way is ended in its own way.
            UNPRINTED.store(true, Ordering::Relaxed);
        }
        _ => {}
    }
}

/// Prints a word in its colour, if stdout is a terminal that shows colours, and a text behind it.
pub(crate) fn marked(word: &StyledObject<&str>, text: &str) {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return line(&format!("{word}{text}"));
    }
    // As in `line`, for the text alone: the word is our own.
    let _ = writeln!(stdout.lock(), "{word}{}", harmless(text));
}

/// Prints to stderr, if there is one: `eprintln!` would panic without.
pub(crate) fn note(text: &str) {
    let stderr = io::stderr();
    let text = if stderr.is_terminal() { harmless(text) } else { text.to_owned() };
    let _ = writeln!(stderr.lock(), "{text}");
}

/// Prints to stderr as it comes, without a line break of its own.
pub(crate) fn streamed(text: &str) {
    let stderr = io::stderr();
    let text = if stderr.is_terminal() { harmless(text) } else { text.to_owned() };
    let _ = write!(stderr.lock(), "{text}");
}

/// Control characters as their escapes, but for line breaks and tabs; and those that turn text around or hide in it.
pub(crate) fn harmless(text: &str) -> String {
    let show = |c: char| match is_hidden(c) && c != '\n' && c != '\t' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_indented_and_keep_the_order_of_their_keys() {
        assert_eq!(
            indented(r#"{"z":[1,{"a":"x: [\"y\"], {"}],"b":{},"c":[]}"#),
            "{\n  \"z\": [\n    1,\n    {\n      \"a\": \"x: [\\\"y\\\"], {\"\n    }\n  ],\n  \"b\": {},\n  \"c\": []\n}"
        );
        assert_eq!((indented("5"), indented("[]")), ("5".into(), "[]".into()));
    }

    #[test]
    fn a_program_cannot_drive_the_terminal() {
        assert_eq!(harmless("a\u{1b}[31mb\u{7}\tc\nd\u{9b}\u{202e}"), "a\\u{1b}[31mb\\u{7}\tc\nd\\u{9b}\\u{202e}");
    }
}
