//! Words of a request in the calls of its reply: a script cannot know the ids that it will be told.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::exchange::Request;
use crate::message::Part;
use crate::reply::{Answer, Reply};

/// Names, and how the words begin for which they stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Take(BTreeMap<String, String>);

impl Take {
    pub(crate) fn insert(&mut self, name: &str, start: &str) {
        self.0.insert(name.to_owned(), start.to_owned());
    }

    /// Returns the reply with the words of the request in place of the names. A name whose word is missing stays as it is.
    pub(crate) fn put<'r>(&self, request: &Request, reply: &'r Reply) -> Cow<'r, Reply> {
        let Answer::Message(_) = &reply.answer else { return Cow::Borrowed(reply) };
        let words: Vec<(String, &str)> = self
            .0
            .iter()
            .filter_map(|(name, start)| Some((format!("{{{name}}}"), last(&request.text, start)?)))
            .collect();
        if words.is_empty() {
            return Cow::Borrowed(reply);
        }
        let mut reply = reply.clone();
        if let Answer::Message(message) = &mut reply.answer {
            for part in &mut message.parts {
                if let Part::Call(call) = part {
                    fill(&mut call.arguments, &words);
                }
            }
        }
        Cow::Owned(reply)
    }
}

/// Returns the last word of a text that begins so. A word has letters, digits, `_` and `-`.
fn last<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let from = &text[text.rfind(start)?..];
    let is_outside = |letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '-');
    let end = from[start.len()..].find(is_outside).map_or(from.len(), |end| start.len() + end);
    Some(&from[..end])
}

fn fill(value: &mut Value, words: &[(String, &str)]) {
    match value {
        Value::String(text) => {
            for (name, word) in words {
                if text.contains(name.as_str()) {
                    *text = text.replace(name, word);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, words)),
        Value::Object(members) => members.values_mut().for_each(|member| fill(member, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
