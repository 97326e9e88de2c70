//! The conversation of a session as far as a model is sent it, and the next step that it calls for.

use std::collections::{HashMap, HashSet};

use pincer_model::{Assistant, Content, Message, ToolCall, ToolResult};
use pincer_sessions::{Block, BranchSummary, Compaction, CustomMessage, Message as Stored, Role};
use pincer_store::{AgentRunId, Entry, EntryKind};

use crate::compaction::{CompactionDetails, FLUSH, FLUSH_END, estimate};
use crate::fitting::{Size, fitted};
use crate::hooks::{AFTER_USER, BEFORE_USER};
use crate::record::{Read, read};
use crate::tool_search::Exchanges;

/// The text in place of a result that was never stored.
const NO_RESULT: &str = "No result of this call was recorded.";
/// The words before a summary.
const SUMMARY: &str = "The conversation before this point was summarized as follows.";
/// The words before a summary of another branch.
const BRANCH_SUMMARY: &str =
    "The conversation went another way from here and came back. That way was summarized as follows.";

/// The conversation of a session.
#[derive(Default)]
pub(crate) struct Transcript {
    items: Vec<Item>,
    /// The estimated tokens of all items.
    estimated: u64,
    /// The tokens that the provider counted up to its last reply, and the estimate at that point.
    counted: Option<(u64, u64)>,
    /// The newest compaction: its position, and its run.
    compacted: Option<(u32, Option<AgentRunId>)>,
    /// The most bytes of a result, while the entries that a compaction has kept are read.
    most_result: Option<usize>,
    flush: Flush,
    exchanges: Exchanges,
}

/// The silent turn in which the model writes notes, since the newest compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flush {
    /// There was none.
    #[default]
    Due,
    /// The run is under way, and has so many replies.
    UnderWay(u32),
    /// The run is over.
    Over,
}

enum Item {
    User(Vec<Content>),
    Reply { position: u32, message: Assistant },
    Result(ToolResult),
}

/// The next step of a run.
pub(crate) enum Step {
    /// The model is asked.
    Ask,
    /// Calls of the last reply are made.
    Calls(OpenCalls),
    /// The model has nothing more to do.
    End,
}

/// Calls of a reply that have no result.
pub(crate) struct OpenCalls {
    /// The position of the reply's entry.
    pub reply: u32,
    pub calls: Vec<OpenCall>,
}

/// A call that has no result.
#[derive(Clone, Debug)]
pub(crate) struct OpenCall {
    pub call: ToolCall,
    /// Its place among the calls of its reply.
    pub index: u32,
    /// Names it in the run: the model's own id, unless an earlier reply had the same.
    pub id: String,
}

/// The most calls of one reply.
pub(crate) const MOST_CALLS: u32 = 1 << 10;

impl Transcript {
    /// Reads the entries of a branch.
    pub(crate) fn read(entries: &[Entry]) -> Result<Self, String> {
        let start = entries.iter().rposition(|entry| entry.kind == EntryKind::Reset).map_or(0, |at| at + 1);
        let entries = &entries[start..];
        let mut transcript = Self::default();
        let newest = entries.iter().rposition(|entry| entry.kind == EntryKind::Compaction);
        if let Some(newest) = newest {
            let entry = &entries[newest];
            let compaction: Compaction = serde_json::from_str(&entry.body).map_err(|error| damaged(entry, &error))?;
            if !compaction.summary.trim().is_empty() {
                transcript.push_text(format!("{SUMMARY}\n\n{}", compaction.summary));
            }
            transcript.most_result = CompactionDetails::parse(compaction.details.as_ref()).most_result_bytes;
            for entry in &entries[..newest] {
                transcript.add(entry)?;
            }
            // The provider's last count includes the part that was cut off.
            transcript.counted = None;
            (transcript.most_result, transcript.flush) = (None, Flush::Due);
            transcript.compacted = Some((entry.position, entry.run.clone()));
        }
        for entry in &entries[newest.map_or(0, |newest| newest + 1)..] {
            transcript.add(entry)?;
        }
        Ok(transcript)
    }

