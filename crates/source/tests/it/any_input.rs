//! Any text comes in, and an answer comes out: no panic, the same lines, and a position inside of the text.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_source::{Language, Position, SourceError, prepare};
use proptest::prelude::*;

/// Programs that have a bit of everything; they are cut and put together again.
const PROGRAMS: [&str; 10] = [
    "const a = await tools.read({ path: \"x\" });\nfor (const l of a.split(/\\n/)) { if (!l) continue; console.log(`${l}`) }\na.length",
    "class A extends B { #x = 1; static s; get y() { return this.#x } async *g() { yield* this } }\nnew A()?.y ?? 3 ** 2",
    "let f = async ({ a = 1, ...b }, [c, , d]) => { try { return a } catch { throw d } finally { } }\nf({}, [])",
    "label: while (true) { switch (x) { case 1: break label; default: do { } while (0) } }\nvar re = /[/]\\/(?<n>.)/giu, t = a`b${c}d`",
    "interface A<T> { b?: T; c(): void }\ntype B<T> = T extends infer U ? { [K in keyof U]-?: U[K] } : never\nconst x = <A<B>>y as const satisfies C\n(z!)",
    "abstract class A<T> implements B { constructor(private readonly x: T, public y = 1) { } abstract z(): void; declare w: string; [k: string]: any }",
    "enum A { B, C = 2, D = B | C, \"e-f\" = 'g', default }\nconst enum F { G = A.B }\ndeclare enum H { }\nF.G",
    "namespace A.B { export const { c, d: [e] } = f; export function g(): void; export function g() { } export enum H { I } }\nnamespace A { export let j = B.c }",
    "const f = async <T,>(a?: T, ...b: T[]): Promise<\nT\n> => a!;\nfunction g(this: Window, x: unknown): x is string { return <boolean>true }",
    "const 名: 型 = '😀' as 型;\r\ntype 型 = string;\u{2028}let é = 名!, \u{61}\u{301} = 1;\n// 😀\n名",
];

/// Checks what holds for every answer.
fn check(source: &str) {
    for language in [Language::JavaScript, Language::TypeScript] {
        let lines = line_count(source);
        let inside = |position: Position| position.line >= 1 && position.line <= lines && position.column >= 1;
        match prepare(source, language) {
            Ok(prepared) => {
                assert_eq!(line_count(&prepared.text), lines, "{source:?}\n{:?}", prepared.text);
                let again = prepare(&format!("{}\nreturn", prepared.text), Language::JavaScript);
                assert!(again.is_ok(), "{source:?}\n{}\n{again:?}", prepared.text);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                match error {
                    SourceError::Syntax(error) | SourceError::TypeScript(error) => {
                        assert!(error.position.is_none_or(inside), "{source:?} {error:?}");
                        assert!(!error.message.contains('\n'), "{error:?}");
                    }
                    SourceError::ModuleAccess { at, .. } => assert!(inside(at), "{source:?} {at:?}"),
                    SourceError::Shell { command } => assert!(!command.contains('\n')),
                }
            }
        }
    }
}

fn line_count(text: &str) -> u32 {
    let breaks = text.replace("\r\n", "\n").matches(['\n', '\r', '\u{2028}', '\u{2029}']).count();
    1 + breaks as u32
}

/// A piece of a program, cut anywhere between two characters.
fn piece() -> impl Strategy<Value = String> {
    (proptest::sample::select(&PROGRAMS[..]), any::<proptest::sample::Index>(), any::<proptest::sample::Index>())
        .prop_map(|(program, from, to)| {
            let characters: Vec<char> = program.chars().collect();
            let (from, to) = (from.index(characters.len()), to.index(characters.len()));
            characters[from.min(to)..from.max(to)].iter().collect()
        })
}

/// A program with one piece of it replaced.
fn spliced() -> impl Strategy<Value = String> {
    let programs = proptest::sample::select(&PROGRAMS[..]);
    (programs, any::<proptest::sample::Index>(), 0usize..12, prop_oneof![piece(), "[ \\n;,(){}<>!?:=.a-z\"'`/-]{0,4}"])
        .prop_map(|(program, at, removed, piece)| {
            let characters: Vec<char> = program.chars().collect();
            let at = at.index(characters.len());
            let end = (at + removed).min(characters.len());
            characters[..at].iter().copied().chain(piece.chars()).chain(characters[end..].iter().copied()).collect()
        })
}

proptest! {
    #[test]
    fn random_text_is_answered(source in any::<String>()) {
        check(&source);
    }

    #[test]
    fn random_signs_are_answered(source in "[ \\n\\r\\t;,(){}\\[\\]<>!?:=.a-c0-2\"'`/*+$@#\\\\é😀\u{2028}-]{0,40}") {
        check(&source);
    }

    #[test]
    fn pieces_of_programs_are_answered(pieces in proptest::collection::vec(piece(), 1..5)) {
        check(&pieces.concat());
    }

    #[test]
    fn programs_with_a_piece_replaced_are_answered(source in spliced()) {
        check(&source);
    }
}

#[test]
fn the_programs_themselves_are_answered() {
    for program in PROGRAMS {
        check(program);
        assert!(prepare(program, Language::TypeScript).is_ok(), "{program}");
    }
    for program in &PROGRAMS[..4] {
        assert!(prepare(program, Language::JavaScript).is_ok(), "{program}");
    }
}
