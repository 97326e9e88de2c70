//! TypeScript becomes JavaScript: types turn into spaces, the rest is written out on the same lines.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_source::{Language, SourceError, prepare};

/// Erased text keeps its position. `·` stands for a space in `expected`.
fn check_erased(source: &str, expected: &str) {
    let prepared = prepare(source, Language::TypeScript).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(prepared.text, expected.replace('·', " "), "{source}");
    assert_eq!(prepared.text.encode_utf16().count(), source.encode_utf16().count(), "{source}");
    assert!(prepared.map.is_identity(), "{source}");
}

/// What is written out keeps its lines.
fn check_written(source: &str, expected: &str) {
    let prepared = prepare(source, Language::TypeScript).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(prepared.text, expected, "{source}");
    assert_eq!(prepared.text.lines().count(), source.lines().count(), "{source}");
}

fn check_refused(source: &str, expected: &str) {
    match prepare(source, Language::TypeScript) {
        Err(SourceError::TypeScript(error)) => assert!(error.message.contains(expected), "{source}: {error}"),
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn annotations_are_erased() {
    for (source, expected) in [
        ("let a: number = 1;", "let a········ = 1;"),
        ("let a: A, b: B;", "let a···, b···;"),
        ("let a!: number;", "let a·········;"),
        ("function f(a: A, b?: B, ...c: C[]): D {}", "function f(a···, b····, ...c·····)··· {}"),
        ("function f(a?) {}", "function f(a·) {}"),
        ("function f({ a, b }: { a: A, b: B }) {}", "function f({ a, b }················) {}"),
        ("function f<T extends A = B>(a: T) {}", "function f·················(a···) {}"),
        ("function f(this: A, b) {}", "function f(·········b) {}"),
        ("function f(this: A) {}", "function f(·······) {}"),
        ("function f(this: A,) {}", "function f(········) {}"),
        ("function f(a): a is string {}", "function f(a)············· {}"),
        ("function f(a): asserts a {}", "function f(a)··········· {}"),
        ("const f = (a: A): B => a;", "const f = (a···)··· => a;"),
        ("const f = <T,>(a: T) => a;", "const f = ····(a···) => a;"),
        ("const f = async <T>(a: T) => a;", "const f = async ···(a···) => a;"),
        ("try {} catch (e: unknown) {}", "try {} catch (e·········) {}"),
        ("for (const a: A of b) {}", "for (const a··· of b) {}"),
        ("for (let a: A = 0 as A;;) {}", "for (let a··· = 0·····;;) {}"),
    ] {
        check_erased(source, expected);
    }
}

#[test]
fn casts_and_arguments_are_erased() {
    for (source, expected) in [
        ("let a = b as C;", "let a = b·····;"),
        ("let a = b as const;", "let a = b·········;"),
        ("let a = b satisfies C;", "let a = b············;"),
        ("let a = b!.c!;", "let a = b·.c·;"),
        ("let a = b as C as D;", "let a = b··········;"),
        ("let a = b /* c */ as D;", "let a = b /* c */ ····;"),
        ("let a = f<A>(b);", "let a = f···(b);"),
        ("let a = f?.<A>(b);", "let a = f?.···(b);"),
        ("let a = new F<A, B>;", "let a = new F······;"),
        ("let a = f<A>`b`;", "let a = f···`b`;"),
        ("let a = f<A>;", "let a = f···;"),
        ("let a = b ? (c as D) : e;", "let a = b ? (c·····) : e;"),
        ("let a = `${b as C}`;", "let a = `${b·····}`;"),
    ] {
        check_erased(source, expected);
    }
    check_written("for (a as B of c) {}", ";0+0;for (a      of c) {}");
    check_written("const { a }: B = c;", ";0+0;const { a }    = c;");
    check_written("let a = <B>c;", "let a = (  c);");
    check_written("let a = <B><C>d;", "let a = (  (  d));");
    check_written("let a = () => <B>{};", "let a = () => (  {});");
}

#[test]
fn declarations_are_erased() {
    for (source, expected) in [
        ("type A = string;", ";···············"),
        ("interface A { b: C }", ";···················"),
        ("declare const a: A;", ";··················"),
        ("declare function f(): A;", ";·······················"),
        ("declare class A { b: C }", ";·······················"),
        ("declare module 'a' { }", ";·····················"),
        ("declare global { }", ";·················"),
        ("declare enum A { B }", ";···················"),
        ("namespace A { type B = C }", ";·························"),
        ("function f(): A; function f() {}", ";··············· function f() {}"),
        ("type A = {\n  b: C\n}\nlet a", ";·········\n······\n·\nlet a"),
        ("let type = 1, declare = 2, as = 3, of = 4", "let type = 1, declare = 2, as = 3, of = 4"),
        ("const 变量: 类型 = 1; type 类型 = '😀'", "const 变量···· = 1; ;·············"),
    ] {
        check_erased(source, expected);
    }
}

#[test]
fn classes_lose_what_only_types_need() {
    for (source, expected) in [
        ("class A<T> extends B<T> implements C, D<T> {}", "class A··· extends B··· ·················· {}"),
        ("abstract class A { abstract b(): C; abstract d: E }", "········ class A { ;··············· ;············ }"),
        ("class A { private b: C = 1; readonly d?: E }", "class A { ;······ b··· = 1; ;······· d···; }"),
        ("class A { static readonly b: C }", "class A { static ········ b··; }"),
        ("class A { public static async b() {} }", "class A { ;····· static async b() {} }"),
        ("class A { declare b: C; [k: string]: D }", "class A { ;············ ;············· }"),
        ("class A { b?(): C {} ['d']?: E }", "class A { b·()··· {} ['d']···; }"),
        ("class A { b(): C; b(): D {} }", "class A { ;······ b()··· {} }"),
        ("class A { constructor(b: C); constructor(b) {} }", "class A { ;················· constructor(b) {} }"),
        ("class A { get b(): C { return 1 } set b(c: C) {} }", "class A { get b()··· { return 1 } set b(c···) {} }"),
        ("class A { override b() {} protected *c() {} }", "class A { ;······· b() {} ;········ *c() {} }"),
        ("class A { public = 1; readonly; static static }", "class A { public = 1; readonly; static static }"),
    ] {
        check_erased(source, expected);
    }
}

#[test]
fn lines_do_not_join_where_types_were() {
    for (source, expected) in [
        ("let a: A\n(b)\nlet c", "let a··;\n(b)\nlet c"),
        ("let a = b as C\n[d]\nlet e", "let a = b····;\n[d]\nlet e"),
        ("let a = b as 型\n`c`\nlet e", "let a = b····;\n`c`\nlet e"),
        ("let a = b as 𠮷\n`c`\nlet e", "let a = b····; \n`c`\nlet e"),
        ("let a = f<B>\nlet c", "let a = f··;\nlet c"),
        ("let a = () => b as C\n(d)\nlet e", "let a = () => b····;\n(d)\nlet e"),
        ("type A = B\n(c)\nlet d", ";·········\n(c)\nlet d"),
        ("if (a) b as C\nelse d as E\nlet f", "if (a) b····;\nelse d····;\nlet f"),
        ("class A { b: C\n['d'] = 1 }", "class A { b··;\n['d'] = 1 }"),
        ("class A { b\npublic ['d'] = 1 }", "class A { b\n;····· ['d'] = 1 }"),
        ("class A { b = c as D\n['e']() {} }", "class A { b = c····;\n['e']() {} }"),
        ("class A { get?: B\nc() {} }", "class A { get···;\nc() {} }"),
        ("let f = (a): {\n} => a;", "let f = (a ···\n) => a;"),
        ("let f = (a)\n: B => a;", "let f = (a·\n··) => a;"),
        ("let f = async <\nA\n>(a) => a;", "let f = async (\n·\n··a) => a;"),
        ("function f() { return <\nA\n>(a) => a }", "function f() { return (\n·\n··a) => a }"),
    ] {
        check_erased(source, expected);
    }
    check_written("function f() { return <\nA\n>b }", "function f() { return (\n \n b) }");
}

#[test]
fn enums_are_written_out() {
    check_written(
        "enum A {\n  B,\n  C = 5,\n  D,\n}",
        "var A;{const $0=A||(A={});{        \n  const B=0;$0[$0[\"B\"]=B]=\"B\";\n  const C = 5;$0[$0[\"C\"]=C]=\"C\";\n  \
         const D=C+1;$0[$0[\"D\"]=D]=\"D\";\n}}",
    );
    check_written(
        "const enum A { B = 'b', C = B }",
        "var A;{const $0=A||(A={});{               const B = 'b';$0[\"B\"]=B; \
         const C = B;if(typeof($0[\"C\"]=C)!=\"string\")$0[C]=\"C\" }}",
    );
    check_written(
        "enum A { new, 'b-c' }",
        "var A;{const $0=A||(A={});{         $0[\"new\"]   =0;$0[$0[\"new\"]]=\"new\"; \
         $0[\"b-c\"]     =$0[\"new\"]+1;$0[$0[\"b-c\"]]=\"b-c\" }}",
    );
    // The second one goes on with the same object, and knows the members of the first.
    check_written(
        "enum A { B } enum A { C = B }",
        "var A;{const $0=A||(A={});const C=$0[\"C\"];{         const B=0;$0[$0[\"B\"]=B]=\"B\" }} \
         ;{const $1=A||(A={});const B=$1[\"B\"];{         const C = B;if(typeof($1[\"C\"]=C)!=\"string\")$1[C]=\"C\" }}",
    );
    check_written("{ enum A {} }", "{ let A;{const $0=A||(A={});{        }} }");
    check_written("$0; enum A {}", "$0; var A;{const $1=A||(A={});{        }}");
}

#[test]
fn namespaces_are_written_out() {
    check_written(
        "namespace A {\n  export let b: B = 1;\n}",
        "var A;(function($0){Object.defineProperties($0,{[\"b\"]:{enumerable:true,configurable:true,get(){return b},\
         set($0v){b=$0v}},});             \n         let b    = 1;\n})(A||(A={}));",
    );
    check_written(
        "namespace A.B { export const c = 1 }",
        "var A;(function($0){var B=$0[\"B\"];Object.defineProperties($0,{[\"B\"]:{enumerable:true,configurable:true,\
         get(){return B},set($0v){B=$0v}},});(function($1){Object.defineProperties($1,{[\"c\"]:{enumerable:true,\
         configurable:true,get(){return c}},});                       const c = 1 })(B||(B={}));})(A||(A={}));",
    );
    check_written("namespace A { b() }", "var A;(function($0){              b() })(A||(A={}));");
    check_written("class A {} namespace A { b() }", "class A {} ;(function($0){              b() })(A||(A={}));");
    let merged = prepare("namespace A { export let b = 1 } namespace A { export let c = b }", Language::TypeScript);
    assert!(merged.unwrap().text.contains("with({__proto__:null,get [\"b\"]()"));
}

#[test]
fn parameter_properties_are_written_out() {
    check_written(
        "class A { constructor(private b: B, readonly c = 1, d) { e() } }",
        "class A {b;c; constructor(        b   ,          c = 1, d) {;this.b=b;this.c=c; e() } }",
    );
    check_written(
        "class A extends B { constructor(public c) { d(); super(c)\ne() } }",
        "class A extends B {c; constructor(       c) { d(); 0+0,super(c);this.c=c;\ne() } }",
    );
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (source, expected) in [
        ("@a class B {}", "decorators are not supported"),
        ("class A { @b c }", "decorators are not supported"),
        ("class A { constructor(@b c) {} }", "decorators are not supported"),
        ("class A { accessor b = 1 }", "`accessor` fields are not supported"),
        ("namespace A { export const b = 1 } import c = A.b", "`import … = …` is not supported"),
        ("class A extends B { constructor(private c) { f(super()) } }", "need `super(…)`"),
        ("'use strict'; namespace A { export let b = 1 } namespace A { export let c = b }", "strict"),
        ("function f() { 'use strict'; enum A { B } namespace A { export let c = B } }", "strict"),
        ("class C { m() { enum A { B } namespace A { export let c = B } } }", "strict"),
        ("let a = <div>b</div>", ""),
        ("let a: = 1", "unexpected token"),
        ("interface A { b: }", "unexpected token"),
        ("enum A { B = await c }", "await"),
    ] {
        check_refused(source, expected);
    }
}
