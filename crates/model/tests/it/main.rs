//! Models over real sockets, served by a script: one program for all tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;
mod failures;
mod gate;
mod real_server;
mod requests;
mod seeing;
mod streams;
mod timeouts;
