//! Texts of a megabyte that are made to break a parser: an answer comes, soon, and on a small stack.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use pincer_source::{Language, SourceError, prepare};
use proptest::prelude::*;

const SIZE: usize = 1 << 20;

/// What is fast enough for a machine that does something else as well, without optimisation.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum Outcome {
    Runs,
    TooDeep,
    Refused,
}

/// Prepares a text of about a megabyte, on a stack of 2 MiB: `open` and `close` as often as they fit around `middle`.
fn outcome(open: &str, middle: &str, close: &str, language: Language) -> Outcome {
    let times = SIZE / (open.len() + close.len());
    let text = format!("{}{middle}{}", open.repeat(times), close.repeat(times));
    prepared(text, language)
}

fn prepared(text: String, language: Language) -> Outcome {
    let what: String = text.chars().take(30).collect();
    let start = Instant::now();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || prepare(&text, language));
    let outcome = match thread.unwrap().join().unwrap() {
        Ok(_) => Outcome::Runs,
        Err(SourceError::Syntax(error) | SourceError::TypeScript(error)) if error.message.contains("too deep") => {
            Outcome::TooDeep
        }
        Err(_) => Outcome::Refused,
    };
    assert!(start.elapsed() < PATIENCE, "{what}… took {:?}", start.elapsed());
    outcome
}

fn check(cases: &[(&str, &str, &str)], languages: &[Language], expected: Outcome) {
    for (open, middle, close) in cases {
        for language in languages {
            assert_eq!(outcome(open, middle, close, *language), expected, "{open} {language:?}");
        }
    }
}

const BOTH: [Language; 2] = [Language::JavaScript, Language::TypeScript];

#[test]
fn deep_brackets_are_refused() {
    check(
        &[
            ("(", "1", ")"),
            ("[", "1", "]"),
            ("{", "", "}"),
            ("f(", "1", ")"),
            ("a[", "1", "]"),
            ("({a:", "1", "})"),
            ("`${", "1", "}`"),
            ("f(function(){", "", "})"),
            ("f(async()=>{", "", "})"),
            ("(a=", "1", ")"),
            ("(", "", ""),
            ("[", "", ""),
            ("{", "", ""),
            ("`${", "", ""),
        ],
        &BOTH,
        Outcome::TooDeep,
    );
}

#[test]
fn deep_prefixes_are_refused() {
    check(
        &[
            ("!", "1", ""),
            ("- ", "1", ""),
            ("typeof ", "1", ""),
            ("await\n", "1", ""),
            ("new ", "a", ""),
            ("a=", "1", ""),
            ("a=>", "1", ""),
            ("async a=>", "1", ""),
            ("a**", "1", ""),
            ("a?b:", "1", ""),
            ("a?", "1", ":b"),
            ("if(a)", "b", ""),
            ("if(a)\n", "b", ""),
            ("a?.1:", "b", ""),
            ("if(a){}else ", "b", ""),
            ("if(a)b;else ", "b", ""),
            ("for(;;)", "b", ""),
            ("while(a)", "b", ""),
            ("do ", "b", " while(1);"),
            ("a:", "b", ""),
            ("class extends ", "a", "{}"),
            ("with(a)", "b", ""),
        ],
        &BOTH,
        Outcome::TooDeep,
    );
}

#[test]
fn deep_types_are_refused() {
    check(
        &[
            ("f<", "T", ">"),
            ("f<", "1", ""),
            ("a<b|", "1", ""),
            ("<T>", "x", ""),
            ("x as (", "T", ")"),
            ("x<keyof\n", "T", ""),
            ("let x:keyof ", "T", ""),
            ("let x:()=>", "T", ""),
            ("type A=B extends C?D:", "T", ""),
            ("namespace a{", "export let x", "}"),
        ],
        &[Language::TypeScript],
        Outcome::TooDeep,
    );
    for (head, unit, tail) in [
        ("let x:", "keyof ", "T"),
        ("let x:", "()=>", "T"),
        ("let x:", "(", "T"),
        ("let x:", "[", "T"),
        ("let x:", "A<", "T"),
        ("let x:", "{a:", "T"),
        ("let x:", "A extends B?C:", "T"),
        ("let x:", "`${", "T"),
        ("let x:", "readonly\n", "T"),
        ("namespace ", "a.", "a{export let x}"),
        ("module ", "a . ", "a{}"),
    ] {
        let text = format!("{head}{}{tail}", unit.repeat(SIZE / unit.len()));
        assert_eq!(prepared(text, Language::TypeScript), Outcome::TooDeep, "{head}{unit}");
    }
}

