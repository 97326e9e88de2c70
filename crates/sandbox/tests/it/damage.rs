//! Snapshots that were changed, cut off, mixed up or forged are refused, and never reach a VM.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::LazyLock;

use crate::common::{LONG, engine, first_turn, json};
use pincer_sandbox::{Answer, Cell, Checkpoint, ContentHash, Error, Limits, RestoreError, Turn, TurnEnd, Unreadable};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn snapshot() -> Vec<u8> {
    let (mut cell, _) =
        first_turn("const data = { list: [1, 2, 3] }; const x = await call('y'); return data.list.length + x");
    cell.park().expect("a snapshot")
}

fn restore(bytes: &[u8]) -> Result<TurnEnd, Error> {
    let mut cell = engine().restore(bytes, Limits::default())?;
    for id in cell.pending() {
        cell.deliver(Answer::value(id, json("2")))?;
    }
    Ok(cell.run_turn(LONG)?.end)
}

fn refusal(bytes: &[u8]) -> RestoreError {
    match restore(bytes) {
        Err(error @ Error::Restore(_)) => {
            assert_eq!(error.code(), "snapshot_restore_failed");
            let Error::Restore(reason) = error else { unreachable!() };
            reason
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// Replaces a part and makes the checksum right again, as somebody who knows the format would.
fn forged(at: usize, with: &[u8]) -> Vec<u8> {
    forge(snapshot(), at, with)
}

fn forge(mut bytes: Vec<u8>, at: usize, with: &[u8]) -> Vec<u8> {
    bytes[at..at + with.len()].copy_from_slice(with);
    let body = bytes.len() - 32;
    let checksum = Sha256::digest(&bytes[..body]);
    bytes[body..].copy_from_slice(&checksum);
    bytes
}

/// A snapshot that is large enough to have deltas, and its first delta.
fn snapshot_and_delta() -> &'static (Vec<u8>, Vec<u8>) {
    static MADE: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
        let (mut cell, turn) = first_turn("const bytes = new Uint8Array(1 << 20).fill(1); await call(); return call()");
        let Ok(Checkpoint::Full(base)) = cell.checkpoint() else { panic!("not a full checkpoint") };
        cell.deliver(Answer::value(turn.requests[0].id, json("1"))).expect("a pending request");
        cell.run_turn(LONG).expect("a turn");
        let Ok(Checkpoint::Delta { bytes, .. }) = cell.checkpoint() else { panic!("not a delta") };
        (base, bytes)
    });
    &MADE
}

fn restore_delta(delta: &[u8]) -> Result<Cell, Error> {
    engine().restore_chain(&snapshot_and_delta().0, &[delta], Limits::default())
}

#[test]
fn an_unharmed_delta_continues() {
    let mut cell = restore_delta(&snapshot_and_delta().1).expect("a cell");
    cell.deliver(Answer::value(cell.pending()[0], json("7"))).expect("a pending request");
    assert!(matches!(cell.run_turn(LONG), Ok(Turn { end: TurnEnd::Value(Some(value)), .. }) if value.as_str() == "7"));
}

#[test]
fn every_changed_byte_of_a_delta_and_every_shortened_delta_is_refused() {
    let sound = &snapshot_and_delta().1;
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(restore_delta(&bytes).is_err(), "byte {at}");
        assert!(restore_delta(&sound[..at]).is_err(), "{at} bytes");
    }
    assert!(restore_delta(&[&sound[..], b"x"].concat()).is_err());
}

// Offsets in a delta: magic 0, version 4, predecessor 6, then as in a snapshot: engine 38, image 70, stack pointer 102, …
#[test]
fn forged_headers_of_a_delta_are_refused() {
    let sound = &snapshot_and_delta().1;
    let pages = u32::from_le_bytes(sound[106..110].try_into().expect("four bytes"));
    let forgeries: [(usize, &[u8]); 8] = [
        (6, &[7; 32]),
        (38, &[7; 32]),
        (70, &[7; 32]),
        (102, &0u32.to_le_bytes()),
        (106, &(pages - 1).to_le_bytes()),
        (106, &65_536u32.to_le_bytes()),
        (106, &u32::MAX.to_le_bytes()),
        (110, &[0, 1, 0]),
    ];
    for (at, with) in forgeries {
        let refused = restore_delta(&forge(sound.clone(), at, with)).err();
        assert!(matches!(refused, Some(Error::Restore(_))), "{at}: {refused:?}");
    }
}