    /// Adds an entry at its end.
    fn add(&mut self, entry: &Entry) -> Result<(), String> {
        match entry.kind {
            EntryKind::Message => {
                let message = Stored::parse(&entry.body).map_err(|error| damaged(entry, &error))?;
                self.push(entry.position, message);
            }
            EntryKind::CustomMessage => {
                let message: CustomMessage =
                    serde_json::from_str(&entry.body).map_err(|error| damaged(entry, &error))?;
                if [BEFORE_USER, AFTER_USER].contains(&message.custom_type.as_str()) {
                    self.add_context(&message.custom_type, message.content);
                    return Ok(());
                }
                // Like the message of a user: one without a text or a picture is nothing that a model could read.
                let told = Stored { role: Role::User, content: message.content, ..Stored::default() };
                self.insert(entry.position, told);
                self.told(&message.custom_type);
            }
            EntryKind::BranchSummary => {
                let left: BranchSummary = serde_json::from_str(&entry.body).map_err(|error| damaged(entry, &error))?;
                self.push_text(format!("{BRANCH_SUMMARY}\n\n{}", left.summary));
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a message at its end.
    pub(crate) fn push(&mut self, position: u32, message: Stored) {
        self.flush = match (self.flush, message.role) {
            // The user speaks: an answer to that is not withheld.
            (Flush::UnderWay(_), Role::User) => Flush::Over,
            (Flush::UnderWay(replies), Role::Assistant) => Flush::UnderWay(replies + 1),
            (flush, _) => flush,
        };
        if !matches!(self.flush, Flush::UnderWay(_)) {
            self.exchanges.add(&message);
        }
        self.insert(position, message);
    }

    fn insert(&mut self, position: u32, message: Stored) {
        let counted = message.usage.map(|usage| usage.total_tokens).filter(|tokens| *tokens > 0);
        match read(message) {
            Read::Message(Message::User(content)) => self.push_user(content),
            Read::Message(Message::Assistant(message)) => {
                self.estimated += estimate::reply(&message.parts);
                self.counted = counted.map(|counted| (counted, self.estimated)).or(self.counted);
                self.items.push(Item::Reply { position, message });
            }
            Read::Result(mut result) => {
                if let Some(texts) = self.most_result {
                    result.content = fitted(result.content, Size { texts, pictures: usize::MAX });
                }
                self.estimated += estimate::result(&result);
                self.items.push(Item::Result(result));
            }
            Read::Message(Message::Results(_)) | Read::Nothing => {}
        }
    }

    fn push_user(&mut self, content: Vec<Content>) {
        self.estimated += estimate::content(&content);
        self.items.push(Item::User(content));
    }

    /// Adds what hooks say to the last turn of the user: before what the user said, or after it.
    pub(crate) fn add_context(&mut self, kind: &str, content: Vec<Block>) {
        let texts: Vec<Content> = content.into_iter().filter_map(|block| block.text.map(Content::Text)).collect();
        self.estimated += estimate::content(&texts);
        let turn = self.items.iter_mut().rev().find_map(|item| match item {
            Item::User(content) => Some(content),
            _ => None,
        });
        match (turn, kind == BEFORE_USER) {
            (Some(turn), true) => turn.splice(..0, texts).for_each(drop),
            (Some(turn), false) => turn.extend(texts),
            (None, _) => self.items.push(Item::User(texts)),
        }
    }

    /// Notes that a text of this kind was added in the user's place.
    pub(crate) fn told(&mut self, kind: &str) {
        self.exchanges.told(kind);
        match kind {
            FLUSH => self.flush = Flush::UnderWay(0),
            FLUSH_END => self.flush = Flush::Over,
            _ => {}
        }
    }

    /// Returns how the silent turn in which the model writes notes stands.
    pub(crate) fn flush(&self) -> Flush {
        self.flush
    }

    /// Returns whether the model has replied to something that it is sent.
    pub(crate) fn has_replies(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Reply { .. }))
    }

    /// Returns the tokens of a request with this conversation: the last count of the provider, and an estimate for later entries.
    /// `around` is the estimate of instructions and tools, for a conversation that no provider has counted.
    pub(crate) fn tokens(&self, around: u64) -> u64 {
        match self.counted {
            Some((counted, at)) => counted + self.estimated.saturating_sub(at),
            None => self.estimated + around,
        }
    }

    /// Returns the estimated tokens of the conversation.
    pub(crate) fn estimated(&self) -> u64 {
        self.estimated
    }

    /// Adds a text of the user, or in the user's place, at its end.
    pub(crate) fn push_text(&mut self, text: String) {
        self.push_user(vec![Content::Text(text)]);
    }

    /// Returns the next step of a run.
    pub(crate) fn next(&self, run: &AgentRunId) -> Step {
        let last = self.items.iter().enumerate().rev().find_map(|(at, item)| match item {
            Item::Reply { position, message } => Some((at, *position, message)),
            _ => None,
        });
        let Some((at, position, message)) = last else { return Step::Ask };
        let after = &self.items[at + 1..];
        let settled: HashSet<&str> = results(after).map(|result| result.call.as_str()).collect();
        let asked_since = after.iter().any(|item| matches!(item, Item::User(_)));
        let open = self.named(at, position, message, run);
        let has_calls = !open.is_empty();
        let calls: Vec<OpenCall> = open.into_iter().filter(|open| !settled.contains(open.call.id.as_str())).collect();
        match () {
            () if !calls.is_empty() && !asked_since => Step::Calls(OpenCalls { reply: position, calls }),
            () if has_calls || asked_since => Step::Ask,
            () => Step::End,
        }
    }

    /// Returns the calls of a reply, each with a name that no call of the run before it has.
    fn named(&self, at: usize, position: u32, message: &Assistant, run: &AgentRunId) -> Vec<OpenCall> {
        // A compaction within the run has cut off calls of it, whose ids are not known here.
        let may_be_taken = self
            .compacted
            .as_ref()
            .is_some_and(|(compacted_at, compacted_in)| position > *compacted_at && compacted_in.as_ref() == Some(run));
        let mut before: HashSet<&str> = self.items[..at]
            .iter()
            .filter_map(|item| match item {
                Item::Reply { message, .. } => Some(message.calls().map(|call| call.id.as_str())),
                _ => None,
            })
            .flatten()
            .collect();
        let calls = message.calls().zip(0..).map(|(call, index)| {
            let is_new = before.insert(&call.id);
            let id = if is_new && !may_be_taken { call.id.clone() } else { format!("{}~{position}.{index}", call.id) };
            OpenCall { call: call.clone(), index, id }
        });
        calls.collect()
    }

    /// Returns what the user asked before the last message, if that was answered without a tool and the model was not told of that.
    pub(crate) fn answered_without_tools(&self) -> Option<&str> {
        self.exchanges.unaided()
    }

    /// Returns whether a call has this text as its result.
    pub(crate) fn was_told(&self, text: &str) -> bool {
        results(&self.items).any(|result| matches!(result.content.first(), Some(Content::Text(told)) if told == text))
    }

    /// Returns the size of the results after the last reply.
    pub(crate) fn told_since_reply(&self) -> Size {
        let after = self.items.iter().rposition(|item| matches!(item, Item::Reply { .. })).map_or(0, |at| at + 1);
        let mut size = Size::default();
        results(&self.items[after..]).for_each(|result| size += Size::of(&result.content));
        size
    }

    /// Returns the conversation as a model is sent it: each call with its result, in the order of the calls.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut items = self.items.iter().peekable();
        while let Some(item) = items.next() {
            match item {
                Item::User(content) => messages.push(Message::User(content.clone())),
                // A result without a call: nothing that a model could read.
                Item::Result(_) => {}
                Item::Reply { message, .. } => {
                    let mut found: HashMap<&str, &ToolResult> = HashMap::new();
                    // Messages that came in between follow the results.
                    let mut between = Vec::new();
                    while let Some(next) = items.peek() {
                        match next {
                            Item::Result(result) => drop(found.entry(&result.call).or_insert(result)),
                            Item::User(content)
                                if message.calls().next().is_some() && found.len() < message.calls().count() =>
                            {
                                between.push(Message::User(content.clone()));
                            }
                            _ => break,
                        }
                        items.next();
                    }
                    messages.push(Message::Assistant(message.clone()));
                    let results: Vec<ToolResult> = message
                        .calls()
                        .map(|call| match found.get(call.id.as_str()) {
                            Some(result) => (*result).clone(),
                            None => ToolResult {
                                call: call.id.clone(),
                                content: vec![Content::Text(NO_RESULT.into())],
                                is_error: true,
                            },
                        })
                        .collect();
                    if !results.is_empty() {
                        messages.push(Message::Results(results));
                    }
                    messages.append(&mut between);
                }
            }
        }
        messages
    }
}

