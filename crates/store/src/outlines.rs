//! Sessions as readers see them that never hold a whole one in memory, and that go on where something is damaged.

use crate::{AgentRunId, ApprovalId, Entry, EntryId, EntryKind, EntryPage, Millis, Reply, SessionId, SessionKey};

/// An entry without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryOutline {
    /// Its position in the session, from 1.
    pub position: u32,
    /// The position of its parent.
    pub parent: Option<u32>,
    /// Its kind; nothing if the word for it is not known.
    pub kind: Option<EntryKind>,
    /// The kind of a note, as its body says.
    pub note: Option<String>,
    /// The run that it is part of.
    pub run: Option<AgentRunId>,
    /// The call that it is the result of, or a child of.
    pub call: Option<String>,
    /// The bytes of its body.
    pub bytes: u64,
    /// When the call began, if it is one of a program and its body says so.
    pub began_at: Option<Millis>,
    /// How long it took, likewise.
    pub took_ms: Option<Millis>,
    /// Its time.
    pub at: Millis,
}

/// An entry without its events, and the id of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryText {
    /// The entry. Its events are left out.
    pub entry: Entry,
    /// The id of its parent, if that is there.
    pub parent_id: Option<EntryId>,
}

/// Sessions in parts of a size that the reader chooses.
pub trait Outlines {
    /// Returns one page of the entries of a session, in their order, without their texts.
    fn outline(&self, id: &SessionId, page: EntryPage) -> Reply<Vec<EntryOutline>>;
    /// Returns the entries from one position to another. Those that are not there are left out; if one of them cannot be read, all
    /// fail.
    fn entry_texts(&self, id: &SessionId, first: u32, last: u32) -> Reply<Vec<EntryText>>;
    /// Returns the questions that were asked in a session of a user between two times, with the times at which they were asked, the
    /// oldest first.
    fn questions_asked(
        &self,
        user: &str,
        session: &SessionKey,
        between: (Millis, Millis),
    ) -> Reply<Vec<(ApprovalId, Millis)>>;
}
