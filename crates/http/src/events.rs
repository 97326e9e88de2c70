//! Server-sent events, each bounded.
//!
//! A decoder of our own: the one of `sse-stream` fails at fields it does not know, and has no limit.

use std::collections::VecDeque;

use sse_stream::Sse;

/// An event is larger than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {} MiB", most >> 20)]
pub struct EventTooLarge {
    /// The most bytes that an event may have.
    pub most: usize,
}

/// Cuts a stream of bytes into events, each bounded.
pub struct EventDecoder {
    most: usize,
    line: Vec<u8>,
    /// Bytes of the fields of `event`.
    held: usize,
    event: Sse,
    ready: VecDeque<Sse>,
    begun: bool,
    after_return: bool,
}

impl EventDecoder {
    /// Returns a decoder of events of `most` bytes each.
    pub fn new(most: usize) -> Self {
        let event = Sse::default();
        Self { most, line: Vec::new(), held: 0, event, ready: VecDeque::new(), begun: false, after_return: false }
    }

    /// Takes the next bytes in. After an error there is nothing more to be had.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), EventTooLarge> {
        while !bytes.is_empty() {
            let after_return = std::mem::take(&mut self.after_return);
            if after_return && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.held + self.line.len() + part.len() > self.most {
                return Err(EventTooLarge { most: self.most });
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { return Ok(()) };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.take_line(&line);
        }
        Ok(())
    }

    /// Returns the next event that is complete.
    pub fn pop(&mut self) -> Option<Sse> {
        self.ready.pop_front()
    }

    fn take_line(&mut self, mut line: &[u8]) {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            self.held = 0;
            if event != Sse::default() {
                self.ready.push_back(event);
            }
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&value);
                }
                none => *none = Some(value.into_owned()),
            },
            b"event" => self.event.event = Some(value.into_owned()),
            b"id" if !value.contains('\0') => self.event.id = Some(value.into_owned()),
            b"retry" => self.event.retry = value.parse().ok().or(self.event.retry),
            // Comments, and fields of times to come.
            _ => return,
        }
        self.held += line.len() + 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

    use super::*;

    fn decoded(pieces: &[&str]) -> Vec<Sse> {
        let mut decoder = EventDecoder::new(100);
        for piece in pieces {
            decoder.push(piece.as_bytes()).unwrap();
        }
        decoder.ready.into()
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = "\u{feff}: hello\r\nevent: message\r\ndata: one\r\ndata:two\r\nid: 7\r\nretry: 5\r\nfuture: x\r\n\r\ndata\n\n";
        let whole = decoded(&[text]);
        let first = Sse::default().event("message").data("one\ntwo").id("7").retry(5);
        assert_eq!(whole, [first, Sse::default().data("")]);
        for cut in 1..text.len() {
            if text.is_char_boundary(cut) {
                assert_eq!(decoded(&[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
            }
        }
    }

    #[test]
    fn an_event_that_is_too_long_is_refused_and_many_short_ones_are_not() {
        let mut decoder = EventDecoder::new(100);
        for _ in 0..50 {
            decoder.push(b"data: 12345678901234567890\n\n").unwrap();
        }
        assert_eq!(decoder.ready.len(), 50);
        for many in ["x".repeat(101), format!("data: {}\n", "x".repeat(40)).repeat(3), format!(":{}", "x".repeat(100))]
        {
            assert!(EventDecoder::new(100).push(many.as_bytes()).is_err(), "{many}");
        }
    }
}
