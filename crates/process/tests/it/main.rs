//! Everything of this crate that can be tested beside other tests of one process. What changes the process itself has files of its
//! own: `orphans.rs` and `whole.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod groups;
mod paths;
mod peer;
