//! Requests and answers, output, failures and positions: what a host and a program say to each other.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{LONG, echo, end, failure, finish, first_turn, json, move_house, start, value};
use pincer_sandbox::{
    Answer, Error, FailureKind, Fault, Global, Json, Limits, Output, Program, RequestId, Site, Turn, TurnEnd,
};

#[test]
fn a_request_has_method_arguments_and_the_line_that_asks() {
    let (_, turn) = first_turn("const a = 1;\n\n  await call('x', { a, b: [1n, undefined] });");
    let request = &turn.requests[0];
    assert_eq!(request.method, "call");
    assert_eq!(request.args, json(r#"["x",{"a":1,"b":["1",null]}]"#));
    assert_eq!(request.site.map(|site| site.line), Some(3));
}

#[test]
fn the_line_is_that_of_the_program_also_from_inside_its_functions() {
    let (_, turn) = first_turn("const ask = (x) =>\n  call(x);\nawait Promise.all([1].map(ask));");
    assert_eq!(turn.requests[0].site.map(|site| site.line), Some(2));
}

#[test]
fn answers_are_delivered_in_the_order_they_are_given() {
    let (mut cell, turn) = first_turn(
        "const log = []; await Promise.all([1, 2, 3].map((i) => call(i).then((x) => log.push(x)))); return log",
    );
    for request in turn.requests.iter().rev() {
        cell.deliver(echo(request)).expect("a pending request");
    }
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Value(Some(v)) if v.as_str() == "[3,2,1]"));
}

#[test]
fn the_first_answer_wins_a_race() {
    let (mut cell, turn) = first_turn("return await Promise.race([call('slow'), call('fast')])");
    cell.deliver(echo(&turn.requests[1])).expect("a pending request");
    let turn = cell.run_turn(LONG).expect("a turn");
    // The loser is still pending: a program is done when nothing is.
    assert!(matches!(turn.end, TurnEnd::Waiting));
    assert_eq!(cell.pending(), [RequestId(0)]);
    cell.deliver(Answer::value(RequestId(0), json("\"slow\""))).expect("a pending request");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Value(Some(v)) if v.as_str() == "\"fast\""));
}

#[test]
fn a_turn_without_answers_waits_on() {
    let (mut cell, _) = first_turn("return await call(1)");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Waiting));
    assert_eq!(cell.pending(), [RequestId(0)]);
}

#[test]
fn a_fault_is_an_error_with_its_fields_and_the_callers_stack() {
    let source = "try {\n  await call(1);\n} catch (e) {\n  return [e instanceof Error, e.name, e.message, e.code, e.detail, e.stack.includes('cell.js:2:')];\n}";
    let (mut cell, turn) = first_turn(source);
    let fault =
        Fault::new("ToolError", "no luck").with("code", "denied").with("detail", serde_json::json!({ "a": [1] }));
    cell.deliver(Answer::fault(turn.requests[0].id, fault)).expect("a pending request");
    let end = cell.run_turn(LONG).expect("a turn").end;
    let expected = r#"[true,"ToolError","no luck","denied",{"a":[1]},true]"#;
    assert!(matches!(&end, TurnEnd::Value(Some(v)) if v.as_str() == expected), "{end:?}");
}

fn fail_the_call(source: &str) -> Turn {
    let (mut cell, turn) = first_turn(source);
    cell = move_house(cell);
    for request in turn.requests {
        cell.deliver(Answer::fault(request.id, Fault::new("ToolError", "no luck").with("code", "x"))).expect("pending");
    }
    cell.run_turn(LONG).expect("a turn")
}

#[test]
fn an_uncaught_fault_names_its_request() {
    for source in ["1;\nawait call(1)", "\ncall(1); return 'fine'", "\nawait Promise.all([call(1)])"] {
        let TurnEnd::Failed(failure) = fail_the_call(source).end else { panic!("{source}") };
        let (id, error) = failure.request.expect("the request");
        assert_eq!(id, RequestId(0), "{source}");
        assert_eq!(error, json(r#"{"name":"ToolError","message":"no luck","code":"x"}"#));
        assert_eq!(failure.site.map(|site| site.line), Some(2), "{source}");
    }
}

#[test]
fn an_error_of_the_programs_own_names_no_request() {
    assert_eq!(failure("try { await call(1) } finally { throw new Error('own') }").request, None);
}

#[test]
fn a_rejection_that_is_handled_later_is_no_failure() {
    let source = "const a = call('a'); const b = call('b'); await a; try { await b } catch (e) { return e.message }";
    let (mut cell, turn) = first_turn(source);
    let [a, b] = [turn.requests[0].id, turn.requests[1].id];
    cell.deliver(Answer::fault(b, Fault::new("Error", "late"))).expect("a pending request");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Waiting));
    cell = move_house(cell);
    cell.deliver(Answer::value(a, Json::null())).expect("a pending request");
    let end = cell.run_turn(LONG).expect("a turn").end;
    assert!(matches!(&end, TurnEnd::Value(Some(v)) if v.as_str() == "\"late\""), "{end:?}");
}

