//! A long text in parts that a channel takes.

/// The line that ends a block of code.
const CLOSING: &str = "\n```";

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The text of the part.
    pub text: String,
    /// Where the next part begins in the whole text.
    pub end: usize,
}

/// Returns the part of a text that begins at `offset` and has at most so many bytes, at least 100. It depends on nothing else, so the next
/// process goes on where another one died. A part ends between paragraphs, lines or words; a block of code that does not fit is closed,
/// and opened again in the next part.
pub fn next_part(text: &str, offset: usize, most: usize) -> Part {
    let most = most.max(100);
    let offset = text.floor_char_boundary(offset.min(text.len()));
    let rest = &text[offset..];
    let opening = open_fence(&text[..offset]).map(|line| if line.len() > most / 4 { "```" } else { line });
    let head = opening.map(|line| format!("{line}\n")).unwrap_or_default();
    if head.len() + rest.len() <= most {
        return Part { text: head + rest.trim_end(), end: text.len() };
    }
    let room = rest.floor_char_boundary(most - head.len() - CLOSING.len());
    let cut = cut(rest, room, opening.is_some());
    let inside = open_fence(&text[..offset + cut]).is_some();
    let mut body = head + rest[..cut].trim_end();
    if inside {
        body.push_str(CLOSING);
    }
    // Empty lines between two parts belong to neither.
    let skipped = if inside { 0 } else { rest[cut..].len() - rest[cut..].trim_start_matches('\n').len() };
    Part { text: body, end: offset + cut + skipped }
}

/// Returns where a part of at most so many bytes ends best. Never 0.
fn cut(rest: &str, room: usize, begins_inside: bool) -> usize {
    let (mut inside, mut at) = (begins_inside, 0);
    let (mut paragraph, mut line_outside, mut line_inside, mut before_code) = (0, 0, 0, 0);
    for line in rest.split_inclusive('\n') {
        if at > room {
            break;
        }
        if at > 0 {
            match inside {
                true => line_inside = at,
                false => line_outside = at,
            }
            if !inside && (rest[..at].ends_with("\n\n") || line.trim().is_empty()) {
                paragraph = at;
            }
            if !inside && is_fence(line) {
                before_code = at;
            }
        }
        if is_fence(line) {
            inside = !inside;
        }
        at += line.len();
    }
    // A block of code that does not end in this part begins in the next one, unless that would leave little.
    if inside && before_code > 0 && before_code >= room / 4 {
        return before_code;
    }
    let enough = room / 2;
    let word = rest[..room].rfind(' ').map_or(0, |at| at + 1);
    let choices = [paragraph, line_outside, line_inside];
    let best =
        choices.into_iter().find(|at| *at >= enough).or_else(|| choices.into_iter().max().filter(|at| *at >= room / 4));
    match best {
        Some(at) if at > 0 => at,
        _ if word >= enough => word,
        _ => room.max(rest.chars().next().map_or(1, char::len_utf8)),
    }
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Returns the line that began the block of code which is open at the end of a text.
fn open_fence(before: &str) -> Option<&str> {
    let fences = before.lines().filter(|line| is_fence(line));
    fences.fold(None, |open, line| if open.is_some() { None } else { Some(line.trim()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, most: usize) -> Vec<String> {
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let part = next_part(text, at, most);
            assert!(part.end > at, "it goes on");
            assert!(part.text.len() <= most, "{} bytes", part.text.len());
            at = part.end;
            parts.push(part.text);
        }
        parts
    }

    #[test]
    fn a_short_text_is_one_part() {
        assert_eq!(next_part("Hello.\n", 0, 100), Part { text: "Hello.".into(), end: 7 });
        assert_eq!(parts("", 100), [""; 0]);
    }

    #[test]
    fn parts_end_between_paragraphs_lines_and_words() {
        let paragraph = "word ".repeat(16);
        let text = [paragraph.trim(), paragraph.trim(), paragraph.trim()].join("\n\n");
        assert_eq!(parts(&text, 120), vec![paragraph.trim(); 3]);
        let lines = vec!["a line of text"; 20].join("\n");
        assert!(parts(&lines, 100).iter().flat_map(|part| part.lines()).all(|line| line == "a line of text"));
        let words = parts(&"word ".repeat(100), 100);
        assert!(words.iter().flat_map(|part| part.split(' ')).all(|word| word == "word"), "{words:?}");
        let wide = "ä".repeat(500);
        assert_eq!(parts(&wide, 101).concat(), wide);
    }

    #[test]
    fn a_block_of_code_is_kept_whole_or_closed_and_opened_again() {
        let code = format!("```rust\n{}```", "let a = 1;\n".repeat(5));
        let text = format!("{}\n{code}\nThe end.", "Before the code. ".repeat(4).trim());
        let kept = parts(&text, 120);
        assert!(kept.iter().any(|part| part.contains(&code)), "{kept:?}");
        let long = format!("```rust\n{}```\nThe end.", "let a = 1;\n".repeat(40));
        let all = parts(&long, 150);
        assert!(all.iter().all(|part| part.lines().filter(|line| is_fence(line)).count() % 2 == 0), "{all:?}");
        assert!(all.len() > 2 && all.iter().all(|part| part.starts_with("```rust\n")), "{all:?}");
        assert_eq!(all.join("\n").matches("let a = 1;").count(), 40);
        assert!(all.last().is_some_and(|part| part.ends_with("The end.")));
    }

    #[test]
    fn any_text_comes_to_its_end() {
        for text in [
            "```".repeat(200),
            "```\n".repeat(200),
            format!("```{}\nx\n", "y".repeat(900)),
            "\n".repeat(900),
            " ".repeat(900),
        ] {
            parts(&text, 100);
        }
    }
}
