//! The text of another in a message of ours.

/// Returns the beginning of a text: `most` characters, on one line, without what a terminal would obey.
pub fn excerpt(text: &str, most: usize) -> String {
    let words = text.split(|char: char| char.is_whitespace() || char.is_control()).filter(|word| !word.is_empty());
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(most) {
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}
