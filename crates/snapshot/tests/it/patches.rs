//! Patches: the words that changed since the checkpoint before.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::cell::{Cell, DICTIONARY, IMAGE, STACK, cell_with_deltas, config, forged, noise};
use pincer_snapshot::{Checkpoint, PAGE, read_chain};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn small_cell_with_a_patch() -> Cell {
    let mut cell = Cell::small();
    cell.checkpoint();
    (0..10).for_each(|page| cell.touch(page));
    assert_eq!(cell.checkpoint(), Some(0));
    cell
}

proptest! {
    #![proptest_config(config())]

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
}

#[test]
fn the_words_that_changed_in_the_pages_of_a_delta_are_a_patch() {
    let mut cell = cell_with_deltas(3);
    let whole = cell.deltas[2].len();
    // The third delta has one page, the sixth.
    for round in 0..20 {
        cell.touch(5);
        assert_eq!(cell.checkpoint(), Some(usize::from(round > 0)));
        assert_eq!(cell.deltas.len(), 4);
        assert!(cell.deltas[3].len() < whole, "{} bytes, {whole} for the page", cell.deltas[3].len());
        assert_eq!(cell.restored(), cell.expected(), "round {round}");
    }
    // A page of an older delta: what the patch had is part of the delta that takes its place.
    cell.touch(0);
    assert!(cell.checkpoint().expect("a delta") >= 1);
    assert_eq!(cell.restored(), cell.expected());
    // More changes than a patch holds.
    let mut noise = noise();
    cell.memory[STACK + 5 * PAGE..][..PAGE].fill_with(|| noise.next().unwrap_or(0));
    assert!(cell.checkpoint().is_some());
    assert_eq!(cell.restored(), cell.expected());
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
