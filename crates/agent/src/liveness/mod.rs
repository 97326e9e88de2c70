//! Liveness: sessions that take long, that make no progress, or that no process works on.
//!
//! `activity.rs` has the present work of a run that goes on here, `classify.rs` decides about its meaning and the remedy, and `reports.rs`
//! about the times at which it is told. All of that is pure; `watch.rs` feeds it from this process and the store, and acts.

pub(crate) mod activity;
mod classify;
mod diagnostic;
mod recovery;
mod reports;
mod watch;

pub use diagnostic::{Diagnostic, DiagnosticKind, Reason, Recovery, RecoveryStatus};
pub(crate) use watch::Liveness;
