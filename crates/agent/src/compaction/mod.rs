//! Compaction: the older part of a conversation gives way to a summary when the window of the model is full.
//!
//! `plan.rs` decides where the kept part begins, and `planned.rs` whether a summary is worth it; neither does anything. `summary.rs` asks a
//! model for the summary; `run.rs` stores it as one commit of the run, and `asked.rs` is that for `/compact`. What came before stays in the
//! session: only what a model is sent gets shorter. `flush.rs` is the silent turn before that, and `guard.rs` ends a run that a compaction
//! does not help.

mod asked;
mod branch;
pub(crate) mod details;
pub(crate) mod estimate;
mod flush;
pub(crate) mod guard;
mod plan;
mod planned;
mod request;
mod run;
pub(crate) mod settings;
mod summary;

pub(crate) use details::CompactionDetails;
pub(crate) use flush::{FLUSH, FLUSH_END};
pub(crate) use run::Room;
