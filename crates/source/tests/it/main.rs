//! Texts of models, and the programs that they become: one program for all tests that can be beside others. Linking takes longer than most of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod any_input;
mod hostile;
mod modules;
mod positions;
mod shell;
mod trailing;
mod typescript;
