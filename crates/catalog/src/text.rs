//! Texts of others, made short enough to be shown.

/// A text of at most `most` characters, with `…` where it was cut.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The first `most` bytes of a text, or fewer if that would cut a character.
pub(crate) fn start(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
