//! Properties of checkpoints: at each of them the stored chain restores to exactly the memory, and no other chain restores.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::LazyLock;

use pincer_snapshot::{
    Checkpoint, Checkpoints, ContentHash, Dictionary, Header, MAX_DELTAS, PAGE, TooLarge, Unreadable, WASM_PAGE, read,
    read_chain, write,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use sha2::{Digest, Sha256};

const STACK: usize = 2 * PAGE;
const LIMIT: usize = 16 << 20;
/// Where a delta has the checksum of its predecessor, and what follows that.
const PREDECESSOR: std::ops::Range<usize> = 6..38;
const ENGINE: usize = 38;
const STACK_POINTER: usize = 102;
const WASM_PAGES: usize = 106;

static IMAGE: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..2 * WASM_PAGE).map(|i| if i % 7 == 0 { i as u8 } else { 0 }).collect());
static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| Dictionary::new(b"a dictionary that both sides know"));

/// Bytes that do not compress.
fn noise() -> impl Iterator<Item = u8> {
    std::iter::successors(Some(1u32), |state| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)))
        .map(|state| (state >> 24) as u8)
}

/// A cell and what its host has stored of it.
struct Cell {
    header: Header,
    memory: Vec<u8>,
    checkpoints: Checkpoints,
    base: Vec<u8>,
    deltas: Vec<Vec<u8>>,
}

