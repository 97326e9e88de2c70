//! MCP servers as a source of tools: programs and addresses that speak the Model Context Protocol.
//!
//! A server is started when it is needed and started again when it falls; what it has is kept, so that it is known while the
//! server is away. Its tools, resources and prompts are registered at the one door like any other tool, under ids
//! `mcp:<server>:<tool>`. What a server says is somebody else's word: names, descriptions and schemas are taken as data, and
//! messages that are too long, broken or late fail a call and nothing else.
//!
//! The protocol is the official SDK's (`rmcp`); this crate adds what a server must not be able to do to us. It does not know
//! the config or code mode, and Pincer as a server is another crate's business.
//!
//! ```no_run
//! # async fn example(settings: Vec<pincer_mcp::ServerSettings>, door: std::sync::Arc<pincer_tools::Door>) {
//! use std::time::Duration;
//!
//! use pincer_mcp::Servers;
//!
//! let servers = Servers::new(settings, Some("/var/lib/pincer".into()));
//! servers.attach(&door);
//! let left = servers.ready_for("return await MCP.time.now({})", Duration::from_secs(10)).await;
//! servers.end().await;
//! # drop(left);
//! # }
//! ```

mod addressee;
mod asks;
mod auth;
mod clock;
mod connection;
mod error;
mod greeting;
mod handler;
mod hiding;
mod http;
mod inflight;
mod limits;
mod lines;
mod listing;
mod log;
mod mention;
mod outage;
mod params;
mod private;
mod rounds;
mod sealed;
mod server;
mod servers;
mod settings;
mod told;
mod tool;

pub use auth::{AuthError, DeniedReason, LoggedIn, LoginStatus, Logins, login, logout, status};
pub use error::{ResolveError, Unavailable};
pub use greeting::Greeting;
pub use http::{HttpError, Remote, RemoteError, Trouble, Wire, WireError, explain_call, explain_start};
pub use listing::{ListedTool, Listing};
pub use sealed::opened;
pub use server::{Health, Seen, Server};
pub use servers::Servers;
pub use settings::{
    Address, Directory, Elicitation, Launch, OAuth, Reach, Readiness, Resolve, Sampling, ServerSettings, Speaks,
    ToolFilter,
};
pub use told::{Notice, Told};
