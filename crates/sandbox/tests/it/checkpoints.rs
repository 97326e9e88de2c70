//! A cell that is stored before each call continues from each of its checkpoints.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{LONG, echo, engine, first_turn, json, start_with};
use pincer_sandbox::{
    Answer, Cell, Checkpoint, Error, Limits, MAX_DELTAS, Request, RestoreError, TooLarge, Turn, TurnEnd, Unreadable,
};

/// What a host has stored of a cell.
#[derive(Clone, Default)]
struct Stored {
    base: Vec<u8>,
    deltas: Vec<Vec<u8>>,
}

impl Stored {
    /// Stores a checkpoint and returns whether it was a delta.
    fn add(&mut self, checkpoint: Checkpoint) -> bool {
        match checkpoint {
            Checkpoint::Full(bytes) => {
                *self = Self { base: bytes, deltas: Vec::new() };
                false
            }
            Checkpoint::Delta { bytes, replaces } => {
                self.deltas.truncate(self.deltas.len().checked_sub(replaces).expect("that many deltas"));
                self.deltas.push(bytes);
                true
            }
        }
    }

    fn restore(&self) -> Result<Cell, Error> {
        engine().restore_chain(&self.base, &self.deltas, Limits::default())
    }
}

/// Answers all requests of the last turn with their argument, and runs the next.
fn next_turn(cell: &mut Cell, requests: &[Request]) -> Turn {
    requests.iter().for_each(|request| cell.deliver(echo(request)).expect("a pending request"));
    cell.run_turn(LONG).expect("a turn")
}

fn run_to_end(mut cell: Cell, mut requests: Vec<Request>) -> String {
    loop {
        let turn = next_turn(&mut cell, &requests);
        match turn.end {
            TurnEnd::Waiting => requests = turn.requests,
            TurnEnd::Value(Some(value)) => return value.to_string(),
            other => panic!("it came to {other:?}"),
        }
    }
}

/// What a host saw of a program that it checkpointed at each wait.
struct Seen {
    deltas: usize,
    longest: usize,
    value: String,
}

/// Runs a program to its end with a checkpoint at each wait. Each must continue to the same end.
fn check(source: &str) -> Seen {
    let (mut cell, mut turn) = first_turn(source);
    let mut stored = Stored::default();
    let mut points = Vec::new();
    let mut seen = Seen { deltas: 0, longest: 0, value: String::new() };
    while let TurnEnd::Waiting = turn.end {
        seen.deltas += usize::from(stored.add(cell.checkpoint().expect("a checkpoint")));
        seen.longest = seen.longest.max(stored.deltas.len());
        points.push((stored.clone(), turn.requests.clone()));
        turn = next_turn(&mut cell, &turn.requests);
    }
    let TurnEnd::Value(Some(value)) = turn.end else { panic!("it came to {:?}", turn.end) };
    seen.value = value.to_string();
    for (index, (stored, requests)) in points.into_iter().enumerate() {
        let cell = stored.restore().expect("a restored cell");
        assert_eq!(run_to_end(cell, requests), seen.value, "from checkpoint {index} of\n{source}");
    }
    seen
}

/// A heap of some 4 MiB that changes in a few places between its calls.
const LARGE: &str = "const rows = []; for (let i = 0; i < 50000; i++) rows.push({ id: i, n: i });
    let at = 1;
    for (let step = 0; step < 14; step++) {
      const n = await call(step + 1);
      for (let i = 0; i < 3; i++) rows[at = (at * 48271) % 49999].n += n;
    }
    return rows.reduce((sum, row) => (sum * 31 + row.n) % 1000003, 0)";

/// A heap of some 4 MiB that takes few bytes. Each change is smaller than the one before it, so no delta replaces another.
const PLAIN: &str = "const bytes = new Uint8Array(4 << 20).map((_, i) => i >> 6);
    for (let i = 0; i < 4; i++) {
      const n = await call(i);
      for (let page = 0; page < 200 >> i; page++) bytes[(i * 200 + page) << 12] = n;
    }
    return bytes.reduce((sum, byte) => sum + byte, 0)";

