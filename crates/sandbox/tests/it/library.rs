//! Globals and files that a program has without asking: made when it first uses them, frozen, and there after a move.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::engine;
use pincer_sandbox::{Answer, File, Global, Json, Library, Limits, Program, Turn, TurnEnd};

const TIME: Duration = Duration::from_secs(10);

/// Counts how often it is asked.
#[derive(Default)]
struct Shelf(AtomicU32);

impl Library for Shelf {
    fn global(&self, name: &str) -> Option<Global> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let data = |json: &str| Global::Data(Json::parse(json).unwrap());
        match name {
            "LIST" => Some(data(r#"[{"id":"a"},{"id":"b"}]"#)),
            "tools" => Some(Global::Object(vec![
                ("call".into(), Global::Call("call".into())),
                ("read".into(), Global::Bound("call".into(), Json::parse(r#""core:read""#).unwrap())),
            ])),
            "Space" => Some(Global::Object(vec![(
                "steps".into(),
                Global::Array(vec![data("1"), Global::Bound("space".into(), data_json("steps"))]),
            )])),
            "spaces" => Some(Global::Object(vec![("Space".into(), Global::Alias("Space".into()))])),
            "API" => {
                Some(Global::Files(vec![file("mcp/index.d.ts", 3), file("mcp/docs.d.ts", 4), file("other.txt", 0)]))
            }
            _ => None,
        }
    }

    fn file(&self, path: &str) -> Option<Arc<str>> {
        matches!(path, "mcp/index.d.ts" | "mcp/docs.d.ts").then(|| format!("text of {path} ü").into())
    }
}

fn data_json(text: &str) -> Json {
    Json::of(&text).unwrap()
}

fn file(path: &str, bytes: usize) -> File {
    File { path: path.into(), description: format!("what is in {path}"), bytes }
}

fn program(source: &str, shelf: &Arc<Shelf>) -> Program {
    let names = ["LIST", "tools", "Space", "spaces", "API", "gone"];
    let program = Program::new(source).library(Arc::clone(shelf) as Arc<dyn Library>);
    names.into_iter().fold(program, |program, name| program.global(name, Global::Lazy))
}

fn run(source: &str) -> Turn {
    engine().start(program(source, &Arc::default()), Limits::default()).unwrap().run_turn(TIME).unwrap()
}

fn value(source: &str) -> String {
    match run(source).end {
        TurnEnd::Value(Some(value)) => value.to_string(),
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn what_is_never_used_is_never_made() {
    let shelf = Arc::new(Shelf::default());
    let mut cell = engine().start(program("return 1", &shelf), Limits::default()).unwrap();
    cell.run_turn(TIME).unwrap();
    assert_eq!(shelf.0.load(Ordering::Relaxed), 0);
    let mut cell = engine().start(program("LIST; LIST; return LIST === LIST", &shelf), Limits::default()).unwrap();
    cell.run_turn(TIME).unwrap();
    assert_eq!(shelf.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_lazy_global_is_the_same_frozen_thing_every_time() {
    for (source, expected) in [
        ("return LIST.map((entry) => entry.id)", r#"["a","b"]"#),
        (
            "return [Object.isFrozen(LIST), Object.isFrozen(LIST[0]), Object.isFrozen(tools), Object.isFrozen(tools.read)]",
            "[true,true,true,true]",
        ),
        ("LIST = 5; tools = 6; delete globalThis.tools; return [LIST.length, typeof tools.call]", r#"[2,"function"]"#),
        ("'use strict'; try { tools = 1 } catch (e) { return e.name }", r#""TypeError""#),
        (
            "try { Object.defineProperty(globalThis, 'tools', { value: 1 }) } catch (e) { return e.name }",
            r#""TypeError""#,
        ),
        (
            "return [spaces.Space === Space, Space.steps[0], typeof Space.steps[1], Object.isFrozen(Space.steps)]",
            r#"[true,1,"function",true]"#,
        ),
        ("try { gone } catch (e) { return e.message }", r#""gone is not available to this program any more""#),
        ("return Object.keys(globalThis).filter((name) => ['LIST', 'API'].includes(name))", r#"["LIST","API"]"#),
        ("return [tools.read.name, Object.keys(tools)]", r#"["read",["call","read"]]"#),
    ] {
        assert_eq!(value(source), expected, "{source}");
    }
}

#[test]
fn a_bound_function_puts_its_argument_first() {
    let turn = run(
        "Array.prototype.toJSON = () => 'no'; tools.read({ path: 'x' }, 2); tools.call('id', {}); Space.steps[1](); tools.read()",
    );
    let asked: Vec<(&str, &str)> =
        turn.requests.iter().map(|request| (request.method.as_str(), request.args.as_str())).collect();
    assert_eq!(
        asked,
        [
            ("call", r#"["core:read",{"path":"x"},2]"#),
            ("call", r#"["id",{}]"#),
            ("space", r#"["steps"]"#),
            ("call", r#"["core:read"]"#),
        ]
    );
}

#[test]
fn files_are_listed_and_read_without_a_request() {
    for (source, expected) in [
        ("return (await API.list()).length", "3"),
        ("return (await API.list('mcp')).map((file) => file.path)", r#"["mcp/index.d.ts","mcp/docs.d.ts"]"#),
        ("return JSON.stringify(await API.list('mcp/')) === JSON.stringify(await API.list('mcp'))", "true"),
        (
            "return (await API.list('other'))[0]",
            r#"{"path":"other.txt","description":"what is in other.txt","bytes":0}"#,
        ),
        ("return await API.list('nothing')", "[]"),
        ("return await API.read('mcp/docs.d.ts')", r#""text of mcp/docs.d.ts ü""#),
        (
            "Object.defineProperty(Array.prototype, '0', { set() { throw 1 }, configurable: true }); return (await API.list('mcp')).length",
            "2",
        ),
        ("return Object.isFrozen(API) && Object.isFrozen(API.read)", "true"),
    ] {
        assert_eq!(value(source), expected, "{source}");
    }
    for path in [
        "'mcp/none.d.ts'",
        "'../mcp/docs.d.ts'",
        "'/mcp/docs.d.ts'",
        "'mcp/./docs.d.ts'",
        "'mcp/docs.d.ts\\u0000'",
        "5",
        "undefined",
        "'x'.repeat(1e5)",
        "'mcp/docs.d.ts' + 'x'.repeat(4096)",
    ] {
        let said = value(&format!(
            "try {{ return ['read', await API.read({path})] }} catch (e) {{ return e.message.slice(0, 30) }}"
        ));
        assert!(said.contains("API file"), "{path}: {said}");
    }
}

#[test]
fn what_was_made_moves_with_the_cell_and_the_rest_comes_from_where_it_is_now() {
    let shelf = Arc::new(Shelf::default());
    let source = "const before = LIST; await tools.call('x'); return [before === LIST, (await API.read('mcp/docs.d.ts')).length, Space.steps[0]]";
    let mut cell = engine().start(program(source, &shelf), Limits::default()).unwrap();
    let turn = cell.run_turn(TIME).unwrap();
    let snapshot = cell.park().unwrap();
    let mut moved = engine().restore(&snapshot, Limits::default()).unwrap();
    moved.provide(Arc::new(Shelf::default()));
    moved.deliver(Answer::value(turn.requests[0].id, Json::null())).unwrap();
    match moved.run_turn(TIME).unwrap().end {
        TurnEnd::Value(Some(value)) => assert_eq!(value.as_str(), "[true,23,1]"),
        other => panic!("{other:?}"),
    }
    // Without one, what was not made is not there, and says so.
    let mut alone = engine().restore(&snapshot, Limits::default()).unwrap();
    alone.deliver(Answer::value(turn.requests[0].id, Json::null())).unwrap();
    match alone.run_turn(TIME).unwrap().end {
        TurnEnd::Failed(failure) => assert!(failure.message.contains("API is not available"), "{failure}"),
        other => panic!("{other:?}"),
    }
}
