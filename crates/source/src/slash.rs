//! Decides what a `/` means where only the parser can tell.

use oxc_allocator::Allocator;

use crate::Language;
use crate::parse::Wrapped;
use crate::position::is_line_break;

/// The meaning of a `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slash {
    Divides,
    BeginsRegex,
}

/// Whether the line ends before a regular expression that begins with `text` does. The parser goes no further than that.
pub(crate) fn is_unterminated(text: &str) -> bool {
    let mut in_class = false;
    let mut characters = text.chars().skip(1);
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters.next().is_none_or(is_line_break) => return true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return false,
            c if is_line_break(c) => return true,
            _ => {}
        }
    }
    true
}

/// The text that the parser is given behind the program's: a regular expression, or a bracket where an operand should be.
const PROBE: &str = "/)/";

/// Asks the parser about the `/` behind `before`. `None` if it does not get there.
pub(crate) fn ask(before: &str, language: Language) -> Option<Slash> {
    let wrapped = Wrapped::new(&[before, PROBE].concat());
    let at = wrapped.start() + before.len() as u32;
    let allocator = Allocator::default();
    let parsed = wrapped.parse(&allocator, language);
    let first = parsed.error_places().filter(|position| *position > at).min();
    match first {
        Some(position) if position == at + 1 => Some(Slash::Divides),
        // The text ends in the middle of something, or it is complete.
        Some(_) => Some(Slash::BeginsRegex),
        None if parsed.error_places().next().is_none() => Some(Slash::BeginsRegex),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_tells_what_a_slash_does() {
        for (before, expected) in [
            ("{}", Slash::BeginsRegex),
            ("x = {}", Slash::Divides),
            ("x = {}\n", Slash::Divides),
            ("if (a) {}\n", Slash::BeginsRegex),
            ("x = function () {}", Slash::Divides),
            ("function f() {}", Slash::BeginsRegex),
            ("await", Slash::BeginsRegex),
            ("x = async () => { await ", Slash::BeginsRegex),
            ("let of = 1; of ", Slash::Divides),
            ("for (const a of ", Slash::BeginsRegex),
            ("a: for (;;) { break a\n", Slash::BeginsRegex),
            ("x = `${a}` + {}", Slash::Divides),
            ("(a, b = {}", Slash::Divides),
            ("class A {}", Slash::BeginsRegex),
            ("x = class {}", Slash::Divides),
        ] {
            assert_eq!(ask(before, Language::JavaScript), Some(expected), "{before}");
            assert_eq!(ask(before, Language::TypeScript), Some(expected), "{before}");
        }
        for (before, expected) in [
            ("type A = B\n", Slash::BeginsRegex),
            ("let x = a\n", Slash::Divides),
            ("let x = a!", Slash::Divides),
            ("let x = a as B\n", Slash::Divides),
            ("<A>", Slash::BeginsRegex),
        ] {
            assert_eq!(ask(before, Language::TypeScript), Some(expected), "{before}");
        }
        assert_eq!(ask("let = = = 1; {}", Language::JavaScript), None);
    }

    #[test]
    fn a_regular_expression_ends_on_its_line() {
        for (text, expected) in
            [("/a/", false), ("/a", true), ("/[/]", true), ("/[/]/", false), ("/\\/", true), ("/a\n/", true)]
        {
            assert_eq!(is_unterminated(text), expected, "{text}");
        }
    }
}
