//! Properties of checkpoints: at each of them the stored chain restores to exactly the memory, and no other chain restores.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::cell::{Cell, DICTIONARY, IMAGE, LIMIT, STACK, cell_with_deltas, config, forged, noise, restored};
use pincer_snapshot::{
    Checkpoint, Checkpoints, MAX_DELTAS, PAGE, TooLarge, Unreadable, WASM_PAGE, read, read_chain, write,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Where a delta has the checksum of its predecessor, and what follows that.
const PREDECESSOR: std::ops::Range<usize> = 6..38;
const ENGINE: usize = 38;
const STACK_POINTER: usize = 102;
const WASM_PAGES: usize = 106;

#[derive(Clone, Debug)]
enum Step {
    /// Writes somewhere, also into the dead stack.
    Write(Index, Vec<u8>),
    /// Changes a byte of a page that often changes.
    Touch(usize),
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
        8 => (0usize..6).prop_map(Step::Touch),
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
        Step::Touch(page) => cell.touch(page),
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
    let mut cell = cell_with_deltas(MAX_DELTAS - 1);
    assert_eq!(cell.checkpoint(), Some(0), "a patch");
    assert_eq!(cell.deltas.len(), MAX_DELTAS);
    for page in 40..50 {
        cell.touch(page);
        assert!(cell.checkpoint().expect("a delta") > 0);
        assert!(cell.deltas.len() < MAX_DELTAS);
        assert!(cell.checkpoint().is_some(), "a patch");
        assert!(cell.deltas.len() <= MAX_DELTAS);
        assert_eq!(cell.restored(), cell.expected());
    }
}

#[test]
fn a_delta_whose_pages_changed_again_is_replaced() {
    let mut cell = cell_with_deltas(1);
    for page in 1..20 {
        // The page that is new keeps it from being a patch.
        (0..=page).for_each(|page| cell.touch(page));
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
    let mut cell = cell_with_deltas(MAX_DELTAS - 1);
    cell.checkpoint();
    let last = cell.deltas.last().expect("a delta");
    let next = forged(last, PREDECESSOR.start, last.last_chunk::<32>().expect("a checksum"));
    assert!(restored(&cell.base, &cell.deltas[..MAX_DELTAS - 1]).is_ok());
    cell.deltas.push(next);
    assert_eq!(cell.restored(), Err(Unreadable::Damaged("it has more deltas than there can be")));
}
