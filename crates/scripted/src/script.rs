//! The script: one reply per request.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Flaw};
use crate::file;
use crate::reply::Reply;

/// The name of the only model of a script that names none.
pub(crate) const MODEL: &str = "scripted";

/// The replies of a server, one per request, in order, and the models it lists.
///
/// When the replies are used up, a request gets status 500, unless the last reply is repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(crate) models: Vec<String>,
    pub(crate) order: Order,
    pub(crate) strict: bool,
    pub(crate) replies: Vec<Reply>,
}

/// Which reply a request gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The n-th request gets the n-th reply.
    #[default]
    Requests,
    /// A request whose conversation has n replies gets the next one. A request that is made again gets the same reply again, and
    /// conversations do not get in each other's way.
    Conversation,
    /// A request gets the first reply whose conditions it meets. For conversations that are shortened on the way: their replies cannot
    /// be counted.
    Matching,
}

impl Default for Script {
    fn default() -> Self {
        Self { models: vec![MODEL.to_owned()], order: Order::default(), strict: false, replies: Vec::new() }
    }
}

impl Script {
    /// Makes a script without replies, with one model called `scripted`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the models that the server lists. A request may name any model.
    #[must_use]
    pub fn models(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.models = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets which reply a request gets.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Refuses conversations whose calls and results do not belong together, as real providers do.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Appends a reply.
    #[must_use]
    pub fn reply(mut self, reply: impl Into<Reply>) -> Self {
        self.replies.push(reply.into());
        self
    }

    /// Reads a script in JSON5. `crates/scripted/README.md` has all keys.
    ///
    /// ```
    /// let script = pincer_scripted::Script::parse(r#"{
    ///   replies: [
    ///     { parts: [{ text: "One moment." }, { call: { id: "call_1", name: "exec", arguments: { code: "return 1" } } }] },
    ///     { expect: { contains: "1" }, parts: [{ text: "It is 1." }], wire: { cut: 1 } },
    ///   ],
    /// }"#)?;
    /// # let _ = script;
    /// # Ok::<(), pincer_scripted::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the text is no script, or a reply contradicts itself.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let script = file::parse(text)?;
        script.check()?;
        Ok(script)
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// When the file cannot be read, or [`Script::parse`] fails.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Checks what the types do not show.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (at, reply) in self.replies.iter().enumerate() {
            let is_last = at + 1 == self.replies.len();
            let too_early = if reply.repeat && !is_last { Err(Flaw::RepeatedTooEarly) } else { Ok(()) };
            too_early.and_then(|()| reply.check()).map_err(|flaw| Error::Reply { reply: at + 1, flaw })?;
        }
        Ok(())
    }

    /// Returns the reply to the n-th model request, counted from 0.
    pub(crate) fn reply_to(&self, number: usize) -> Option<&Reply> {
        self.replies.get(number).or_else(|| self.replies.last().filter(|reply| reply.repeat))
    }
}

/// Returns how many replies a conversation has, in any format: calls and texts that follow each other are one reply.
pub(crate) fn replies_in(body: &Value) -> usize {
    let items = body["messages"].as_array().or_else(|| body["input"].as_array());
    let is_reply = |item: &Value| {
        item["role"] == "assistant" || matches!(item["type"].as_str(), Some("function_call" | "reasoning"))
    };
    let mut count = 0;
    let mut was_reply = false;
    for item in items.into_iter().flatten() {
        let is_new = is_reply(item) && (!was_reply || body["messages"].is_array());
        count += usize::from(is_new);
        was_reply = is_reply(item);
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies_are_counted_in_every_format() {
        let chat = json!({ "messages": [{ "role": "user" }, { "role": "assistant" }, { "role": "tool" }, { "role": "assistant" }] });
        let responses = json!({ "input": [{ "role": "user" }, { "type": "reasoning" }, { "type": "function_call" },
            { "type": "function_call_output" }, { "role": "assistant", "type": "message" }] });
        assert_eq!((replies_in(&chat), replies_in(&responses), replies_in(&json!({ "input": "hello" }))), (2, 2, 0));
    }
}
