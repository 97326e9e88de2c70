//! Copies of pages, to tell later which of their words have changed.

use crate::PAGE;
use crate::difference::{Run, indexes, page};

#[derive(Debug)]
pub(crate) struct Copies {
    runs: Vec<Run>,
    bytes: Vec<u8>,
}

impl Copies {
    /// Copies the pages in `runs`.
    pub(crate) fn of(memory: &[u8], runs: Vec<Run>) -> Self {
        let count: usize = runs.iter().map(|run| run.count as usize).sum();
        let mut bytes = Vec::with_capacity(count * PAGE);
        indexes(&runs).for_each(|index| bytes.extend_from_slice(page(memory, index)));
        Self { runs, bytes }
    }

    /// Returns a function that finds the copy of a page, if there is one. It must be asked in ascending order.
    pub(crate) fn find<'a>(&'a self) -> impl FnMut(usize) -> Option<&'a [u8]> {
        let mut copies = indexes(&self.runs).zip(self.bytes.chunks_exact(PAGE)).peekable();
        move |index| {
            while copies.next_if(|(copied, _)| *copied < index).is_some() {}
            copies.next_if(|(copied, _)| *copied == index).map(|(_, copy)| copy)
        }
    }
}
