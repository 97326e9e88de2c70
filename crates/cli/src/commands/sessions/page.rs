//! Text about a session for people: our own words in colours, and everything that others said escaped and shortened.

use std::fmt::{Display, Write};

use chrono::{DateTime, Local};
use console::{StyledObject, style};
use pincer_store::Millis;
use pincer_tools::one_line;

use crate::print::harmless;

/// The lines and characters that are shown of a text, and the characters of a value on one line.
const MOST_LINES: usize = 30;
const MOST_CHARACTERS: usize = 2000;
const MOST_VALUE: usize = 160;
/// One more step to the right.
const STEP: &str = "  ";

/// Text for people. All that is added to it is escaped, but for the words in colours, which are our own.
pub(crate) struct Page {
    text: String,
    full: bool,
}

/// How a text was shortened.
struct Shortened<'t> {
    kept: &'t str,
    left_out: usize,
}

impl Page {
    /// Returns an empty page, on which long texts are shortened unless it is `full`.
    pub(crate) fn new(full: bool) -> Self {
        Self { text: String::new(), full }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Adds an empty line, unless there is nothing yet.
    pub(crate) fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Adds a line: a word of our own, and parts that others may have written.
    pub(crate) fn line(&mut self, depth: usize, word: &StyledObject<impl Display>, parts: &[&str]) {
        let _ = write!(self.text, "{}{word}", STEP.repeat(depth));
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let _ = write!(self.text, "  {}", harmless(&part.replace('\n', " ")));
        }
        self.text.push('\n');
    }

    /// Adds a text of several lines.
    pub(crate) fn block(&mut self, depth: usize, text: &str) {
        let indent = STEP.repeat(depth);
        let Shortened { kept, left_out } = self.shortened(text);
        for line in kept.lines() {
            let _ = writeln!(self.text, "{}", format!("{indent}{}", harmless(line)).trim_end());
        }
        self.more(depth, left_out);
    }

    /// Adds a program, with the numbers of its lines.
    pub(crate) fn code(&mut self, depth: usize, code: &str) {
        let indent = STEP.repeat(depth);
        let Shortened { kept, left_out } = self.shortened(code);
        let width = kept.lines().count().to_string().len();
        for (line, number) in kept.lines().zip(1..) {
            let number = format!("{number:>width$}");
            let text = format!("{indent}{}  {}", style(number).dim(), harmless(line));
            let _ = writeln!(self.text, "{}", text.trim_end());
        }
        self.more(depth, left_out);
    }

    /// Returns a value on one line.
    pub(crate) fn value(&self, text: &str) -> String {
        one_line(text, if self.full { usize::MAX } else { MOST_VALUE })
    }

    /// Returns the text, without the line break at its end.
    pub(crate) fn text(&self) -> &str {
        self.text.trim_end()
    }

    fn shortened<'t>(&self, text: &'t str) -> Shortened<'t> {
        let text = text.trim_end();
        if self.full {
            return Shortened { kept: text, left_out: 0 };
        }
        let by_lines = text.match_indices('\n').nth(MOST_LINES - 1).map_or(text.len(), |(at, _)| at);
        let by_characters = text.char_indices().nth(MOST_CHARACTERS).map_or(text.len(), |(at, _)| at);
        let kept = &text[..by_lines.min(by_characters)];
        Shortened { kept, left_out: text[kept.len()..].chars().count() }
    }

    fn more(&mut self, depth: usize, left_out: usize) {
        if left_out > 0 {
            let told = format!("[{left_out} more characters: --full shows them]");
            let _ = writeln!(self.text, "{}{}", STEP.repeat(depth), style(told).dim());
        }
    }
}

/// Returns a time as people write it, where this process is.
pub(crate) fn clock(at: Millis) -> String {
    let time = DateTime::from_timestamp_millis(at).unwrap_or_default();
    time.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(full: bool, text: &str) -> String {
        let mut page = Page::new(full);
        page.block(1, text);
        page.text().to_owned()
    }

    #[test]
    fn long_texts_are_shortened_by_lines_and_by_characters_and_the_rest_is_counted() {
        let lines = "é\n".repeat(40);
        assert!(
            block(false, &lines).ends_with("\n  [20 more characters: --full shows them]"),
            "{}",
            block(false, &lines)
        );
        assert_eq!(block(false, &lines).lines().count(), MOST_LINES + 1);
        assert_eq!(block(true, &lines).lines().count(), 40);
        let long = "é".repeat(MOST_CHARACTERS + 7);
        assert!(block(false, &long).ends_with("[7 more characters: --full shows them]"));
        assert_eq!(block(false, &"é".repeat(MOST_CHARACTERS)).chars().count(), MOST_CHARACTERS + 2);
    }

    #[test]
    fn nothing_that_others_said_reaches_the_terminal_as_it_is() {
        let mut page = Page::new(true);
        page.line(0, &style("word"), &["a\u{1b}[2Jb\nc", "", "\u{202e}"]);
        page.block(1, "x\r\u{7}y\u{9b}\n\tz");
        page.code(1, "\u{1b}]0;t\u{7}");
        assert!(!page.text().contains(['\u{1b}', '\r', '\u{7}', '\u{9b}', '\u{202e}']), "{:?}", page.text());
        assert_eq!(page.text().lines().next(), Some("word  a\\u{1b}[2Jb c  \\u{202e}"));
    }
}
