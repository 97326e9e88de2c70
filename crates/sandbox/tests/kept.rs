//! Memory that is kept for the next cells: how much, and that it can be given back under live ones.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{cache_dir, echo, finish};
use pincer_sandbox::{Cell, Engine, Limits, Options, Program, TurnEnd};

const CELLS: usize = 16;
const MIB: usize = 1 << 20;

fn holding(engine: &Engine) -> Cell {
    let source = "const held = new Uint8Array(8e6).fill(7); await call(1); return held[7e6]";
    engine.start(Program::new(source).function("call"), Limits::default()).unwrap()
}

#[test]
fn what_is_kept_is_bounded_and_goes_back_while_cells_are_live() {
    let options = Options { cache_dir: Some(cache_dir()), live_cells: CELLS as u32 + 1, ..Options::default() };
    let engine = Engine::load(options).unwrap();
    let mut live = holding(&engine);
    let request = live.run_turn(common::LONG).unwrap().requests.remove(0);
    let cells: Vec<Cell> = (0..CELLS).map(|_| holding(&engine)).collect();
    cells.into_iter().for_each(|cell| assert!(matches!(finish(cell).end, TurnEnd::Value(Some(_)))));
    let kept = engine.kept_bytes();
    assert!((1..=CELLS * MIB / 4).contains(&kept), "{kept}");

    let hash = engine.image_hash();
    engine.give_back();
    assert_eq!((engine.image_hash(), engine.kept_bytes()), (hash, kept), "the live cell has the image still");
    let snapshot = live.park().unwrap();
    live.deliver(echo(&request)).unwrap();
    assert!(matches!(live.run_turn(common::LONG).unwrap().end, TurnEnd::Value(Some(seven)) if seven.as_str() == "7"));
    drop(live);
    assert!(engine.kept_bytes() < MIB, "{}", engine.kept_bytes());

    // A cell that was parked under the earlier image goes on under this one, which is the same.
    let mut again = engine.restore(&snapshot, Limits::default()).unwrap();
    again.deliver(echo(&request)).unwrap();
    assert!(matches!(again.run_turn(common::LONG).unwrap().end, TurnEnd::Value(Some(seven)) if seven.as_str() == "7"));
}
