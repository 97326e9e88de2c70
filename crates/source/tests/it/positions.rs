//! Positions: where an error is, how it is shown, and the way back from the prepared text.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_source::{Language, Position, PositionMap, SourceError, excerpt, prepare};

fn position(line: u32, column: u32) -> Position {
    Position { line, column }
}

/// Fails unless `word`, which stands once in both texts, is found at its position in `source`.
fn check(source: &str, language: Language, words: &[&str]) {
    let prepared = prepare(source, language).unwrap_or_else(|error| panic!("{source}: {error}"));
    for word in words {
        let found = prepared.map.original(place_of(&prepared.text, word));
        assert_eq!(found, place_of(source, word), "{word} in {}", prepared.text);
    }
}

fn place_of(text: &str, word: &str) -> Position {
    let at = text.find(word).unwrap_or_else(|| panic!("{word} is not in {text}"));
    let start = text[..at].rfind('\n').map_or(0, |before| before + 1);
    position(1 + text[..at].matches('\n').count() as u32, 1 + text[start..at].encode_utf16().count() as u32)
}

#[test]
fn everything_that_is_left_is_found_again() {
    check("first", Language::JavaScript, &["first"]);
    check("first; second(third)", Language::JavaScript, &["first", "second", "third"]);
    check("first\nsecond(third)\n// fourth", Language::JavaScript, &["first", "second", "third", "fourth"]);
    check("'😀'; first", Language::JavaScript, &["first"]);
    check("let first: A = <B>second + <C>third; fourth", Language::TypeScript, &["first", "second", "third", "fourth"]);
    check("const 变: 类型 = <类>first; second", Language::TypeScript, &["first", "second"]);
    check("/* 😀 */ enum E { A = first(), B }; second; third", Language::TypeScript, &["first", "second", "third"]);
    check(
        "namespace A.B { export let c = first }; second\nclass D { constructor(private x = third) { fourth } }\nfifth",
        Language::TypeScript,
        &["first", "second", "third", "fourth", "fifth"],
    );
    check(
        "let a = 1\r\nlet b = <any>first; second\r\nthird; fourth",
        Language::TypeScript,
        &["first", "second", "third", "fourth"],
    );
}

#[test]
fn what_was_put_in_means_what_is_behind_it() {
    let prepared = prepare("a; b", Language::JavaScript).unwrap();
    assert_eq!(prepared.text, "a;;return[( b)]");
    let columns: Vec<u32> = (1..=15).map(|column| prepared.map.original(position(1, column)).column).collect();
    assert_eq!(columns, [1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5, 5]);
    assert_eq!(prepared.map.original(position(7, 3)), position(7, 3));
}

#[test]
fn a_map_is_short_when_stored() {
    let map = prepare("a; b", Language::JavaScript).unwrap().map;
    let stored = serde_json::to_string(&map).unwrap();
    assert_eq!(stored, "[[1,3,9],[1,14,2]]");
    assert_eq!(serde_json::from_str::<PositionMap>(&stored).unwrap(), map);
    assert_eq!(serde_json::to_string(&PositionMap::default()).unwrap(), "[]");
    assert!(PositionMap::default().is_identity() && !map.is_identity());
}

#[test]
fn a_stored_map_that_was_tampered_with_does_no_harm() {
    let map: PositionMap = serde_json::from_str("[[1,5,4294967295],[1,1,4294967295],[0,0,9]]").unwrap();
    for line in [0, 1, 2] {
        for column in [0, 1, 6, u32::MAX] {
            map.original(position(line, column));
        }
    }
}

#[test]
fn errors_have_a_place() {
    for (source, line, column, message) in [
        ("let x = ;", 1, 9, "unexpected token"),
        ("a\nb c", 2, 2, "expected a semicolon or an implicit semicolon after a statement, but found none"),
        ("f(a", 1, 4, "expected `,` or `)` but found the end of the program"),
        ("f(a\n\n", 3, 1, "expected `,` or `)` but found the end of the program"),
        ("let a =", 1, 8, "unexpected end of the program"),
        ("'😀' + ;", 1, 8, "unexpected token"),
        ("a\r\n\u{2028}\r)", 4, 1, "unexpected token"),
        ("\"abc", 1, 1, "unterminated string"),
        ("} evil(); {", 1, 1, "unexpected `}`"),
        ("a();\n}\nasync function b() {", 2, 1, "unexpected `}`"),
        ("}); evil(); (async () => {", 1, 2, "unexpected token"),
    ] {
        let Err(SourceError::Syntax(error)) = prepare(source, Language::JavaScript) else { panic!("{source}") };
        assert_eq!((error.position, error.message.as_str()), (Some(position(line, column)), message), "{source}");
        let Err(SourceError::TypeScript(same)) = prepare(source, Language::TypeScript) else { panic!("{source}") };
        assert_eq!(same.position, error.position, "{source}");
    }
}

#[test]
fn errors_are_shown_with_their_line() {
    let error = prepare("let a = 1\nlet x = ;", Language::JavaScript).unwrap_err();
    assert_eq!(error.to_string(), "unexpected token (line 2, column 9)\n  2 | let x = ;\n    |         ^");
}

#[test]
fn excerpts_point_at_the_column() {
    for (source, line, column, expected) in [
        ("a b", 1, 3, "\n  1 | a b\n    |   ^"),
        ("a b", 1, 1, "\n  1 | a b\n    | ^"),
        ("a b", 1, 99, "\n  1 | a b\n    |    ^"),
        ("\ta\tb", 1, 4, "\n  1 | \ta\tb\n    | \t \t^"),
        ("a\r\nb\r\n", 2, 1, "\n  2 | b\n    | ^"),
        ("a\rb", 2, 1, "\n  2 | b\n    | ^"),
        ("a\u{2028}b\u{2029}c", 3, 1, "\n  3 | c\n    | ^"),
        ("'😀' x", 1, 6, "\n  1 | '😀' x\n    |     ^"),
        ("a\n", 2, 1, "\n  2 | \n    | ^"),
        ("a\u{1b}[31m", 1, 1, "\n  1 | a\u{fffd}[31m\n    | ^"),
        ("a", 2, 1, ""),
        ("a", 0, 0, ""),
    ] {
        assert_eq!(excerpt(source, position(line, column)), expected, "{source:?}");
    }
    let lines = "x\n".repeat(11);
    assert_eq!(excerpt(&lines, position(11, 1)), "\n  11 | x\n     | ^");
}

#[test]
fn long_lines_are_shown_around_the_column() {
    let line = format!("{}!{}", "a".repeat(500), "b".repeat(500));
    let shown = excerpt(&line, position(1, 501));
    let expected = format!("\n  1 | …{}!{}…\n    | {}^", "a".repeat(60), "b".repeat(59), " ".repeat(61));
    assert_eq!(shown, expected);
    assert_eq!(excerpt(&line, position(1, 1)), format!("\n  1 | {}…\n    | ^", "a".repeat(60)));
    assert_eq!(excerpt(&line, position(1, 1001)), format!("\n  1 | …{}\n    | {}^", "b".repeat(61), " ".repeat(61)));
}
