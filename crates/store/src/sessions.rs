//! Sessions: conversations of users, kept as trees of entries, each with one writer at a time.
//!
//! A writer proves its right with a [`Fence`], which is checked inside every commit. A session is found by its user and key; a
//! reset begins another session under the same key, and the one before stays readable under its id.

use std::sync::Arc;

use crate::states::words;
use crate::{
    AgentRunId, EntryId, Fence, Millis, NewDelivery, NewFrame, OwnerId, Reply, RunChange, Safety, SessionId, SessionKey,
};

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The user whose session it is.
    pub user: String,
    /// The key under which the user finds it.
    pub key: SessionKey,
    /// Whether it is the one that the key means now. A session that neither is current nor has ended is a draft.
    pub is_current: bool,
    /// The agent.
    pub agent: Option<String>,
    /// The name that a person gave it.
    pub label: Option<String>,
    /// The session that it was forked from, or that it follows.
    pub parent: Option<SessionId>,
    /// When it began.
    pub created_at: Millis,
    /// When its user last sent something.
    pub interacted_at: Millis,
    /// When something was last stored in it, or a writer took it or gave it up.
    pub updated_at: Millis,
    /// Why it is no longer current.
    pub ended: Option<String>,
    /// The last entry of the branch in use.
    pub leaf: Option<u32>,
    /// The first entry that is part of what a model is sent.
    pub context_from: u32,
    /// The number of entries.
    pub entries: u32,
    /// Settings that its user changed, as JSON.
    pub settings: String,
    /// Its figures.
    pub totals: Totals,
    /// The run that has the session: it runs, or waits for a person.
    pub active: Option<AgentRunId>,
    /// The process that writes to it.
    pub owner: Option<OwnerId>,
    /// The proof of that process.
    pub fence: Fence,
}

/// Figures of a session, or what a commit adds to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tokens that were sent, without what the provider had cached.
    pub input: i64,
    /// Tokens that models wrote.
    pub output: i64,
    /// Tokens read from a provider's cache.
    pub cache_read: i64,
    /// Tokens written to a provider's cache.
    pub cache_write: i64,
    /// Runs that have begun.
    pub runs: i64,
    /// Compactions.
    pub compactions: i64,
}

/// The kind of an entry. The words are those of the exchange format, but for `nested_call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A message of the user, the model or a tool.
    Message,
    /// A message that the system adds to what the model is sent.
    CustomMessage,
    /// A note that no model is sent.
    Custom,
    /// A summary in place of the entries before it. `firstKeptEntryId` in its body names the first entry that is sent besides.
    Compaction,
    /// A summary of a branch that was left.
    BranchSummary,
    /// Another model is asked from here on.
    ModelChange,
    /// The model thinks more or less from here on.
    ThinkingLevelChange,
    /// A name for an entry.
    Label,
    /// A name for the session.
    SessionInfo,
    /// What came before is no longer sent.
    Reset,
    /// A call that a program made, as a child of the reply whose call ran the program.
    NestedCall,
}

words!(EntryKind {
    Message = "message",
    CustomMessage = "custom_message",
    Custom = "custom",
    Compaction = "compaction",
    BranchSummary = "branch_summary",
    ModelChange = "model_change",
    ThinkingLevelChange = "thinking_level_change",
    Label = "label",
    SessionInfo = "session_info",
    Reset = "reset",
    NestedCall = "nested_call",
});

/// Where a new entry is attached to the tree. A parent comes before its children: one that is not there yet is
/// [`StoreError::Missing`](crate::StoreError::Missing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// To the leaf of the branch in use, whose leaf it becomes.
    Leaf,
    /// To this entry. The branch in use stays as it is.
    Beside(u32),
    /// To this entry, or to none, as the leaf from now on. For entries that are copied as they are, and for another branch: the
    /// commit then tells, too, from where a model is sent it ([`SessionCommit::context_from`]).
    Under(Option<u32>),
}

