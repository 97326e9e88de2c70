//! Findings about lines of text.

use pincer_tools::one_line;

use crate::scan::Scan;
use crate::scan::findings::{Finding, Findings, MOST_QUOTED, Severity};
use crate::scan::reach;
use crate::scan::rules::{PATTERNS, RULES};

/// Letters and digits in a row that are more than any word.
const BLOB: usize = 400;
/// The most lines that a backslash at the end makes one of.
const MOST_CONTINUED: usize = 50;

/// Looks at each line of a text. Lines that end with a backslash are one with the next, as to a shell.
pub(super) fn look_at(path: &str, text: &str, scan: &mut Scan, findings: &mut Findings) {
    let mut joined = String::new();
    let (mut first, mut count) = (1, 0);
    for (index, line) in text.split('\n').enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let line = line.strip_suffix('\r').unwrap_or(line);
        look_at_characters(path, number, line, findings);
        if joined.is_empty() {
            (first, count) = (number, 0);
        }
        count += 1;
        match line.strip_suffix('\\').filter(|_| count < MOST_CONTINUED) {
            Some(begun) => {
                joined.push_str(begun);
                joined.push(' ');
            }
            None => {
                joined.push_str(line);
                look_at_line(path, first, &joined, scan, findings);
                joined.clear();
            }
        }
    }
    if !joined.is_empty() {
        look_at_line(path, first, &joined, scan, findings);
    }
}

fn look_at_line(path: &str, number: u32, line: &str, scan: &mut Scan, findings: &mut Findings) {
    let mut told = Vec::new();
    for index in &PATTERNS.matches(line) {
        let rule = &RULES[index];
        if told.contains(&rule.id) {
            continue;
        }
        told.push(rule.id);
        let message = format!("{}: {}", rule.meaning, one_line(line.trim(), MOST_QUOTED));
        findings.add(Finding::new(rule.severity, rule.id, &message).at(path, Some(number)));
    }
    let longest = line.split(|c: char| !(c.is_ascii_alphanumeric() || "+/=_-\\".contains(c))).map(str::len).max();
    if longest.unwrap_or_default() > BLOB {
        let message =
            format!("{} letters and digits in a row, which a person cannot read", longest.unwrap_or_default());
        findings.add(Finding::new(Severity::Warning, "unreadable-text", &message).at(path, Some(number)));
    }
    reach::hosts(line, &mut |host| {
        scan.hosts.insert(one_line(host, MOST_QUOTED));
        if reach::is_bare_address(host) {
            let message = format!("names a machine by its number instead of a name: {host}");
            findings.add(Finding::new(Severity::Warning, "bare-address", &message).at(path, Some(number)));
        }
    });
    reach::variables(line, &mut |name| {
        if scan.environment.insert(name.to_owned()) && pincer_secrecy::is_secret_variable(name, "x") {
            let message = format!("reads the variable {name}, which looks like a secret");
            findings.add(Finding::new(Severity::Warning, "reads-a-secret", &message).at(path, Some(number)));
        }
    });
}

/// Characters that make a text look like another one.
fn look_at_characters(path: &str, number: u32, line: &str, findings: &mut Findings) {
    if line.is_ascii() && !line.contains('\u{1b}') {
        return;
    }
    let mut add = |severity, rule, meaning: &str, c: char| {
        let message = format!("{meaning}: {}", c.escape_unicode());
        findings.add(Finding::new(severity, rule, &message).at(path, Some(number)));
    };
    for (index, c) in line.chars().enumerate() {
        match c {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}' | '\u{200e}' | '\u{200f}' => {
                add(
                    Severity::Critical,
                    "reordered-text",
                    "a character turns the text around it, so that it reads differently",
                    c,
                );
            }
            '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => {
                add(Severity::Critical, "hidden-text", "a character that a model reads and a person does not see", c);
            }
            '\u{feff}' if index == 0 && number == 1 => {}
            '\u{200b}'
            | '\u{2060}'..='\u{2064}'
            | '\u{feff}'
            | '\u{ad}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{3164}'
            | '\u{ffa0}' => {
                add(Severity::Warning, "hidden-text", "a character that does not show", c);
            }
            '\u{1b}' | '\u{80}'..='\u{9f}' => {
                add(Severity::Warning, "terminal-control", "a character that controls a terminal", c);
            }
            _ => {}
        }
    }
}
