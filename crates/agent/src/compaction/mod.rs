//! Compaction: the older part of a conversation gives way to a summary when the window of the model is full.
//!
//! `plan.rs` decides, without doing anything, where the kept part begins; `summary.rs` asks a model for the summary; `run.rs` stores it as
//! one commit of the run. Older entries stay in the session: only the requests get shorter. `flush.rs` is the silent turn
//! before that, and `guard.rs` ends a run that a compaction does not help.

mod branch;
pub(crate) mod details;
pub(crate) mod estimate;
mod flush;
pub(crate) mod guard;
mod plan;
mod request;
mod run;
pub(crate) mod settings;
mod summary;

pub(crate) use details::CompactionDetails;
pub(crate) use flush::{FLUSH, FLUSH_END};
pub(crate) use run::Room;
