//! Code mode: one program for all tests that can be beside others. Those that are killed, or that count what a process has, are
//! programs of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bridge;
mod changed_tools;
mod checkpoints;
mod codes;
#[path = "../common/mod.rs"]
mod common;
mod ecmascript;
mod exec;
mod faults;
mod lines;
mod mcp;
mod namespaces;
mod outcome;
mod outer_hooks;
mod replay;
mod surface;
mod translated;
mod values;
mod waiting;
