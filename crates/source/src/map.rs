//! From positions in the text that runs back to positions in the text that was written.

use serde::{Deserialize, Serialize};

use crate::Position;

/// Tells where in the model's text something stands that the engine found in the prepared text.
///
/// Lines never move, and what is erased leaves spaces, so a map is only a list of what was put in between. It is stored with
/// suspended programs, as JSON `[[line, column, units], …]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PositionMap {
    insertions: Vec<Insertion>,
}

/// Line, column in the prepared text, and length in UTF-16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Insertion(u32, u32, u32);

impl PositionMap {
    /// Whether every position is the same in both texts.
    pub fn is_identity(&self) -> bool {
        self.insertions.is_empty()
    }

    /// The position in the model's text. What was put in means the character behind it.
    pub fn original(&self, position: Position) -> Position {
        let first = self.insertions.partition_point(|insertion| insertion.0 < position.line);
        let before = self.insertions[first..]
            .iter()
            .take_while(|insertion| insertion.0 == position.line && insertion.1 < position.column)
            .fold(0u32, |sum, insertion| sum.saturating_add(insertion.2.min(position.column - insertion.1)));
        Position { line: position.line, column: position.column.saturating_sub(before).max(1) }
    }

    /// Notes an insertion. They come in the order of the text.
    pub(crate) fn insert(&mut self, at: Position, units: u32) {
        match self.insertions.last_mut() {
            Some(last) if last.0 == at.line && last.1 + last.2 == at.column => last.2 += units,
            _ => self.insertions.push(Insertion(at.line, at.column, units)),
        }
    }
}