fn results(items: &[Item]) -> impl Iterator<Item = &ToolResult> {
    items.iter().filter_map(|item| match item {
        Item::Result(result) => Some(result),
        _ => None,
    })
}

fn damaged(entry: &Entry, error: &serde_json::Error) -> String {
    format!(
        "the transcript is damaged: entry {} ({}) cannot be read: {error}. Fork the session before it, or begin anew with /new",
        entry.position, entry.id
    )
}

#[cfg(test)]
mod tests {
    use pincer_json::Json;
    use pincer_model::Part;

    use super::*;

    fn user(text: &str) -> Stored {
        Stored { role: Role::User, content: vec![Block::text(text)], ..Stored::default() }
    }

    fn reply(calls: &[&str]) -> Stored {
        let call = |id: &&str| Block {
            kind: "toolCall".into(),
            id: Some((*id).to_owned()),
            name: Some("t".into()),
            arguments: Some(Json::empty_object()),
            ..Block::default()
        };
        let text = calls.is_empty().then(|| Block::text("done"));
        Stored {
            role: Role::Assistant,
            content: text.into_iter().chain(calls.iter().map(call)).collect(),
            ..Stored::default()
        }
    }

    fn result(call: &str) -> Stored {
        Stored {
            role: Role::ToolResult,
            tool_call_id: Some(call.into()),
            content: vec![Block::text(call)],
            ..Stored::default()
        }
    }

