//! Prints how long checkpoints of a large and of a small heap take. Run by hand, on a quiet machine:
//!
//! ```text
//! cargo run --release -p pincer-sandbox --example checkpoint_times
//! ```
#![allow(clippy::expect_used, reason = "a measurement ends by panicking when it cannot go on")]
#![allow(clippy::print_stdout, reason = "printing is all that it is for")]

use std::time::{Duration, Instant};

use pincer_sandbox::{Answer, Cell, Checkpoint, Engine, Json, Limits, MAX_DELTAS, Options, Program, TurnEnd};

const LONG: Duration = Duration::from_secs(60);
const CHECKPOINTS: usize = 100;

/// Some 20 MB in which three objects change at a time.
const LARGE: &str = "const rows = []; for (let i = 0; i < 250000; i++) rows.push({ id: i, n: i });
    for (let at = 1;;) { const n = await call(); for (let i = 0; i < 3; i++) rows[at = (at * 48271) % 249999].n += n }";
/// Some 20 MB that are all the same, in which no more than the engine's own state changes.
const QUIET: &str = "const bytes = new Uint8Array(20 << 20); for (let i = 0; i < bytes.length; i++) bytes[i] = i >> 3;
    for (;;) await call()";
/// Some 20 MB to which each turn adds 300 objects, after it made as many for nothing.
const GROWING: &str = "const rows = []; const add = (to) => to.push({ id: to.length, name: `row ${to.length}` });
    for (let i = 0; i < 130000; i++) add(rows);
    for (;;) { await call(); const lost = []; for (let i = 0; i < 300; i++) { add(lost); add(rows) } }";
/// Some 2 MB.
const MIDDLE: &str = "const rows = []; for (let i = 0; i < 15000; i++) rows.push({ id: i, n: i });
    for (;;) { const n = await call(); rows[n].n += n }";
const SMALL: &str = "const rows = [{ id: 1, name: 'a' }]; for (;;) { rows[0].name += await call() }";

fn main() {
    let cache_dir = std::env::temp_dir().join("pincer-checkpoint-times");
    let engine = Engine::load(Options { cache_dir: Some(cache_dir), ..Options::default() }).expect("the engine");
    for (name, source) in
        [("large", LARGE), ("quiet", QUIET), ("growing", GROWING), ("middle", MIDDLE), ("small", SMALL)]
    {
        let limits = Limits { snapshot_bytes: 64 << 20, ..Limits::default() };
        let mut cell = engine.start(Program::new(source).function("call"), limits).expect("a cell");
        cell.run_turn(LONG).expect("a turn");
        let snapshot = cell.park().expect("a snapshot");
        // Where a snapshot has the length of its memory, in units of 64 KiB.
        let wasm_pages = snapshot[74..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        println!("{name}: {} KiB of memory, {} KiB parked", wasm_pages * 64, snapshot.len() >> 10);
        let mut parked = Vec::new();
        for _ in 0..CHECKPOINTS {
            parked.push(timed(|| drop(cell.park().expect("a snapshot"))));
            next_turn(&mut cell);
        }
        println!("  {} times parked: {}", parked.len(), spread(parked));
        checkpoints(&engine, &mut cell, limits);
    }
}

fn checkpoints(engine: &Engine, cell: &mut Cell, limits: Limits) {
    let (mut full, mut delta, mut delta_bytes, mut longest) = (Vec::new(), Vec::new(), 0, 0);
    let (mut base, mut deltas): (Vec<u8>, Vec<Vec<u8>>) = Default::default();
    for _ in 0..CHECKPOINTS {
        let started = Instant::now();
        let checkpoint = cell.checkpoint().expect("a checkpoint");
        let time = started.elapsed();
        match checkpoint {
            Checkpoint::Full(bytes) => {
                full.push(time);
                (base, deltas) = (bytes, Vec::with_capacity(MAX_DELTAS));
            }
            Checkpoint::Delta { bytes, replaces } => {
                delta.push(time);
                delta_bytes += bytes.len();
                deltas.truncate(deltas.len() - replaces);
                deltas.push(bytes);
                longest = longest.max(deltas.len());
            }
        }
        next_turn(cell);
    }
    let all = full.iter().chain(&delta).sum::<Duration>() / CHECKPOINTS as u32;
    let restore = timed(|| drop(engine.restore_chain(&base, &deltas, limits).expect("a cell")));
    println!("  {} full: {}", full.len(), spread(full));
    println!("  {} deltas of {} bytes: {}", delta.len(), delta_bytes / delta.len().max(1), spread(delta));
    println!("  mean of all {all:.1?}; longest chain {longest}; restored in {restore:.1?}");
}

fn next_turn(cell: &mut Cell) {
    cell.deliver(Answer::value(cell.pending()[0], Json::parse("1").expect("JSON"))).expect("a pending request");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Waiting));
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    let (least, most) = (times.first().copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
    format!("min {least:.1?}, p50 {:.1?}, p95 {:.1?}, max {most:.1?}", at(50), at(95))
}
