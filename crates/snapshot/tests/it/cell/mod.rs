//! A cell and its checkpoints.

use std::sync::LazyLock;

use pincer_snapshot::{
    Checkpoint, Checkpoints, ContentHash, Dictionary, Header, PAGE, Unreadable, WASM_PAGE, read_chain,
};
use proptest::prelude::ProptestConfig;
use sha2::{Digest, Sha256};

pub(crate) const STACK: usize = 2 * PAGE;
pub(crate) const LIMIT: usize = 16 << 20;

pub(crate) static IMAGE: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..2 * WASM_PAGE).map(|i| if i % 7 == 0 { i as u8 } else { 0 }).collect());
pub(crate) static DICTIONARY: LazyLock<Dictionary> =
    LazyLock::new(|| Dictionary::new(b"a dictionary that both sides know"));

/// Bytes that do not compress.
pub(crate) fn noise() -> impl Iterator<Item = u8> {
    std::iter::successors(Some(1u32), |state| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)))
        .map(|state| (state >> 24) as u8)
}

/// A cell and what its host has stored of it.
pub(crate) struct Cell {
    pub header: Header,
    pub memory: Vec<u8>,
    pub checkpoints: Checkpoints,
    pub base: Vec<u8>,
    pub deltas: Vec<Vec<u8>>,
}

impl Cell {
    /// With something on each page, so that a few changes are few. Changes are found by hashes.
    pub(crate) fn new(wasm_pages: usize) -> Self {
        let mut memory = IMAGE.clone();
        memory.resize(wasm_pages * WASM_PAGE, 0);
        let mut noise = noise();
        memory[STACK..].chunks_mut(PAGE).for_each(|page| page[..300].fill_with(|| noise.next().unwrap_or(0)));
        let header = Header {
            engine: ContentHash::of(b"engine"),
            image: ContentHash::of(&IMAGE),
            stack_pointer: STACK as u32,
            wasm_pages: wasm_pages as u32,
            next_request: 0,
            pending: Vec::new(),
        };
        Self { header, memory, checkpoints: Checkpoints::new(0), base: Vec::new(), deltas: Vec::new() }
    }

    /// One that is small enough for copies.
    pub(crate) fn small() -> Self {
        Self { checkpoints: Checkpoints::new(usize::MAX), ..Self::new(4) }
    }

    /// Changes one byte of a page, counted from the stack on.
    pub(crate) fn touch(&mut self, page: usize) {
        self.memory[STACK + page * PAGE] ^= 0x55;
    }

    /// Makes a checkpoint and stores it. Returns whether it was a delta, and how many it replaced.
    pub(crate) fn checkpoint(&mut self) -> Option<usize> {
        self.header.pending.push(self.header.next_request);
        self.header.next_request += 1;
        self.header.wasm_pages = (self.memory.len() / WASM_PAGE) as u32;
        match self.checkpoints.next(&self.header, &self.memory, &IMAGE, &DICTIONARY, LIMIT).expect("it is small") {
            Checkpoint::Full(bytes) => {
                (self.base, self.deltas) = (bytes, Vec::new());
                None
            }
            Checkpoint::Delta { bytes, replaces } => {
                self.deltas.truncate(self.deltas.len() - replaces);
                self.deltas.push(bytes);
                Some(replaces)
            }
        }
    }

    pub(crate) fn restored(&self) -> Restored {
        restored(&self.base, &self.deltas)
    }

    /// Returns the cell that must be restored: the dead part of the stack is the image's.
    pub(crate) fn expected(&self) -> Restored {
        let mut memory = self.memory.clone();
        memory[..STACK].copy_from_slice(&IMAGE[..STACK]);
        Ok((self.header.clone(), ContentHash::of(&memory)))
    }
}

/// With the hash of the memory, which is too long to print.
pub(crate) type Restored = Result<(Header, ContentHash), Unreadable>;

pub(crate) fn restored(base: &[u8], deltas: &[impl AsRef<[u8]>]) -> Restored {
    let chain = read_chain(base, deltas)?;
    let mut memory = IMAGE.clone();
    memory.resize(chain.memory_bytes(), 0);
    chain.apply(&mut memory, &IMAGE, &DICTIONARY)?;
    Ok((chain.header().clone(), ContentHash::of(&memory)))
}

/// A cell with `count` deltas, each with fewer pages than the one before it.
pub(crate) fn cell_with_deltas(count: usize) -> Cell {
    let mut cell = Cell::new(8);
    cell.checkpoint();
    let mut page = 0;
    for pages in (1..=count).rev() {
        (page..page + pages).for_each(|page| cell.touch(page));
        page += pages;
        assert_eq!(cell.checkpoint(), Some(0));
    }
    cell
}

/// Changes some bytes and makes the checksum right again, as a forger who knows the format would.
pub(crate) fn forged(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut body = bytes[..bytes.len() - 32].to_vec();
    let end = (at + with.len()).min(body.len());
    body[at..end].copy_from_slice(&with[..end - at]);
    let checksum = Sha256::digest(&body);
    body.extend_from_slice(&checksum);
    body
}

pub(crate) fn config() -> ProptestConfig {
    ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() }
}
