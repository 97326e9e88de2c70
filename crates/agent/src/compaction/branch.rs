//! The branch in use, read for a compaction: its pieces, and each of them as a text that a summary can be made of.

use std::slice::SliceIndex;

use pincer_model::{Assistant, Content, Message, Part, ToolResult};
use pincer_sessions::{BranchSummary, Compaction, CustomMessage, Message as Stored, Role};
use pincer_store::{Entry, EntryId, EntryKind};

use super::plan::{Kind, Piece};
use super::{CompactionDetails, FLUSH, FLUSH_END, estimate};
use crate::hooks::{AFTER_USER, BEFORE_USER};
use crate::record::{Read, read};

/// The most bytes of a result and of arguments that go into a summary.
const MOST_RESULT: usize = 4_000;
const MOST_ARGUMENTS: usize = 2_000;
/// The most bytes of a user's request that is kept word for word when its turn is cut.
const MOST_REQUEST: usize = 4_000;

/// The branch in use since its last reset.
pub(crate) struct Branch {
    /// The summary that it begins with.
    pub summary: String,
    pub details: CompactionDetails,
    /// The ids of programs that have not ended.
    pub open: Vec<String>,
    pub pieces: Vec<Piece>,
    pub marks: Vec<Mark>,
    /// The first piece that the model has not replied to, but for a turn in which it wrote notes.
    pub unanswered: usize,
}

/// The entry of a piece.
pub(crate) struct Mark {
    pub position: u32,
    pub id: EntryId,
    /// The entry in words, if it says anything.
    pub text: String,
    /// The open program that it tells of.
    pub is_open: bool,
}

impl Branch {
    /// Reads the entries that a model is sent. `open` are the ids of programs that have not ended.
    pub(crate) fn read(entries: &[Entry], open: Vec<String>) -> Result<Self, serde_json::Error> {
        let start = entries.iter().rposition(|entry| entry.kind == EntryKind::Reset).map_or(0, |at| at + 1);
        let entries = &entries[start..];
        let mut branch = Self {
            summary: String::new(),
            details: CompactionDetails::default(),
            open,
            pieces: Vec::new(),
            marks: Vec::new(),
            unanswered: 0,
        };
        let mut writes_notes = false;
        for entry in entries {
            let (kind, tokens, text) = match entry.kind {
                EntryKind::Message => of_message(Stored::parse(&entry.body)?),
                EntryKind::CustomMessage => {
                    let told: CustomMessage = serde_json::from_str(&entry.body)?;
                    match told.custom_type.as_str() {
                        FLUSH => writes_notes = true,
                        FLUSH_END => writes_notes = false,
                        _ => {}
                    }
                    let belongs_to_user = [BEFORE_USER, AFTER_USER].contains(&told.custom_type.as_str());
                    let said = Stored { role: Role::User, content: told.content, ..Stored::default() };
                    match of_message(said) {
                        // It is never without the message that it was added to.
                        (Kind::User, tokens, text) if belongs_to_user => (Kind::Note, tokens, text),
                        (Kind::User, tokens, text) => (Kind::Told, tokens, text.replacen("User:", "System:", 1)),
                        other => other,
                    }
                }
                EntryKind::BranchSummary => {
                    let left: BranchSummary = serde_json::from_str(&entry.body)?;
                    (Kind::Told, estimate::text(&left.summary), format!("Another way, left since: {}", left.summary))
                }
                EntryKind::Compaction => {
                    let before: Compaction = serde_json::from_str(&entry.body)?;
                    branch.details = CompactionDetails::parse(before.details.as_ref());
                    branch.summary = before.summary;
                    nothing()
                }
                _ => nothing(),
            };
            let is_open = tokens > 0 && branch.open.iter().any(|id| entry.body.contains(id.as_str()));
            if matches!(kind, Kind::Reply(_) | Kind::Result(_)) && !writes_notes {
                branch.unanswered = branch.pieces.len() + 1;
            }
            branch.pieces.push(Piece { kind, tokens });
            branch.marks.push(Mark { position: entry.position, id: entry.id.clone(), text, is_open });
        }
        Ok(branch)
    }

    /// Returns the first piece that an open program belongs to.
    pub(crate) fn open_from(&self) -> Option<usize> {
        self.marks.iter().position(|mark| mark.is_open)
    }

