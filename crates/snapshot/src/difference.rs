//! What a cell has changed of its image, as compressed bytes.
//!
//! A small program changes a few bytes each on some thirty pages: counters, list heads, new objects among old ones. So a
//! changed page is stored as a map of its changed blocks and their XOR against the image, and all of it is compressed with a
//! dictionary: the difference that a typical small program makes. It passes through in chunks, each a frame of its own, so
//! that parking a large heap does not need a second one.

use std::cell::RefCell;

use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

use crate::PAGE;
use crate::format::{TooLarge, Unreadable};

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
const LEVEL: i32 = 1;
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

/// What differences against one image have in common.
pub struct Dictionary {
    compress: CDict<'static>,
    decompress: DDict<'static>,
}

impl Dictionary {
    /// From the [`difference`] of something typical. Any bytes will do, only not equally well.
    pub fn new(content: &[u8]) -> Self {
        Self { compress: CDict::create(content, LEVEL), decompress: DDict::create(content) }
    }
}

fn page(memory: &[u8], index: usize) -> &[u8] {
    memory.get(index * PAGE..(index + 1) * PAGE).unwrap_or(&ZERO_PAGE)
}

fn indexes(runs: &[Run]) -> impl Iterator<Item = usize> {
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
    for (index, (new, old)) in memory.chunks_exact(BLOCK).zip(base.chunks_exact(BLOCK)).enumerate() {
        if new != old {
            map |= 1 << index;
            out.extend(new.iter().zip(old).map(|(new, old)| new ^ old));
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
    out: &mut Vec<u8>,
    limit: usize,
) -> Result<(), TooLarge> {
    COMPRESSOR.with_borrow_mut(|(context, chunk, frame)| {
        let mut flush = |chunk: &mut Vec<u8>| {
            // Fails only for want of room, and there is room for the worst case.
            context.compress_using_cdict(&mut frame[..], chunk, &dictionary.compress).map_or(
                Err(TooLarge { limit }),
                |len| {
                    chunk.clear();
                    out.extend_from_slice(&frame[..len]);
                    if out.len() <= limit { Ok(()) } else { Err(TooLarge { limit }) }
                },
            )
        };
        chunk.clear();
        for index in indexes(runs) {
            append_page(page(memory, index), page(base, index), chunk);
            if chunk.len() >= CHUNK {
                flush(chunk)?;
            }
        }
        if chunk.is_empty() { Ok(()) } else { flush(chunk) }
    })
}

/// Turns the pages in `runs` back into those of the image.
pub(crate) fn reset(memory: &mut [u8], image: &[u8], runs: &[Run]) -> Result<(), Unreadable> {
    for index in indexes(runs) {
        page_mut(memory, index)?.copy_from_slice(page(image, index));
    }
    Ok(())
}

fn page_mut(memory: &mut [u8], index: usize) -> Result<&mut [u8], Unreadable> {
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
