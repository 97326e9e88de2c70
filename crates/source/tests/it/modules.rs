//! Modules: what asks for one is refused, what only looks like it is not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_source::{Language, SourceError, prepare};

const BOTH: [Language; 2] = [Language::JavaScript, Language::TypeScript];

/// `expected` is what was used and its line and column.
fn check(source: &str, languages: &[Language], expected: Option<(&str, u32, u32)>) {
    for language in languages {
        let found = match prepare(source, *language) {
            Err(SourceError::ModuleAccess { what, at, .. }) => Some((what, at.line, at.column)),
            Err(other) => panic!("{source}: {other}"),
            Ok(_) => None,
        };
        assert_eq!(found, expected, "{source} {language:?}");
    }
}

#[test]
fn module_access_is_refused() {
    for (source, what, line, column) in [
        ("import fs from 'fs'", "`import`", 1, 1),
        ("let a = 1\nimport { b } from \"b\";\nreturn b", "`import`", 2, 1),
        ("import 'side-effect'", "`import`", 1, 1),
        ("import * as x from 'x'; await x.y()", "`import`", 1, 1),
        ("import x from './x.json' with { type: 'json' }", "`import`", 1, 1),
        ("export const a = 1", "`export`", 1, 1),
        ("const a = 1;\nexport { a }", "`export`", 2, 1),
        ("export default async function main() {}", "`export`", 1, 1),
        ("export * from 'x'", "`export`", 1, 1),
        ("const fs = await import('fs')", "`import()`", 1, 18),
        ("const f = () => { return import(`x`) }", "`import()`", 1, 26),
        ("import.defer('x')", "`import()`", 1, 1),
        ("import.source('x')", "`import()`", 1, 1),
        ("class A { x = [import('x')] }", "`import()`", 1, 16),
        ("const fs = require('fs')", "`require()`", 1, 12),
        ("a + b + require('fs').c", "`require()`", 1, 9),
        ("require?.('fs')", "`require()`", 1, 1),
        ("new require('fs')", "`require()`", 1, 5),
        ("new require", "`require()`", 1, 5),
        ("require`fs`", "`require()`", 1, 1),
        ("(require)('fs')", "`require()`", 1, 1),
        ("`${require('fs')}`", "`require()`", 1, 4),
        ("const { a = require('fs') } = {}", "`require()`", 1, 13),
        ("return import.meta.url", "`import.meta`", 1, 8),
        ("const a = import.meta; foo(", "`import.meta`", 1, 11),
        ("require('b'); import a from 'a'", "`require()`", 1, 1),
    ] {
        check(source, &BOTH, Some((what, line, column)));
    }
}

#[test]
fn module_access_of_typescript_is_refused() {
    for (source, what, column) in [
        ("import type { A } from 'a'", "`import`", 1),
        ("import { type A } from 'a'", "`import`", 1),
        ("import fs = require('fs')", "`import`", 1),
        ("export type A = string", "`export`", 1),
        ("export interface A {}", "`export`", 1),
        ("export declare const a: number", "`export`", 1),
        ("export = 1", "`export`", 1),
        ("export as namespace A", "`export`", 1),
        ("export namespace A { export const b = 1 }", "`export`", 1),
        ("namespace A { export const b = require('b') }", "`require()`", 32),
        ("namespace A { export { b } from 'b' }", "`export`", 15),
        ("enum A { B = require('b') }", "`require()`", 14),
        ("require!('fs') as any", "`require()`", 1),
        ("declare const require: any; require('x')", "`require()`", 29),
        ("import('x') as Promise<string>", "`import()`", 1),
    ] {
        check(source, &[Language::TypeScript], Some((what, 1, column)));
    }
}

#[test]
fn what_only_looks_like_module_access_is_fine() {
    for source in [
        "'import x from \"y\"'",
        "// import x from 'y'\n1",
        "/* require('x') */ 1",
        "`import('x')`",
        "/require('x')/.test('')",
        "x.import()",
        "x.require('y')",
        "x?.require('y')",
        "tools.import(1)",
        "({ require() {}, import: 1, export: 2 })",
        "({ require }).require(1)",
        "class A { import() {} static require() {} }",
        "typeof require",
        "typeof require === 'function'",
        "const require = (x) => x; require('y')",
        "function require() {} require('y')",
        "const f = (require) => require('y')",
        "const { require } = tools; require('y')",
        "try {} catch (require) { require(1) }",
        "class require {} new require()",
        "let exports = {}, module = { exports }",
        "let x = { 'import': 1 }['import']",
    ] {
        check(source, &BOTH, None);
    }
    for source in [
        "let a: typeof import('fs')",
        "let a: import('x').T<string>",
        "type A = typeof require",
        "declare module 'x' { export const a: number }",
        "namespace A { export const b = 1 }",
        "interface A { import(): void; require: string }",
        "type B = { export: 1 }",
    ] {
        check(source, &[Language::TypeScript], None);
    }
}

#[test]
fn the_message_says_what_there_is_instead() {
    let error = prepare("const fs = require('fs')", Language::JavaScript).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`require()` cannot be used: programs have no modules; tools are reached through `tools` (line 1, column 12)\n  \
         1 | const fs = require('fs')\n    |            ^"
    );
}
