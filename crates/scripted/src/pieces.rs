//! Text as a model says it: piece by piece.

use std::num::NonZeroUsize;

/// Splits `text` into deltas: so many characters each, or whole words, each with the space before it.
pub(crate) fn pieces(text: &str, characters: Option<NonZeroUsize>) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    let mut length = 0;
    let mut has_word = false;
    for (at, character) in text.char_indices() {
        let is_new = match characters {
            Some(limit) => length == limit.get(),
            None => has_word && character.is_whitespace(),
        };
        if is_new {
            pieces.push(&text[begin..at]);
            (begin, length, has_word) = (at, 0, false);
        }
        length += 1;
        has_word |= !character.is_whitespace();
    }
    if begin < text.len() {
        pieces.push(&text[begin..]);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_at_words_or_after_so_many_characters() {
        let check = |text: &str, characters: usize, expected: &[&str]| {
            assert_eq!(pieces(text, NonZeroUsize::new(characters)), expected, "{text:?} by {characters}");
        };
        check("", 0, &[]);
        check("", 3, &[]);
        check("one", 0, &["one"]);
        check("one  two\nthree ", 0, &["one", "  two", "\nthree", " "]);
        check("  ", 0, &["  "]);
        check("grüße", 2, &["gr", "üß", "e"]);
        check("abcd", 2, &["ab", "cd"]);
        check("ab", 9, &["ab"]);
    }
}
