//! Logging in to servers with OAuth 2.1, and staying so.
//!
//! rmcp finds out where to log in, registers us, and exchanges the code. What it leaves to others is here: the browser's way back,
//! the file in which a login is kept, and renewing it without two processes losing each other's tokens. A login is bound to the
//! address of its server; a token is sent nowhere else, and no message has one in it.

mod answer;
mod callback;
mod error;
mod login;
mod logins;
mod refresh;
mod tokens;

pub use error::{AuthError, DeniedReason};
pub use login::{LoggedIn, login};
pub use logins::{LoginStatus, Logins, logout, status};
pub(crate) use tokens::Tokens;
