//! Where something stands in a text, and how that is shown.

use serde::{Deserialize, Serialize};

/// A position as JavaScript counts: both from 1, columns in UTF-16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// Longer lines are shown as a window around the column.
const LONGEST_LINE: usize = 200;

/// How much of a long line stands on either side of the column.
const HALF_WINDOW: usize = 60;

/// `\n  3 | let x = ;\n    |         ^`; empty for a line that `source` does not have.
pub fn excerpt(source: &str, position: Position) -> String {
    let Some(line) = lines(source).nth((position.line as usize).wrapping_sub(1)) else { return String::new() };
    // Columns count UTF-16 units; the caret must stand under a character.
    let mut units = 0;
    let before = line
        .chars()
        .take_while(|c| {
            units += c.len_utf16() as u32;
            units < position.column
        })
        .count();
    let length = line.chars().count();
    let (from, to) = match length > LONGEST_LINE {
        true => (before.saturating_sub(HALF_WINDOW), (before + HALF_WINDOW).min(length)),
        false => (0, length),
    };
    let cut_before = if from > 0 { "…" } else { "" };
    let cut_behind = if to < length { "…" } else { "" };
    let shown: String = line.chars().skip(from).take(to - from).map(printable).collect();
    let margin: String = cut_before
        .chars()
        .chain(line.chars().skip(from).take(before - from))
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let number = position.line.to_string();
    let indent = " ".repeat(number.len());
    format!("\n  {number} | {cut_before}{shown}{cut_behind}\n  {indent} | {margin}^")
}

/// Control characters would move the cursor of whoever reads the excerpt.
fn printable(c: char) -> char {
    if c.is_control() && c != '\t' { '\u{fffd}' } else { c }
}

/// The position of a byte of `source`. Offsets behind the end or inside a character mean the nearest position before.
pub(crate) fn position_at(source: &str, offset: usize) -> Position {
    let offset = source.floor_char_boundary(offset);
    let mut position = Position { line: 1, column: 1 };
    let mut start = 0;
    let mut rest = source;
    while let Some((length, ending)) = line_end(rest) {
        if start + length + ending > offset {
            break;
        }
        start += length + ending;
        rest = &source[start..];
        position.line = position.line.saturating_add(1);
    }
    position.column = 1 + source[start..offset].encode_utf16().count() as u32;
    position
}

/// The byte of `source` at a position, if there is one.
pub(crate) fn offset_of(source: &str, position: Position) -> Option<usize> {
    let line = lines(source).nth((position.line as usize).checked_sub(1)?)?;
    let start = line.as_ptr() as usize - source.as_ptr() as usize;
    let mut units = 0;
    let at = line.char_indices().find(|(_, c)| {
        units += c.len_utf16() as u32;
        units >= position.column
    });
    at.map(|(at, _)| start + at)
}

/// The lines of a text without what ends them; a text that ends in a line break has an empty last line.
fn lines(source: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(source);
    std::iter::from_fn(move || {
        let text = rest?;
        match line_end(text) {
            Some((length, ending)) => {
                rest = Some(&text[length + ending..]);
                Some(&text[..length])
            }
            None => rest.take(),
        }
    })
}

/// The length of the first line and of its line break, unless it is the last one.
fn line_end(text: &str) -> Option<(usize, usize)> {
    let at = text.find(is_line_break)?;
    let ending = match &text[at..] {
        rest if rest.starts_with("\r\n") => 2,
        rest => rest.chars().next().map_or(0, char::len_utf8),
    };
    Some((at, ending))
}

/// What ends a line in JavaScript.
pub(crate) fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}
