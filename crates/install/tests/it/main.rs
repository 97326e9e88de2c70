//! Installations from hostile sources: one program for all tests that can be beside others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod archives;
mod common;
mod directories;
mod lifecycle;
mod properties;
mod scanning;
