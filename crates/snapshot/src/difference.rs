//! What a cell has changed of its image, as compressed bytes.
//!
//! A small program changes a few bytes each on some thirty pages: counters, list heads, new objects among old ones. So a
//! changed page is stored as a map of its changed blocks and their XOR against the image, and all of it is compressed with a
//! dictionary: the difference that a typical small program makes. It passes through in chunks, each a frame of its own, so
//! that parking a large heap does not need a second one, and threads can share the work.

use std::cell::RefCell;

use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

use crate::PAGE;
use crate::format::{TooLarge, Unreadable};
use crate::parts;

/// Pages that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub first: u32,
    pub count: u32,
}

/// As many to a page as a `u64` has bits.
const BLOCK: usize = PAGE / 64;
const MAP_BYTES: usize = 8;
const CHUNK: usize = 128 << 10;
/// The pages that are compressed at a time: 1 MiB.
const PART_PAGES: usize = 256;
/// A chunk is flushed when it is full, so the last page may go beyond.
const CHUNK_BYTES: usize = CHUNK + PAGE + MAP_BYTES;
pub(crate) const ZERO_PAGE: [u8; PAGE] = [0; PAGE];

thread_local! {
    /// With a chunk and its compressed form. Making these costs more than compressing a small cell with them.
    static COMPRESSOR: RefCell<(CCtx<'static>, Vec<u8>, Vec<u8>)> = RefCell::new((
        CCtx::create(),
        Vec::with_capacity(CHUNK_BYTES),
        vec![0; zstd_safe::compress_bound(CHUNK_BYTES)],
    ));
    static DECOMPRESSOR: RefCell<(DCtx<'static>, Vec<u8>)> = RefCell::new((DCtx::create(), vec![0; CHUNK_BYTES]));
}

/// How much work goes into compression.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// For bytes that may be kept for days.
    Usual,
    /// For bytes that are replaced after the next call: a fifth faster, and larger by as much.
    Little,
}

impl Effort {
    /// The level of zstd, without and with a dictionary.
    const fn levels(self) -> (i32, i32) {
        match self {
            Self::Usual => (1, 1),
            Self::Little => (-1, -3),
        }
    }
}

/// What differences against one image have in common.
pub struct Dictionary {
    usual: CDict<'static>,
    little: CDict<'static>,
    decompress: DDict<'static>,
}

impl Dictionary {
    /// From the [`difference`] of something typical. Any bytes will do, only not equally well.
    pub fn new(content: &[u8]) -> Self {
        let compress = |effort: Effort| CDict::create(content, effort.levels().1);
        let (usual, little) = (compress(Effort::Usual), compress(Effort::Little));
        Self { usual, little, decompress: DDict::create(content) }
    }

    fn compress(&self, effort: Effort) -> &CDict<'static> {
        match effort {
            Effort::Usual => &self.usual,
            Effort::Little => &self.little,
        }
    }
}

pub(crate) fn page(memory: &[u8], index: usize) -> &[u8] {
    memory.get(index * PAGE..(index + 1) * PAGE).unwrap_or(&ZERO_PAGE)
}

pub(crate) fn indexes(runs: &[Run]) -> impl Iterator<Item = usize> {
    runs.iter().flat_map(|run| run.first as usize..(run.first + run.count) as usize)
}

/// Returns the pages from `first` on in which `memory` differs from `base`, where `base` goes on with zeros.
pub(crate) fn changed(memory: &[u8], base: &[u8], first: usize) -> Vec<Run> {
    runs((first..memory.len() / PAGE).filter(|index| page(memory, *index) != page(base, *index)))
}

/// Collects ascending page indexes.
pub(crate) fn runs(indexes: impl Iterator<Item = usize>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some(run) if (run.first + run.count) as usize == index => run.count += 1,
            _ => runs.push(Run { first: index as u32, count: 1 }),
        }
    }
    runs
}

/// The difference of one page: a map of its changed blocks, then their XOR.
fn append_page(memory: &[u8], base: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; MAP_BYTES]);
    let mut map = 0u64;
    let blocks = memory.as_chunks::<BLOCK>().0.iter().zip(base.as_chunks::<BLOCK>().0);
    for (index, (new, old)) in blocks.enumerate() {
        if new != old {
            map |= 1 << index;
            let mut change = *new;
            change.iter_mut().zip(old).for_each(|(byte, old)| *byte ^= old);
            out.extend_from_slice(&change);
        }
    }
    out[start..start + MAP_BYTES].copy_from_slice(&map.to_le_bytes());
}

/// What `memory` has from page `first` on that `base` has not, uncompressed: to make a [`Dictionary`] of.
pub fn difference(memory: &[u8], base: &[u8], first: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for index in indexes(&changed(memory, base, first)) {
        append_page(page(memory, index), page(base, index), &mut out);
    }
    out
}

