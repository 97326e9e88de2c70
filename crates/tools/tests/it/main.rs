//! The door and what stands around it: one program for all tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod any_input;
mod approvals;
#[path = "../common/mod.rs"]
mod common;
mod door;
mod hooks;
mod plugins;
