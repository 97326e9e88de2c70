//! MCP servers, good and bad: one program for all tests that can be beside others. Linking takes longer than most of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod calls;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common_oauth/mod.rs"]
mod common_oauth;
mod counts;
mod floods;
mod http_limits;
mod http_servers;
mod listings;
mod lives;
mod oauth;
mod operations;
mod questions;
mod revisions;
mod sse;
mod starting;
