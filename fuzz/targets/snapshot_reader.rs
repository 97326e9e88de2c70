//! Feeds the readers of snapshots and deltas with whatever the fuzzer thinks of, with a right checksum, so that it gets past
//! the first door.
//!
//! A snapshot that is accepted must survive a round trip: what it restores to, written again, restores to the same. A delta
//! that is accepted must do so as well, and must change nothing when it is applied a second time.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pincer_snapshot::{ContentHash, Dictionary, Header, PAGE, WASM_PAGE, read, read_chain, write};
use sha2::{Digest, Sha256};

const IMAGE_PAGES: usize = 2;
const MAX_BYTES: usize = 16 * WASM_PAGE;
const STACK: usize = 2 * PAGE;
/// Where a delta has what must match the snapshot: the predecessor's checksum, the engine, the image, the stack pointer.
const LINKS: std::ops::Range<usize> = 6..106;

static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| (0..IMAGE_PAGES * WASM_PAGE).map(|i| (i * 7) as u8).collect());
static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| Dictionary::new(b"a dictionary that both sides know"));
/// The snapshot that deltas are applied to.
static BASE: LazyLock<(Vec<u8>, Header)> = LazyLock::new(|| {
    let mut memory = IMAGE.clone();
    memory[STACK..].iter_mut().step_by(100).for_each(|byte| *byte ^= 1);
    let header = Header {
        engine: ContentHash::of(b"engine"),
        image: ContentHash::of(&IMAGE),
        stack_pointer: STACK as u32,
        wasm_pages: IMAGE_PAGES as u32,
        next_request: 1,
        pending: vec![0],
    };
    (write(&header, &memory, &IMAGE, &DICTIONARY, usize::MAX).expect("there is no limit"), header)
});

fn restored(base: &[u8], deltas: &[Vec<u8>]) -> Option<(Header, Vec<u8>)> {
    let chain = read_chain(base, deltas).ok()?;
    if !(IMAGE.len()..=MAX_BYTES).contains(&chain.memory_bytes()) {
        return None;
    }
    let mut memory = IMAGE.clone();
    memory.resize(chain.memory_bytes(), 0);
    chain.apply(&mut memory, &IMAGE, &DICTIONARY).ok()?;
    Some((chain.header().clone(), memory))
}

fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &Sha256::digest(body)[..]].concat()
}

/// Makes a delta follow `predecessor`.
fn linked(body: &[u8], predecessor: &[u8]) -> Vec<u8> {
    let header = &BASE.1;
    let checksum = &predecessor[predecessor.len() - 32..];
    let links = [checksum, &header.engine.0, &header.image.0, &header.stack_pointer.to_le_bytes()].concat();
    let mut body = body.to_vec();
    body[LINKS].copy_from_slice(&links);
    sealed(&body)
}

fn check_round_trip(header: &Header, memory: &[u8]) {
    let again = write(header, memory, &IMAGE, &DICTIONARY, usize::MAX).expect("there is no limit");
    let (_, restored) = restored(&again, &[]).expect("our own snapshot");
    assert!(restored == memory);
    assert_eq!(read(&again).expect("our own snapshot").header, *header);
}

fn check_delta(body: &[u8]) {
    let base = &BASE.0;
    let first = linked(body, base);
    let second = linked(body, &first);
    let Some((header, memory)) = restored(base, std::slice::from_ref(&first)) else { return };
    check_round_trip(&header, &memory);
    assert!(restored(base, std::slice::from_ref(&second)).is_none(), "it follows another");
    assert!(restored(base, &[first, second]).expect("the same twice").1 == memory);
}

fuzz_target!(|body: &[u8]| {
    // As it came, and sealed as its writer would have.
    let _ = restored(body, &[]);
    let _ = restored(&BASE.0, &[body.to_vec()]);
    if body.starts_with(b"PNCD") && body.len() >= LINKS.end {
        return check_delta(body);
    }
    let Some((header, memory)) = restored(&sealed(body), &[]) else { return };
    if header.stack_pointer as usize % PAGE == 0 {
        check_round_trip(&header, &memory);
    }
});
