//! Servers that are reached over HTTP.
use crate::handler::Handler;
use crate::server::Host;
use crate::settings::ServerSettings;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::DynamicTransportError;
use std::sync::Arc;
pub(crate) async fn connect(
    _settings: &Arc<ServerSettings>,
    _host: &Host,
    _handler: Handler,
) -> Result<RunningService<RoleClient, Handler>, String> {
    Err("cannot be reached over HTTP yet".into())
}
pub(crate) fn explain_send(error: &DynamicTransportError) -> String {
    error.to_string()
}