/// An entry to be stored.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// Its id, unique in the session: another entry with it is [`StoreError::Exists`](crate::StoreError::Exists).
    pub id: EntryId,
    /// Where it is attached.
    pub attach: Attach,
    /// Its kind.
    pub kind: EntryKind,
    /// The run that it is part of.
    pub run: Option<AgentRunId>,
    /// The call that it is the result of, or a child of.
    pub call: Option<String>,
    /// The members of its kind, as a JSON object.
    pub body: Arc<str>,
    /// The events that are stored with it, as JSON.
    pub events: Option<Arc<str>>,
    /// Its time.
    pub at: Millis,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its position in the session, from 1.
    pub position: u32,
    /// Its id.
    pub id: EntryId,
    /// The position of its parent.
    pub parent: Option<u32>,
    /// Its kind.
    pub kind: EntryKind,
    /// The run that it is part of.
    pub run: Option<AgentRunId>,
    /// The call that it is the result of, or a child of.
    pub call: Option<String>,
    /// The members of its kind, as a JSON object.
    pub body: String,
    /// The events that are stored with it, as JSON.
    pub events: Option<String>,
    /// Its time.
    pub at: Millis,
}

/// All that is stored of a session in one step: if any part of it cannot be, none is.
#[derive(Clone, Debug, Default)]
pub struct SessionCommit {
    /// New entries, in their order.
    pub entries: Vec<NewEntry>,
    /// The first entry that a model is sent from now on.
    pub context_from: Option<u32>,
    /// The settings from now on, as JSON.
    pub settings: Option<Arc<str>>,
    /// The list of skills in the session's instructions from now on, as JSON.
    pub skills: Option<Arc<str>>,
    /// The tools whose schemas stand beside the list of the others from now on, as JSON.
    pub shown_tools: Option<Arc<str>>,
    /// The frame in which the model is sent the conversation from now on.
    pub frame: Option<NewFrame>,
    /// The workspace of a run that completes and was shown how to begin there.
    pub begun_workspace: Option<String>,
    /// The amounts that are added to the figures.
    pub totals: Totals,
    /// When the user sent something, if this is because of that.
    pub interacted_at: Option<Millis>,
    /// Changes of runs of this user and key. A run of another one, or one that has ended, is
    /// [`StoreError::Missing`](crate::StoreError::Missing).
    pub runs: Vec<RunChange>,
    /// Texts that are due from now on. One whose key is known is left out; one whose route is full has failed.
    pub deliveries: Vec<NewDelivery>,
    /// Whether the writer gives the session up. Its proof is worth nothing from then on.
    pub release: bool,
    /// The time.
    pub now: Millis,
}

/// What came of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The position of the first new entry.
    pub first: u32,
    /// The last entry of the branch in use.
    pub leaf: Option<u32>,
}

/// A session to be made as a whole.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// The user.
    pub user: String,
    /// The key.
    pub key: SessionKey,
    /// The agent.
    pub agent: Option<String>,
    /// Its name.
    pub label: Option<String>,
    /// The session that it comes from.
    pub parent: Option<SessionId>,
    /// When it began.
    pub created_at: Millis,
}

/// The sessions that are listed, the latest first.
#[derive(Clone, Debug, Default)]
pub struct SessionPage {
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those of this key, and with it those before a reset.
    pub key: Option<SessionKey>,
    /// Those that a reset has left behind, too.
    pub with_ended: bool,
    /// Only those that changed before this one did.
    pub before: Option<(Millis, SessionId)>,
    /// How many at most.
    pub limit: u32,
}

/// Entries of a session.
#[derive(Clone, Copy, Debug)]
pub struct EntryPage {
    /// Only those after this position.
    pub after: u32,
    /// How many at most.
    pub limit: u32,
}

