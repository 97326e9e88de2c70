//! Servers that are reached over HTTP: in the way of today, in the way of old servers, and finding out which it is.
//!
//! rmcp speaks the protocol; what is sent and what is accepted is decided here. Every request to a server goes through
//! [`client::HttpClient`]: it proves who we are, renews a login, waits when it is asked to, never leaves the server's origin, and
//! bounds what it reads. rmcp's own client buffers bodies without a limit and forgets why a request failed.

mod cause;
mod client;
mod error;
mod events;
mod explain;
mod raw;
mod remote;
mod sse;
mod streamable;
mod wire;

use rmcp::ClientServiceExt;
use rmcp::service::{RoleClient, RunningService};

pub(crate) use client::{Call, HttpClient};
pub use error::HttpError;
pub use explain::{explain_call, explain_start};
pub(crate) use explain::{explain_send, is_turned_away};
pub(crate) use remote::Proof;
pub use remote::{Remote, RemoteError};
pub use wire::{Trouble, Wire, WireError};

use crate::auth::Logins;
use crate::error::ConnectError;
use crate::greeting::{Greeting, Unmet};
use crate::handler::Handler;
use crate::server::Host;
use crate::settings::{Address, ServerSettings};

/// Reaches a server, and greets it.
pub(crate) async fn connect(
    settings: &ServerSettings,
    address: &Address,
    host: &Host,
    handler: Handler,
    greeting: Greeting,
) -> Result<RunningService<RoleClient, Handler>, Unmet> {
    let remote = Remote::new(&settings.name, address, settings.connect_timeout).map_err(ConnectError::from)?;
    let logins = host.state.as_deref().map(Logins::new);
    let meeting = async {
        let wire = Wire::to(&remote, logins.as_ref()).await.map_err(ConnectError::from)?;
        let trouble = wire.trouble();
        let met = handler.serve_with_lifecycle(wire, greeting.lifecycle()).await;
        met.map_err(|error| greeting.unmet(error, |error| ConnectError::NotGreeted(explain_start(&error, &trouble))))
    };
    let limit = settings.connect_timeout;
    let met = tokio::time::timeout(limit, meeting).await;
    met.unwrap_or_else(|_| Err(ConnectError::AddressLate { method: greeting.method(), limit }.into()))
}
