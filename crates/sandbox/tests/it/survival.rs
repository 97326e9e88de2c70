//! What is in a cell when it is parked is in it when it is restored.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{LONG, first_turn, json, move_house};
use pincer_sandbox::{Answer, Cell, Output, TurnEnd};

/// Programs that wait for `call` at least once. Each is parked and restored at every wait, and must come to the same value
/// as when it is left alone.
const PROGRAMS: &[(&str, &str, &str)] = &[
    (
        "closures",
        "let n = 1; const add = (x) => (n += x); add(await call(2)); const g = () => n; await call(0); return g()",
        "3",
    ),
    (
        "nested_closures",
        "const mk = (a) => (b) => async (c) => a + b + c + (await call(4)); return await mk(1)(2)(3)",
        "10",
    ),
    ("promise_all", "return await Promise.all([call(1), call(2), call(3)])", "[1,2,3]"),
    ("promise_race", "return await Promise.race([new Promise(() => {}), call('first')])", "\"first\""),
    ("promise_any", "return await Promise.any([Promise.reject(1), call(2)])", "2"),
    (
        "promise_all_settled",
        "const r = await Promise.allSettled([call(1), Promise.reject(2)]); return r.map((x) => x.status)",
        "[\"fulfilled\",\"rejected\"]",
    ),
    (
        "promise_chains",
        "return await call(1).then((x) => call(x + 1)).then((x) => call(x + 1)).finally(() => call(0))",
        "3",
    ),
    ("awaited_thenable", "return await { then: (r) => { call(7).then(r) } }", "7"),
    (
        "generator_in_the_middle",
        "function* g() { const a = yield 1; const b = yield a + 1; return a + b } const i = g(); i.next(); i.next(10); await call(0); return i.next(5)",
        "{\"value\":15,\"done\":true}",
    ),
    (
        "generator_delegating",
        "function* in_() { yield 1; yield 2 } function* g() { yield* in_(); yield 3 } const i = g(); i.next(); await call(0); return [...i]",
        "[2,3]",
    ),
    (
        "async_generator",
        "async function* g() { for (let i = 0; i < 3; i++) yield await call(i) } const out = []; for await (const x of g()) out.push(x); return out",
        "[0,1,2]",
    ),
    (
        "async_iterator_by_hand",
        "const it = { i: 0, [Symbol.asyncIterator]() { return this }, async next() { return { done: this.i > 2, value: await call(this.i++) } } }; const out = []; for await (const x of it) out.push(x); return out",
        "[0,1,2]",
    ),
    (
        "private_fields",
        "class A { #x = 1; static #n = 5; bump() { return ++this.#x + A.#n } static has(o) { return #x in o } } const a = new A(); a.bump(); await call(0); return [a.bump(), A.has(a), A.has({})]",
        "[8,true,false]",
    ),
    (
        "inheritance",
        "class A { m() { return 1 } } class B extends A { m() { return super.m() + 1 } } const b = new B(); await call(0); return [b.m(), b instanceof A]",
        "[2,true]",
    ),
    (
        "maps_and_sets",
        "const k = { k: 1 }; const m = new Map([[k, 'v'], [NaN, 2]]); const s = new Set([1, '1', k]); await call(0); return [m.get(k), m.get(NaN), s.has(k), s.size, [...m.keys()].length]",
        "[\"v\",2,true,3,2]",
    ),
    (
        "map_iterator_in_the_middle",
        "const m = new Map([[1, 1], [2, 2], [3, 3]]); const i = m.values(); i.next(); await call(0); m.set(4, 4); return [...i]",
        "[2,3,4]",
    ),
    (
        "weak_collections",
        "const k = {}; const w = new WeakMap([[k, 'v']]); const s = new WeakSet([k]); await call(0); return [w.get(k), s.has(k), w.has({})]",
        "[\"v\",true,false]",
    ),
    ("weak_references", "const o = { a: 1 }; const r = new WeakRef(o); await call(0); return r.deref() === o", "true"),
    (
        "typed_arrays",
        "const b = new ArrayBuffer(16); const u = new Uint8Array(b, 4, 4); const d = new DataView(b); u.set([1, 2, 3, 4]); const f = new Float64Array([0.1]); await call(0); u[0] = 9; return [d.getUint8(4), [...u], f[0]]",
        "[9,[9,2,3,4],0.1]",
    ),
    (
        "resizable_buffers",
        "const b = new ArrayBuffer(4, { maxByteLength: 64 }); const u = new Uint8Array(b); await call(0); b.resize(32); return [u.length, b.maxByteLength]",
        "[32,64]",
    ),
    (
        "proxies",
        "const log = []; const p = new Proxy({ a: 1 }, { get(t, k) { log.push(k); return t[k] ?? k } }); p.a; await call(0); return [p.b, log]",
        "[\"b\",[\"a\",\"b\"]]",
    ),
    (
        "revoked_proxies",
        "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); await call(0); try { proxy.x; return 'no' } catch (e) { return e.name }",
        "\"TypeError\"",
    ),
    (
        "dates",
        "const d = new Date(86400000); await call(0); d.setUTCHours(5); return d.toISOString()",
        "\"1970-01-02T05:00:00.000Z\"",
    ),
    (
        "regular_expression_state",
        "const r = /a/g; r.exec('aaa'); await call(0); return [r.lastIndex, r.exec('aaa').index, 'xay'.replace(r, 'b')]",
        "[1,1,\"xby\"]",
    ),
    (
        "regular_expression_iterator",
        "const i = 'a1b2c3'.matchAll(/[a-z](\\d)/g); i.next(); await call(0); return [...i].map((m) => m[1])",
        "[\"2\",\"3\"]",
    ),
    (
        "symbols",
        "const s = Symbol('mine'); const o = { [s]: 1, [Symbol.for('reg')]: 2 }; await call(0); return [o[s], o[Symbol.for('reg')], s.description, Symbol.keyFor(Symbol.for('reg'))]",
        "[1,2,\"mine\",\"reg\"]",
    ),
    (
        "big_integers",
        "const x = 2n ** 200n; await call(0); return [(x + 1n) % 1000n, typeof x]",
        "[\"377\",\"bigint\"]",
    ),
    (
        "strings_of_all_kinds",
        "const s = 'aü€😀\\u0000'; let rope = ''; for (let i = 0; i < 100; i++) rope += i; await call(0); return [s, rope.length, `${s}${s}`.length]",
        "[\"aü€😀\\u0000\",190,12]",
    ),
    (
        "errors",
        "const e = new TypeError('x', { cause: 'c' }); e.extra = 1; await call(0); return [e.name, e.message, e.cause, e.extra, e instanceof TypeError, e.stack.includes('cell.js:1:')]",
        "[\"TypeError\",\"x\",\"c\",1,true,true]",
    ),
    (
        "caught_errors_on_the_stack",
        "try { try { throw new Error('a') } catch (e) { await call(0); throw new Error(e.message + 'b') } } catch (e) { return e.message }",
        "\"ab\"",
    ),
    (
        "finally_in_the_middle",
        "const log = []; const f = async () => { try { return await call('v') } finally { log.push(await call('f')) } }; const v = await f(); return [v, log]",
        "[\"v\",[\"f\"]]",
    ),
    (
        "loops_and_labels",
        "let s = 0; outer: for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) { if (j > i) continue outer; s += await call(i * j) } return s",
        "7",
    ),
    (
        "destructuring_in_the_middle",
        "const { a, b = await call(5), ...c } = { a: await call(1), d: await call(2) }; return [a, b, c]",
        "[1,5,{\"d\":2}]",
    ),
    (
        "getters_and_descriptors",
        "const o = {}; Object.defineProperty(o, 'x', { get: () => 5, enumerable: false, configurable: false }); Object.freeze(o); await call(0); return [o.x, Object.keys(o), Object.isFrozen(o)]",
        "[5,[],true]",
    ),
    (
        "changed_prototypes",
        "Array.prototype.last = function () { return this[this.length - 1] }; await call(0); return [1, 2, 3].last()",
        "3",
    ),
    ("globals_of_the_program", "globalThis.mine = { n: 1 }; await call(0); return ++globalThis.mine.n", "2"),
    (
        "generated_functions",
        "const f = new Function('x', 'return x * 2'); const g = eval('(x) => x + 1'); await call(0); return g(f(4))",
        "9",
    ),
    (
        "bound_functions",
        "const f = function (a, b) { return [this.t, a, b] }.bind({ t: 1 }, 2); await call(0); return f(3)",
        "[1,2,3]",
    ),
    (
        "many_pending",
        "const ps = Array.from({ length: 200 }, (_, i) => call(i)); let s = 0; for (const p of ps) s += await p; return s",
        "19900",
    ),
    (
        "timers_not_yet_fired",
        "const log = []; setTimeout((x) => log.push(x), 50, 'late'); await call(0); await new Promise((r) => setTimeout(r, 100)); return log",
        "[\"late\"]",
    ),
    (
        "yields",
        "const r = []; for (let i = 0; i < 3; i++) { await yield_control('step ' + i); r.push(i) } return r",
        "[0,1,2]",
    ),
    (
        "frozen_scope",
        "const before = Object.isFrozen(call); await call(0); return before && Object.isFrozen(call) && Object.isFrozen(console)",
        "true",
    ),
    (
        "random_goes_on",
        "Math.random(); await call(0); const a = Math.random(), b = Math.random(); return a !== b && a >= 0 && a < 1",
        "true",
    ),
    (
        "iterator_helpers",
        "const i = [1, 2, 3, 4].values().map((x) => x * 2).filter((x) => x > 2); i.next(); await call(0); return i.toArray()",
        "[6,8]",
    ),
    (
        "disposables",
        "const log = []; { using r = { [Symbol.dispose]() { log.push('d') } }; await call(0); log.push('b') } return log",
        "[\"b\",\"d\"]",
    ),
    (
        "sparse_and_odd_arrays",
        "const a = [1, , 3]; a.x = 'y'; a[10] = 1; await call(0); return [a.length, 1 in a, a.x, Object.keys(a)]",
        "[11,false,\"y\",[\"0\",\"2\",\"10\",\"x\"]]",
    ),
    (
        "argument_objects",
        "return await (async function () { await call(0); return [...arguments] })(1, 2, 3)",
        "[1,2,3]",
    ),
    (
        "detached_work",
        "let done = 0; (async () => { await call(0); done = 1; await call(0); text('detached ' + done) })(); return 'main'",
        "\"main\"",
    ),
    (
        "text_decoder_in_the_middle",
        "const d = new TextDecoder(); let s = d.decode(new Uint8Array([0xe2, 0x82]), { stream: true }); await call(0); return s + d.decode(new Uint8Array([0xac]))",
        "\"€\"",
    ),
];

