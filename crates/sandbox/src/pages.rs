//! What a cell has changed of its image: which pages, and their difference as compressed bytes.
//!
//! Pages pass through one at a time, so that parking a large heap does not need a second one.

use std::cell::RefCell;

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::rewrite::PAGE;

/// Pages that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub first: u32,
    pub count: u32,
}

const LEVEL: i32 = 1;
/// The largest window that a difference is compressed with, and the most that reading one back may allocate.
const WINDOW_LOG: u32 = 20;
const ZERO_PAGE: [u8; PAGE] = [0; PAGE];

thread_local! {
    /// Making a compressor costs more than compressing a small cell with it.
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

fn page(memory: &[u8], index: usize) -> &[u8] {
    memory.get(index * PAGE..(index + 1) * PAGE).unwrap_or(&ZERO_PAGE)
}

/// The pages from `first` on in which `memory` differs from `base`, where `base` goes on with zeros.
pub(crate) fn changed(memory: &[u8], base: &[u8], first: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for index in first..memory.len() / PAGE {
        if page(memory, index) == page(base, index) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if (run.first + run.count) as usize == index => run.count += 1,
            _ => runs.push(Run { first: index as u32, count: 1 }),
        }
    }
    runs
}

fn indexes(runs: &[Run]) -> impl Iterator<Item = usize> {
    runs.iter().flat_map(|run| run.first as usize..(run.first + run.count) as usize)
}

/// The compressed difference would be larger than allowed.
pub(crate) struct TooLarge;

/// Appends the difference of the pages in `runs` to `out`, which may grow to `limit`.
pub(crate) fn compress(
    memory: &[u8],
    base: &[u8],
    runs: &[Run],
    out: &mut Vec<u8>,
    limit: usize,
) -> Result<(), TooLarge> {
    COMPRESSOR.with_borrow_mut(|slot| {
        let context = slot.get_or_insert_with(CCtx::create);
        let total = indexes(runs).count() * PAGE;
        // None of these can fail on a context that is between two frames.
        let _ = context.reset(ResetDirective::SessionOnly);
        let _ = context.set_parameter(CParameter::CompressionLevel(LEVEL));
        let _ = context.set_parameter(CParameter::WindowLog(WINDOW_LOG));
        let _ = context.set_pledged_src_size(Some(total as u64));
        let mut difference = [0; PAGE];
        for index in indexes(runs) {
            difference.copy_from_slice(page(memory, index));
            xor(&mut difference, page(base, index));
            let mut input = InBuffer::around(&difference);
            while input.pos() < PAGE {
                reserve(out, limit)?;
                let at = out.len();
                context
                    .compress_stream(&mut OutBuffer::around_pos(out, at), &mut input)
                    .map_err(|_| TooLarge)?;
            }
        }
        loop {
            reserve(out, limit)?;
            let at = out.len();
            if context.end_stream(&mut OutBuffer::around_pos(out, at)).map_err(|_| TooLarge)? == 0 {
                return if out.len() <= limit { Ok(()) } else { Err(TooLarge) };
            }
        }
    })
}

/// Makes room for more output, never for more than a block beyond the limit.
fn reserve(out: &mut Vec<u8>, limit: usize) -> Result<(), TooLarge> {
    if out.len() > limit {
        return Err(TooLarge);
    }
    if out.capacity() - out.len() < PAGE {
        out.reserve(PAGE.max(out.len() / 2).min(1 << 20));
    }
    Ok(())
}

/// The compressed difference is not what it should be.
#[derive(Debug)]
pub(crate) struct Damaged(pub &'static str);

/// Applies a difference made by [`compress`] to a memory that holds the image. `runs` must lie within `memory`.
pub(crate) fn apply(memory: &mut [u8], runs: &[Run], compressed: &[u8]) -> Result<(), Damaged> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let context = slot.get_or_insert_with(DCtx::create);
        let _ = context.reset(ResetDirective::SessionOnly);
        let _ = context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG));
        let mut input = InBuffer::around(compressed);
        let mut difference = [0; PAGE];
        let mut hint = 1;
        for index in indexes(runs) {
            let mut filled = 0;
            while filled < PAGE {
                let mut output = OutBuffer::around_pos(&mut difference[..], filled);
                hint = decompress(context, &mut output, &mut input)?;
                if output.pos() == filled {
                    return Err(Damaged("it ends before its last page"));
                }
                filled = output.pos();
            }
            let start = index * PAGE;
            let target = memory.get_mut(start..start + PAGE).ok_or(Damaged("a page lies outside memory"))?;
            xor(target, &difference);
        }
        // The frame's own end may still have to be read.
        if hint != 0 {
            let mut output = OutBuffer::around(&mut difference[..]);
            hint = decompress(context, &mut output, &mut input)?;
            if output.pos() != 0 {
                return Err(Damaged("it has more pages than it names"));
            }
        }
        if hint != 0 || input.pos() != compressed.len() {
            return Err(Damaged("it does not end where its last page does"));
        }
        Ok(())
    })
}

fn decompress(
    context: &mut DCtx<'_>,
    output: &mut OutBuffer<'_, [u8]>,
    input: &mut InBuffer<'_>,
) -> Result<usize, Damaged> {
    context.decompress_stream(output, input).map_err(|code| Damaged(zstd_safe::get_error_name(code)))
}

fn xor(target: &mut [u8], with: &[u8]) {
    for (byte, other) in target.iter_mut().zip(with) {
        *byte ^= other;
    }
}
