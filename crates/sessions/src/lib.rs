//! Sessions of agents: what their entries hold, the one writer that each has, when one begins anew, and their exchange as JSON
//! Lines.
//!
//! The crate knows nothing of models, tools or the loop that fills a session. [`Writer`] is the way to write to one: it takes the
//! session, waits for another writer if need be, and proves its right in every commit.

mod body;
mod drafts;
mod exchange;
mod freshness;
mod import;
mod tree;
mod writer;

pub use body::{
    Block, BranchSummary, Compaction, Custom, CustomMessage, Message, MessageBody, NestedCall, Role, TokenUsage,
};
pub use drafts::remove_dead_drafts;
pub use exchange::{Exported, VERSION, export_line, header_line};
pub use freshness::{Freshness, Stale};
pub use import::{ImportError, Imported, import};
pub use tree::{Node, outline};
pub use writer::{AcquireError, Reentry, SessionStore, Writer};

use pincer_store::{EntryId, SessionId};
use uuid::Uuid;

/// The most bytes of a session's key.
const MOST_KEY: usize = 512;

/// Returns why a text cannot be the key of a session, if it cannot.
pub fn key_complaint(key: &str) -> Option<&'static str> {
    match key {
        "" => Some("is empty: name the session"),
        key if key.trim().is_empty() => Some("is blank: name the session"),
        key if key.len() > MOST_KEY => Some("is longer than 512 bytes"),
        key if key.chars().any(char::is_control) => Some("has control characters in it, which no terminal could show"),
        _ => None,
    }
}

/// Returns a new id for a session.
pub fn new_session_id() -> SessionId {
    Uuid::now_v7().to_string().into()
}

/// Returns a new id for an entry.
pub fn new_entry_id() -> EntryId {
    Uuid::now_v7().simple().to_string().into()
}