/// Runs to the end, moving the cell to a new VM at each wait if `moving`.
fn run(source: &str, moving: bool) -> (TurnEnd, Vec<Output>) {
    let (mut cell, mut turn) = first_turn(source);
    let mut output = std::mem::take(&mut turn.output);
    let mut open = turn.requests;
    while let TurnEnd::Waiting = turn.end {
        if moving {
            cell = move_house(cell);
        }
        // One answer at a time, so that there are waits with several requests pending.
        let request = open.remove(0);
        cell.deliver(crate::common::echo(&request)).expect("a pending request");
        turn = cell.run_turn(LONG).expect("a turn");
        output.append(&mut turn.output);
        open.append(&mut turn.requests);
    }
    (turn.end, output)
}

#[test]
fn everything_survives() {
    let mut wrong = Vec::new();
    for (name, source, expected) in PROGRAMS {
        for moving in [false, true] {
            match run(source, moving) {
                (TurnEnd::Value(Some(value)), _) if value.as_str() == *expected => {}
                (other, _) => wrong.push(format!("{name} (moving: {moving}): expected {expected}, got {other:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), PROGRAMS.len(), wrong.join("\n"));
}

#[test]
fn output_after_a_move_comes_in_order() {
    let (_, output) = run("text('a'); await call(0); json({ b: 1 }); await call(0); console.log('c', [2])", true);
    assert_eq!(
        output,
        [
            Output::Text { text: "a".into() },
            Output::Json { value: json(r#"{"b":1}"#) },
            Output::Text { text: "c [2]".into() },
        ]
    );
}

#[test]
fn ten_megabytes_of_live_data_survive() {
    let source = "const rows = []; for (let i = 0; i < 50000; i++) rows.push({ id: i, name: 'row ' + i, tags: ['a', i % 7] });
        const bytes = new Uint8Array(4 << 20).map((_, i) => i * 31);
        await call(0);
        return [rows.length, rows[49999].name, rows.reduce((s, r) => s + r.id + r.tags[1], 0), bytes.reduce((s, b) => s + b, 0)]";
    let (cell, _) = first_turn(source);
    let mut cell = move_house(cell);
    for id in cell.pending() {
        cell.deliver(Answer::value(id, json("0"))).expect("a pending request");
    }
    let TurnEnd::Value(Some(value)) = cell.run_turn(LONG).expect("a turn").end else { panic!("no value") };
    let (tags, bytes): (u64, u64) =
        ((0..50_000u64).map(|i| i % 7).sum(), (0..4u64 << 20).map(|i| (i * 31) & 255).sum());
    assert_eq!(value.as_str(), format!("[50000,\"row 49999\",{},{bytes}]", 49_999u64 * 25_000 + tags));
}

#[test]
fn parking_changes_nothing_and_twice_gives_the_same_bytes() {
    let (mut cell, _) = first_turn("let x = [1, 2]; x.push(await call(3)); return x");
    let first = cell.park().expect("a snapshot");
    assert_eq!(first, cell.park().expect("a snapshot"));
    let id = cell.pending()[0];
    cell.deliver(Answer::value(id, json("3"))).expect("a pending request");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Value(Some(v)) if v.as_str() == "[1,2,3]"));
}

#[test]
fn a_restored_cell_can_be_parked_again_without_change() {
    let (mut cell, _) = first_turn("return await call(1)");
    let first = cell.park().expect("a snapshot");
    let mut again: Cell = move_house(cell);
    assert_eq!(first, again.park().expect("a snapshot"));
}

#[test]
fn one_snapshot_can_be_continued_many_times_in_different_ways() {
    let (mut cell, turn) = first_turn("const x = await call(0); return x * 2");
    let (snapshot, id) = (cell.park().expect("a snapshot"), turn.requests[0].id);
    for n in 0..20 {
        let mut copy = crate::common::engine().restore(&snapshot, Default::default()).expect("a cell");
        copy.deliver(Answer::value(id, json(&n.to_string()))).expect("a pending request");
        let end = copy.run_turn(LONG).expect("a turn").end;
        assert!(matches!(end, TurnEnd::Value(Some(v)) if v.as_str() == (n * 2).to_string()));
    }
}
