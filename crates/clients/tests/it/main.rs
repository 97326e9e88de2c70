//! The configs of MCP clients: one program for all tests that can be beside others. Linking takes longer than most of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod files;
mod home;
mod hostile;
mod import;
mod install;
mod places;
mod together;
