//! Memory that is kept for the next cells: how much, and that it can be given back under live ones.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{LONG, cache_dir, echo, finish};
use pincer_sandbox::{Cell, Engine, Limit, Limits, MemoryBudget, Options, Program, TurnEnd};

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
    let request = live.run_turn(LONG).unwrap().requests.remove(0);
    let cells: Vec<Cell> = (0..CELLS).map(|_| holding(&engine)).collect();
    cells.into_iter().for_each(|cell| assert!(matches!(finish(cell).end, TurnEnd::Value(Some(_)))));
    let kept = engine.kept_bytes();
    assert!((1..=CELLS * MIB / 4).contains(&kept), "{kept}");

    let hash = engine.image_hash();
    engine.give_back();
    assert_eq!((engine.image_hash(), engine.kept_bytes()), (hash, kept), "the live cell has the image still");
    let snapshot = live.park().unwrap();
    live.deliver(echo(&request)).unwrap();
    assert!(matches!(live.run_turn(LONG).unwrap().end, TurnEnd::Value(Some(seven)) if seven.as_str() == "7"));
    drop(live);
    assert!(engine.kept_bytes() < MIB, "{}", engine.kept_bytes());

    // A cell that was parked under the earlier image goes on under this one, which is the same.
    let mut again = engine.restore(&snapshot, Limits::default()).unwrap();
    again.deliver(echo(&request)).unwrap();
    assert!(matches!(again.run_turn(LONG).unwrap().end, TurnEnd::Value(Some(seven)) if seven.as_str() == "7"));
}

/// The host keeps the text of a request until it is answered: that is memory too.
#[test]
fn requests_are_counted_and_handed_over_with_their_texts() {
    let options = Options { cache_dir: Some(cache_dir()), live_cells: 2, ..Options::default() };
    let engine = Engine::load(options).unwrap();
    let user = "a".into();
    let limits = Limits::default();
    let most = engine.fresh_bytes() + limits.memory_bytes + limits.value_bytes;
    let start = |budget: &MemoryBudget| {
        let source =
            "const all = []; for (let i = 0; i < 4; i++) all.push(call('x'.repeat(1e6)), call(i)); return all.length";
        let mut allotment = budget.open(&user, 0, most);
        assert!(has_room_for(&mut allotment, engine.fresh_bytes()));
        engine.start_within(allotment, Program::new(source).function("call"), limits).unwrap()
    };
    let budget = MemoryBudget::new(256 * MIB);
    let mut cell = start(&budget);
    let turn = cell.run_turn(LONG).unwrap();
    assert_eq!(turn.requests.len(), 8);
    let (with_requests, memory) = (budget.used(), cell.memory_bytes());
    assert!(
        (memory + 4_000_000..memory + 4_200_000).contains(&with_requests),
        "{with_requests} with {memory} of the cell"
    );
    let mut texts = budget.open(&user, 0, 0);
    cell.hand_requests_over(&mut texts);
    assert_eq!(budget.used(), with_requests);
    texts.shrink(1000);
    assert_eq!(budget.used(), memory + 1000);
    cell.hand_requests_over(&mut texts);
    drop(cell);
    assert_eq!(budget.used(), 1000);
    drop(texts);
    assert_eq!(budget.used(), 0);

    // Requests that do not fit wait until the deadline.
    let tight = MemoryBudget::new(most);
    let mut cell = start(&tight);
    let mut other = tight.open(&"b".into(), 0, most - memory - 2_000_000);
    assert!(has_room_for(&mut other, most - memory - 2_000_000));
    let turn = cell.run_turn(std::time::Duration::from_secs(1)).unwrap();
    assert!(matches!(turn.end, TurnEnd::Limit(Limit::MemoryBudget { .. })), "{:?}", turn.end);
}

fn has_room_for(allotment: &mut pincer_sandbox::Allotment, bytes: usize) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(allotment.grow(bytes)).poll(&mut context).is_ready()
}
