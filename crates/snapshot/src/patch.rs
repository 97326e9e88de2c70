//! The changed words of a page, as they are.
//!
//! A small program changes one word or two in most of the blocks that it touches: counters and pointers. So a page is stored as
//! a map of its changed blocks, and each of these as a map of its changed words, and the words. That is short enough without
//! compression.

use crate::PAGE;
use crate::checkpoints::Link;
use crate::difference::{Run, indexes, page_mut};
use crate::format::{Header, PATCH, Unreadable, append_header, begin_after, seal};

const WORD: usize = 8;
/// As many to a block as a byte has bits.
const BLOCK: usize = 8 * WORD;
/// As many to a page as a `u64` has bits.
const _: () = assert!(PAGE == 64 * BLOCK);

/// Makes a patch that follows `before` of the changes of the pages in `runs`. Returns `None` if it is larger than `limit`.
pub(crate) fn write(before: &Link, header: &Header, runs: &[Run], changes: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = begin_after(&PATCH, &before.checksum);
    append_header(&mut out, header, runs);
    out.extend_from_slice(changes);
    seal(out, limit).ok()
}

/// Appends what `now` has that `before` has not.
pub(crate) fn append_page(now: &[u8], before: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    let mut blocks = 0u64;
    let pairs = now.as_chunks::<BLOCK>().0.iter().zip(before.as_chunks::<BLOCK>().0);
    for (index, (now, before)) in pairs.enumerate() {
        if now != before {
            blocks |= 1 << index;
            append_block(now, before, out);
        }
    }
    out[start..start + 8].copy_from_slice(&blocks.to_le_bytes());
}

fn append_block(now: &[u8; BLOCK], before: &[u8; BLOCK], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(0);
    let pairs = now.as_chunks::<WORD>().0.iter().zip(before.as_chunks::<WORD>().0);
    for (index, (now, before)) in pairs.enumerate() {
        if now != before {
            out[start] |= 1 << index;
            out.extend_from_slice(now);
        }
    }
}

/// Writes changes into a memory that holds what they were made against.
pub(crate) fn apply(memory: &mut [u8], runs: &[Run], mut changes: &[u8]) -> Result<(), Unreadable> {
    for index in indexes(runs) {
        changes = apply_page(page_mut(memory, index)?, changes).ok_or(Unreadable::Damaged("a page is cut off"))?;
    }
    if changes.is_empty() { Ok(()) } else { Err(Unreadable::Damaged("it does not end where its last page does")) }
}

/// Writes the changes of one page and returns what follows them.
fn apply_page<'a>(page: &mut [u8], changes: &'a [u8]) -> Option<&'a [u8]> {
    let (blocks, mut rest) = changes.split_first_chunk()?;
    for block in bits(u64::from_le_bytes(*blocks)) {
        let (words, after) = rest.split_first()?;
        rest = after;
        for word in bits(u64::from(*words)) {
            let (changed, after) = rest.split_first_chunk::<WORD>()?;
            let at = block * BLOCK + word * WORD;
            page[at..at + WORD].copy_from_slice(changed);
            rest = after;
        }
    }
    Some(rest)
}

/// Returns the numbers of the bits that are set, ascending.
fn bits(mut map: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = map.trailing_zeros();
        map &= map.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit as usize)
    })
}
