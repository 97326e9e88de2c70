//! A snapshot with the deltas that were made after it, read as one.

use crate::checkpoints::MAX_DELTAS;
use crate::difference::{self, Dictionary};
use crate::format::{Checksum, DELTA, Header, PATCH, Parked, SNAPSHOT, Unreadable, open, read_pages};
use crate::patch;

/// A snapshot and its deltas, checked like a [`Parked`] cell. Each delta follows its predecessor.
#[derive(Debug)]
pub struct Chain<'a> {
    base: Parked<'a>,
    deltas: Vec<Delta<'a>>,
}

/// The changes after a snapshot.
#[derive(Debug)]
struct Delta<'a> {
    parked: Parked<'a>,
    /// It has the words that changed since its predecessor, instead of the difference of the pages to the image.
    is_patch: bool,
}

impl Delta<'_> {
    fn apply(&self, memory: &mut [u8], image: &[u8], dictionary: &Dictionary) -> Result<(), Unreadable> {
        let Parked { runs, difference, .. } = &self.parked;
        if self.is_patch {
            return patch::apply(memory, runs, difference);
        }
        difference::reset(memory, image, runs)?;
        self.parked.apply(memory, dictionary)
    }
}

impl Chain<'_> {
    /// Returns the header of the newest part: what the cell is.
    pub fn header(&self) -> &Header {
        &self.newest().header
    }

    /// Returns the length of the cell's memory.
    pub fn memory_bytes(&self) -> usize {
        self.newest().memory_bytes()
    }

    fn newest(&self) -> &Parked<'_> {
        self.deltas.last().map_or(&self.base, |delta| &delta.parked)
    }

    /// Turns the image, extended with zeros to [`memory_bytes`](Self::memory_bytes), into the cell's memory. On an error
    /// `memory` is neither and must be thrown away.
    pub fn apply(&self, memory: &mut [u8], image: &[u8], dictionary: &Dictionary) -> Result<(), Unreadable> {
        self.base.apply(memory, dictionary)?;
        self.deltas.iter().try_for_each(|delta| delta.apply(memory, image, dictionary))
    }
}

/// Checks a snapshot and the deltas that were made after it, oldest first.
pub fn read_chain<'a>(base: &'a [u8], deltas: &'a [impl AsRef<[u8]>]) -> Result<Chain<'a>, Unreadable> {
    // Each delta can write all of memory, however short it is. The bound on their count bounds the work of a forged chain.
    if deltas.len() > MAX_DELTAS {
        return Err(Unreadable::Damaged("it has more deltas than there can be"));
    }
    let (mut reader, mut checksum) = open(base, &SNAPSHOT)?;
    let base = read_pages(&mut reader)?;
    let mut chain = Chain { base, deltas: Vec::with_capacity(deltas.len()) };
    for bytes in deltas {
        let (delta, its_checksum) = read_delta(bytes.as_ref(), checksum)?;
        fits(chain.header(), &delta.parked.header)?;
        chain.deltas.push(delta);
        checksum = its_checksum;
    }
    Ok(chain)
}

fn read_delta(bytes: &[u8], predecessor: Checksum) -> Result<(Delta<'_>, Checksum), Unreadable> {
    let is_patch = PATCH.is_that_of(bytes);
    let (mut reader, checksum) = open(bytes, if is_patch { &PATCH } else { &DELTA }).map_err(|error| match error {
        Unreadable::NotASnapshot => Unreadable::Damaged("one of its deltas is something else"),
        other => other,
    })?;
    if reader.array()? != predecessor {
        return Err(Unreadable::Damaged("a delta does not follow its predecessor"));
    }
    Ok((Delta { parked: read_pages(&mut reader)?, is_patch }, checksum))
}

/// Checks that a delta is of the same cell as its predecessor. Only a forged one is not.
fn fits(before: &Header, after: &Header) -> Result<(), Unreadable> {
    let same = (before.engine, before.image, before.stack_pointer) == (after.engine, after.image, after.stack_pointer);
    if same && before.wasm_pages <= after.wasm_pages {
        Ok(())
    } else {
        Err(Unreadable::Damaged("a delta is of another cell"))
    }
}
