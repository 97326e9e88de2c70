//! The words of a text, as a search compares them.

use std::collections::BTreeSet;

use super::words::Reader;

/// Returns the distinct stems of a text: identifiers are split, and common words are left out.
pub fn stems(text: &str) -> BTreeSet<String> {
    let mut stems = BTreeSet::new();
    Reader::new().read_words(text, |stem| {
        stems.insert(stem.to_owned());
    });
    stems
}
