//! Names and reasons that others have written, as part of a finding.

use pincer_tools::one_line;

/// The most characters of a reason.
pub(super) const MOST_REASON: usize = 200;
/// The most characters of a name.
const MOST_NAME: usize = 80;

/// Returns a name as one word of a shell's command line.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-:./@%+=,".contains(letter);
    let text = one_line(name, MOST_NAME);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_command_whatever_is_in_it() {
        assert_eq!(quoted("irc:dm:ann"), "irc:dm:ann");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's; rm -rf ~"), r"'it'\''s; rm -rf ~'");
        assert_eq!(quoted("--json"), "'--json'");
        assert_eq!(quoted(""), "''");
        assert!(!quoted("a\n\u{1b}[2Jb").contains(['\n', '\u{1b}']));
    }
}