/// Runs `PLAIN` up to its `count`th delta.
fn plain(count: usize) -> (Cell, Stored, Turn) {
    let (mut cell, mut turn) = first_turn(PLAIN);
    let mut stored = Stored::default();
    assert!(!stored.add(cell.checkpoint().expect("a checkpoint")));
    for _ in 0..count {
        turn = next_turn(&mut cell, &turn.requests);
        assert!(stored.add(cell.checkpoint().expect("a checkpoint")));
    }
    (cell, stored, turn)
}

#[test]
fn a_large_cell_continues_from_each_of_its_checkpoints() {
    let seen = check(LARGE);
    assert!(seen.deltas >= 12, "{} deltas", seen.deltas);
    assert!((2..=MAX_DELTAS).contains(&seen.longest), "{} deltas in a chain", seen.longest);
    assert_eq!(seen.value, crate::common::value(LARGE));
}

#[test]
fn memory_may_grow_between_deltas() {
    let seen = check(
        "const bytes = new Uint8Array(4 << 20).map((_, i) => i * 31); const more = [];
        for (let i = 0; i < 6; i++) more.push(new Uint8Array(200000).fill(await call(i)));
        return [bytes, ...more].map((part) => part.reduce((sum, byte) => sum + byte, 0))",
    );
    assert!(seen.deltas >= 4, "{} deltas", seen.deltas);
}

#[test]
fn a_cell_that_becomes_large_or_changes_for_the_most_part_gets_a_new_base() {
    let seen = check(
        "let rows = []; const out = [];
        for (let i = 0; i < 8; i++) {
          const n = await call(i);
          rows = rows.concat(Array.from({ length: 10000 }, (_, id) => ({ id, n })));
          out.push(rows.length, rows.reduce((sum, row) => sum + row.id * row.n, 0));
        }
        return out",
    );
    assert!((1..7).contains(&seen.deltas), "{} deltas", seen.deltas);
}

#[test]
fn a_small_cell_has_one_delta_that_each_checkpoint_replaces() {
    let source = "let x = 0; for (let i = 0; i < 5; i++) x += await call(i); return x";
    let (mut cell, mut turn) = first_turn(source);
    let mut replaced = Vec::new();
    while let TurnEnd::Waiting = turn.end {
        replaced.push(match cell.checkpoint().expect("a checkpoint") {
            Checkpoint::Full(_) => None,
            Checkpoint::Delta { bytes, replaces } => {
                assert!(bytes.len() < 6000, "{} bytes", bytes.len());
                Some(replaces)
            }
        });
        turn = next_turn(&mut cell, &turn.requests);
    }
    assert_eq!(replaced, [None, Some(0), Some(1), Some(1), Some(1)]);
    check(source);
}

#[test]
fn parking_is_no_checkpoint() {
    let (mut cell, mut stored, turn) = plain(1);
    cell.park().expect("a snapshot");
    let turn = next_turn(&mut cell, &turn.requests);
    cell.park().expect("a snapshot");
    assert!(stored.add(cell.checkpoint().expect("a checkpoint")));
    assert_eq!(run_to_end(stored.restore().expect("a cell"), turn.requests.clone()), run_to_end(cell, turn.requests));
}

#[test]
fn after_forgetting_and_after_restoring_a_checkpoint_is_full() {
    let (mut cell, stored, _) = plain(2);
    cell.forget_checkpoints();
    let Checkpoint::Full(full) = cell.checkpoint().expect("a checkpoint") else { panic!("a delta") };
    let parked = cell.park().expect("a snapshot");
    let mut from_full = engine().restore(&full, Limits::default()).expect("a cell");
    assert_eq!(from_full.park().expect("a snapshot"), parked);
    let mut restored = stored.restore().expect("a cell");
    assert_eq!(restored.checkpoint().expect("a checkpoint"), Checkpoint::Full(full));
    assert!(matches!(restored.checkpoint(), Ok(Checkpoint::Delta { replaces: 0, .. })));
}

#[test]
fn a_checkpoint_is_made_where_a_cell_can_be_parked() {
    let mut cell = crate::common::start(PLAIN);
    assert!(matches!(cell.checkpoint(), Err(Error::NotWaiting)));
    let turn = cell.run_turn(LONG).expect("a turn");
    cell.deliver(echo(&turn.requests[0])).expect("a pending request");
    assert!(matches!(cell.checkpoint(), Err(Error::NotWaiting)));
    let (mut cell, _) = first_turn("return 1");
    assert!(matches!(cell.checkpoint(), Err(Error::Ended)));
}

