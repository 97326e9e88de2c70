//! Liveness: sessions that take long, that make no progress, or that no process works on.
//!
//! `activity.rs` is what a run that goes on here does at the moment, `classify.rs` decides what that means and what is done about it, and
//! `reports.rs` how often it is told. All of that is pure; `watch.rs` feeds it from this process and the store, and acts.

pub(crate) mod activity;
mod classify;
mod diagnostic;
mod recovery;
mod reports;
mod watch;

pub use diagnostic::{Diagnostic, DiagnosticKind, Reason, Recovery, RecoveryStatus};
pub(crate) use watch::Liveness;