    /// Returns the last piece in which the user speaks, or all of them if there is none.
    pub(crate) fn last_turn(&self) -> usize {
        self.pieces.iter().rposition(|piece| piece.kind == Kind::User).unwrap_or(0)
    }

    /// Returns the request whose turn is cut at a piece, word for word, if it is cut in the middle.
    pub(crate) fn cut_request(&self, at: usize) -> Option<String> {
        if self.pieces.get(at).is_none_or(|piece| piece.kind == Kind::User) {
            return None;
        }
        let request = self.pieces[..at].iter().rposition(|piece| piece.kind == Kind::User);
        let own = request.map(|request| self.marks[request].text.trim_start_matches("User:").trim());
        own.map(|own| both_ends(own, MOST_REQUEST)).or_else(|| self.details.request.clone())
    }

    /// Returns the requests of the user before a piece, the latest first.
    pub(crate) fn requests(&self, at: usize) -> impl Iterator<Item = &str> {
        let pieces = self.pieces[..at].iter().zip(&self.marks).rev();
        pieces
            .filter(|(piece, _)| piece.kind == Kind::User)
            .map(|(_, mark)| mark.text.trim_start_matches("User:").trim())
    }

    /// Returns how many of these pieces a model is sent.
    pub(crate) fn messages(&self, pieces: impl SliceIndex<[Piece], Output = [Piece]>) -> usize {
        self.pieces[pieces].iter().filter(|piece| piece.kind != Kind::Note).count()
    }

    /// Returns the tokens of the pieces from one on.
    pub(crate) fn tokens_from(&self, at: usize) -> u64 {
        self.pieces[at..].iter().map(|piece| piece.tokens).sum()
    }

    /// Returns the tokens of the pieces before one.
    pub(crate) fn tokens_before(&self, at: usize) -> u64 {
        self.tokens_from(0) - self.tokens_from(at)
    }

    /// Returns the tokens that a summary of the pieces before one replaces: theirs, and those of the summary before.
    pub(crate) fn replaced(&self, at: usize) -> u64 {
        self.tokens_before(at) + estimate::text(&self.summary)
    }

    /// Returns the sizes of the results from a piece on.
    pub(crate) fn results_from(&self, at: usize) -> Vec<u64> {
        let results = self.pieces[at..].iter().filter(|piece| matches!(piece.kind, Kind::Result(_)));
        results.map(|piece| piece.tokens).collect()
    }
}

fn nothing() -> (Kind, u64, String) {
    (Kind::Note, 0, String::new())
}

fn of_message(stored: Stored) -> (Kind, u64, String) {
    let tool = stored.tool_name.clone().unwrap_or_else(|| "a tool".into());
    match read(stored) {
        Read::Message(message @ Message::User(_)) => {
            let tokens = estimate::message(&message);
            let Message::User(content) = message else { return nothing() };
            (Kind::User, tokens, format!("User: {}", in_words(&content)))
        }
        Read::Message(Message::Assistant(message)) => {
            let calls = message.calls().map(|call| call.id.clone()).collect();
            (Kind::Reply(calls), estimate::reply(&message.parts), of_reply(&message))
        }
        Read::Result(result) => {
            let tokens = estimate::result(&result);
            let text = of_result(&tool, &result);
            (Kind::Result(result.call), tokens, text)
        }
        Read::Message(Message::Results(_)) | Read::Nothing => nothing(),
    }
}

fn of_reply(message: &Assistant) -> String {
    let lines = message.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } | Part::Refusal { text, .. } if !text.trim().is_empty() => {
            Some(format!("Agent: {}", text.trim()))
        }
        Part::Call(call) => {
            Some(format!("Agent calls {}: {}", call.name, both_ends(call.arguments.as_str(), MOST_ARGUMENTS)))
        }
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn of_result(tool: &str, result: &ToolResult) -> String {
    let end = if result.is_error { "failed" } else { "returned" };
    format!("{tool} {end}: {}", both_ends(&in_words(&result.content), MOST_RESULT))
}

fn in_words(content: &[Content]) -> String {
    let parts = content.iter().map(|part| match part {
        Content::Text(text) => text.as_str(),
        Content::Image(_) => "[a picture]",
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// Returns a text, or the beginning and the end of one that is longer than this.
pub(crate) fn both_ends(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let (mut head, mut tail) = (bytes * 3 / 4, text.len() - bytes / 4);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{} [… {} bytes left out …] {}", &text[..head], tail - head, &text[tail..])
}
