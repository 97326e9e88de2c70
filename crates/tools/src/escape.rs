//! Text of programs and servers as a person may see it: on one line, with nothing hidden.

use std::fmt::Write;

/// The most spaces in a row that are shown as they are: more could push text to where another line would be.
const MOST_SPACES: usize = 3;

/// Returns a text on one line. Characters that are not visible are escaped; of more than `most` characters the middle is left out,
/// and the number of those is shown.
pub fn one_line(text: &str, most: usize) -> String {
    let text = &spaces_counted(text);
    let length = text.chars().count();
    if length <= most {
        return text.chars().fold(String::new(), escaped);
    }
    // More from the beginning: that is where the meaning of most texts is.
    let (first, last) = (most * 2 / 3, most / 3);
    let mut out = text.chars().take(first).fold(String::new(), escaped);
    let _ = write!(out, " […{} of {length} characters left out…] ", length - first - last);
    text.chars().skip(length - last).fold(out, escaped)
}

/// Replaces many spaces in a row by their number.
fn spaces_counted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut spaces = 0;
    for c in text.chars().chain(['\0']) {
        if c == ' ' {
            spaces += 1;
            continue;
        }
        match spaces {
            0..=MOST_SPACES => out.extend(std::iter::repeat_n(' ', spaces)),
            _ => {
                let _ = write!(out, " […{spaces} spaces…] ");
            }
        }
        spaces = 0;
        out.push(c);
    }
    out.pop();
    out
}

fn escaped(mut out: String, c: char) -> String {
    match is_hidden(c) {
        true => out.extend(c.escape_default()),
        false => out.push(c),
    }
    out
}

/// Returns whether a character breaks the line, moves the cursor, turns text around or does not show.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || c.is_whitespace() && c != ' '
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_much_the_middle_is_left_out_and_told() {
        let text = format!("begin{}end", "x".repeat(9992));
        let short = one_line(&text, 300);
        assert!(short.starts_with("beginx") && short.ends_with("xend"), "{short}");
        assert!(short.contains(" […9700 of 10000 characters left out…] "), "{short}");
        assert_eq!(one_line("äöü", 3), "äöü");
        assert_eq!(one_line(&format!("a   b{}c ", " ".repeat(90)), 99), "a   b […90 spaces…] c ");
    }

    #[test]
    fn nothing_is_hidden() {
        for c in ('\0'..=char::MAX).filter(|c| is_hidden(*c)) {
            let shown = one_line(&format!("a{c}b"), 10);
            assert!(shown.is_ascii() && shown.contains('\\') && !shown.contains('\n'), "{c:?}");
        }
        let hidden = "\u{0}\u{7}\u{1b}\u{7f}\u{85}\u{9b}\r\n\t\u{b}\u{a0}\u{2028}\u{2029}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}\u{3164}";
        assert!(hidden.chars().all(is_hidden));
        assert!(!"a é ß 漢 🙂 \\ \" '".chars().any(is_hidden));
    }
}
