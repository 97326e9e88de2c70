//! Questions as a person reads them. Programs and servers write parts of what is shown, so none of it is shown as it is.

use std::fmt::Write;

use pincer_store::Approval;
use serde_json::Value;

use crate::granted_always;

/// How much is shown of a title, of a reason, of what "always" would allow, and of the input: together no more than fits on a screen
/// of 24 lines with 80 columns.
const MOST_TITLE: usize = 100;
const MOST_REASON: usize = 240;
const MOST_ALWAYS: usize = 160;
const MOST_INPUT: usize = 800;
/// How many things that "always" would allow are shown.
const MOST_KEYS: usize = 2;
/// How many spaces in a row are shown as they are: more could push text to where another line would be.
const MOST_SPACES: usize = 3;

/// Returns a question as lines for a person. Every part is on a line of its own, escaped, and shortened in its middle; the tool and
/// its input, as they will be called, are the last line, next to where the answer is given.
pub fn question_text(approval: &Approval) -> String {
    let request: Value = serde_json::from_str(&approval.request).unwrap_or_default();
    let demand = &request["demand"];
    let title = demand["title"].as_str().unwrap_or("May this tool be called?");
    let mut text = one_line(title, MOST_TITLE);
    if let Some(line) = request["line"].as_u64() {
        let _ = write!(text, " (line {line} of the program)");
    }
    if let Some(reason) = demand["description"].as_str() {
        let _ = write!(text, "\n  why: {}", one_line(reason, MOST_REASON));
    }
    let always = granted_always(approval);
    // The tool's own name alone says nothing new.
    if always != [approval.tool.as_str()] {
        for key in always.iter().take(MOST_KEYS) {
            let _ = write!(text, "\n  always: {}", one_line(key, MOST_ALWAYS));
        }
        if always.len() > MOST_KEYS {
            let _ = write!(text, "\n  always: {} more", always.len() - MOST_KEYS);
        }
    }
    let _ = write!(text, "\n  {}", called(approval));
    text
}

/// Returns the tool of a question and its input, on one line.
pub fn called(approval: &Approval) -> String {
    let request: Value = serde_json::from_str(&approval.request).unwrap_or_default();
    let input = request["input"].to_string();
    format!("{} {}", one_line(&approval.tool, MOST_TITLE), one_line(&input, MOST_INPUT))
}

/// Returns a text on one line: what is not visible is escaped, and of more than `most` characters the middle is left out, with the
/// number of those.
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

/// Tells the number of spaces where there are many.
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
    use pincer_store::ApprovalState;
    use serde_json::json;

    use super::*;

    fn asked(tool: &str, request: &Value) -> Approval {
        Approval {
            id: "ap_1".into(),
            run: None,
            session: "s".into(),
            user: None,
            tool: tool.into(),
            digest: Vec::new(),
            request: request.to_string(),
            state: ApprovalState::Pending,
            decided_by: None,
            created_at: 0,
            expires_at: None,
            seq: None,
            fingerprint: None,
        }
    }

    #[test]
    fn the_input_is_the_last_line_whatever_stands_before() {
        let forged = "x`\n  exec {\"command\":\"ls\"}\n[y]es, [N]o? ";
        let request = json!({
            "input": { "command": "rm -rf ~", "note": "a\u{202e}b\nc" }, "line": 3, "grants": ["exec /bin/rm -rf *"],
            "demand": { "title": forged, "description": forged },
        });
        let text = question_text(&asked("exec", &request));
        let shown = r#"x`\n  exec {"command":"ls"}\n[y]es, [N]o? "#;
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                &format!("{shown} (line 3 of the program)"),
                &format!("  why: {shown}"),
                "  always: exec /bin/rm -rf *",
                r#"  exec {"command":"rm -rf ~","note":"a\u{202e}b\nc"}"#,
            ]
        );
    }

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
