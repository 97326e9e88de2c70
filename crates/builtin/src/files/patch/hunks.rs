//! Changes put into a text.

use super::parse::{Hunk, Line};

/// How many lines are compared in all.
const MOST_WORK: usize = 20_000_000;

/// Why a hunk has no place in a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HunkError {
    #[error("change {number}: the line `{header}` behind @@ is not in the file{}", after(.line))]
    Header { number: usize, header: String, line: usize },
    #[error("change {number}: these lines are not in the file{}: `{first}` … Read the file again, it may have changed", after(.line))]
    Lines { number: usize, first: String, line: usize },
    #[error(
        "the lines of the patch occur too often in the file to tell which are meant: give more lines around the changes"
    )]
    TooMuch,
    #[error(
        "change {number}: there is nothing to say where the new lines belong; give lines around them, or a line behind @@"
    )]
    Nowhere { number: usize },
}

fn after(line: &usize) -> String {
    if *line == 0 { String::new() } else { format!(" after line {line}") }
}

pub(super) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, HunkError> {
    let ends_with_newline = text.is_empty() || text.ends_with('\n');
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    let mut work = MOST_WORK;
    for (index, hunk) in hunks.iter().enumerate() {
        let number = index + 1;
        let mut from = at;
        if let Some(header) = &hunk.header {
            let found = lines[from..].iter().position(|line| line.trim() == header.trim());
            let found = found.ok_or_else(|| HunkError::Header { number, header: header.clone(), line: at })?;
            from += found + 1;
        }
        let old: Vec<&str> = hunk.lines.iter().filter_map(old_text).collect();
        let place = match old.is_empty() {
            true if hunk.at_end || lines.is_empty() => lines.len(),
            true if hunk.header.is_some() => from,
            true => return Err(HunkError::Nowhere { number }),
            false => find(&lines, &old, from, hunk.at_end, &mut work)?.ok_or_else(|| HunkError::Lines {
                number,
                first: old.first().copied().unwrap_or_default().into(),
                line: from,
            })?,
        };
        out.extend(lines[at..place].iter().map(|line| (*line).to_owned()));
        at = place;
        for line in &hunk.lines {
            match line {
                // What stays is kept as the file has it.
                Line::Same(_) => {
                    out.extend(lines.get(at).map(|line| (*line).to_owned()));
                    at += 1;
                }
                Line::Removed(_) => at += 1,
                Line::Added(text) => out.push(text.clone()),
            }
        }
    }
    out.extend(lines[at.min(lines.len())..].iter().map(|line| (*line).to_owned()));
    let mut text = out.join("\n");
    if ends_with_newline && !text.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

fn old_text(line: &Line) -> Option<&str> {
    match line {
        Line::Same(text) | Line::Removed(text) => Some(text),
        Line::Added(_) => None,
    }
}

/// Where the lines stand: exactly, or else but for white space at their ends.
fn find(lines: &[&str], old: &[&str], from: usize, at_end: bool, work: &mut usize) -> Result<Option<usize>, HunkError> {
    let same: [fn(&str, &str) -> bool; 2] = [|a, b| a == b, |a, b| a.trim_end() == b.trim_end()];
    let Some(last) = lines.len().checked_sub(old.len()) else { return Ok(None) };
    let begin = if at_end { last.max(from) } else { from };
    for same in same {
        for place in begin..=last {
            let equal = old.iter().zip(&lines[place..]).take_while(|(wanted, line)| same(wanted, line)).count();
            if equal == old.len() {
                return Ok(Some(place));
            }
            *work = work.checked_sub(equal + 1).ok_or(HunkError::TooMuch)?;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Change, parse};
    use super::*;

    fn patched(text: &str, body: &str) -> Result<String, Box<dyn std::error::Error>> {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch");
        let changes = parse(&patch)?;
        let [Change::Update { hunks, .. }] = changes.as_slice() else { panic!("{changes:?}") };
        Ok(apply(text, hunks)?)
    }

    #[test]
    fn changes_find_their_place() {
        for (text, body, expected) in [
            ("a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n"),
            ("a\nb\nc", "-c\n+C", "a\nb\nC"),
            ("x\nend\nfn b\nend\n", "@@ fn b\n-end\n+END", "x\nend\nfn b\nEND\n"),
            ("a  \nb\n", " a\n-b\n+c", "a  \nc\n"),
            ("a\na\n", "@@\n-a\n+b\n*** End of File", "a\nb\n"),
            ("1\n2\n3\n4\n", "-1\n+one\n@@\n-4\n+four", "one\n2\n3\nfour\n"),
            ("", "+new", "new\n"),
            ("a\n", "@@ a\n+b", "a\nb\n"),
            ("a\n\nb\n", " a\n\n-b\n+c", "a\n\nc\n"),
            ("a\n", "-a", ""),
        ] {
            assert_eq!(patched(text, body).expect(body), expected, "{body}");
        }
    }

    #[test]
    fn what_has_no_place_is_told() {
        for (text, body, told) in [
            ("a\n", "-x\n+y", "change 1: these lines are not in the file: `x`"),
            ("a\n", "@@ fn\n-a", "the line `fn` behind @@ is not in the file"),
            ("a\nb\n", "-b\n@@\n-a", "change 2: these lines are not in the file after line 2"),
            ("a\n", "+y", "nothing to say where"),
            ("a\n", "?x", "a line of a change begins with"),
            ("a\n", "@@\n*** End of File", "f has no changes"),
        ] {
            let error = patched(text, body).expect_err(told).to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn what_is_no_patch_is_told() {
        for (text, told) in [
            ("--- a\n+++ b", "this is a unified diff"),
            ("hello", "must begin with `*** Begin Patch`"),
            ("*** Begin Patch\n*** End Patch", "changes nothing"),
            ("*** Begin Patch\n*** Delete File: x", "does not end"),
            ("*** Begin Patch\n*** Add File:\n*** End Patch", "no file is named"),
            ("*** Begin Patch\nhello\n*** End Patch", "line 2: expected"),
            ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3: every line of a new file"),
        ] {
            let error = parse(text).expect_err(told).to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
