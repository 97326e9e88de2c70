//! Servers that are reached over HTTP: in the way of today, in the way of old servers, and finding out which it is.
//!
//! rmcp speaks the protocol; what is sent and what is accepted is decided here. Every request to a server goes through
//! [`client::HttpClient`]: it proves who we are, renews a login, waits when it is asked to, never leaves the server's origin, and
//! bounds what it reads. rmcp's own client buffers bodies without a limit and forgets why a request failed.

mod cause;
mod client;
mod error;
mod events;
mod excerpt;
mod explain;
mod remote;
mod sse;
mod streamable;
mod wire;

pub(crate) use client::{Call, HttpClient, builder};
pub use error::HttpError;
pub(crate) use excerpt::excerpt;
pub use explain::{explain_call, explain_start};
pub(crate) use remote::{Proof, Speaks};
pub use remote::{Remote, RemoteError};
pub use wire::{Trouble, Wire, WireError};