/// Appends the compressed difference of the pages in `runs` to `out`, which may grow to `limit`.
pub(crate) fn compress(
    memory: &[u8],
    base: &[u8],
    runs: &[Run],
    dictionary: &Dictionary,
    effort: Effort,
    out: &mut Vec<u8>,
    limit: usize,
) -> Result<(), TooLarge> {
    let pages: Vec<usize> = indexes(runs).collect();
    let parts = pages.chunks(PART_PAGES).enumerate();
    let compressed = parts::each(memory, parts, |(number, pages)| {
        // Only the first is short enough to gain from the dictionary, and the others would take a third longer with it. A frame
        // does not say with what it was compressed: all are read in the same way.
        let dictionary = (number == 0).then(|| dictionary.compress(effort));
        compress_part(memory, base, pages, (dictionary, effort.levels().0), limit)
    });
    for part in compressed {
        out.extend_from_slice(&part?);
        if out.len() > limit {
            return Err(TooLarge { limit });
        }
    }
    Ok(())
}

fn compress_part(
    memory: &[u8],
    base: &[u8],
    pages: &[usize],
    (mut dictionary, level): (Option<&CDict<'_>>, i32),
    limit: usize,
) -> Result<Vec<u8>, TooLarge> {
    let mut out = Vec::new();
    COMPRESSOR.with_borrow_mut(|(context, chunk, frame)| {
        let mut flush = |chunk: &mut Vec<u8>| {
            let compressed = match dictionary.take() {
                Some(dictionary) => context.compress_using_cdict(&mut frame[..], chunk, dictionary),
                None => context.compress(&mut frame[..], chunk, level),
            };
            // Fails only for want of room, and there is room for the worst case.
            let len = compressed.map_err(|_| TooLarge { limit })?;
            chunk.clear();
            out.extend_from_slice(&frame[..len]);
            if out.len() <= limit { Ok(()) } else { Err(TooLarge { limit }) }
        };
        chunk.clear();
        for index in pages {
            append_page(page(memory, *index), page(base, *index), chunk);
            if chunk.len() >= CHUNK {
                flush(chunk)?;
            }
        }
        if chunk.is_empty() { Ok(()) } else { flush(chunk) }
    })?;
    Ok(out)
}

/// Turns the pages in `runs` back into those of the image.
pub(crate) fn reset(memory: &mut [u8], image: &[u8], runs: &[Run]) -> Result<(), Unreadable> {
    for index in indexes(runs) {
        page_mut(memory, index)?.copy_from_slice(page(image, index));
    }
    Ok(())
}

pub(crate) fn page_mut(memory: &mut [u8], index: usize) -> Result<&mut [u8], Unreadable> {
    memory.get_mut(index * PAGE..(index + 1) * PAGE).ok_or(Unreadable::Damaged("a page lies outside memory"))
}

/// Applies a difference made by [`compress`] to a memory that holds the image.
pub(crate) fn apply(
    memory: &mut [u8],
    runs: &[Run],
    dictionary: &Dictionary,
    mut compressed: &[u8],
) -> Result<(), Unreadable> {
    DECOMPRESSOR.with_borrow_mut(|(context, buffer)| {
        let zstd = |code| Unreadable::Damaged(zstd_safe::get_error_name(code));
        let mut chunk: &[u8] = &[];
        for index in indexes(runs) {
            if chunk.is_empty() {
                let frame = zstd_safe::find_frame_compressed_size(compressed).map_err(zstd)?;
                let (frame, rest) = compressed.split_at_checked(frame).ok_or(Unreadable::Damaged("it is cut off"))?;
                let len =
                    context.decompress_using_ddict(&mut buffer[..], frame, &dictionary.decompress).map_err(zstd)?;
                (chunk, compressed) = (&buffer[..len], rest);
            }
            chunk = apply_page(page_mut(memory, index)?, chunk).ok_or(Unreadable::Damaged("a page is cut off"))?;
        }
        if !chunk.is_empty() || !compressed.is_empty() {
            return Err(Unreadable::Damaged("it does not end where its last page does"));
        }
        Ok(())
    })
}

/// Applies the difference of one page and returns what follows it.
fn apply_page<'a>(target: &mut [u8], chunk: &'a [u8]) -> Option<&'a [u8]> {
    let (map, mut rest) = chunk.split_first_chunk::<MAP_BYTES>()?;
    let mut map = u64::from_le_bytes(*map);
    while map != 0 {
        let at = map.trailing_zeros() as usize * BLOCK;
        let (block, after) = rest.split_first_chunk::<BLOCK>()?;
        target[at..at + BLOCK].iter_mut().zip(block).for_each(|(byte, change)| *byte ^= change);
        rest = after;
        map &= map - 1;
    }
    Some(rest)
}