    fn of(messages: Vec<Stored>) -> Transcript {
        let mut transcript = Transcript::default();
        messages.into_iter().zip(1..).for_each(|(message, position)| transcript.push(position, message));
        transcript
    }

    fn step(transcript: &Transcript) -> String {
        match transcript.next(&"r".into()) {
            Step::Ask => "ask".into(),
            Step::End => "end".into(),
            Step::Calls(open) => {
                let ids: Vec<&str> = open.calls.iter().map(|call| call.id.as_str()).collect();
                format!("{}: {}", open.reply, ids.join(" "))
            }
        }
    }

    #[test]
    fn the_next_step_follows_from_what_is_stored() {
        let check = |messages: Vec<Stored>, expected: &str| assert_eq!(step(&of(messages)), expected);
        check(vec![], "ask");
        check(vec![user("a")], "ask");
        check(vec![user("a"), reply(&["x", "y"])], "2: x y");
        check(vec![user("a"), reply(&["x", "y"]), result("y")], "2: x");
        check(vec![user("a"), reply(&["x", "y"]), result("y"), result("x")], "ask");
        check(vec![user("a"), reply(&[])], "end");
        check(vec![user("a"), reply(&[]), user("b")], "ask");
        check(vec![user("a"), reply(&["x"]), user("b")], "ask");
        check(vec![user("a"), reply(&["x"]), result("x"), reply(&["x"])], "4: x~4.0");
    }

    #[test]
    fn a_model_is_sent_what_the_system_adds_and_summaries_of_branches() {
        let entry = |position: u32, kind, body: &str| Entry {
            position,
            id: format!("e{position}").as_str().into(),
            parent: None,
            kind,
            run: None,
            call: None,
            body: body.into(),
            events: None,
            at: 0,
        };
        let picture =
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}]}"#;
        let entries = [
            entry(1, EntryKind::CustomMessage, r#"{"customType":"t","content":"plain"}"#),
            entry(2, EntryKind::CustomMessage, picture),
            entry(3, EntryKind::CustomMessage, r#"{"content":[]}"#),
            entry(4, EntryKind::BranchSummary, r#"{"summary":"we tried","fromId":"x"}"#),
        ];
        let sent = Transcript::read(&entries).expect("readable").messages();
        let shape: Vec<String> = sent
            .iter()
            .map(|message| match message {
                Message::User(content) => content
                    .iter()
                    .map(|content| match content {
                        Content::Text(text) => text.replace(BRANCH_SUMMARY, "branch:").replace('\n', " "),
                        Content::Image(_) => " picture".into(),
                    })
                    .collect(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shape, ["plain", "a picture", "branch:  we tried"]);
    }

    #[test]
    fn a_model_can_read_it_whatever_is_missing() {
        let messages =
            of(vec![user("a"), reply(&["x", "y"]), user("b"), result("y"), result("z"), reply(&[])]).messages();
        let shape: Vec<String> = messages
            .iter()
            .map(|message| match message {
                Message::User(_) => "user".into(),
                Message::Assistant(message) => {
                    format!("reply {}", message.parts.iter().filter(|part| matches!(part, Part::Call(_))).count())
                }
                Message::Results(results) => {
                    results.iter().map(|result| format!("{}{}", result.call, u8::from(result.is_error))).collect()
                }
            })
            .collect();
        assert_eq!(shape, ["user", "reply 2", "x1y0", "user", "reply 0"]);
    }
}