#[test]
fn a_rejection_that_nobody_handles_fails_the_cell() {
    for source in [
        "Promise.reject(new Error('lost')); return 1",
        "(async () => { await call(0); throw new Error('lost') })(); return 1",
    ] {
        let failure = failure(source);
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Rejection, "lost"));
    }
}

#[test]
fn a_rejection_of_an_earlier_turn_fails_the_cell_too() {
    for source in [
        "setTimeout(() => { throw new Error('lost') }, 1); await new Promise((r) => setTimeout(r, 50)); return 1",
        "Promise.reject(new Error('lost')); await call(0); return 1",
        "(async () => { throw new Error('lost') })(); await call(0); await call(1); return 1",
    ] {
        let (mut cell, mut turn) = first_turn(source);
        while let TurnEnd::Waiting = turn.end {
            cell = move_house(cell);
            for id in cell.pending() {
                cell.deliver(Answer::value(id, Json::null())).expect("a pending request");
            }
            turn = cell.run_turn(LONG).expect("a turn");
        }
        assert!(matches!(&turn.end, TurnEnd::Failed(failure) if failure.message == "lost"), "{source}: {:?}", turn.end);
    }
}

#[test]
fn an_error_in_a_finalizer_fails_the_cell() {
    let source = "const r = new FinalizationRegistry(() => { throw new Error('lost') }); (() => r.register({}, 1))(); await call(0); return 1";
    assert_eq!(failure(source).message, "lost");
}

#[test]
fn an_error_in_a_timer_fails_the_cell() {
    assert_eq!(
        failure(
            "setTimeout(() => { throw new Error('tick') }, 1); await new Promise((go) => setTimeout(go, 5)); return 1"
        )
        .message,
        "tick"
    );
}

#[test]
fn detached_work_is_finished_before_the_cell_is() {
    let turn =
        finish(start("(async () => { for (let i = 0; i < 3; i++) { await call(i); text(i) } })(); return 'main'"));
    assert!(matches!(turn.end, TurnEnd::Value(Some(v)) if v.as_str() == "\"main\""));
    assert_eq!(turn.output.len(), 3);
}

#[test]
fn failures_have_name_message_stack_and_place() {
    let failure = failure("function inner() {\n  null.x;\n}\n\nfunction outer() { inner() }\nouter();");
    assert_eq!((failure.kind, failure.name.as_str()), (FailureKind::Thrown, "TypeError"));
    assert_eq!(failure.site, Some(Site { line: 2, column: 3 }));
    assert_eq!(
        failure.stack,
        "    at inner (cell.js:2:3)\n    at outer (cell.js:5:20)\n    at <anonymous> (cell.js:6:1)"
    );
}

#[test]
fn syntax_errors_have_their_place() {
    for (source, line, column) in [
        ("let x = ;", 1, 9),
        ("1;\n2;\n  }", 3, 4),
        ("a b", 1, 3),
        ("return 1 +", 1, 11),
        ("let a=1;\rlet b=2;\rlet c=;", 3, 7),
        ("let a=1;\r\nlet c=;", 2, 7),
        ("\n\nreturn (", 3, 9),
    ] {
        let failure = failure(source);
        assert_eq!(failure.kind, FailureKind::Syntax);
        assert!(!failure.message.contains("')'"), "the wrapper shows: {failure}");
        assert_eq!(failure.site, Some(Site { line, column }), "{source:?}: {failure}");
    }
}

