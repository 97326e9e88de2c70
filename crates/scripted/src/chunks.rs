//! The chunks of a body.

use std::io::{self, Write as _};

use axum::body::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::wire::{Cut, Sent, Wire};

/// Cuts a body, given in pieces, into the chunks that are sent.
pub(crate) fn chunks(pieces: Vec<Vec<u8>>, wire: &Wire) -> io::Result<Vec<Bytes>> {
    let pieces = if wire.gzip { compressed(&pieces)? } else { pieces };
    let mut chunks: Vec<Bytes> = match &wire.cut {
        Cut::Events => pieces.into_iter().filter(|piece| !piece.is_empty()).map(Bytes::from).collect(),
        Cut::Every(bytes) => pieces.concat().chunks(bytes.get()).map(Bytes::copy_from_slice).collect(),
        Cut::At(offsets) => cut_at(pieces.concat().into(), offsets),
    };
    match wire.sent {
        Sent::Whole => {}
        Sent::StallAfter(count) => chunks.truncate(count),
        Sent::TruncateAfter(bytes) => truncate(&mut chunks, bytes),
    }
    Ok(chunks)
}

/// Compresses every piece so that a client can read it before the next one comes.
fn compressed(pieces: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut compressed = Vec::with_capacity(pieces.len() + 1);
    for piece in pieces {
        encoder.write_all(piece)?;
        encoder.flush()?;
        compressed.push(std::mem::take(encoder.get_mut()));
    }
    compressed.push(encoder.finish()?);
    Ok(compressed)
}

fn cut_at(mut body: Bytes, offsets: &[usize]) -> Vec<Bytes> {
    let mut offsets = offsets.to_vec();
    offsets.sort_unstable();
    let (mut chunks, mut begin) = (Vec::new(), 0);
    for offset in offsets {
        let length = (offset - begin).min(body.len());
        chunks.push(body.split_to(length));
        begin = offset;
    }
    chunks.push(body);
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}

fn truncate(chunks: &mut Vec<Bytes>, mut bytes: usize) {
    chunks.retain_mut(|chunk| {
        chunk.truncate(bytes);
        bytes -= chunk.len();
        !chunk.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_cut_where_the_wire_says() {
        let check = |wire: Wire, expected: &[&str]| {
            let pieces = ["ab", "", "cdef"].map(|piece| piece.as_bytes().to_vec()).to_vec();
            assert_eq!(chunks(pieces, &wire).unwrap(), expected, "{wire:?}");
        };
        let at = |offsets: &[usize]| Wire { cut: Cut::At(offsets.to_vec()), ..Wire::default() };
        check(Wire::default(), &["ab", "cdef"]);
        check(Wire::cut_every(4.try_into().unwrap()), &["abcd", "ef"]);
        check(at(&[]), &["abcdef"]);
        check(at(&[5, 1, 1, 0]), &["a", "bcde", "f"]);
        check(at(&[3, 6, 90]), &["abc", "def"]);
        check(Wire::stall_after(1), &["ab"]);
        check(Wire::truncate_after(3), &["ab", "c"]);
        check(Wire::truncate_after(2), &["ab"]);
        check(Wire::truncate_after(0), &[]);
        check(Wire::truncate_after(99), &["ab", "cdef"]);
    }
}
