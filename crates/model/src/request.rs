//! A request for a reply.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::message::Message;
use crate::thinking::Level;

/// A request for a reply, in no provider's format.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Instructions, in parts. They stay the same from request to request of a conversation.
    pub system: Vec<String>,
    /// Instructions that change between requests. They stand behind the boundary [`Cache::after_system`].
    pub suffix: Option<String>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<Tool>,
    /// Whether it may or must call one.
    pub choice: Choice,
    /// The names that the list of tools must have when it is sent, no more and no fewer: see [`crate::ErrorKind::Surface`].
    pub surface: Surface,
    /// The most tokens of the reply. If absent, as the model's settings say.
    pub max_tokens: Option<u32>,
    /// Randomness; left to the provider if absent.
    pub temperature: Option<f64>,
    /// How much to think.
    pub thinking: Level,
    /// The part of the prompt that later requests will repeat.
    pub cache: Cache,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its purpose, in words for the model.
    pub description: String,
    /// The JSON Schema of its input.
    pub parameters: Value,
}

/// Whether a model may or must call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    Never,
    /// It must call one.
    Any,
    /// It must call this one.
    Named(String),
}

/// The tools that a run may show to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surface(pub BTreeSet<String>);

impl<T: Into<String>> FromIterator<T> for Surface {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

/// The boundaries up to which a prompt will be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Behind the tools and the instructions that stay the same.
    pub after_system: bool,
    /// Behind these messages, by their index. Providers take few: the last ones count.
    pub after_messages: Vec<usize>,
    /// For an hour instead of five minutes, if the provider has a choice.
    pub is_long: bool,
    /// Names what belongs together, for providers that look for a prefix by themselves: the session, for instance.
    pub key: Option<String>,
}

impl Request {
    /// Returns all instructions, in their order, and whether the boundary is behind each.
    pub(crate) fn instructions(&self) -> impl Iterator<Item = (&str, bool)> {
        let is_there = |text: &&String| !text.is_empty();
        let last = self.system.iter().filter(is_there).count();
        let stable = self.system.iter().filter(is_there).enumerate();
        let stable = stable.map(move |(index, text)| (text.as_str(), index + 1 == last));
        stable.chain(self.suffix.iter().filter(is_there).map(|text| (text.as_str(), false)))
    }

    /// Returns all instructions as one text.
    pub fn instruction_text(&self) -> Option<String> {
        let texts: Vec<&str> = self.instructions().map(|(text, _)| text).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}
