//! The runtime, as fronts use it: one program for all tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod fronts;
mod mcp_settings;
mod scopes;
mod settings;