#[test]
fn deltas_out_of_order_missing_or_foreign_are_refused() {
    let check = |base: &[u8], deltas: &[&[u8]]| match engine().restore_chain(base, deltas, Limits::default()) {
        Err(error @ Error::Restore(RestoreError::Unreadable(Unreadable::Damaged(_)))) => {
            assert_eq!(error.code(), "snapshot_restore_failed");
        }
        Err(other) => panic!("refused as {other:?}"),
        Ok(_) => panic!("not refused"),
    };
    let (_, stored, _) = plain(2);
    // `Math.random` has another seed there, so the base is another one too.
    let (_, other, _) = plain(1);
    let [a, b] = &stored.deltas[..] else { panic!("{} deltas", stored.deltas.len()) };
    assert!(stored.restore().is_ok());
    check(&stored.base, &[b]);
    check(&stored.base, &[b, a]);
    check(&stored.base, &[a, b, b]);
    check(&stored.base, &[&other.deltas[0]]);
    check(&stored.base, &[a, &other.deltas[0]]);
    check(&stored.base, &[a, &stored.base]);
    check(&other.base, &[a, b]);
    let Err(error) = engine().restore(a, Limits::default()) else { panic!("a delta alone was restored") };
    assert!(matches!(error, Error::Restore(RestoreError::Unreadable(Unreadable::NotASnapshot))), "{error:?}");
}

#[test]
fn a_chain_keeps_the_limit_of_a_snapshot() {
    let (mut cell, turn) = first_turn(PLAIN);
    let limit = cell.park().expect("a snapshot").len() + 8000;
    let mut cell = start_with(PLAIN, Limits { snapshot_bytes: limit, ..Limits::default() });
    cell.run_turn(LONG).expect("a turn");
    let mut stored = Stored::default();
    stored.add(cell.checkpoint().expect("a checkpoint"));
    // The change takes more than the limit leaves, so the next is full again.
    next_turn(&mut cell, &turn.requests);
    assert!(!stored.add(cell.checkpoint().expect("a checkpoint")));
    assert!(stored.base.len() <= limit);
}

#[test]
fn a_cell_that_is_too_large_has_no_checkpoint() {
    let source = "const bytes = new Uint8Array(4 << 20); let x = 1;
        for (;;) {
          const noise = await call();
          for (let i = 0; i < bytes.length; i++) bytes[i] = i < noise ? (x = (x * 48271) % 2147483647) >> 8 : 1;
        }";
    let limit = 3 << 20;
    let mut cell = start_with(source, Limits { snapshot_bytes: limit, ..Limits::default() });
    cell.run_turn(LONG).expect("a turn");
    let mut checkpoint = |length: usize| {
        let id = cell.pending()[0];
        cell.deliver(Answer::value(id, json(&length.to_string()))).expect("a pending request");
        cell.run_turn(LONG).expect("a turn");
        cell.checkpoint()
    };
    let is_full = |checkpoint| matches!(checkpoint, Ok(Checkpoint::Full(_)));
    assert!(is_full(checkpoint(2 << 20)));
    let error = checkpoint(4 << 20);
    assert!(matches!(error, Err(Error::SnapshotTooLarge(TooLarge { limit: told })) if told == limit), "{error:?}");
    assert!(is_full(checkpoint(2 << 20)), "there is nothing to build on");
}

#[test]
fn the_limits_hold_for_a_restored_chain() {
    let (_, stored, _) = plain(1);
    let needed = stored.base.len() + stored.deltas[0].len();
    for (snapshot_bytes, fits) in [(needed, true), (needed - 1, false)] {
        let limits = Limits { snapshot_bytes, ..Limits::default() };
        let restored = engine().restore_chain(&stored.base, &stored.deltas, limits);
        assert_eq!(restored.is_ok(), fits);
    }
    let limits = Limits { memory_bytes: 2 << 20, ..Limits::default() };
    let restored = engine().restore_chain(&stored.base, &stored.deltas, limits);
    assert!(matches!(restored.err(), Some(Error::Restore(RestoreError::OverLimit { .. }))));
}