#[test]
fn what_is_thrown_need_not_be_an_error() {
    for (source, message) in
        [("throw 'text'", "text"), ("throw { a: 1 }", r#"{"a":1}"#), ("throw null", "null"), ("throw 5n", "5")]
    {
        assert_eq!(failure(source).message, message);
    }
}

#[test]
fn output_is_in_order_and_readable() {
    let turn = finish(start(
        "text('a'); console.log('b', 1, null, undefined, { c: [1n] }); json({ d: new Date(0) }); console.error(new TypeError('e')); text(new Map([['k', 1]])); json(undefined); text(Symbol('s'))",
    ));
    let text = |text: &str| Output::Text { text: text.into() };
    assert_eq!(
        turn.output,
        [
            text("a"),
            text("b 1 null undefined {\"c\":[\"1\"]}"),
            Output::Json { value: json(r#"{"d":"1970-01-01T00:00:00.000Z"}"#) },
            text("TypeError: e"),
            text("[[\"k\",1]]"),
            Output::Json { value: json("null") },
            text("[Symbol(s)]"),
        ]
    );
}

#[test]
fn values_cross_as_json() {
    for (source, expected) in [
        ("return", "undefined"),
        ("return undefined", "undefined"),
        ("return null", "null"),
        ("return { a: undefined, b: 1 }", r#"{"b":1}"#),
        ("return 2n ** 64n", "\"18446744073709551616\""),
        ("return new Date(0)", "\"1970-01-01T00:00:00.000Z\""),
        ("return function named() {}", "\"[function named]\""),
        ("return Symbol('x')", "\"[Symbol(x)]\""),
        ("const o = { n: {} }; o.n.up = o; return o", r#"{"n":{"up":"[circular]"}}"#),
        ("const s = { x: 1 }; return [s, s]", r#"[{"x":1},{"x":1}]"#),
        ("return new Map([['a', new Set([1])]])", r#"[["a",[1]]]"#),
        ("return new Uint8Array([1, 2])", "[1,2]"),
        ("return Object.setPrototypeOf(new Uint8Array([1, 2]), null)", "[1,2]"),
        ("return Object(7n)", "\"7\""),
        ("return new DataView(new ArrayBuffer(2))", "\"[DataView of 2 bytes: pass a Uint8Array]\""),
        (
            "const e = new RangeError('m'); e.code = 5; return { e }",
            r#"{"e":{"name":"RangeError","message":"m","code":5}}"#,
        ),
        ("return { toJSON: () => 'mine' }", "\"mine\""),
        ("return '<\u{2028}\\u0000>'", "\"<\u{2028}\\u0000>\""),
        ("const m = new Map(); m.set('self', m); return m", r#"[["self","[circular]"]]"#),
    ] {
        assert_eq!(value(source), expected, "{source}");
    }
}

#[test]
fn timers_are_requests_that_can_be_cancelled() {
    let (mut cell, turn) = first_turn(
        "const t = setTimeout(() => text('no'), 1000); await call(0); clearTimeout(t); clearTimeout(t); return 1",
    );
    assert_eq!((turn.requests[0].method.as_str(), &turn.requests[0].args), ("sleep", &json("[1000]")));
    cell.deliver(echo(&turn.requests[1])).expect("a pending request");
    let turn = cell.run_turn(LONG).expect("a turn");
    assert_eq!(turn.cancelled, [RequestId(0)]);
    assert!(matches!(turn.end, TurnEnd::Value(_)));
}

#[test]
fn a_timer_cleared_in_the_same_turn_is_never_seen() {
    let (_, turn) = first_turn("clearTimeout(setTimeout(() => {}, 5)); return 1");
    assert!(turn.requests.is_empty() && turn.cancelled.is_empty());
    assert!(matches!(turn.end, TurnEnd::Value(_)));
}

#[test]
fn timers_take_odd_delays_and_pass_arguments() {
    let (_, turn) =
        first_turn("for (const d of [undefined, -5, NaN, '20', 1e99, 1.5]) setTimeout(() => {}, d); return 1");
    let delays: Vec<_> = turn.requests.iter().map(|request| request.args.to_string()).collect();
    assert_eq!(delays, ["[0]", "[0]", "[0]", "[20]", "[2147483647]", "[1.5]"]);
    assert_eq!(value("return await new Promise((r) => setTimeout(r, 1, 'passed'))"), "\"passed\"");
    assert_eq!(failure("setTimeout('code', 1)").name, "TypeError");
}

#[test]
fn yielding_gives_the_reason() {
    let (_, turn) = first_turn("await yield_control('thinking')");
    assert_eq!((turn.requests[0].method.as_str(), &turn.requests[0].args), ("yield", &json("[\"thinking\"]")));
    let (_, turn) = first_turn("await yield_control()");
    assert_eq!(turn.requests[0].args, json("[]"));
}

#[test]
fn unwrap_takes_the_useful_part_of_a_tool_result() {
    for (result, expected) in [
        (r#"{ content: [{ type: "text", text: "{\"a\":1}" }] }"#, r#"{"a":1}"#),
        (r#"{ content: [{ type: "text", text: "plain" }] }"#, "\"plain\""),
        (r#"{ content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }"#, "\"a\\nb\""),
        (r#"{ content: [], structuredContent: { s: 1 } }"#, r#"{"s":1}"#),
        (r#"{ other: 1 }"#, r#"{"other":1}"#),
        (r#""text""#, "\"text\""),
    ] {
        assert_eq!(value(&format!("return unwrap({result})")), expected);
    }
    let failed = failure(r#"unwrap({ isError: true, content: [{ type: "text", text: "it broke" }] })"#);
    assert_eq!(failed.message, "it broke");
}

#[test]
fn a_host_can_add_frozen_globals() {
    let program = Program::new("const r = [data.list.length, Object.isFrozen(data.list), await api.math.add(1, 2)]; try { 'use strict'; api.math.add = 1; data.list.push(1) } catch (e) { r.push(e.name) } return [...r, api.math.add.name, Object.keys(api)]")
        .global("data", Global::Data(json(r#"{"list":[1,2],"__proto__":["call","evil"]}"#)))
        .global("api", Global::Object(vec![("math".into(), Global::Object(vec![("add".into(), Global::Call("math.add".into()))]))]));
    let mut cell = crate::common::engine().start(program, Limits::default()).expect("a cell");
    let turn = cell.run_turn(LONG).expect("a turn");
    assert_eq!((turn.requests[0].method.as_str(), &turn.requests[0].args), ("math.add", &json("[1,2]")));
    cell.deliver(Answer::value(turn.requests[0].id, json("3"))).expect("a pending request");
    let end = cell.run_turn(LONG).expect("a turn").end;
    let expected = r#"[2,true,3,"TypeError","add",["math"]]"#;
    assert!(matches!(&end, TurnEnd::Value(Some(v)) if v.as_str() == expected), "{end:?}");
}

#[test]
fn clock_and_randomness_are_fresh_in_each_cell() {
    let first = value("return [Math.random(), Math.random()]");
    assert_ne!(first, value("return [Math.random(), Math.random()]"));
    let now: f64 = value("return Date.now()").parse().expect("a number");
    assert!(now > 1_700_000_000_000.0);
    assert_eq!(value("return Date.now() % 1"), "0");
}

#[test]
fn misuse_of_the_cell_is_told() {
    let mut fresh = start("return await call(1)");
    assert!(matches!(fresh.park(), Err(Error::NotWaiting)));
    assert!(matches!(
        fresh.deliver(Answer::value(RequestId(0), Json::null())),
        Err(Error::UnknownRequest(RequestId(0)))
    ));
    assert!(fresh.pending().is_empty());
    let turn = fresh.run_turn(LONG).expect("a turn");
    assert!(matches!(
        fresh.deliver(Answer::value(RequestId(7), Json::null())),
        Err(Error::UnknownRequest(RequestId(7)))
    ));
    fresh.deliver(echo(&turn.requests[0])).expect("a pending request");
    assert!(matches!(fresh.deliver(echo(&turn.requests[0])), Err(Error::UnknownRequest(_))));
    // An answer that the guest has not seen is not in its memory, so a snapshot would lose it.
    assert!(matches!(fresh.park(), Err(Error::NotWaiting)));
    assert!(matches!(fresh.run_turn(LONG).expect("a turn").end, TurnEnd::Value(_)));
    assert!(matches!(fresh.park(), Err(Error::Ended)));
    assert!(matches!(fresh.deliver(echo(&turn.requests[0])), Err(Error::Ended)));
    assert!(matches!(fresh.run_turn(LONG), Err(Error::Ended)));
}

#[test]
fn a_global_that_cannot_be_defined_is_told() {
    let program = Program::new("return 1").function("text");
    let mut cell = crate::common::engine().start(program, Limits::default()).expect("a cell");
    let end = cell.run_turn(LONG).expect("a turn").end;
    assert!(matches!(&end, TurnEnd::Crashed(what) if what.contains("text")), "{end:?}");
}

#[test]
fn programs_may_be_odd_text() {
    assert_eq!(value("return 1 // no newline at the end"), "1");
    assert_eq!(value("'use strict'; return typeof this"), "\"object\"");
    assert_eq!(value("return '\u{1F980} ü'.length"), "4");
    assert_eq!(value(""), "undefined");
    assert!(matches!(end("#!/usr/bin/env node\nreturn 1"), TurnEnd::Failed(f) if f.kind == FailureKind::Syntax));
}
