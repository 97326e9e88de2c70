//! The built-in tools: one program for all tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod any_input;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod paths;
mod sessions;
mod shell;
mod web;
mod workspaces;
