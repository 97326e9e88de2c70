//! The word with which a model answers with silence, and how it is kept from being shown, also while it comes in piece by piece.

use serde_json::Value;

/// The word. It is read in upper and in lower case.
const SILENT: &str = "NO_REPLY";

/// Returns the part of a whole text that is shown: nothing of one that is silent, and no silent word at its edges.
pub(crate) fn visible(text: &str) -> &str {
    cut(text, true)
}

/// Returns the part of a text that may be shown while it comes in. It only grows, and ends as a prefix of what [`visible`] returns.
pub(crate) fn shown(text: &str) -> &str {
    cut(text, false)
}

fn cut(text: &str, is_whole: bool) -> &str {
    let is_silent = if is_whole { is_silent(text) } else { could_be_silent(text) };
    if is_silent {
        return "";
    }
    let text = without_leading(text);
    let Some(start) = last_word(text) else { return text };
    let word = text[start..].trim_end();
    let is_held = if is_whole { is_token(word) } else { is_token(word) || is_beginning(bare_start(word)) };
    if is_held { &text[..start] } else { text }
}

/// Returns whether a whole text says nothing but the silent word.
fn is_silent(text: &str) -> bool {
    let text = after_reasoning(text).unwrap_or(text).trim();
    if text.starts_with(['{', '"']) {
        return match serde_json::from_str::<Value>(text) {
            Ok(Value::String(word)) => word.trim().eq_ignore_ascii_case(SILENT),
            Ok(Value::Object(members)) => {
                let action = members.get("action").and_then(Value::as_str);
                members.len() == 1 && action.is_some_and(|word| word.trim().eq_ignore_ascii_case(SILENT))
            }
            _ => all_tokens(text.split_whitespace()),
        };
    }
    all_tokens(text.split_whitespace())
}

/// Returns whether a text that is still coming in could turn out to be silent.
fn could_be_silent(text: &str) -> bool {
    let text = match after_reasoning(text) {
        Some(rest) => rest.trim_start(),
        // A block of reasoning that has not ended, or perhaps the beginning of one.
        None if begins_reasoning(text.trim_start()) => return true,
        None => text.trim_start(),
    };
    if text.starts_with(['{', '"']) {
        let compact: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let forms = [format!("{{\"action\":\"{SILENT}\"}}"), format!("\"{SILENT}\"")];
        if forms.iter().any(|form| is_prefix(&compact, form)) {
            return true;
        }
    }
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let Some(last) = words.pop() else { return true };
    let is_ended = text.ends_with(char::is_whitespace);
    let last_fits = is_silent_word(last) || !is_ended && is_prefix(bare_start(last), SILENT);
    last_fits && words.iter().all(|word| is_silent_word(word))
}

fn all_tokens<'t>(words: impl Iterator<Item = &'t str>) -> bool {
    let mut has_token = false;
    for word in words {
        if !is_silent_word(word) {
            return false;
        }
        has_token |= bare(word).eq_ignore_ascii_case(SILENT);
    }
    has_token
}

/// Returns whether a word is the silent word with marks around it, or marks alone.
fn is_silent_word(word: &str) -> bool {
    let bare = bare(word);
    bare.is_empty() || bare.eq_ignore_ascii_case(SILENT)
}

/// Returns whether a word within other text is the silent word: in upper or in lower case, since "No_Reply" may be a name.
fn is_token(word: &str) -> bool {
    let bare = bare(word);
    bare == SILENT || bare == "no_reply"
}

fn is_beginning(word: &str) -> bool {
    !word.is_empty() && (SILENT.starts_with(word) || "no_reply".starts_with(word))
}

fn is_prefix(part: &str, whole: &str) -> bool {
    whole.get(..part.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(part))
}

fn is_mark(letter: char) -> bool {
    !letter.is_alphanumeric() && letter != '_'
}

fn bare(word: &str) -> &str {
    word.trim_matches(is_mark)
}

fn bare_start(word: &str) -> &str {
    word.trim_start_matches(is_mark)
}

