//! The server over a real socket, read byte by byte.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod files;
mod formats;
mod requests;
mod wire;
