//! Finding the keywords and marks that the tree does not have positions for.

use oxc_ast::Comment;
use oxc_span::Span;

/// The text of a program and what in it is no code.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    comments: &'t [Comment],
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str, comments: &'t [Comment]) -> Self {
        Tokens { text, comments }
    }

    /// Where the first token at `at` or behind begins.
    pub(super) fn skip(self, at: u32) -> u32 {
        let mut at = at;
        let mut comments = &self.comments[self.comments.partition_point(|comment| comment.span.start < at)..];
        loop {
            let rest = self.text.get(at as usize..).unwrap_or_default();
            let code = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            at += (rest.len() - code.len()) as u32;
            match comments.split_first() {
                Some((comment, behind)) if comment.span.start == at => {
                    at = comment.span.end;
                    comments = behind;
                }
                _ => return at,
            }
        }
    }

    /// The first token at `at` or behind, if it is one of these signs.
    pub(super) fn sign(self, at: u32, signs: &[u8]) -> Option<Span> {
        let start = self.skip(at);
        let sign = self.text.as_bytes().get(start as usize)?;
        signs.contains(sign).then(|| Span::new(start, start + 1))
    }

    /// The words between `start` and `end`; anything else is passed over.
    pub(super) fn words(self, start: u32, end: u32) -> impl Iterator<Item = (Span, &'t str)> {
        let mut at = start;
        std::iter::from_fn(move || {
            loop {
                at = self.skip(at);
                if at >= end {
                    return None;
                }
                let rest = &self.text[at as usize..];
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
                if length == 0 {
                    at += rest.chars().next().map_or(1, char::len_utf8) as u32;
                    continue;
                }
                let span = Span::new(at, at + length as u32);
                at = span.end;
                return Some((span, &rest[..length]));
            }
        })
    }

    /// The words between `start` and `end` that only the type checker reads.
    pub(super) fn modifiers(self, start: u32, end: u32) -> impl Iterator<Item = Span> {
        self.words(start, end).filter(|(_, word)| is_modifier(word)).map(|(span, _)| span)
    }
}

fn is_modifier(word: &str) -> bool {
    matches!(word, "public" | "private" | "protected" | "readonly" | "override" | "abstract" | "declare")
}