/// Returns where the last word begins, if it is not the first thing of the text.
fn last_word(text: &str) -> Option<usize> {
    let end = text.trim_end();
    let start = end.rfind(char::is_whitespace)?;
    Some(start + end[start..].chars().next().map_or(1, char::len_utf8))
}

/// Takes silent words away from the beginning.
fn without_leading(mut text: &str) -> &str {
    loop {
        let rest = text.trim_start();
        let word = rest.split_whitespace().next().unwrap_or_default();
        if word.is_empty() || !is_token(word) {
            return text;
        }
        text = rest[word.len()..].trim_start();
    }
}

const REASONING: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>")];

/// Returns what follows a block of reasoning at the beginning, if there is one.
fn after_reasoning(text: &str) -> Option<&str> {
    let text = text.trim_start();
    REASONING.iter().find_map(|(begin, end)| Some(text.strip_prefix(begin)?.split_once(end)?.1))
}

fn begins_reasoning(text: &str) -> bool {
    REASONING.iter().any(|(begin, _)| text.starts_with(begin) || !text.is_empty() && begin.starts_with(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_only_says_so_is_silent_in_all_its_forms() {
        for text in [
            "NO_REPLY",
            " no_reply\n",
            "No_Reply",
            "NO_REPLY NO_REPLY",
            "**NO_REPLY**",
            "`NO_REPLY`.",
            "\"NO_REPLY\"",
            "{\"action\":\"NO_REPLY\"}",
            "{ \"action\": \"no_reply\" }",
            "<think>nothing to say</think>\nNO_REPLY",
            "NO_REPLY\n\nNO_REPLY.",
        ] {
            assert_eq!(visible(text), "", "{text}");
        }
    }

    #[test]
    fn a_silent_word_at_an_edge_is_taken_away_and_the_rest_stays() {
        let check = |text: &str, wanted: &str| assert_eq!(visible(text), wanted, "{text}");
        check("Done. NO_REPLY", "Done. ");
        check("NO_REPLY Done.", "Done.");
        check("NO_REPLY\nno_reply Done.\nNO_REPLY.", "Done.\n");
        check("Say NO_REPLY to be silent", "Say NO_REPLY to be silent");
        check("NO_REPLY_EVER", "NO_REPLY_EVER");
        check("No", "No");
        check("No reply came.", "No reply came.");
        check("", "");
        check("...", "...");
        check("{\"action\":\"reply\"}", "{\"action\":\"reply\"}");
        check("mail to No_Reply", "mail to No_Reply");
    }

    #[test]
    fn nothing_is_shown_that_could_still_be_silence() {
        let check = |text: &str, wanted: &str| assert_eq!(shown(text), wanted, "{text}");
        for held in [
            "",
            " ",
            "N",
            "no",
            "NO_REP",
            "NO_REPLY",
            "NO_REPLY\n",
            "NO_REPLY NO_",
            "**NO",
            "\"NO_R",
            "{\"action\": \"N",
            "<thi",
            "<think>hm",
        ] {
            check(held, "");
        }
        check("No ", "No ");
        check("Now", "Now");
        check("NO_REPLIES", "NO_REPLIES");
        check("Done. NO_R", "Done. ");
        check("Done. NO_REPLY", "Done. ");
        check("Done. Now", "Done. Now");
        check("{\"a\"", "{\"a\"");
    }

    #[test]
    fn what_is_shown_only_grows_and_is_the_beginning_of_what_stays() {
        for text in [
            "Done. NO_REPLY",
            "NO_REPLY Here it is: no_reply, no.",
            "a NO_REPLY b NO_REPLY c",
            "<think>x</think> NO_REPLY",
            "**no** way, NO_REPLY!",
            "{\"action\":\"NO_REPLY\"} is what you send",
            "n o _ n no_ no_r",
            "ä NO_REPLY ö",
        ] {
            let mut before = "";
            for (end, _) in text.char_indices().skip(1) {
                let now = shown(&text[..end]);
                assert!(now.starts_with(before), "{text}: {now:?} after {before:?}");
                before = now;
            }
            assert!(visible(text).starts_with(before), "{text}: {:?} after {before:?}", visible(text));
        }
    }
}