/// Sessions and their entries.
pub trait Sessions {
    /// Stores a session without entries. Fails with [`StoreError::Exists`](crate::StoreError::Exists) if the key has one, or the
    /// id. A key may be any text.
    fn create_session(&self, session: NewSession) -> Reply<Session>;
    /// Stores a session without entries that no key means yet: a draft, in the hands of a writer with the first proof. Only
    /// [`session`](Self::session), [`entries`](Self::entries) and [`drafts`](Self::drafts) show it, and messages under its key are
    /// not part of it. Fails like [`create_session`](Self::create_session).
    fn draft_session(&self, session: NewSession, owner: &OwnerId) -> Reply<Session>;
    /// Makes a draft the session that its key means now, and gives it up. Fails with
    /// [`StoreError::Exists`](crate::StoreError::Exists) if the key means another session by now, and like
    /// [`claim_session`](Self::claim_session) if it is no draft or `fence` is not its proof.
    fn publish_session(&self, id: &SessionId, fence: Fence, now: Millis) -> Reply<Session>;
    /// Returns the drafts of all users.
    fn drafts(&self) -> Reply<Vec<Session>>;
    /// Returns the session that a key means now.
    fn current_session(&self, user: &str, key: &SessionKey) -> Reply<Option<Session>>;
    /// Returns the session with this id.
    fn session(&self, id: &SessionId) -> Reply<Session>;
    /// Returns one page of sessions.
    fn session_page(&self, page: SessionPage) -> Reply<Vec<Session>>;
    /// Takes a session, to write to it, and stores the first commit with that. `seen` is the proof that the claimant saw.
    ///
    /// Fails with [`StoreError::SessionFenced`](crate::StoreError::SessionFenced) if the proof has changed or the session is not
    /// current.
    fn claim_session(&self, id: &SessionId, seen: Fence, owner: &OwnerId, commit: SessionCommit) -> Reply<Fence>;
    /// Stores what a writer adds. Fails like [`claim_session`](Self::claim_session) if `fence` is not the latest proof.
    fn commit_session(&self, id: &SessionId, fence: Fence, commit: SessionCommit, safety: Safety) -> Reply<Committed>;
    /// Begins another session under the same key, in the hands of the same writer, and returns it with the writer's new proof.
    /// The old proof is worth nothing in either. Runs that have not begun are part of the new one. One that has begun stays with
    /// the old one until a commit of the new one changes it, so its writer ends it before.
    fn reset_session(&self, id: &SessionId, fence: Fence, next: SessionId, reason: &str, now: Millis)
    -> Reply<Session>;
    /// Makes a session of the branch that ends with an entry, with the nested calls of it and the ids of all. The source stays as
    /// it is. A nested call stands for the reply that it is part of.
    ///
    /// A model is sent what it would have been sent at that entry: from the one that the last compaction of the branch keeps, from
    /// its last reset, or all of it.
    fn fork_session(&self, source: &SessionId, at: u32, new: NewSession) -> Reply<Session>;
    /// Gives a session another name.
    fn rename_session(&self, id: &SessionId, label: Option<&str>, now: Millis) -> Reply<()>;
    /// Sets the settings of the session that a key means now, as JSON. They are no part of the transcript, so no writer is needed.
    fn set_session_settings(&self, user: &str, key: &SessionKey, settings: Arc<str>, now: Millis) -> Reply<()>;
    /// Forgets a session with its entries and runs, and with their questions, grants and calls. `fence` is the latest proof, also
    /// of a session that is no longer current. Fails with [`StoreError::SessionBusy`](crate::StoreError::SessionBusy) if a run of
    /// it has not ended: a message that was accepted is never lost.
    fn delete_session(&self, id: &SessionId, fence: Fence) -> Reply<()>;
    /// Returns the entries of the branch in use, from the first one that a model is sent. Nested calls are no part of it.
    fn context(&self, id: &SessionId) -> Reply<Vec<Entry>>;
    /// Returns one page of the entries of a session, in their order.
    fn entries(&self, id: &SessionId, page: EntryPage) -> Reply<Vec<Entry>>;
    /// Returns the entry with this id; its beginning is enough if no other has it.
    fn entry_named(&self, id: &SessionId, beginning: &str) -> Reply<Option<Entry>>;
    /// Returns entries of a user's sessions whose bodies contain all these words, in any case and as parts of others, too, the
    /// latest first. A store may look at the latest entries only.
    fn search_entries(&self, user: Option<&str>, words: Vec<String>, limit: u32) -> Reply<Vec<(SessionId, Entry)>>;
    /// Forgets sessions that nothing was stored in since, but for those that have a writer or work; returns how many. They may be
    /// some of many: until it is none, there may be more.
    fn forget_sessions(&self, updated_before: Millis) -> Reply<usize>;
}
