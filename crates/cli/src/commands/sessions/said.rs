//! What an entry says, as text: for searching and for excerpts.

use std::collections::BTreeMap;

use pincer_sessions::{Block, Custom, Message, NestedCall, Role};
use pincer_store::{Entry, EntryKind};
use serde_json::Value;

/// What an entry says, and who said it.
pub(super) struct Said {
    pub who: String,
    pub text: String,
}

impl Said {
    /// Reads an entry. Pictures and members that only a provider understands are left out.
    pub(super) fn of(entry: &Entry) -> Self {
        let said = match entry.kind {
            EntryKind::Message => Message::parse(&entry.body).ok().map(|message| Self::by(&message)),
            EntryKind::NestedCall => serde_json::from_str(&entry.body).ok().map(|call| Self::by_program(&call)),
            EntryKind::Custom => serde_json::from_str(&entry.body).ok().map(|note: Custom| Self::by_note(&note)),
            _ => None,
        };
        said.unwrap_or_else(|| {
            // Of a summary or a name, what it says: the names of its members are ours.
            let body: BTreeMap<String, Value> = serde_json::from_str(&entry.body).unwrap_or_default();
            let text = joined(body.values().map(|member| strings(&member.to_string())));
            Self { who: entry.kind.as_str().replace('_', " "), text }
        })
    }

    fn by(message: &Message) -> Self {
        let who = match message.role {
            Role::User => "user".to_owned(),
            Role::Assistant => "assistant".to_owned(),
            Role::ToolResult => format!("result of {}", message.tool_name.as_deref().unwrap_or("a call")),
            Role::Other => "other".to_owned(),
        };
        let part = |block: &Block| {
            let arguments = block.arguments.as_ref().map(|arguments| strings(arguments.as_str()));
            let parts = [&block.text, &block.thinking, &block.name].map(|part| part.clone().unwrap_or_default());
            joined(parts.into_iter().chain(arguments))
        };
        Self { who, text: joined(message.content.iter().map(part)) }
    }

    fn by_program(call: &NestedCall) -> Self {
        let output = call.output.as_ref().map(|output| strings(output.as_str())).unwrap_or_default();
        let error = call.error.clone().unwrap_or_default();
        Self { who: "program".into(), text: joined([call.tool.clone(), strings(call.input.as_str()), output, error]) }
    }

    fn by_note(note: &Custom) -> Self {
        // Pincer's own kinds of notes are no words of the conversation.
        let kind = Some(&note.custom_type).filter(|kind| !kind.starts_with("pincer.")).cloned();
        let data = note.data.as_ref().map(|data| strings(data.as_str()));
        Self { who: "note".into(), text: joined(kind.into_iter().chain(data)) }
    }

    /// Returns whether it contains all words, which must be in lower case.
    pub(super) fn has_all(&self, words: &[String]) -> bool {
        let text = self.text.to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }

    /// Returns the text around a word, which must be in lower case.
    pub(super) fn around(&self, word: &str) -> String {
        const BEFORE: usize = 60;
        const AFTER: usize = 140;
        let at = position(&self.text, word).unwrap_or_default();
        let begin = self.text[..at].char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at);
        let end = self.text[at..].char_indices().nth(AFTER).map_or(self.text.len(), |(after, _)| at + after);
        let (cut, more) = (if begin > 0 { "…" } else { "" }, if end < self.text.len() { "…" } else { "" });
        format!("{cut}{}{more}", self.text[begin..end].trim())
    }
}

fn joined(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the names and strings in a JSON text, as they read without escapes.
fn strings(json: &str) -> String {
    fn collect(value: Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => items.into_iter().for_each(|item| collect(item, found)),
            Value::Object(members) => members.into_iter().for_each(|(name, member)| {
                found.push(name);
                collect(member, found);
            }),
            Value::Null => {}
            other => found.push(other.to_string()),
        }
    }
    let mut found = Vec::new();
    collect(serde_json::from_str(json).unwrap_or_default(), &mut found);
    joined(found)
}

/// Returns where a word begins, whatever the case of its letters. Not in a copy in lower case: letters may change their length.
fn position(text: &str, word: &str) -> Option<usize> {
    let begins = |at: &usize| {
        let mut letters = text[*at..].chars().flat_map(char::to_lowercase);
        word.chars().all(|letter| letters.next() == Some(letter))
    };
    text.char_indices().map(|(at, _)| at).find(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_whatever_its_case_and_the_length_of_its_letters() {
        let said = Said { who: String::new(), text: format!("{} İİ ÄPFEL {}", "x".repeat(100), "y".repeat(200)) };
        assert!(said.has_all(&["äpfel".into(), "x".into()]));
        assert!(!said.has_all(&["äpfel".into(), "z".into()]));
        let around = said.around("äpfel");
        assert!(around.starts_with("…xx") && around.contains("İİ ÄPFEL yy") && around.ends_with("y…"), "{around}");
    }

    #[test]
    fn values_are_read_without_escapes_and_pictures_are_left_out() {
        let entry = |body: &str| Entry {
            position: 1,
            id: "e".into(),
            parent: None,
            kind: EntryKind::Message,
            run: None,
            call: None,
            body: body.into(),
            events: None,
            at: 0,
        };
        let said = Said::of(&entry(
            r#"{"message":{"role":"assistant","content":[{"type":"image","data":"QUJD"},{"type":"toolCall","name":"exec","arguments":{"code":"say \"\u00e9\"\n"}}]}}"#,
        ));
        assert_eq!((said.who.as_str(), said.text.as_str()), ("assistant", "exec\ncode\nsay \"é\"\n"));
    }
}
