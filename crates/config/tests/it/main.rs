//! The config file: one program for all tests that can be beside others. Linking takes longer than most of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod config;
mod edit;
mod hostile;
