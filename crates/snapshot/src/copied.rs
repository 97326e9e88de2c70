//! Checkpoints of a small cell: the words that differ from the base, of which a copy is kept.
//!
//! From one call to the next a small program changes some 20 pages, but hardly a kilobyte in them. To find these words and write
//! them as they are takes a fifth of the time that a snapshot takes, most of which goes into compression.
//!
//! Each **patch** takes the place of the one before it, so a chain never has more than one. A patch holds all that changed since
//! the base, so patches grow while a program collects results. When what they have grown by has cost as much as a snapshot, the
//! next checkpoint is one.

use crate::PAGE;
use crate::checkpoints::{Checkpoint, Link};
use crate::copies::Copies;
use crate::difference::{self, Run, page};
use crate::format::{Header, Source};
use crate::patch::{self, append_page};

/// The bytes that cost as much as a snapshot: some 60 µs to write, hash and store.
const WORTH_A_BASE: usize = 16 << 10;

/// The base of a small cell, and what has been written since.
#[derive(Debug)]
pub(crate) struct Copied {
    base: Link,
    memory_pages: usize,
    first: usize,
    /// The pages in which the base differs from the image.
    copies: Copies,
    /// The smallest patch so far.
    smallest: Option<usize>,
    /// By how many bytes all patches together exceeded the smallest one.
    grown: usize,
}

impl Copied {
    /// Begins a chain with a snapshot of `memory` that holds the pages in `runs`.
    pub(crate) fn new(base: Link, memory: &[u8], first: usize, runs: Vec<Run>) -> Self {
        let memory_pages = memory.len() / PAGE;
        Self { base, memory_pages, first, copies: Copies::of(memory, runs), smallest: None, grown: 0 }
    }

    /// Returns whether the memory can have grown from that of the base.
    pub(crate) fn can_go_on(&self, memory: &[u8], first: usize) -> bool {
        self.first == first && self.memory_pages <= memory.len() / PAGE
    }

    /// Makes the next patch, or returns `None` if a new base is cheaper or the two would be larger than `limit`.
    pub(crate) fn patch(&mut self, header: &Header, source: Source<'_>, limit: usize) -> Option<Checkpoint> {
        if self.grown > WORTH_A_BASE {
            return None;
        }
        let (runs, changes) = self.changes(source);
        let bytes = patch::write(&self.base, header, &runs, &changes, limit.checked_sub(self.base.bytes)?)?;
        let replaces = usize::from(self.smallest.is_some());
        let smallest = self.smallest.map_or(bytes.len(), |smallest| smallest.min(bytes.len()));
        self.smallest = Some(smallest);
        self.grown += bytes.len() - smallest;
        (bytes.len() <= 2 * WORTH_A_BASE).then_some(Checkpoint::Delta { bytes, replaces })
    }

    /// Returns the pages that differ from the base, and their changes.
    fn changes(&self, source: Source<'_>) -> (Vec<Run>, Vec<u8>) {
        let mut changes = Vec::with_capacity(PAGE);
        let mut copy_of = self.copies.find();
        let pages = (self.first..source.memory.len() / PAGE).filter(|index| {
            let base = copy_of(*index).unwrap_or_else(|| page(source.image, *index));
            let now = page(source.memory, *index);
            let has_changed = now != base;
            if has_changed {
                append_page(now, base, &mut changes);
            }
            has_changed
        });
        (difference::runs(pages), changes)
    }
}
