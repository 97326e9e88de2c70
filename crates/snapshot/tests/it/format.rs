//! Properties of the stored form: what is written can be read, and what was not written so is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_snapshot::{
    ContentHash, Dictionary, Header, PAGE, TooLarge, Unreadable, WASM_PAGE, difference, read, write,
};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

const STACK: usize = 2 * PAGE;
const LIMIT: usize = 1 << 20;

fn image() -> Vec<u8> {
    (0..2 * WASM_PAGE).map(|i| if i % 7 == 0 { i as u8 } else { 0 }).collect()
}

fn dictionary() -> Dictionary {
    let mut typical = image();
    typical[STACK + 100..STACK + 110].fill(1);
    Dictionary::new(&difference(&typical, &image(), STACK / PAGE))
}

fn header(wasm_pages: u32, pending: Vec<u32>) -> Header {
    Header {
        engine: ContentHash::of(b"engine"),
        image: ContentHash::of(&image()),
        stack_pointer: STACK as u32,
        wasm_pages,
        next_request: pending.last().map_or(0, |last| last + 1),
        pending,
    }
}

fn restored(bytes: &[u8]) -> Result<(Header, Vec<u8>), Unreadable> {
    let parked = read(bytes)?;
    let mut memory = image();
    memory.resize(parked.memory_bytes(), 0);
    parked.apply(&mut memory, &dictionary())?;
    Ok((parked.header, memory))
}

/// Writes, pages of their own and long stretches, also in memory that has grown.
fn memories() -> impl Strategy<Value = Vec<u8>> {
    let edit = (STACK..6 * WASM_PAGE - 300, vec(any::<u8>(), 1..300));
    (2usize..=6, vec(edit, 0..40)).prop_map(|(pages, edits)| {
        let mut memory = image();
        memory.resize(pages * WASM_PAGE, 0);
        for (at, bytes) in edits {
            if at + bytes.len() <= memory.len() {
                memory[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        memory
    })
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_written_is_read_back(memory in memories(), pending in btree_set(0u32..u32::MAX - 1, 0..50)) {
        let header = header((memory.len() / WASM_PAGE) as u32, pending.into_iter().collect());
        let bytes = write(&header, &memory, &image(), &dictionary(), LIMIT).expect("it is small");
        prop_assert_eq!(restored(&bytes), Ok((header, memory)));
    }

    #[test]
    fn a_changed_byte_is_refused(memory in memories(), at in any::<prop::sample::Index>(), with in 1u8..) {
        let header = header((memory.len() / WASM_PAGE) as u32, vec![0, 3]);
        let mut bytes = write(&header, &memory, &image(), &dictionary(), LIMIT).expect("it is small");
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        prop_assert!(restored(&bytes).is_err());
    }

    #[test]
    fn random_bytes_are_refused(bytes in vec(any::<u8>(), 0..400)) {
        prop_assert!(restored(&bytes).is_err());
    }

    /// With a right checksum, the reader itself must find what is wrong; it may not panic or reach outside memory.
    #[test]
    fn forged_bytes_never_panic(memory in memories(), at in any::<prop::sample::Index>(), with in vec(any::<u8>(), 1..40)) {
        let header = header((memory.len() / WASM_PAGE) as u32, vec![0, 3]);
        let mut bytes = write(&header, &memory, &image(), &dictionary(), LIMIT).expect("it is small");
        let body = bytes.len() - 32;
        let at = at.index(body);
        let end = (at + with.len()).min(body);
        bytes[at..end].copy_from_slice(&with[..end - at]);
        let checksum = Sha256::digest(&bytes[..body]);
        bytes[body..].copy_from_slice(&checksum);
        if let Ok(parked) = read(&bytes) && parked.memory_bytes() <= 64 << 20 {
            let mut memory = image();
            memory.resize(parked.memory_bytes().max(memory.len()), 0);
            let _ = parked.apply(&mut memory, &dictionary());
        }
    }

    #[test]
    fn the_limit_is_kept(memory in memories(), limit in 0usize..4000) {
        let header = header((memory.len() / WASM_PAGE) as u32, vec![]);
        match write(&header, &memory, &image(), &dictionary(), limit) {
            Ok(bytes) => prop_assert!(bytes.len() <= limit),
            Err(error) => prop_assert_eq!(error, TooLarge { limit }),
        }
    }
}

#[test]
fn dead_stack_is_not_stored() {
    let mut memory = image();
    memory[..STACK].fill(0xaa);
    let clean = write(&header(2, vec![]), &image(), &image(), &dictionary(), LIMIT).expect("it is small");
    assert_eq!(write(&header(2, vec![]), &memory, &image(), &dictionary(), LIMIT), Ok(clean));
}

#[test]
fn a_large_memory_that_is_full_of_noise_passes_in_chunks() {
    let mut memory = image();
    memory.resize(80 * WASM_PAGE, 0);
    let mut state = 1u32;
    for byte in &mut memory[STACK..] {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    let header = header(80, vec![]);
    let bytes = write(&header, &memory, &image(), &dictionary(), 16 << 20).expect("it fits");
    assert_eq!(restored(&bytes), Ok((header.clone(), memory.clone())));
    assert_eq!(write(&header, &memory, &image(), &dictionary(), 1 << 20), Err(TooLarge { limit: 1 << 20 }));
}
