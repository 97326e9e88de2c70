//! MCP servers as a source of tools.

mod auth;
mod http;

pub use auth::{AuthError, LoggedIn, LoginStatus, Logins, login, logout, status};
pub use http::{HttpError, Remote, RemoteError, Trouble, Wire, WireError, explain_call, explain_start};
