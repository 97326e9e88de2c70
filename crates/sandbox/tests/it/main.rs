//! The sandbox from outside: one program for all tests that can be beside others. Linking takes longer than most of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bridge;
mod build_fetch;
mod checkpoints;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod ecmascript;
mod globals;
mod hostile;
mod images;
mod kept;
mod library;
mod readings;
mod survival;
