//! The value of a program: what it returns, or else its last expression.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_source::{Language, prepare, typescript_preparations};

fn check(source: &str, language: Language, expected: &str) {
    let prepared = prepare(source, language).unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(prepared.text, expected, "{source}");
    assert_eq!(prepared.map.is_identity(), source == expected || source.len() == expected.len(), "{source}");
}

#[test]
fn the_last_expression_is_the_value() {
    for (source, expected) in [
        ("1", "return[(1)]"),
        ("a; b", "a;;return[( b)]"),
        ("a\nb", "a;return[(\nb)]"),
        ("a;b;", "a;;return[(b)];"),
        ("foo();;", "return[(foo())];;"),
        ("foo() // why\n", "return[(foo())] // why\n"),
        ("foo() // why\nbar() // and", "foo();return[( // why\nbar())] // and"),
        ("let a = 1\n\n/* the\nresult */\na\n", "let a = 1;return[(\n\n/* the\nresult */\na)]\n"),
        ("// first\nfoo()", "// first\nreturn[(foo())]"),
        ("if (a) b()\nc", "if (a) b();return[(\nc)]"),
        ("function f() {}\nf()", "function f() {};return[(\nf())]"),
        ("function f() { return 1 }\nf()", "function f() { return 1 };return[(\nf())]"),
        ("const f = () => { return 1 }\nf()", "const f = () => { return 1 };return[(\nf())]"),
        ("class A { m() { return 1 } }\nnew A()", "class A { m() { return 1 } };return[(\nnew A())]"),
        ("{}\n(1)", "{};return[(\n(1))]"),
        ("a, b", "return[(a, b)]"),
        ("({ a: 1 })", "return[(({ a: 1 }))]"),
        ("await f()", "return[(await f())]"),
        ("x => x", "return[(x => x)]"),
        ("`a${b}`", "return[(`a${b}`)]"),
        ("`a\n${b}\nc`", "return[(`a\n${b}\nc`)]"),
        ("a = 1", "return[(a = 1)]"),
        ("\"hello\"", "return[(\"hello\")]"),
        ("'a'\n'b';", "'a';return[(\n'b')];"),
        ("\"use strict\"", "return[(\"use strict\")]"),
        ("\"use strict\"\nx", "\"use strict\";return[(\nx)]"),
        ("\u{feff}1", "\u{feff}return[(1)]"),
        ("a\r\nb\r\n", "a;return[(\r\nb)]\r\n"),
        ("<!-- c\nx", "<!-- c\nreturn[(x)]"),
        ("--> c\nx", "--> c\nreturn[(x)]"),
        ("010 + '\\01'", "return[(010 + '\\01')]"),
        ("arguments", "return[(arguments)]"),
    ] {
        check(source, Language::JavaScript, expected);
    }
}

#[test]
fn other_programs_stay_as_they_are() {
    for source in [
        "",
        "\n",
        ";",
        "// only a comment",
        "return 1",
        "if (a) return 1; b",
        "for (;;) { return 1 }\nb",
        "try { return 1 } finally {}\nb",
        "const a = 1",
        "{ 1 }",
        "if (a) { b }",
        "function f() {}",
        "class A {}",
        "for await (const a of b) a()",
        "with (a) b",
        "label: a",
        "throw a",
        "a: { b }",
    ] {
        check(source, Language::JavaScript, source);
    }
}

#[test]
fn the_last_expression_of_typescript_is_the_value() {
    for (source, expected) in [
        ("f<number>(1)", "return[(f        (1))]"),
        ("let a: A = 1\na as any", "let a    = 1;return[(\na       )]"),
        ("let a: A\na!", "let a  ;;return[(\na )]"),
        ("<any>a", "return[((    a))]"),
        ("a\n<b>c", "return[(a\n<b>c)]"),
        ("a as number ** 2", "return[((a          ) ** 2)]"),
        ("f()\ntype A = string", "return[(f())]\n;              "),
        ("type A = string\nf()\ninterface B {}", ";              ;return[(\nf())]\n;             "),
        ("enum A { B };A.B", "var A;{const $0=A||(A={});{         const B=0;$0[$0[\"B\"]=B]=\"B\" }};;return[(A.B)]"),
    ] {
        check(source, Language::TypeScript, expected);
    }
    check("a\nenum A {}", Language::TypeScript, "a\nvar A;{const $0=A||(A={});{        }}");
    check("namespace A { type B = string }", Language::TypeScript, ";                              ");
}

#[test]
fn javascript_is_never_treated_as_typescript() {
    let before = typescript_preparations();
    // Other tests of this process prepare TypeScript at the same time, so this one asks until none did.
    let quiet = (0..1000).any(|_| {
        let before = typescript_preparations();
        prepare("const a = 1; a", Language::JavaScript).unwrap();
        typescript_preparations() == before
    });
    assert!(quiet);
    prepare("const a: number = 1; a", Language::TypeScript).unwrap();
    assert!(typescript_preparations() > before);
}