#[test]
fn long_chains_run() {
    check(
        &[
            ("a+", "1", ""),
            ("a&&", "1", ""),
            ("a,", "1", ""),
            ("a\n", "1", ""),
            ("a;", "1", ""),
            ("x", "", ""),
            ("'a'+\n", "''", ""),
            ("/* ( */", "1", ""),
            ("'('+", "''", ""),
            ("/[(]/,", "1", ""),
            ("if(a){b}\n", "1", ""),
            ("a=b\n", "1", ""),
            ("a=b;", "1", ""),
            ("f(x=>y,{a:b})\n", "1", ""),
            ("const f=a=>b;", "1", ""),
            ("", "a", ".a"),
            ("", "a", "()"),
            ("", "a", "[0]"),
            ("", "a", "``"),
            ("", "a", "?.b"),
            ("", "a", "+(b)"),
        ],
        &BOTH,
        Outcome::Runs,
    );
    check(
        &[
            ("", "a", "!"),
            ("", "a", " as b"),
            ("let x:A;", "", ""),
            ("let x:A<B>\n", "", ""),
            ("", "let x:A", "[]"),
            ("", "let x:A", "|B"),
            ("", "let x:A", ".b"),
            ("enum A{}", "", ""),
            ("enum A{b,c}", "", ""),
            ("interface A{b:c}", "", ""),
        ],
        &[Language::TypeScript],
        Outcome::Runs,
    );
}

#[test]
fn many_merged_declarations_do_not_grow_without_bounds() {
    for unit in ["namespace A{export let b%}", "enum A{b%}"] {
        let text: String = (0..SIZE / 32).map(|n| unit.replace('%', &n.to_string())).collect();
        assert_eq!(prepared(text, Language::TypeScript), Outcome::Refused, "{unit}");
    }
}

#[test]
fn ordinary_depth_runs_on_an_ordinary_stack() {
    for (open, middle, close, deepest) in [
        ("(", "1", ")", 1900),
        ("[", "1", "]", 1900),
        ("f(", "1", ")", 1900),
        ("x=>", "1", "", 1900),
        ("!", "1", "", 1900),
        ("a?", "1", ":b", 900),
        ("{", "", "}", 1900),
        ("`${", "1", "}`", 1900),
        ("({a:", "1", "})", 600),
        ("f(function(){", "", "})", 600),
        ("if(a)", "b", "", 1900),
        ("(a||b&&c|d^e&f==g<h<<i+j*", "1", ")", 400),
    ] {
        for depth in [10, 20, 31, 63, 64, 65, 200, 600, 900, 1900] {
            for language in BOTH {
                if depth <= deepest {
                    let text = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
                    assert_eq!(prepared(text, language), Outcome::Runs, "{open} {depth}");
                }
            }
        }
    }
}

#[test]
fn brackets_in_what_may_be_a_regular_expression_are_not_overlooked() {
    // Whether `/` divides or begins a regular expression decides about everything behind it.
    for head in [
        "{}/'/;",
        "{}\n/'/;",
        "x={}/'/;",
        "async()=>{await/'/;}",
        "a:for(;;){break\n/'/;}",
        "a:for(;;){break a\n/'/;}",
        "import 'a'\n/'/;",
        "import a from 'a'\n/'/;",
        "a\n/'/;",
        "x++/'/;'';",
        "a!/'/;''",
        "type A=B\n/'/;",
        "if(a)/'/;",
        "for await(a of b)/'/;",
        "x=a=>/'/;",
        "do/'/;while(1);",
        "!/'/;",
        "as/'/;'';",
        "let x:A<B>/'/;",
        "<a>/'/;",
        "`${/'/}`;",
        "a\\u0062/'/;'';",
        "return\u{a0}/'/;",
        "return/*\n*//'/;",
        "<!-- '\n",
        "/**/-->'\n",
        "'\\\r\n';",
        "#!/'\n",
        "/[/']/;",
        "/\\/'/;",
        "1./'/;'';",
    ] {
        let text = format!("{head}{}", "(".repeat(SIZE));
        for language in BOTH {
            assert_ne!(prepared(text.clone(), language), Outcome::Runs, "{head}");
        }
    }
}

