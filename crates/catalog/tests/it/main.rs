//! Entries, and what is asked of them: one program for all tests that can be beside others. Linking takes longer than most of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod declarations;
mod hostile_search;
mod languages;
mod policy;
mod search;
