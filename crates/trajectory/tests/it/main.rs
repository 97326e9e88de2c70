//! Bundles of sessions that a test has stored, in a real store.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod damage;
mod export;
mod secrets;
mod size;
mod world;
