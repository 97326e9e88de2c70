//! What the tests of this crate share: one engine per test process, and short ways to run a program.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pincer_sandbox::{Answer, Cell, Engine, Failure, Json, Limit, Limits, Options, Program, Request, Turn, TurnEnd};

/// Long enough for every honest program on a slow machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Shared by all test processes of a build, so that only one of them compiles.
pub(crate) fn cache_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine-cache")
}

pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        Engine::load(Options { cache_dir: Some(cache_dir()), ..Options::default() }).expect("the engine")
    })
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("valid JSON")
}

/// Starts a program that may call `call(…)`.
pub(crate) fn start_with(source: &str, limits: Limits) -> Cell {
    engine().start(Program::new(source).function("call"), limits).expect("a cell")
}

pub(crate) fn start(source: &str) -> Cell {
    start_with(source, Limits::default())
}

pub(crate) fn first_turn(source: &str) -> (Cell, Turn) {
    let mut cell = start(source);
    let turn = cell.run_turn(LONG).expect("a turn");
    (cell, turn)
}

/// Runs a program to its end. Timers fire at once, yields return at once, `call(x)` answers `x`.
pub(crate) fn finish(mut cell: Cell) -> Turn {
    let mut output = Vec::new();
    loop {
        let mut turn = cell.run_turn(LONG).expect("a turn");
        output.append(&mut turn.output);
        if turn.end.is_final() {
            turn.output = output;
            return turn;
        }
        for request in &turn.requests {
            cell.deliver(echo(request)).expect("a pending request");
        }
        assert!(!turn.requests.is_empty(), "the program waits for an answer it did not get");
    }
}

/// The first argument, or `null`.
pub(crate) fn echo(request: &Request) -> Answer {
    let first = request.args.to::<Vec<Json>>().expect("an array").into_iter().next();
    Answer::value(request.id, first.unwrap_or_else(Json::null))
}

pub(crate) fn end(source: &str) -> TurnEnd {
    finish(start(source)).end
}

/// The value as JSON text; `undefined` for none.
pub(crate) fn value(source: &str) -> String {
    match end(source) {
        TurnEnd::Value(Some(value)) => value.to_string(),
        TurnEnd::Value(None) => "undefined".into(),
        other => panic!("{source}\ncame to {other:?}"),
    }
}

pub(crate) fn failure(source: &str) -> Failure {
    match end(source) {
        TurnEnd::Failed(failure) => failure,
        other => panic!("{source}\ncame to {other:?}"),
    }
}

pub(crate) fn limit(end: TurnEnd) -> Limit {
    match end {
        TurnEnd::Limit(limit) => limit,
        other => panic!("expected a limit, got {other:?}"),
    }
}

/// Parks the cell, throws it away, and restores it.
pub(crate) fn move_house(mut cell: Cell) -> Cell {
    let snapshot = cell.park().expect("a snapshot");
    drop(cell);
    engine().restore(&snapshot, Limits::default()).expect("a restored cell")
}
