//! The servers that tests and suites use: one program for all tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod client;
#[path = "../common/mod.rs"]
mod common;
mod fixture;
mod liar;
