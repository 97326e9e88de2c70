//! From what the engine says of a place to what the author of the program wrote there.

use pincer_sandbox::Site;
use pincer_source::{Position, PositionMap};
use serde::{Deserialize, Serialize};

/// Characters beyond ASCII that are remembered. A program with more has columns that are off behind them.
const MOST_WIDE: usize = 1000;

/// Where things stand in the author's text. Stored with suspended programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Positions {
    map: PositionMap,
    /// The engine counts columns in bytes. Each character with more bytes than UTF-16 units: its line, the byte column behind it,
    /// and how many more.
    wide: Vec<(u32, u32, u32)>,
}

impl Positions {
    /// Of a text that the engine runs, with its map to what was written.
    pub(crate) fn new(text: &str, map: PositionMap) -> Self {
        let (mut wide, mut line, mut column) = (Vec::new(), 1, 1);
        if !text.is_ascii() {
            for c in text.chars() {
                column += c.len_utf8() as u32;
                let more = (c.len_utf8() - c.len_utf16()) as u32;
                if c == '\n' {
                    (line, column) = (line + 1, 1);
                } else if more > 0 && wide.len() < MOST_WIDE {
                    wide.push((line, column, more));
                }
            }
        }
        Self { map, wide }
    }

    /// Whether every place is as the engine says.
    pub(crate) fn is_identity(&self) -> bool {
        self.wide.is_empty() && self.map.is_identity()
    }

    /// The place in the author's text.
    pub(crate) fn original(&self, Site { line, column }: Site) -> Position {
        let before = self.wide.iter().filter(|(at, behind, _)| *at == line && *behind <= column);
        let more: u32 = before.map(|(.., more)| more).sum();
        self.map.original(Position { line, column: column.saturating_sub(more).max(1) })
    }
}
