//! The three programs that are measured, here and in the peers: a fresh cell, one that suspends, and its continuation.

use std::error::Error;
use std::time::Duration;

use pincer_sandbox::{Answer, Cell, Engine, Json, Limits, Program, Turn, TurnEnd};

/// Returns at once.
pub(crate) const FRESH: &str = "return 1 + 2;";
/// Suspends, and returns when it is continued.
pub(crate) const SUSPENDING: &str = r#"const a = [1, 2, 3]; await yield_control("x"); return a.length + 2;"#;
/// Asks the host a thousand times, one after the other.
pub(crate) const CALLING: &str = "for (let i = 0; i < 1000; i++) await call(i); return 5;";
pub(crate) const CALLS: u32 = 1000;

const TIME: Duration = Duration::from_secs(10);

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A fresh cell, run to its end.
pub(crate) fn fresh(engine: &Engine) -> Outcome<()> {
    let turn = engine.start(Program::new(FRESH), Limits::default())?.run_turn(TIME)?;
    expect(&turn, "3")
}

/// A cell that waits for the host.
pub(crate) fn waiting(engine: &Engine) -> Outcome<Cell> {
    let mut cell = engine.start(Program::new(SUSPENDING), Limits::default())?;
    cell.run_turn(TIME)?;
    Ok(cell)
}

/// Continues what [`waiting`] was parked as, to its end.
pub(crate) fn resume(engine: &Engine, snapshot: &[u8]) -> Outcome<()> {
    let mut cell = engine.restore(snapshot, Limits::default())?;
    for id in cell.pending() {
        cell.deliver(Answer::value(id, Json::null()))?;
    }
    expect(&cell.run_turn(TIME)?, "5")
}

/// [`CALLS`] requests and their answers.
pub(crate) fn calls(engine: &Engine) -> Outcome<()> {
    let mut cell = engine.start(Program::new(CALLING).function("call"), Limits::default())?;
    loop {
        let turn = cell.run_turn(TIME)?;
        if turn.end.is_final() {
            return expect(&turn, "5");
        }
        for request in turn.requests {
            cell.deliver(Answer::value(request.id, Json::null()))?;
        }
    }
}

fn expect(turn: &Turn, value: &str) -> Outcome<()> {
    match &turn.end {
        TurnEnd::Value(Some(json)) if json.as_str() == value => Ok(()),
        other => Err(format!("a cell came to {other:?} instead of {value}").into()),
    }
}
