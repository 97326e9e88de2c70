//! Descriptions as comments, made harmless.

/// More of a description than this does not help anybody to call a tool.
const COMMENT_CHARS: usize = 600;

/// A `/** … */` on lines of its own, each indented and ended. Empty for an empty description.
pub(super) fn comment(description: &str, indent: &str) -> String {
    let lines: Vec<String> = clean(description, COMMENT_CHARS).lines().map(|line| line.trim_end().to_owned()).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).skip_while(|line| line.is_empty()).collect();
    match lines[..] {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        _ => {
            let body: String =
                lines.iter().map(|line| format!("{indent} * {line}").trim_end().to_owned() + "\n").collect();
            format!("{indent}/**\n{body}{indent} */\n")
        }
    }
}

/// A `/* … */` within a line.
pub(super) fn inline(text: &str) -> String {
    let text = clean(text, 60).replace('\n', " ");
    if text.trim().is_empty() { String::new() } else { format!(" /* {} */", text.trim()) }
}

/// Text that cannot leave a comment, with no control characters but line breaks, and not too long.
fn clean(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == most {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push('\n'),
            '\u{2028}' | '\u{2029}' => out.push('\n'),
            // Direction marks can make a reviewer read something else than there is.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {}
            c if c.is_control() => out.push(' '),
            '/' if out.ends_with('*') => out.push_str("\\/"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_a_comment() {
        assert_eq!(comment("ends */ here **/ and */", ""), "/** ends *\\/ here **\\/ and *\\/ */\n");
        assert_eq!(comment("a\u{0}b\r\nc\u{2028}d\u{202e}e", "  "), "  /**\n   * a b\n   * c\n   * de\n   */\n");
        assert_eq!(comment(" \n ", ""), "");
        assert_eq!(inline("x */ y\nz"), " /* x *\\/ y z */");
        assert!(comment(&"long ".repeat(1000), "").len() < 700);
    }
}
