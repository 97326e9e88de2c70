//! Channels at work: an in-process one whose every step the tests decide, and one of a plugin.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod deaths;
mod hooks;
mod jobs;
mod message_tool;
mod plugins;
mod receiving;
mod sending;
mod world;
