//! Lines of a file of any size, none of which is held if it is too long.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// The longest line that is read. Those that are written are much shorter.
const MOST_LINE: usize = 2 << 20;

/// The lines of a file.
pub(crate) struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
    ended: bool,
}

/// A line, or how long one was that is too long.
pub(crate) enum Line<'l> {
    Whole(&'l [u8]),
    TooLong,
}

impl Lines {
    pub(crate) fn new(file: File) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, file), line: Vec::new(), ended: true }
    }

    /// Returns whether the last line had an end.
    pub(crate) fn has_ended_in_a_line(&self) -> bool {
        self.ended
    }

    /// Returns the next line, without its end.
    pub(crate) fn next(&mut self) -> Option<io::Result<Line<'_>>> {
        self.line.clear();
        let (mut is_long, mut has_read) = (false, false);
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Some(Err(error)),
            };
            if available.is_empty() {
                if !has_read {
                    return None;
                }
                self.ended = false;
                break;
            }
            has_read = true;
            let (end, is_last) = match available.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end, true),
                None => (available.len(), false),
            };
            if self.line.len() + end > MOST_LINE {
                is_long = true;
            } else if !is_long {
                self.line.extend_from_slice(&available[..end]);
            }
            self.reader.consume(end + usize::from(is_last));
            if is_last {
                self.ended = true;
                break;
            }
        }
        Some(Ok(if is_long { Line::TooLong } else { Line::Whole(&self.line) }))
    }
}
