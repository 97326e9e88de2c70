//! The guest has ECMAScript and this list. A name that appears or disappears is a change of the contract.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{end, engine, finish, value};
use pincer_sandbox::{Limits, Program, TurnEnd};

/// Beyond ECMAScript.
const OURS: &[&str] = &[
    "TextDecoder",
    "TextEncoder",
    "atob",
    "btoa",
    "clearTimeout",
    "console",
    "json",
    "setTimeout",
    "structuredClone",
    "text",
    "unwrap",
    "yield_control",
];

const ECMASCRIPT: &[&str] = &[
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "AsyncDisposableStack",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "DataView",
    "Date",
    "DisposableStack",
    "Error",
    "EvalError",
    "FinalizationRegistry",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Function",
    "Infinity",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "SharedArrayBuffer",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "TypeError",
    "URIError",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "eval",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "undefined",
    "unescape",
];

#[test]
fn the_global_object_has_exactly_the_listed_names() {
    // `call` is what these tests add to every program.
    let mut expected: Vec<&str> = [OURS, ECMASCRIPT, &["call"]].concat();
    expected.sort_unstable();
    let names = value("return Reflect.ownKeys(globalThis).map(String).sort()");
    let names: Vec<String> = serde_json::from_str(&names).expect("a list of names");
    assert_eq!(names, expected);
}

#[test]
fn a_bare_program_has_the_language_and_a_small_console() {
    let mut expected: Vec<&str> = [&["call", "console"], ECMASCRIPT].concat();
    expected.sort_unstable();
    let bare = |source: &str| {
        let program = Program::new(source).function("call").bare();
        match finish(engine().start(program, Limits::default()).expect("a cell")).end {
            TurnEnd::Value(Some(value)) => value.as_str().to_owned(),
            end => panic!("{source} ended with {end:?}"),
        }
    };
    let names: Vec<String> =
        serde_json::from_str(&bare("return Reflect.ownKeys(globalThis).map(String).sort()")).expect("a list of names");
    assert_eq!(names, expected);
    assert_eq!(bare("return Object.keys(console)"), r#"["log","warn","error"]"#);
    assert_eq!(bare("console.log(1); return Object.isFrozen(console)"), "true");
    let firm = "'use strict'; let threw = 0; try { globalThis.console = 1 } catch { threw++ }
                try { delete globalThis.console } catch { threw++ } return threw";
    assert_eq!(bare(firm), "2");
}

#[test]
fn what_is_ours_is_frozen_and_cannot_be_replaced() {
    for name in OURS {
        let source = format!(
            "'use strict'; const d = Object.getOwnPropertyDescriptor(globalThis, '{name}'); let threw = 0;
             try {{ globalThis.{name} = 1 }} catch {{ threw++ }}
             try {{ delete globalThis.{name} }} catch {{ threw++ }}
             try {{ {name}.added = 1 }} catch {{ threw++ }}
             return [d.writable, d.configurable, Object.isFrozen({name}), threw]"
        );
        assert_eq!(value(&source), "[false,false,true,3]", "{name}");
    }
    assert_eq!(value("return Object.keys(console).every((k) => Object.isFrozen(console[k]))"), "true");
}

#[test]
fn no_prototype_leads_to_the_host() {
    let source = "
        const seen = new Set(), names = [];
        const walk = (o, path) => {
            if (o === null || (typeof o !== 'object' && typeof o !== 'function') || seen.has(o)) return;
            seen.add(o);
            for (const k of Reflect.ownKeys(o)) {
                const d = Reflect.getOwnPropertyDescriptor(o, k);
                const p = path + '.' + String(k);
                if (/emit|host|dispatch|pincer|wasm|__/i.test(String(k)) && !/^__(proto|define(G|S)etter|lookup(G|S)etter)__$/.test(String(k))) names.push(p);
                walk(d.value, p); walk(d.get, p); walk(d.set, p);
            }
            walk(Reflect.getPrototypeOf(o), path + '.[[Prototype]]');
        };
        walk(globalThis, 'globalThis');
        return names";
    assert_eq!(value(source), "[]");
}

#[test]
fn a_program_sees_its_own_source_but_not_the_preludes() {
    assert!(value("return String(text) + String(setTimeout)").len() < 4000);
    assert!(matches!(end("return unsettled"), TurnEnd::Failed(_)));
    assert!(matches!(end("return emit"), TurnEnd::Failed(_)));
}
