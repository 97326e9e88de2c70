//! Pincer as an MCP server: `exec` and `wait` for any MCP client, or all tools as they are.
//!
//! A [`Face`] is what all connections share: the runtime, and what a client is shown. [`serve_stdio`] and
//! [`HttpServer`] bring connections to it. Who calls is the user of the connection, not the connection: a program that waits
//! can be continued from another one. Everything that is called goes through the same door as everywhere else; questions to
//! people become questions of the client's user, where the client can ask them.

mod cancellation;
mod client;
mod code;
mod connection;
mod direct;
mod face;
mod http;
mod listen;
mod notices;
mod people;
mod progress;
mod request_session;
mod requests;
mod search;
mod sessions;
mod shown;
mod upstream;

pub use connection::{serve, serve_stdio};
pub use face::{Face, FaceParts, Surface};
pub use http::{HttpError, HttpServer, HttpSettings};
pub use listen::Bounds;
