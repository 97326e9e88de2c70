//! Programs that mean harm. Each must end in the expected way, in time, and leave the engine as good as new.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use crate::common::{LONG, engine, start_with};
use pincer_sandbox::{Limit, Limits, Program, Turn, TurnEnd};

/// How a hostile program must end.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// Stopped at the deadline.
    InTime,
    /// Stopped for memory.
    ByMemory,
    /// With a guest error whose text contains this.
    With(&'static str),
    /// With this value: the attack does nothing.
    As(&'static str),
    /// In any way that is not a crash: a guest error, a value or a limit.
    Somehow,
}
use Ends::{As, ByMemory, InTime, Somehow, With};

const DEADLINE: Duration = Duration::from_millis(150);
/// What a program may take beyond its deadline, in the best of [`TRIES`]: a machine may be busy with other things once.
const GRACE: Duration = Duration::from_millis(100);
const TRIES: usize = 5;

const PROGRAMS: &[(&str, &str, Ends)] = &[
    // ---- Time -----------------------------------------------------------------------------------------------------
    ("loops", "for (;;) {}", InTime),
    ("loops_in_a_called_function", "const f = () => { while (true) {} }; f()", InTime),
    ("awaits_for_ever", "for (;;) await 0", InTime),
    ("awaits_thenables_for_ever", "for (;;) await { then(resolve) { resolve() } }", InTime),
    ("floods_the_microtask_queue", "const f = () => Promise.resolve().then(f); await f()", Somehow),
    (
        "floods_with_two_chains",
        "const f = () => { Promise.resolve().then(f); Promise.resolve().then(() => {}) }; f(); await new Promise(() => {})",
        InTime,
    ),
    ("loops_in_a_getter_of_its_value", "return { get x() { for (;;) {} } }", InTime),
    ("loops_in_to_json", "return { toJSON() { for (;;) {} } }", InTime),
    ("loops_in_a_proxy_of_its_value", "return new Proxy({}, { ownKeys() { for (;;) {} } })", InTime),
    (
        "returns_endless_keys",
        "let n = 0; return new Proxy({}, { ownKeys: () => ['a' + n++], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1, writable: true }), get: (t, k, self) => typeof k === 'string' && k !== 'toJSON' ? self : undefined })",
        Somehow,
    ),
    ("loops_in_a_sort_comparator", "[3, 1, 2].sort(() => { for (;;) {} })", InTime),
    (
        "sorts_without_order",
        "const a = Array.from({ length: 1e5 }, (_, i) => i); for (;;) a.sort(() => Math.random() - 0.5)",
        InTime,
    ),
    ("backtracks", "/^(a+)+$/.test('a'.repeat(40) + 'b')", InTime),
    ("backtracks_with_alternatives", "/(x+x+)+y/.test('x'.repeat(60))", InTime),
    ("backtracks_in_replace", "'a'.repeat(40).replace(/(a*)*b/g, '')", InTime),
    ("loops_in_finally", "try { throw 1 } finally { for (;;) {} }", InTime),
    (
        "returns_from_endless_finally",
        "const f = () => { for (;;) { try { return 1 } finally { continue } } }; f()",
        InTime,
    ),
    ("searches_a_huge_array_like", "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)", InTime),
    ("searches_it_backwards", "Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1)", InTime),
    ("asks_a_huge_array_like", "Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)", InTime),
    ("runs_every_over_a_huge_array_like", "Array.prototype.every.call({ length: 2 ** 53 - 1 }, () => true)", InTime),
    ("runs_some_over_a_huge_array_like", "Array.prototype.some.call({ length: 2 ** 53 - 1 }, () => false)", InTime),
    ("runs_for_each_over_a_huge_array_like", "Array.prototype.forEach.call({ length: 2 ** 53 - 1 }, () => {})", InTime),
    ("reduces_a_huge_array_like", "Array.prototype.reduce.call({ length: 2 ** 53 - 1 }, (a) => a, 0)", InTime),
    ("reduces_it_from_the_right", "Array.prototype.reduceRight.call({ length: 2 ** 53 - 1 }, (a) => a, 0)", InTime),
    ("filters_a_huge_array_like", "Array.prototype.filter.call({ length: 2 ** 53 - 1 }, () => false)", InTime),
    ("reverses_a_huge_array_like", "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })", Somehow),
    ("joins_a_huge_array_like", "Array.prototype.join.call({ length: 2 ** 32 }, '')", Somehow),
    ("copies_within_a_huge_array_like", "Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1)", Somehow),
    (
        "iterates_for_ever",
        "for (const x of { [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) }) {}",
        InTime,
    ),
    ("spreads_an_endless_iterator", "[...{ [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) }]", Somehow),
    (
        "iterates_asynchronously_for_ever",
        "for await (const x of (async function* () { for (;;) yield 1 })()) {}",
        InTime,
    ),
    ("generates_for_ever", "for (const x of (function* () { for (;;) yield 1 })()) {}", InTime),
    ("raises_big_integers", "let x = 2n; for (;;) x = x * x", Somehow),
    ("raises_one_big_integer", "return (2n ** 60000000n) ** 2n > 0n", Somehow),
    ("loops_in_a_symbol_to_primitive", "`${{ [Symbol.toPrimitive]() { for (;;) {} } }}`", InTime),
    ("loops_in_an_argument_of_a_request", "await call({ get x() { for (;;) {} } })", InTime),
    (
        "loops_in_the_name_of_its_error",
        "const e = new Error('x'); Object.defineProperty(e, 'name', { get() { for (;;) {} } }); throw e",
        InTime,
    ),
    ("loops_in_then_of_its_value", "return { then() { for (;;) {} } }", InTime),
    ("loops_in_the_has_trap", "with (new Proxy({}, { has() { for (;;) {} } })) { x }", InTime),
    (
        "concatenates_species",
        "class A extends Array { static get [Symbol.species]() { return function () { for (;;) {} } } } new A(1, 2).map((x) => x)",
        InTime,
    ),
    ("parses_with_an_endless_reviver", "JSON.parse('[1,2]', function () { for (;;) {} })", InTime),
    ("evaluates_an_endless_program", "new Function('for (;;) {}')()", InTime),
    // ---- Memory ---------------------------------------------------------------------------------------------------
    ("hoards_arrays", "const a = []; for (;;) a.push(new Array(1000).fill(0))", ByMemory),
    (
        "hoards_and_catches",
        "try { const a = []; for (;;) a.push(new Array(1000).fill(0)) } catch { return 'caught' }",
        ByMemory,
    ),
    (
        "hoards_and_finally_returns",
        "try { const a = []; for (;;) a.push(new Uint8Array(1e6)) } finally { return 'got away' }",
        ByMemory,
    ),
    ("doubles_a_string", "let s = 'x'; for (;;) { s += s; s.charCodeAt(0) }", Somehow),
    ("repeats_a_string", "return 'x'.repeat(2 ** 29).length", Somehow),
    ("pads_a_string", "return 'x'.padStart(2 ** 29).length", Somehow),
    ("asks_for_a_gigabyte", "new ArrayBuffer(2 ** 30)", ByMemory),
    ("asks_for_too_much", "new ArrayBuffer(2 ** 53 - 1)", Somehow),
    ("grows_a_buffer", "const b = new ArrayBuffer(1, { maxByteLength: 2 ** 31 - 1 }); b.resize(2 ** 31 - 1)", Somehow),
    ("hoards_in_a_map", "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i })", ByMemory),
    ("hoards_closures", "let f = () => 0; for (;;) { const g = f; f = () => g }", ByMemory),
    ("hoards_promises", "const a = []; for (;;) a.push(new Promise(() => {}))", ByMemory),
    ("hoards_symbols", "const a = []; for (;;) a.push(Symbol('x'.repeat(1000)))", ByMemory),
    (
        "hoards_functions_of_the_source",
        "const a = []; for (let i = 0; ; i++) a.push(new Function('return ' + i))",
        Somehow,
    ),
    ("fills_a_huge_array", "new Array(2 ** 32 - 1).fill(0)", Somehow),
    ("splits_everything", "const a = []; for (;;) a.push('x,'.repeat(10000).split(','))", ByMemory),
    // ---- Stack ----------------------------------------------------------------------------------------------------
    ("recurses", "const f = () => f() + 1; return f()", With("Maximum call stack")),
    ("recurses_and_catches", "const f = () => { try { return f() } catch { return f() } }; return f()", Somehow),
    ("recurses_through_methods", "const o = { get x() { return this.x } }; return o.x", With("Maximum call stack")),
    ("recurses_through_proxies", "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x", Somehow),
    (
        "recurses_through_to_string",
        "const o = { toString() { return `${o}` } }; return `${o}`",
        With("Maximum call stack"),
    ),
    (
        "recurses_through_bound_functions",
        "let f = () => 0; for (let i = 0; i < 1e5; i++) f = f.bind(null); return f()",
        Somehow,
    ),
    ("recurses_through_sort", "const f = () => [2, 1].sort(f); return f()", With("Maximum call stack")),
    ("recurses_through_replace", "const f = () => 'x'.replace(/x/, f); return f()", With("Maximum call stack")),
    (
        "recurses_through_json",
        "const o = { toJSON() { return JSON.stringify(o) } }; return JSON.stringify(o)",
        With("Maximum call stack"),
    ),
    ("parses_deep_json", "return JSON.parse('['.repeat(1e6) + ']'.repeat(1e6))", Somehow),
    ("writes_deep_json", "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return JSON.stringify(a)", Somehow),
    ("returns_a_deep_value", "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a", Somehow),
    ("matches_a_deep_pattern", "return new RegExp('('.repeat(1e5) + ')'.repeat(1e5)).test('')", Somehow),
    ("evaluates_deep_source", "return eval('('.repeat(1e5) + '1' + ')'.repeat(1e5))", Somehow),
    ("evaluates_deep_templates", "return eval('`${'.repeat(1e4) + '1' + '}`'.repeat(1e4))", Somehow),
    ("spreads_a_million_arguments", "return Math.max(...new Array(1e6).fill(1))", Somehow),
    ("applies_a_million_arguments", "return Math.max.apply(null, new Array(1e6).fill(1))", Somehow),
    (
        "frees_a_long_list",
        "let list = null; for (let i = 0; i < 3e5; i++) list = { next: list }; list = null; return 1",
        As("1"),
    ),
    ("recurses_in_an_async_function", "const f = async () => await f(); return f()", Somehow),
    // ---- Ways out -------------------------------------------------------------------------------------------------
    ("imports_dynamically", "return await import('fs')", With("could not load module")),
    (
        "imports_from_generated_code",
        "return await new Function('return import(\"fs\")')()",
        With("could not load module"),
    ),
    ("imports_statically", "import fs from 'fs'; return fs", With("SyntaxError")),
    ("requires", "return require('fs')", With("require is not defined")),
    ("reads_the_process", "return process.env", With("process is not defined")),
    ("fetches", "return fetch('http://127.0.0.1')", With("fetch is not defined")),
    (
        "finds_a_global_by_constructor",
        "return Object.keys(text.constructor('return this')()).filter((k) => /host|emit|qjs|std|os|print/.test(k))",
        As("[]"),
    ),
    (
        "reads_the_clock_finely",
        "const t = Date.now(); return Number.isInteger(t) && typeof performance",
        As("\"undefined\""),
    ),
    ("asks_for_the_time_zone", "return [new Date(0).getTimezoneOffset(), new Date(0).getHours()]", As("[0,0]")),
    (
        "formats_stacks_to_reach_the_prelude",
        "let got = 'nothing'; Error.prepareStackTrace = (e, sites) => { got = sites.map((s) => s.getFunction?.()) }; new Error().stack; yield_control; try { unwrap({ isError: true }) } catch (e) { e.stack } return got",
        As("\"nothing\""),
    ),
    (
        "asks_functions_for_their_callers",
        "try { return text.caller === undefined ? 'hidden' : 'seen' } catch { return 'hidden' }",
        As("\"hidden\""),
    ),
    (
        "walks_the_callers_of_a_getter",
        "let seen = []; const o = { get x() { try { seen.push(arguments.callee.caller) } catch (e) { seen.push('hidden') } return 1 } }; json(o); return typeof seen[0]",
        Somehow,
    ),
    ("breaks_out_of_its_wrapper", "}); globalThis.escaped = true; (async () => {", Somehow),
    ("ends_its_wrapper_early", "return 1 }; while (false) {", Somehow),
    // ---- The bridge -----------------------------------------------------------------------------------------------
    (
        "replaces_json",
        "JSON.stringify = () => '{\"forged\":1}'; JSON.parse = () => 0; return { a: 1 }",
        As("{\"a\":1}"),
    ),
    ("replaces_then", "Promise.prototype.then = () => { throw 'no' }; return await call(5)", As("5")),
    ("replaces_promise", "globalThis.Promise = class {}; return await call(5)", As("5")),
    (
        "replaces_array_methods",
        "for (const k of Object.getOwnPropertyNames(Array.prototype)) { try { Array.prototype[k] = () => { throw k } } catch {} } Array.prototype[Symbol.iterator] = () => { throw 'it' }; return await call(5)",
        As("5"),
    ),
    (
        "replaces_map_methods",
        "for (const k of ['set', 'get', 'delete', 'values', 'has']) Map.prototype[k] = WeakMap.prototype[k] = () => { throw k }; return await call(5)",
        As("5"),
    ),
    (
        "poisons_object_prototype",
        "for (const k of ['value', 'get', 'set', 'writable', 'id', 'kind', 'json', 'resolve', 'reject', 'timer', 'stack', '0', '1', '2']) Object.defineProperty(Object.prototype, k, { __proto__: null, get() { return 'poison' }, set() {}, configurable: true }); return await call(5)",
        As("5"),
    ),
    (
        "poisons_array_indexes",
        "for (const k of [0, 1, 2, 3]) Object.defineProperty(Array.prototype, k, { set() { throw 'no' }, get() { return 9 }, configurable: true }); return [await call(5), Math.max(1, 2)]",
        Somehow,
    ),
    (
        "gives_every_array_a_json_form",
        "Array.prototype.toJSON = () => [1e22]; setTimeout(() => {}, 1); return await call(5)",
        As("5"),
    ),
    ("takes_the_json_form_of_every_array", "Array.prototype.toJSON = () => undefined; return await call(5)", As("5")),
    (
        "claims_everything_is_a_map",
        "Object.defineProperty(Map, Symbol.hasInstance, { value: () => true }); throw new Error('mine')",
        With("Error: mine"),
    ),
    ("claims_by_tag_to_be_a_map", "return { [Symbol.toStringTag]: 'Map', a: 1 }", As("{\"a\":1}")),
    (
        "changes_what_it_is_asked_about",
        "Object.defineProperty(Map, Symbol.hasInstance, { value(o) { if (o && 'kind' in o) o.kind = 'bogus'; return false } }); throw 1",
        With("Error: 1"),
    ),
    (
        "catches_the_prelude_in_a_setter",
        "Object.defineProperty(Array.prototype, 0, { set(v) { if (v && v.kind) v.kind = 'bogus' } }); throw 1",
        With("Error: 1"),
    ),
    (
        "stretches_arrays_in_a_setter",
        "Object.defineProperty(Array.prototype, 0, { set() { this.length = 4294967295 } }); return { a: { b: 1 } }",
        As("{\"a\":{\"b\":1}}"),
    ),
    ("yields_for_ever", "for (;;) await yield_control()", InTime),
    ("yields_a_huge_reason", "await yield_control('x'.repeat(8e6)); return 1", As("1")),
    ("prints_nothing_for_ever", "for (;;) text('')", Somehow),
    ("uses_a_reserved_key", "return { '$serde_json::private::RawValue': '[1,2]' }", With("reserved key")),
    ("writes_a_number_that_is_too_large", "return [JSON.rawJSON('1E400')]", With("out of range")),
    (
        "resizes_while_sorting",
        "const b = new ArrayBuffer(4096, { maxByteLength: 8192 }), t = new Int32Array(b); let n = 0; t.sort(() => { if (n++ == 3) b.resize(16); return 0 }); return t.length",
        As("4"),
    ),
    (
        "shrinks_under_a_data_view",
        "const b = new ArrayBuffer(65536, { maxByteLength: 65536 }); new DataView(b).setFloat64(60000, { valueOf() { b.resize(8); return 1 } })",
        With("RangeError"),
    ),
    ("normalizes_a_long_text", "return ('a' + '\\u0300\\u0316'.repeat(2e6)).normalize('NFC').length", Somehow),
    ("searches_quadratically", "return ('a'.repeat(1e6) + 'b').indexOf('a'.repeat(5e5) + 'c')", InTime),
    ("sorts_a_sparse_array", "const a = []; a.length = 2 ** 32 - 1; a.sort()", InTime),
    (
        "fails_while_its_stack_is_limited",
        "Error.stackTraceLimit = { valueOf() { return null.x } }; null.x",
        With("TypeError"),
    ),
    (
        "loops_in_a_finalizer",
        "const r = new FinalizationRegistry(() => { for (;;); }); r.register({}, 1); for (let i = 0; i < 1e5; i++) { const a = {}; a.a = a } await 0",
        InTime,
    ),
    (
        "throws_a_revoked_proxy",
        "const { proxy, revoke } = Proxy.revocable(new Error(), {}); revoke(); throw proxy",
        With("cannot be read"),
    ),
    (
        "rejects_from_its_deepest_frame",
        "function f() { try { f() } catch {} Promise.reject(1).catch(() => {}) } f()",
        Somehow,
    ),
    (
        "clears_requests_that_are_no_timers",
        "const y = call('k'); for (let i = 0; i < 10; i++) clearTimeout(i); return y",
        As("\"k\""),
    ),
    ("throws_what_is_not_quite_an_error", "atob('*')", With("InvalidCharacterError")),
    ("recurses_through_async_functions", "async function f() { await f() } await f()", Somehow),
    (
        "replaces_function_methods",
        "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 'no' }; Reflect.apply = () => { throw 'no' }; return await call(5)",
        As("5"),
    ),
    ("replaces_error", "globalThis.Error = function () { throw 'no' }; return await call(5)", As("5")),
    (
        "replaces_error_capture",
        "Error.captureStackTrace = () => { throw 'no' }; Error.stackTraceLimit = 0; return await call(5)",
        As("5"),
    ),
    (
        "sets_the_stack_limit_to_nonsense",
        "try { Error.stackTraceLimit = { valueOf() { for (;;) {} } } } catch {} return await call(5)",
        Somehow,
    ),
    (
        "overwrites_the_globals",
        "try { text = 1; globalThis.text = 2; delete globalThis.text } catch {} return typeof text",
        As("\"function\""),
    ),
    (
        "changes_frozen_functions",
        "text.own = 1; Object.setPrototypeOf(console, null); return [text.own, typeof console.log]",
        Somehow,
    ),
    ("throws_a_getter_error", "throw { get name() { throw 1 }, get message() { throw 2 } }", Somehow),
    (
        "throws_an_unreadable_error",
        "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { throw e } }); throw e",
        With("cannot be read"),
    ),
    ("throws_a_proxy", "throw new Proxy(new Error('x'), { get() { throw 1 }, getPrototypeOf() { throw 2 } })", Somehow),
    ("throws_nothing", "throw undefined", With("undefined")),
    ("throws_a_symbol", "throw Symbol('secret')", With("Symbol(secret)")),
    ("rejects_with_itself", "const p = Promise.reject(); p.catch(() => {}); throw p", Somehow),
    ("asks_too_often", "for (;;) call(1)", Somehow),
    ("sets_endless_timers", "for (;;) setTimeout(() => {}, 1)", Somehow),
    (
        "clears_what_is_not_a_timer",
        "const p = call(5); clearTimeout(0); clearTimeout(-1); clearTimeout(1e9); clearTimeout(NaN); clearTimeout({}); clearTimeout('0'); return await p",
        As("5"),
    ),
    ("prints_for_ever", "for (;;) console.log('x'.repeat(1000))", Somehow),
    ("prints_a_huge_line", "text('x'.repeat(3e7))", Somehow),
    ("returns_a_huge_value", "return 'x'.repeat(3e7)", Somehow),
    ("asks_with_a_huge_argument", "await call('x'.repeat(3e7))", Somehow),
    ("returns_lone_surrogates", "return ['\\ud800', { '\\udfff': 1 }]", As("[\"\\ufffd\",{\"\\ufffd\":1}]")),
    ("prints_lone_surrogates", "text('\\ud800'); return 1", As("1")),
    (
        "returns_what_is_not_json",
        "return [undefined, () => 1, Symbol('s'), 10n ** 20n, NaN, -0, new Date(NaN)]",
        As("[null,\"[function]\",\"[Symbol(s)]\",\"100000000000000000000\",null,0,null]"),
    ),
    (
        "returns_a_revoked_proxy",
        "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy",
        With("revoked"),
    ),
    ("hides_a_null_byte", "return 'a\\0b'.length + 'a\0b'.length", As("6")),
    (
        "collects_garbage_hostilely",
        "const r = new FinalizationRegistry(() => { for (;;) {} }); for (let i = 0; i < 1e4; i++) r.register({}, i); return 1",
        Somehow,
    ),
    (
        "shrinks_an_array_while_it_is_sorted",
        "const a = Array.from({ length: 1000 }, (_, i) => 1000 - i); a.sort((x, y) => { a.length = 1; return x - y }); return a.length > 0",
        As("true"),
    ),
    (
        "detaches_a_buffer_while_it_is_filled",
        "const b = new ArrayBuffer(1024, { maxByteLength: 4096 }); const t = new Uint8Array(b); t.fill({ valueOf() { b.resize(0); return 1 } }); return t.length",
        As("0"),
    ),
    (
        "splices_while_converting",
        "const a = [1, 2, 3, 4]; a.splice(0, { valueOf() { a.length = 0; return 4 } }, 5); return a.length",
        Somehow,
    ),
    (
        "transfers_a_buffer_in_a_callback",
        "const b = new ArrayBuffer(64); const t = new Int32Array(b); t.sort(() => { try { b.transfer() } catch {} return 0 }); return 1",
        Somehow,
    ),
    (
        "moves_the_last_index",
        "const r = /a/y; r.lastIndex = { valueOf() { r.compile?.('(b)'); return 0 } }; return r.exec('a') === null || true",
        As("true"),
    ),
];

fn run(source: &str, deadline: Duration) -> (Turn, Duration) {
    let limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
    let mut cell = start_with(source, limits);
    let begun = Instant::now();
    let mut turn = cell.run_turn(deadline).expect("a turn");
    while let TurnEnd::Waiting = turn.end {
        for request in &turn.requests {
            cell.deliver(crate::common::echo(request)).expect("a pending request");
        }
        turn = cell.run_turn(deadline.saturating_sub(begun.elapsed())).expect("a turn");
    }
    (turn, begun.elapsed())
}

fn matches(ends: Ends, end: &TurnEnd) -> bool {
    match (ends, end) {
        (InTime, TurnEnd::Limit(Limit::Time)) | (ByMemory, TurnEnd::Limit(Limit::Memory { .. })) => true,
        (With(text), TurnEnd::Failed(failure)) => failure.to_string().contains(text),
        (As(value), TurnEnd::Value(Some(json))) => json.as_str() == value,
        (Somehow, TurnEnd::Value(_) | TurnEnd::Failed(_) | TurnEnd::Limit(_)) => true,
        _ => false,
    }
}

#[test]
fn hostile_programs_end_as_they_must_and_in_time() {
    let mut wrong = Vec::new();
    for (name, source, ends) in PROGRAMS {
        // How fast a program comes to its own end, or to the memory cap, is no matter of this test.
        let deadline = if matches!(ends, InTime | Somehow) { DEADLINE } else { LONG };
        let (turn, mut took) = run(source, deadline);
        if !matches(*ends, &turn.end) {
            wrong.push(format!("{name}: expected {ends:?}, got {:?}", turn.end));
        }
        for _ in 1..TRIES {
            if took > deadline + GRACE {
                took = took.min(run(source, deadline).1);
            }
        }
        if took > deadline + GRACE {
            wrong.push(format!("{name}: took {took:?} with a deadline of {deadline:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), PROGRAMS.len(), wrong.join("\n"));
    // The engine that ran all of them still runs honest programs.
    let mut cell = engine().start(Program::new("return 1 + 2"), Limits::default()).expect("a cell");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Value(Some(json)) if json.as_str() == "3"));
}

#[test]
fn there_are_enough_hostile_programs_and_each_has_its_own_name() {
    let mut names: Vec<_> = PROGRAMS.iter().map(|(name, ..)| name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PROGRAMS.len());
    assert!(names.len() >= 60);
}
