//! Takes secret values out of the output of a command while it comes in.

use std::collections::BTreeMap;

use pincer_secrecy::REDACTED;

/// Shorter values are no secrets, and would be found in any text.
const LEAST_BYTES: usize = 6;

/// Puts a word in the place of secret values, also of those that come in pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Hiding {
    /// The longest first: a value may be a part of another.
    values: Vec<Vec<u8>>,
    /// The end of what came, which may be the beginning of a value.
    held: Vec<u8>,
}

impl Hiding {
    /// Hides the values of these variables.
    pub(super) fn new(variables: &BTreeMap<String, String>) -> Self {
        let values = variables.values().map(|value| value.trim().as_bytes().to_vec());
        let mut values: Vec<Vec<u8>> = values.filter(|value| value.len() >= LEAST_BYTES).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values, held: Vec::new() }
    }

    /// Takes a piece of the output. Returns what can be shown of it and of what was held back before.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.values.is_empty() {
            return piece.to_vec();
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        self.shown(&bytes, true)
    }

    /// Returns what is held back at the end of the output.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.shown(&held, false)
    }

    fn shown(&mut self, bytes: &[u8], goes_on: bool) -> Vec<u8> {
        let (mut shown, mut at) = (Vec::with_capacity(bytes.len()), 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            if goes_on && self.values.iter().any(|value| value.len() > rest.len() && value.starts_with(rest)) {
                self.held = rest.to_vec();
                break;
            }
            if let Some(value) = self.values.iter().find(|value| rest.starts_with(value)) {
                shown.extend_from_slice(REDACTED.as_bytes());
                at += value.len();
            } else {
                shown.push(bytes[at]);
                at += 1;
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(values: &[&str], text: &str, piece: usize) -> String {
        let variables = values.iter().enumerate().map(|(at, value)| (format!("V{at}"), (*value).to_owned())).collect();
        let mut hiding = Hiding::new(&variables);
        let mut shown = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            shown.extend(hiding.push(piece));
        }
        shown.extend(hiding.finish());
        String::from_utf8(shown).expect("text")
    }

    #[test]
    fn values_are_hidden_in_whatever_pieces_they_come() {
        let text = "key=hunter22, twice hunter22hunter22; hunter2 is none, hunter";
        let expected = "key=[redacted], twice [redacted][redacted]; hunter2 is none, hunter";
        for piece in 1..text.len() {
            assert_eq!(hidden(&["hunter22"], text, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn the_longest_value_is_hidden_and_short_ones_are_not() {
        assert_eq!(hidden(&["secret", "secret-long"], "a secret-long b secret c", 3), "a [redacted] b [redacted] c");
        assert_eq!(hidden(&["on"], "come on", 2), "come on");
    }
}
