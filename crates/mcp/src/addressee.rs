//! Finds the request that a message answers which cannot be kept: its ends are enough for that.

/// How much of it is looked at, at either end.
pub(crate) const EXCERPT: usize = 1024;

/// The request that a message answers, told from its beginning or its end: there the id stands.
pub(crate) fn addressee(head: &[u8], tail: &[u8]) -> Option<i64> {
    let head = String::from_utf8_lossy(&head[..head.len().min(EXCERPT)]);
    let body = ["\"result\"", "\"error\"", "\"params\""].iter().filter_map(|key| head.find(key)).min();
    let before = &head[..body.unwrap_or(head.len())];
    if let Some(id) = before.find("\"id\"").and_then(|at| number(&before[at + 4..])) {
        return Some(id.0);
    }
    let tail = String::from_utf8_lossy(tail);
    let (id, rest) = number(&tail[tail.rfind("\"id\"")? + 4..])?;
    let ends = rest.trim_start().strip_prefix('}').or_else(|| rest.trim_start().strip_prefix(",\"jsonrpc\""));
    ends.map(|_| id)
}

/// The number behind a colon, and what follows it.
fn number(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start().strip_prefix(':')?.trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_answer_a_broken_message_was_is_told_from_its_ends() {
        for (head, tail, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"#, "", Some(7)),
            (r#"{ "id" : 12 , "jsonrpc": "2.0""#, "", Some(12)),
            (r#"{"result":{"id":3,"x":"#, r#""}]},"jsonrpc":"2.0","id":9}"#, Some(9)),
            (r#"{"result":{"id":3"#, r#"}},"id":9,"jsonrpc":"2.0"}"#, Some(9)),
            (r#"{"result":{"id":3"#, r#"… "id":4 …"#, None),
            (r#"{"jsonrpc":"2.0","method":"x","params":{"id":5}}"#, "", None),
            ("", "", None),
        ] {
            assert_eq!(addressee(head.as_bytes(), tail.as_bytes()), expected, "{head} {tail}");
        }
    }
}