impl Cell {
    /// With something on each page, so that a few changes are few. Changes are found by hashes.
    fn new(wasm_pages: usize) -> Self {
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
    fn small() -> Self {
        Self { checkpoints: Checkpoints::new(usize::MAX), ..Self::new(4) }
    }

    /// Changes one byte of a page, counted from the stack on.
    fn touch(&mut self, page: usize) {
        self.memory[STACK + page * PAGE] ^= 0x55;
    }

    /// Makes a checkpoint and stores it. Returns whether it was a delta, and how many it replaced.
    fn checkpoint(&mut self) -> Option<usize> {
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

    fn restored(&self) -> Restored {
        restored(&self.base, &self.deltas)
    }

    /// What a restored cell must be: the dead part of the stack is the image's.
    fn expected(&self) -> Restored {
        let mut memory = self.memory.clone();
        memory[..STACK].copy_from_slice(&IMAGE[..STACK]);
        Ok((self.header.clone(), ContentHash::of(&memory)))
    }
}

/// With the hash of the memory, which is too long to print.
type Restored = Result<(Header, ContentHash), Unreadable>;

fn restored(base: &[u8], deltas: &[impl AsRef<[u8]>]) -> Restored {
    let chain = read_chain(base, deltas)?;
    let mut memory = IMAGE.clone();
    memory.resize(chain.memory_bytes(), 0);
    chain.apply(&mut memory, &IMAGE, &DICTIONARY)?;
    Ok((chain.header().clone(), ContentHash::of(&memory)))
}

/// A cell with `count` deltas, each with fewer pages than the one before it.
fn cell_with_deltas(count: usize) -> Cell {
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

fn small_cell_with_a_patch() -> Cell {
    let mut cell = Cell::small();
    cell.checkpoint();
    (0..10).for_each(|page| cell.touch(page));
    assert_eq!(cell.checkpoint(), Some(0));
    cell
}

/// Changes some bytes and makes the checksum right again, as somebody who knows the format would.
fn forged(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut body = bytes[..bytes.len() - 32].to_vec();
    let end = (at + with.len()).min(body.len());
    body[at..end].copy_from_slice(&with[..end - at]);
    let checksum = Sha256::digest(&body);
    body.extend_from_slice(&checksum);
    body
}

#[derive(Clone, Debug)]
enum Step {
    /// Writes somewhere, also into the dead stack.
    Write(Index, Vec<u8>),
    /// Makes a page what it is in the image, or zero.
    Revert(Index),
    Grow,
    Checkpoint,
    /// The host could not store the last checkpoint and has none.
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (any::<Index>(), vec(any::<u8>(), 1..300)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        2 => any::<Index>().prop_map(Step::Revert),
        1 => Just(Step::Grow),
        10 => Just(Step::Checkpoint),
        1 => Just(Step::Forget),
    ];
    vec(step, 1..80)
}

fn run(cell: &mut Cell, step: Step) {
    match step {
        Step::Write(at, bytes) => {
            let at = at.index(cell.memory.len() - bytes.len());
            cell.memory[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Step::Revert(page) => {
            let start = page.index(cell.memory.len() / PAGE) * PAGE;
            let page = IMAGE.get(start..start + PAGE).unwrap_or(&[0; PAGE]);
            cell.memory[start..start + PAGE].copy_from_slice(page);
        }
        Step::Grow => cell.memory.resize(cell.memory.len() + WASM_PAGE, 0),
        Step::Checkpoint => drop(cell.checkpoint()),
        Step::Forget => cell.checkpoints.forget(),
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn each_checkpoint_restores_to_the_memory(steps in steps(), is_small in any::<bool>()) {
        let (mut cell, most) = if is_small { (Cell::small(), 1) } else { (Cell::new(4), MAX_DELTAS) };
        for step in steps {
            let is_checkpoint = matches!(step, Step::Checkpoint);
            run(&mut cell, step);
            if is_checkpoint {
                prop_assert!(cell.deltas.len() <= most);
                prop_assert_eq!(cell.restored(), cell.expected());
            }
        }
    }

    #[test]
    fn a_changed_byte_of_a_patch_is_refused(at in any::<Index>(), with in 1u8..) {
        let mut cell = small_cell_with_a_patch();
        let at = at.index(cell.deltas[0].len());
        cell.deltas[0][at] ^= with;
        prop_assert!(cell.restored().is_err());
    }

    #[test]
    fn forged_patches_never_panic(at in any::<Index>(), with in vec(any::<u8>(), 1..40)) {
        let mut cell = small_cell_with_a_patch();
        let at = at.index(cell.deltas[0].len() - 32);
        cell.deltas[0] = forged(&cell.deltas[0], at, &with);
        if read_chain(&cell.base, &cell.deltas).is_ok_and(|chain| chain.memory_bytes() <= 64 << 20) {
            let _ = cell.restored();
        }
    }

    #[test]
    fn a_changed_byte_is_refused(part in 0usize..4, at in any::<Index>(), with in 1u8..) {
        let mut cell = cell_with_deltas(3);
        let bytes = if part == 0 { &mut cell.base } else { &mut cell.deltas[part - 1] };
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        prop_assert!(cell.restored().is_err());
    }

    /// With a right checksum, the reader itself must find what is wrong; it may not panic or reach outside memory.
    #[test]
    fn forged_bytes_never_panic(at in any::<Index>(), with in vec(any::<u8>(), 1..40)) {
        let mut cell = cell_with_deltas(2);
        let last = cell.deltas.last_mut().expect("a delta");
        *last = forged(last, at.index(last.len() - 32), &with);
        if read_chain(&cell.base, &cell.deltas).is_ok_and(|chain| chain.memory_bytes() <= 64 << 20) {
            let _ = cell.restored();
        }
    }

    #[test]
    fn random_deltas_are_refused(bytes in vec(any::<u8>(), 0..400)) {
        let cell = cell_with_deltas(0);
        prop_assert!(restored(&cell.base, &[bytes]).is_err());
    }
}

#[test]
fn many_checkpoints_with_few_changes_need_one_base_and_write_each_page_seldom() {
    let mut cell = Cell::new(32);
    cell.checkpoint();
    let (mut written, mut longest) = (0, 0);
    for step in 0..200 {
        // A page that always changes, and one that does for the first time.
        cell.touch(0);
        cell.touch(1 + step);
        assert!(cell.checkpoint().is_some(), "step {step} is a snapshot");
        written += cell.deltas.last().expect("a delta").len();
        longest = longest.max(cell.deltas.len());
        assert_eq!(cell.restored(), cell.expected(), "step {step}");
    }
    assert!((4..=MAX_DELTAS).contains(&longest), "{longest} deltas");
    // The base has 510 pages, and 200 change. Each is written five times at most, and one page each time.
    assert!(written < cell.base.len() * 5 * 400 / 510, "{written} bytes in deltas, {} in the base", cell.base.len());
}

#[test]
fn a_chain_is_never_longer_than_the_most() {
    let mut cell = cell_with_deltas(MAX_DELTAS);
    assert_eq!(cell.deltas.len(), MAX_DELTAS);
    for _ in 0..3 {
        assert!(cell.checkpoint().expect("a delta") > 0);
        assert!(cell.deltas.len() <= MAX_DELTAS);
        assert_eq!(cell.restored(), cell.expected());
    }
}

#[test]
fn a_delta_whose_pages_changed_again_is_replaced() {
    let mut cell = cell_with_deltas(1);
    for _ in 0..20 {
        cell.touch(0);
        assert_eq!(cell.checkpoint(), Some(1));
    }
    assert_eq!(cell.deltas.len(), 1);
}

#[test]
fn a_checkpoint_without_change_carries_the_header() {
    let mut cell = cell_with_deltas(1);
    let before = cell.header.clone();
    cell.checkpoint();
    assert_ne!(cell.header, before);
    assert_eq!(cell.restored(), cell.expected());
}

#[test]
fn a_page_that_went_back_to_the_image_is_in_the_delta() {
    let mut cell = cell_with_deltas(0);
    let grown = 3 * WASM_PAGE;
    cell.memory[STACK..STACK + PAGE].copy_from_slice(&IMAGE[STACK..STACK + PAGE]);
    cell.memory[grown..grown + PAGE].fill(0);
    assert_eq!(cell.checkpoint(), Some(0));
    assert_eq!(cell.restored(), cell.expected());
}

#[test]
fn memory_may_grow_between_deltas() {
    let mut cell = cell_with_deltas(3);
    for _ in 0..3 {
        cell.memory.resize(cell.memory.len() + WASM_PAGE, 0);
        *cell.memory.last_mut().expect("memory") = 1;
        assert!(cell.checkpoint().is_some());
        assert_eq!(cell.restored(), cell.expected());
    }
}

#[test]
fn a_heap_that_changed_for_the_most_part_gets_a_new_base() {
    let mut cell = cell_with_deltas(2);
    let pages = cell.memory.len() / PAGE - STACK / PAGE;
    (0..pages / 2 + 1).for_each(|page| cell.touch(page));
    assert_eq!(cell.checkpoint(), None);
    assert_eq!(cell.restored(), cell.expected());
    cell.touch(0);
    assert_eq!(cell.checkpoint(), Some(0), "the new base holds all of that");
    assert_eq!(cell.restored(), cell.expected());
}

#[test]
fn memory_that_is_not_what_the_chain_grew_from_gets_a_new_base() {
    let mut cell = cell_with_deltas(1);
    cell.header.stack_pointer += PAGE as u32;
    assert_eq!(cell.checkpoint(), None);
    assert_eq!(cell.checkpoint(), Some(0));
    cell.memory.truncate(6 * WASM_PAGE);
    assert_eq!(cell.checkpoint(), None);
}

#[test]
fn deltas_that_grow_large_get_a_new_base() {
    let mut cell = cell_with_deltas(0);
    // Noise: few pages, but more bytes than all the others have in their snapshot.
    cell.memory[STACK..STACK + 20 * PAGE].iter_mut().zip(noise()).for_each(|(byte, noise)| *byte = noise);
    assert!(cell.checkpoint().is_some());
    assert_eq!(cell.checkpoint(), None);
    assert_eq!(cell.checkpoint(), Some(0));
}

#[test]
fn a_base_with_more_pages_than_may_be_copied_gets_hashes() {
    let mut cell = Cell::new(4);
    let pages = cell.memory.len() / PAGE - STACK / PAGE;
    for (copied_pages, magic) in [(pages, b"PNCP"), (pages - 1, b"PNCD")] {
        cell.checkpoints = Checkpoints::new(copied_pages);
        assert_eq!(cell.checkpoint(), None);
        cell.touch(0);
        assert_eq!(cell.checkpoint(), Some(0));
        assert!(cell.deltas[0].starts_with(magic));
    }
}

#[test]
fn a_patch_has_the_words_that_changed_and_takes_the_place_of_the_one_before() {
    let mut cell = small_cell_with_a_patch();
    let one = cell.deltas[0].len();
    for page in [1, 2, 3, 200, 1] {
        cell.touch(page % 60);
        assert_eq!(cell.checkpoint(), Some(1));
        assert_eq!(cell.restored(), cell.expected());
    }
    assert_eq!(cell.deltas.len(), 1);
    // Two more words, on one more page, and four more pending requests.
    assert!(cell.deltas[0].len() < one + 60, "{} after {one}", cell.deltas[0].len());
}

#[test]
fn patches_that_have_grown_get_a_new_base() {
    let mut cell = small_cell_with_a_patch();
    let mut at = STACK;
    let patches = (0..50).position(|_| {
        // A program that collects results.
        cell.memory[at..at + 500].iter_mut().for_each(|byte| *byte ^= 0x33);
        at += 500;
        cell.checkpoint().is_none()
    });
    assert!(patches.is_some_and(|patches| (4..20).contains(&patches)), "{patches:?}");
    assert_eq!(cell.restored(), cell.expected());
    cell.touch(0);
    assert_eq!(cell.checkpoint(), Some(0));
    cell.memory[STACK..STACK + 20 * PAGE].iter_mut().for_each(|byte| *byte ^= 0x11);
    assert_eq!(cell.checkpoint(), None, "a patch of 80 KB");
    assert_eq!(cell.restored(), cell.expected());
}

#[test]
fn base_and_patch_together_keep_the_limit() {
    let mut cell = small_cell_with_a_patch();
    let size = cell.base.len() + cell.deltas[0].len();
    let is_full = |cell: &mut Cell, limit| {
        let next = cell.checkpoints.next(&cell.header, &cell.memory, &IMAGE, &DICTIONARY, limit);
        matches!(next.expect("room for a snapshot"), Checkpoint::Full(_))
    };
    assert!(!is_full(&mut cell, size));
    assert!(is_full(&mut cell, size - 1));
}

#[test]
fn a_memory_that_threads_share_is_stored_as_by_one() {
    // 80 parts.
    let mut cell = Cell::new(20 * 64);
    cell.checkpoint();
    assert_eq!(cell.restored(), cell.expected());
    let pages = cell.memory.len() / PAGE - STACK / PAGE;
    (0..pages).step_by(97).for_each(|page| cell.touch(page));
    assert_eq!(cell.checkpoint(), Some(0));
    assert_eq!(cell.restored(), cell.expected());
    let write = || write(&cell.header, &cell.memory, &IMAGE, &DICTIONARY, 64 << 20).expect("it is small");
    let (a, b) = (write(), write());
    assert!(a == b, "two snapshots of the same cell differ");
}

#[test]
fn base_and_deltas_together_keep_the_limit() {
    let mut cell = cell_with_deltas(0);
    let size = cell.base.len();
    let next = |cell: &mut Cell, limit| {
        cell.touch(0);
        cell.checkpoints.next(&cell.header, &cell.memory, &IMAGE, &DICTIONARY, limit)
    };
    let Ok(Checkpoint::Delta { bytes, replaces: 0 }) = next(&mut cell, LIMIT) else { panic!("no delta") };
    let delta = bytes.len();
    let full = |checkpoint: &Result<Checkpoint, TooLarge>| matches!(checkpoint, Ok(Checkpoint::Full(_)));
    // The delta that it replaces does not count.
    assert!(!full(&next(&mut cell, size + delta + 20)));
    assert!(full(&next(&mut cell, size + delta - 20)));
    assert!(!full(&next(&mut cell, LIMIT)));
    // Not even a snapshot has room. After that there is nothing to build on.
    assert_eq!(next(&mut cell, size / 2), Err(TooLarge { limit: size / 2 }));
    assert!(full(&next(&mut cell, LIMIT)));
}

#[test]
fn deltas_out_of_order_or_of_another_chain_are_refused() {
    let Cell { base, deltas, .. } = cell_with_deltas(3);
    let [a, b, c] = &deltas[..] else { panic!("not three deltas") };
    assert!(restored(&base, &[a, b, c]).is_ok());
    assert!(restored(&base, &[a, b]).is_ok(), "an earlier checkpoint");

    let damaged = Err(Unreadable::Damaged("a delta does not follow its predecessor"));
    let mut other = cell_with_deltas(0);
    other.checkpoints.forget();
    other.checkpoint();
    other.touch(0);
    other.checkpoint();
    let foreign = &other.deltas[0];
    for wrong in [&[b][..], &[a, c], &[b, a, c], &[a, a], &[a, b, c, c], &[foreign], &[a, foreign], &[foreign, b]] {
        assert_eq!(restored(&base, wrong), damaged);
    }
    assert_eq!(restored(&other.base, &[a, b, c]), damaged);
}

#[test]
fn other_things_are_not_taken_for_deltas_nor_deltas_for_snapshots() {
    let Cell { base, deltas, .. } = cell_with_deltas(1);
    let damaged = |bytes: &[u8]| matches!(restored(&base, &[bytes]), Err(Unreadable::Damaged(_)));
    assert!(damaged(b"") && damaged(b"PNCD") && damaged(b"PNCD\x01\0") && damaged(&base));
    assert_eq!(restored(&base, &[b"PNCD\x02\0"]), Err(Unreadable::Version { found: 2, known: 1 }));
    assert_eq!(read(&deltas[0]).err(), Some(Unreadable::NotASnapshot));
    assert_eq!(restored(&deltas[0], &[&base]).err(), Some(Unreadable::NotASnapshot));
}

#[test]
fn a_forged_delta_is_refused() {
    let Cell { base, deltas, .. } = cell_with_deltas(1);
    let refused = |at, with: &[u8]| {
        assert!(matches!(restored(&base, &[forged(&deltas[0], at, with)]), Err(Unreadable::Damaged(_))), "{at}");
    };
    refused(PREDECESSOR.start, &[7; 32]);
    refused(ENGINE, &[7; 32]);
    refused(ENGINE + 32, &[7; 32]);
    refused(STACK_POINTER, &0u32.to_le_bytes());
    refused(WASM_PAGES, &7u32.to_le_bytes());
    refused(WASM_PAGES, &65_537u32.to_le_bytes());
}

#[test]
fn a_chain_with_too_many_deltas_is_refused() {
    let mut cell = cell_with_deltas(MAX_DELTAS);
    let last = cell.deltas.last().expect("a delta");
    let next = forged(last, PREDECESSOR.start, last.last_chunk::<32>().expect("a checksum"));
    assert!(restored(&cell.base, &cell.deltas[..MAX_DELTAS - 1]).is_ok());
    cell.deltas.push(next);
    assert_eq!(cell.restored(), Err(Unreadable::Damaged("it has more deltas than there can be")));
}
