//! The clock, the seed and the library, recorded and read again.

use std::sync::Arc;
use std::time::Duration;

use pincer_sandbox::{Answer, Global, Json, Library, Limits, LoadKind, Program, Readings, Turn, TurnEnd};

use crate::common::{LONG, engine, json};

struct Shelf;

impl Library for Shelf {
    fn global(&self, name: &str) -> Option<Global> {
        (name == "LIST").then(|| Global::Data(json(r#"["a","b"]"#)))
    }

    fn file(&self, _path: &str) -> Option<Arc<str>> {
        None
    }
}

fn program(source: &str) -> Program {
    Program::new(source).function("call").global("LIST", Global::Lazy).global("GONE", Global::Lazy)
}

/// Runs a program, with its calls answered by `null`, and returns its seed and its turns.
fn recorded(source: &str) -> (u64, Vec<Turn>) {
    let mut cell = engine().start(program(source).library(Arc::new(Shelf)), Limits::default()).unwrap();
    cell.record_readings();
    let seed = cell.seed().unwrap();
    let mut turns = Vec::new();
    loop {
        let turn = cell.run_turn(LONG).unwrap();
        turn.requests.iter().for_each(|request| cell.deliver(Answer::value(request.id, Json::null())).unwrap());
        let is_over = turn.end.is_final();
        turns.push(turn);
        if is_over {
            return (seed, turns);
        }
    }
}

/// Runs it again, without a library.
fn replayed(source: &str, seed: u64, turns: &[Turn]) -> Vec<Turn> {
    let mut cell = engine().start(program(source).seeded(seed), Limits::default()).unwrap();
    let mut again = Vec::new();
    for turn in turns {
        cell.replay_readings(turn.readings.clone().unwrap());
        let turn = cell.run_turn(LONG).unwrap();
        turn.requests.iter().for_each(|request| cell.deliver(Answer::value(request.id, Json::null())).unwrap());
        again.push(turn);
    }
    again
}

fn value(turn: &Turn) -> &str {
    match &turn.end {
        TurnEnd::Value(Some(value)) => value.as_str(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_reads_the_same_again() {
    for source in [
        "return [Math.random(), Math.random(), new Date().toISOString(), Date.now()]",
        "const until = Date.now() + 5; let count = 0; while (Date.now() < until) count++; return [count, Math.random()]",
        "const a = Date.now(); await call(); await call(); return [a, Date.now(), LIST, typeof performance]",
        "try { GONE } catch (error) { return [error.message, LIST.length, LIST === LIST] }",
    ] {
        let (seed, turns) = recorded(source);
        let again = replayed(source, seed, &turns);
        let readings = |turns: &[Turn]| turns.iter().map(|turn| turn.readings.clone()).collect::<Vec<_>>();
        assert_eq!(readings(&again), readings(&turns), "{source}");
        assert_eq!(value(again.last().unwrap()), value(turns.last().unwrap()), "{source}");
    }
}

#[test]
fn what_was_loaded_is_kept_once_and_in_order() {
    let (_, turns) = recorded("LIST; LIST; try { GONE } catch {} return 1");
    let loads = &turns[0].readings.as_ref().unwrap().loads;
    let names: Vec<_> = loads.iter().map(|load| (load.kind, load.name.as_str(), load.text.is_some())).collect();
    assert_eq!(names, [(LoadKind::Global, "LIST", true), (LoadKind::Global, "GONE", false)]);
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for() {
    let mut cell = engine().start(program("return Date.now() > 0"), Limits::default()).unwrap();
    assert_eq!(cell.run_turn(LONG).unwrap().readings, None);
}

#[test]
fn a_replayed_program_that_waits_for_the_clock_ends() {
    for source in ["while (Date.now() < 1e15);", "for (;;) Date.now()"] {
        let mut cell = engine().start(program(source), Limits::default()).unwrap();
        cell.replay_readings(Readings { clock: vec![(1000, 2)], ..Readings::default() });
        let end = cell.run_turn(Duration::from_secs(600)).unwrap().end;
        assert!(matches!(end, TurnEnd::Interrupted), "{end:?}");
    }
}

#[test]
fn texts_of_a_hostile_recording_harm_the_program_alone() {
    for text in ["", "not JSON", "[\"data\"", "[\"alias\",\"x\"]", "{}", "[\"object\",5]", "[[[[", "[\"call\",{}]"] {
        let mut cell = engine().start(program("return typeof LIST"), Limits::default()).unwrap();
        let load = pincer_sandbox::Load { kind: LoadKind::Global, name: "LIST".into(), text: Some(text.into()) };
        cell.replay_readings(Readings { loads: vec![load], ..Readings::default() });
        let end = cell.run_turn(LONG).unwrap().end;
        assert!(end.is_final(), "{text}: {end:?}");
    }
}
