//! Changes to a text that never move a line: characters become spaces, and short texts are put in between.

use crate::map::PositionMap;
use crate::position::{Position, is_line_break};

/// One change. Offsets are bytes of the parsed text.
#[derive(Debug)]
enum Edit {
    /// Spaces, as many as there were UTF-16 units; line breaks stay. The first or last character can become another one.
    Erase { start: u32, end: u32, first: Option<char>, last: Option<char> },
    /// Text without line breaks.
    Insert { at: u32, side: Side, text: String },
}

/// The owner of an insertion. This is also the order of several that are made at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// To what ends there.
    Behind,
    /// To neither.
    Between,
    /// To what begins there.
    Before,
}

impl Edit {
    fn start(&self) -> u32 {
        match self {
            Edit::Erase { start, .. } => *start,
            Edit::Insert { at, .. } => *at,
        }
    }

    fn end(&self) -> u32 {
        match self {
            Edit::Erase { end, .. } => *end,
            Edit::Insert { at, .. } => *at,
        }
    }

    /// At one position, insertions come before what is erased behind them.
    fn order(&self) -> (u32, bool, Side) {
        match self {
            Edit::Erase { start, .. } => (*start, true, Side::Before),
            Edit::Insert { at, side, .. } => (*at, false, *side),
        }
    }
}

/// The changes to one text, collected in any order.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    edits: Vec<Edit>,
}

impl Edits {
    pub(crate) fn erase(&mut self, start: u32, end: u32) {
        self.push_erase(start, end, None, None);
    }

    /// Erases and leaves `first` in place of the first character.
    pub(crate) fn erase_to(&mut self, start: u32, end: u32, first: char) {
        self.push_erase(start, end, Some(first), None);
    }

    /// Erases and leaves `last` in place of the last character.
    pub(crate) fn erase_behind(&mut self, start: u32, end: u32, last: char) {
        self.push_erase(start, end, None, Some(last));
    }

    fn push_erase(&mut self, start: u32, end: u32, first: Option<char>, last: Option<char>) {
        if start < end {
            self.edits.push(Edit::Erase { start, end, first, last });
        }
    }

    /// Puts text in. Texts at the same position and side come in the order of the calls.
    pub(crate) fn insert(&mut self, at: u32, side: Side, text: impl Into<String>) {
        self.edits.push(Edit::Insert { at, side, text: text.into() });
    }

    /// How many changes there are, for [`Edits::end_statement`].
    pub(crate) fn count(&self) -> usize {
        self.edits.len()
    }

    /// Puts a `;` where the text up to `end` was erased, so that the next line does not join what is left. Only the changes
    /// since `first` are looked at.
    pub(crate) fn end_statement(&mut self, first: usize, end: u32) {
        let mut erased = None;
        for edit in &mut self.edits[first..] {
            match edit {
                // Something is closed there: the next line joined it before, if it does now.
                Edit::Insert { at, side: Side::Behind, .. } if *at == end => return,
                Edit::Erase { end: erased_end, last, .. } if *erased_end == end => erased = Some(last),
                _ => {}
            }
        }
        if let Some(last) = erased {
            last.get_or_insert(';');
        }
    }

    /// The text between `start` and `end` with the changes made, and where what stands.
    pub(crate) fn apply(mut self, text: &str, start: u32, end: u32) -> (String, PositionMap) {
        self.edits.sort_by_key(Edit::order);
        let mut out = Output { text: String::with_capacity(text.len() + 64), ..Output::default() };
        let mut at = start;
        for edit in self.edits {
            if edit.start() < at || edit.end() > end {
                debug_assert!(false, "changes overlap: {edit:?}");
                continue;
            }
            out.copy(&text[at as usize..edit.start() as usize]);
            at = edit.end();
            match edit {
                Edit::Erase { start, end, first, last } => out.erased(&text[start as usize..end as usize], first, last),
                Edit::Insert { text, .. } => out.inserted(&text),
            }
        }
        out.copy(&text[at as usize..end as usize]);
        (out.text, out.map)
    }
}

#[derive(Default)]
struct Output {
    text: String,
    map: PositionMap,
    /// Where lines are counted from: everything before has been counted in `line` and `column`.
    counted: usize,
    line: u32,
    column: u32,
}

impl Output {
    fn copy(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn erased(&mut self, text: &str, first: Option<char>, last: Option<char>) {
        let last_at = text.char_indices().next_back().map_or(0, |(at, _)| at);
        for (at, c) in text.char_indices() {
            let put = if at == 0 { first } else { None }.or(if at == last_at { last } else { None });
            match put {
                Some(put) => {
                    self.text.push(put);
                    self.text.extend(std::iter::repeat_n(' ', c.len_utf16() - 1));
                }
                None if is_line_break(c) => self.text.push(c),
                None => self.text.extend(std::iter::repeat_n(' ', c.len_utf16())),
            }
        }
    }

    fn inserted(&mut self, text: &str) {
        self.count();
        self.map.insert(Position { line: self.line + 1, column: self.column + 1 }, text.encode_utf16().count() as u32);
        self.text.push_str(text);
    }

    /// Counts lines and columns up to the end of what is written.
    fn count(&mut self) {
        let mut before = '\0';
        for c in self.text[self.counted..].chars() {
            match c {
                '\n' if before == '\r' => {}
                c if is_line_break(c) => {
                    self.line += 1;
                    self.column = 0;
                }
                c => self.column += c.len_utf16() as u32,
            }
            before = c;
        }
        self.counted = self.text.len();
    }
}
