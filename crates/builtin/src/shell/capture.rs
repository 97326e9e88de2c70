//! What a command says: the beginning and the end of it are kept, what is between is counted.

use std::collections::VecDeque;

/// A bounded record of a stream.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most: usize,
    left_out: u64,
}

impl Capture {
    /// Keeps `most` bytes in all, half of them from the beginning.
    pub(super) fn new(most: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), most, left_out: 0 }
    }

    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        let half = self.most / 2;
        let room = half.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        bytes = &bytes[room..];
        // Of a flood only the end can stay.
        if bytes.len() > half {
            let skipped = bytes.len() - half;
            self.left_out += (skipped + self.tail.len()) as u64;
            self.tail.clear();
            bytes = &bytes[skipped..];
        }
        self.tail.extend(bytes);
        let over = self.tail.len().saturating_sub(half);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// The text, with a line where something is missing.
    pub(super) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        format!("{head}\n… [{} bytes left out] …\n{tail}", self.left_out)
    }

    /// The text so far, and an empty record from here on.
    pub(super) fn take(&mut self) -> (String, u64) {
        let taken = std::mem::replace(self, Self::new(self.most));
        (taken.text(), taken.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept_whatever_the_pieces() {
        let all: Vec<u8> = (0..1000_u32).map(|n| b'a' + (n % 26) as u8).collect();
        for size in [1, 3, 7, 100, 1000] {
            let mut capture = Capture::new(100);
            all.chunks(size).for_each(|piece| capture.add(piece));
            let text = capture.text();
            assert_eq!(capture.left_out, 900, "{size}");
            assert!(text.as_bytes().starts_with(&all[..50]) && text.as_bytes().ends_with(&all[950..]), "{size}");
        }
        let mut short = Capture::new(100);
        short.add(b"hello ");
        short.add(b"world");
        assert_eq!(short.text(), "hello world");
    }
}