#[test]
fn brackets_in_strings_do_not_count_whatever_a_slash_before_them_is() {
    let brackets = "([{<?=!~".repeat(2000);
    for head in [
        "if (a) {}\n/'/.test(b);",
        "x = {} / 'a' / ",
        "x = {}\n/ 2 /",
        "async () => { await /'/ };",
        "let of = 1; x = of / 2 / ",
        "let as = 1; x = as /'a'/ ",
        "a: for (;;) { break a\n/'/.test(b) }",
        "x = a\n/ 'a' / ",
        "x = a / 2; `${{}/ 'a' / 2}`;",
        "function f() {}\n/['/]'/.test(b);",
        "if (a) {}\n/'/; {}\n/\"/; {}\n/`/;",
    ] {
        for quote in ["'", "\"", "`", "/*"] {
            let end = if quote == "/*" { "*/ 1" } else { quote };
            let text = format!("{head}{quote}{brackets}{end}");
            for language in BOTH {
                assert_eq!(prepared(text.clone(), language), Outcome::Runs, "{head}{quote} {language:?}");
            }
        }
    }
    for head in ["let x = a!\n/ 'a' / ", "type A = B\n/'/.test(b);", "let x: A<B> = 1; x /'a'/ "] {
        let text = format!("{head}'{brackets}'");
        assert_eq!(prepared(text, Language::TypeScript), Outcome::Runs, "{head}");
    }
    // Also where the text is deep already, and where the parser is asked many times.
    let deep = format!("{}{{}}{}\n/ 'a' / '{brackets}'", "(".repeat(1000), ")".repeat(1000));
    assert_eq!(prepared(deep, Language::TypeScript), Outcome::Runs);
    let often = format!("{}'{brackets}'", "{} /'/;\n".repeat(500));
    assert_eq!(prepared(often, Language::JavaScript), Outcome::Runs);
}

const TOKENS: [&str; 120] = [
    "if(a)",
    "if(a)b",
    "else ",
    "for(;;)",
    "while(a)",
    "(a)",
    "(a)=>",
    "a=>",
    "a=",
    "a:",
    "a?b:",
    "{}",
    "[]",
    "f()",
    "a.b",
    "function(){",
    "()=>{",
    "class A{",
    "A<B>",
    ":A",
    "<A>",
    "\n\n",
    "a",
    "b",
    "1",
    "1.",
    ".5",
    "'s'",
    "`t`",
    "`${",
    "}`",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "/",
    "/r/",
    ";",
    ",",
    ".",
    "?.",
    "?",
    ":",
    "=",
    "=>",
    "==",
    "+",
    "-",
    "++",
    "!",
    "~",
    "*",
    "**",
    "&&",
    "??",
    "...",
    "#a",
    "@a",
    "\n",
    " ",
    " ",
    "//c\n",
    "/*c*/",
    "<!--",
    "-->",
    "if",
    "else",
    "for",
    "while",
    "do",
    "with",
    "switch",
    "case",
    "default",
    "try",
    "catch",
    "finally",
    "throw",
    "return",
    "break",
    "continue",
    "function",
    "async",
    "await",
    "yield",
    "class",
    "extends",
    "new",
    "typeof",
    "void",
    "delete",
    "in",
    "of",
    "instanceof",
    "let",
    "const",
    "var",
    "import",
    "export",
    "from",
    "this",
    "super",
    "get",
    "static",
    "as",
    "satisfies",
    "is",
    "keyof",
    "infer",
    "readonly",
    "type",
    "interface",
    "enum",
    "namespace",
    "abstract",
    "declare",
];

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn whatever_is_repeated_is_answered(
        head in proptest::collection::vec(proptest::sample::select(&TOKENS[..]), 0..6),
        unit in proptest::collection::vec(proptest::sample::select(&TOKENS[..]), 1..7),
        spaced in any::<bool>(),
    ) {
        let space = if spaced { " " } else { "" };
        let (head, unit) = (head.join(space), unit.join(space) + space);
        let text = format!("{head} {}", unit.repeat(SIZE / 4 / unit.len()));
        for language in BOTH {
            prepared(text.clone(), language);
        }
    }
}
