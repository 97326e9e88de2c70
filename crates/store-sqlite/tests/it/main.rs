//! The store in a file: one program for all tests that can be beside others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod backup;
mod contract;
mod file;
mod sessions;
mod space;