#[test]
fn an_unharmed_snapshot_continues() {
    assert!(matches!(restore(&snapshot()), Ok(TurnEnd::Value(Some(value))) if value.as_str() == "5"));
}

#[test]
fn every_flipped_bit_is_refused() {
    let sound = snapshot();
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(engine().restore(&bytes, Limits::default()).is_err(), "bit {bit}");
    }
}

#[test]
fn every_shortened_snapshot_is_refused() {
    let sound = snapshot();
    for len in 0..sound.len() {
        assert!(engine().restore(&sound[..len], Limits::default()).is_err(), "{len} bytes");
    }
    assert!(engine().restore(&[&sound[..], b"x"].concat(), Limits::default()).is_err());
}

#[test]
fn other_things_are_refused_by_name() {
    use Unreadable::{Damaged, NotASnapshot, Version};
    for bytes in [&b""[..], b"PNC", b"\0asm\x01\0\0\0", b"{\"json\":1}"] {
        assert!(matches!(refusal(bytes), RestoreError::Unreadable(NotASnapshot)));
    }
    assert!(matches!(refusal(b"PNCR\x02\0"), RestoreError::Unreadable(Version { found: 2, known: 1 })));
    assert!(matches!(refusal(b"PNCR\x01\0"), RestoreError::Unreadable(Damaged(_))));
}

// Offsets in the header: magic 0, version 4, engine 6, image 38, stack pointer 70, memory length 74, then numbers.
#[test]
fn foreign_snapshots_are_refused_by_name() {
    assert!(matches!(refusal(&forged(6, &[7; 32])), RestoreError::WrongEngine { needed, present }
        if needed == ContentHash([7; 32]) && present == engine().engine_hash()));
    assert!(
        matches!(refusal(&forged(38, &[7; 32])), RestoreError::UnknownImage { needed } if needed == ContentHash([7; 32]))
    );
}

#[test]
fn hostile_headers_are_refused() {
    for stack_pointer in [0u32, 4096, (1 << 20) - 16, (1 << 20) + 4096, u32::MAX] {
        assert!(
            matches!(refusal(&forged(70, &stack_pointer.to_le_bytes())), RestoreError::Unreadable(_)),
            "{stack_pointer}"
        );
    }
    for pages in [0u32, 1, 16] {
        assert!(matches!(refusal(&forged(74, &pages.to_le_bytes())), RestoreError::Unreadable(_)), "{pages}");
    }
    for pages in [65_537u32, u32::MAX] {
        assert!(matches!(refusal(&forged(74, &pages.to_le_bytes())), RestoreError::Unreadable(_)), "{pages}");
    }
    for pages in [2000u32, 65_536] {
        assert!(matches!(refusal(&forged(74, &pages.to_le_bytes())), RestoreError::OverLimit { .. }), "{pages}");
    }
    // Next request, count of pending, first id.
    for numbers in [[0, 1, 0], [1, 1, 5], [1, 0xff, 0], [1, 2, 0]] {
        assert!(matches!(refusal(&forged(78, &numbers)), RestoreError::Unreadable(_)), "{numbers:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a forger puts behind the header: it is refused, or it runs in the sandbox like any other hostile program.
    #[test]
    fn forged_contents_are_refused_or_contained(at in 78usize..600, with in proptest::collection::vec(any::<u8>(), 1..64)) {
        let bytes = forged(at, &with);
        if let Ok(mut cell) = engine().restore(&bytes, Limits::default()) {
            for id in cell.pending() {
                cell.deliver(Answer::value(id, json("2"))).expect("a pending request");
            }
            drop(cell.run_turn(std::time::Duration::from_millis(50)));
        }
    }

    /// The same for a delta.
    #[test]
    fn forged_contents_of_a_delta_are_refused_or_contained(at in 110usize..600, with in proptest::collection::vec(any::<u8>(), 1..64)) {
        if let Ok(mut cell) = restore_delta(&forge(snapshot_and_delta().1.clone(), at, &with)) {
            for id in cell.pending() {
                cell.deliver(Answer::value(id, json("2"))).expect("a pending request");
            }
            drop(cell.run_turn(std::time::Duration::from_millis(50)));
        }
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(engine().restore(&bytes, Limits::default()).is_err());
        prop_assert!(restore_delta(&bytes).is_err());
    }
}
