//! The MCP server's face: one program for all tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod code;
#[path = "../common/mod.rs"]
mod common;
mod direct;
mod http;
mod http_bounds;
mod passing;
mod people;
mod search_surface;
