//! Feeds the snapshot reader with whatever the fuzzer thinks of, with a right checksum, so that it gets past the first door.
//!
//! A snapshot that is accepted must survive a round trip: what it restores to, written again, restores to the same.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pincer_snapshot::{Dictionary, WASM_PAGE, read, write};
use sha2::{Digest, Sha256};

const IMAGE_PAGES: usize = 2;
const MAX_BYTES: usize = 16 * WASM_PAGE;

static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| (0..IMAGE_PAGES * WASM_PAGE).map(|i| (i * 7) as u8).collect());
static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| Dictionary::new(b"a dictionary that both sides know"));

fn restored(bytes: &[u8]) -> Option<Vec<u8>> {
    let parked = read(bytes).ok().filter(|parked| (IMAGE.len()..=MAX_BYTES).contains(&parked.memory_bytes()))?;
    let mut memory = IMAGE.clone();
    memory.resize(parked.memory_bytes(), 0);
    parked.apply(&mut memory, &DICTIONARY).ok()?;
    Some(memory)
}

fuzz_target!(|body: &[u8]| {
    // As it came, and sealed as its writer would have.
    let _ = restored(body);
    let sealed = [body, &Sha256::digest(body)[..]].concat();
    let Some(memory) = restored(&sealed) else { return };
    let header = read(&sealed).expect("it was just read").header;
    if header.stack_pointer as usize % pincer_snapshot::PAGE != 0 {
        return;
    }
    let again = write(&header, &memory, &IMAGE, &DICTIONARY, usize::MAX).expect("there is no limit");
    assert!(restored(&again).expect("our own snapshot") == memory);
});
