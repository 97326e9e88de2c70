//! Estimates the tokens of a text. The count of a provider is always better: this is for entries that came after it.

use pincer_model::{Content, Message, Part, Tool, ToolResult};

/// The tokens of a picture, whatever is on it.
const PICTURE: u64 = 1_500;
/// The tokens around each message.
const AROUND: u64 = 8;

/// Estimates the tokens of a text: four letters of English are one, and so is a letter of a script in which each is a word.
pub(crate) fn text(text: &str) -> u64 {
    of_quarters(quarters_of(text))
}

/// Returns the quarters of tokens in a part of a text, which add up.
pub(crate) fn quarters_of(text: &str) -> u64 {
    text.chars().map(quarters).sum()
}

/// Returns the tokens of a text with so many quarters.
pub(crate) fn of_quarters(quarters: u64) -> u64 {
    quarters.div_ceil(4)
}

/// Estimates the tokens of a letter, in quarters.
fn quarters(letter: char) -> u64 {
    match u32::from(letter) {
        0..0x80 => 1,
        0x80..0x2e80 => 2,
        _ => 4,
    }
}

/// Returns the end of the longest beginning of a text that has at most so many tokens, and of one letter at least.
pub(crate) fn end_within(text: &str, tokens: u64) -> usize {
    let mut left = tokens.saturating_mul(4);
    for (at, letter) in text.char_indices() {
        match left.checked_sub(quarters(letter)) {
            None if at > 0 => return at,
            rest => left = rest.unwrap_or(0),
        }
    }
    text.len()
}

/// Estimates the tokens of the parts of a message to the model.
pub(crate) fn content(parts: &[Content]) -> u64 {
    let part = |part: &Content| match part {
        Content::Text(said) => text(said),
        Content::Image(_) => PICTURE,
    };
    AROUND + parts.iter().map(part).sum::<u64>()
}

/// Estimates the tokens of a reply. A part goes back to its provider in the provider's own form.
pub(crate) fn reply(parts: &[Part]) -> u64 {
    let part = |part: &Part| match part {
        Part::Text { text: said, .. } | Part::Refusal { text: said, .. } => text(said),
        Part::Thinking { text: thought, raw } => raw.as_ref().map_or_else(|| text(thought), |raw| text(raw.as_str())),
        Part::Call(call) => AROUND + text(&call.name) + text(call.arguments.as_str()),
        Part::Other(raw) => text(raw.as_str()),
    };
    AROUND + parts.iter().map(part).sum::<u64>()
}

/// Estimates the tokens of a result.
pub(crate) fn result(result: &ToolResult) -> u64 {
    content(&result.content)
}

/// Estimates the tokens of a message.
pub(crate) fn message(message: &Message) -> u64 {
    match message {
        Message::User(parts) => content(parts),
        Message::Assistant(message) => reply(&message.parts),
        Message::Results(results) => results.iter().map(result).sum(),
    }
}

/// Estimates the tokens of instructions and tools, which are sent with every request.
pub(crate) fn around(system: &[String], tools: &[Tool]) -> u64 {
    let tool = |tool: &Tool| AROUND + text(&tool.name) + text(&tool.description) + text(&tool.parameters.to_string());
    system.iter().map(|part| text(part)).sum::<u64>() + tools.iter().map(tool).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_script_are_estimated() {
        assert_eq!(text("abcdefgh"), 2);
        assert_eq!(text("日本語"), 3);
        assert_eq!(text("привет"), 3);
        assert_eq!(text(""), 0);
        assert_eq!(end_within("abcdefgh", 1), 4);
        assert_eq!(end_within("日本語", 2), 6);
        assert_eq!(end_within("日本語", 0), 3);
        assert_eq!(end_within("ab", 9), 2);
        assert!(content(&[Content::Text("abcd".into()), Content::Text("abcd".into())]) > 2);
    }
}
