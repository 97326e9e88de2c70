//! A model server that follows a script.
//!
//! It answers on loopback in three wire formats: OpenAI's Chat Completions and Responses, and Anthropic's Messages, streamed or
//! whole, as the request asks. A [`Script`] is data: one [`Reply`] per request, in order. A reply is a [`Message`], a
//! [`Failure`] or a [`Recorded`] exchange, and its [`Wire`] says how the bytes travel: cut anywhere, slowly, until they stall,
//! broken off, with foreign events between them. The same script gives the same bytes in every run.
//!
//! It is no model and no proxy: it does not look at a prompt, except where a reply's [`Expect`] says so.
//!
//! ```
//! use pincer_scripted::{Failure, Format, Message, Script, Server};
//!
//! let script = Script::new()
//!     .reply(Failure::new(429).header("retry-after", "3"))
//!     .reply(Message::new().text("Hello.").call("exec", serde_json::json!({ "code": "return 6 * 7" })));
//! let server = Server::start(script)?;
//! assert!(server.base_url(Format::Chat).ends_with("/v1"));
//! assert!(server.requests().is_empty());
//! # Ok::<(), pincer_scripted::Error>(())
//! ```

mod answer;
mod chunks;
mod error;
mod exchange;
mod expect;
mod file;
mod formats;
mod frame;
mod message;
mod pairing;
mod pieces;
mod reply;
mod script;
mod server;
mod take;
mod wire;

pub use error::{Error, Flaw};
pub use exchange::{End, Request};
pub use expect::Expect;
pub use formats::Format;
pub use message::{Call, ErrorForm, Fault, Message, Part, Stop, StreamError, Thinking, Usage};
pub use reply::{Failure, Recorded, Reply};
pub use script::{Order, Script};
pub use server::Server;
pub use wire::{Cut, Insert, LineEnd, Sent, Wire};
