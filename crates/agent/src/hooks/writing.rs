//! Texts that are stored and are no messages: summaries, and the words of a user about one.

use pincer_hooks::events::{BeforeMessageWrite, Written};
use pincer_sessions::{Block, Message};
use serde_json::json;

use super::{RunHooks, WITHHELD, rewritten};

/// The author of a text, as hooks are told its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The user.
    User,
    /// A summary takes the place of the older part of a conversation.
    Summary,
}

impl RunHooks {
    /// Returns a text as it is to be written.
    pub(crate) async fn written_text(&self, author: Author, text: String) -> String {
        if text.trim().is_empty() || !self.has::<BeforeMessageWrite>() {
            return text;
        }
        let role = match author {
            Author::User => "user",
            Author::Summary => "compactionSummary",
        };
        let message = json!({ "role": role, "content": [{ "type": "text", "text": text }] });
        match self.table.before_message_write(BeforeMessageWrite { context: self.context(), message }).await {
            Written::Message(after) => {
                let stored = Message { content: vec![Block::text(text)], ..Message::default() };
                let texts = rewritten(stored, &after).content.into_iter().filter_map(|block| block.text);
                Some(texts.collect::<Vec<_>>().join("\n"))
                    .filter(|text| !text.is_empty())
                    .unwrap_or(WITHHELD.to_owned())
            }
            Written::Blocked => WITHHELD.to_owned(),
        }
    }
}
