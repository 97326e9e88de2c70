//! One client, and what it may ask for.

use std::sync::Arc;

use axum::http;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, InitializeRequestParams, InitializeResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler, serve_server};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::face::{Face, Surface, User};

/// The handler of one connection.
#[derive(Clone)]
pub(crate) struct Connection {
    pub face: Arc<Face>,
}

impl Connection {
    /// Who makes a request.
    pub fn user(&self, context: &RequestContext<RoleServer>) -> User {
        let parts = context.extensions.get::<http::request::Parts>();
        parts.and_then(|parts| parts.extensions.get::<User>()).unwrap_or(&self.face.parts.user).clone()
    }
}

impl Face {
    /// The tools that clients are shown, as they are told.
    pub(crate) fn definitions(&self) -> Value {
        match self.parts.surface {
            Surface::Code | Surface::Direct | Surface::Search => self.code_definitions(),
        }
    }
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let us = Implementation::new("pincer", env!("CARGO_PKG_VERSION")).with_title("Pincer");
        ServerConfig::new(capabilities).with_server_info(us).with_instructions(self.face.instructions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.face.joined(context.peer);
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools: Vec<Tool> = serde_json::from_value(self.face.definitions())
            .map_err(|error| ErrorData::internal_error(format!("the tools cannot be listed: {error}"), None))?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        match &*request.name {
            "exec" => Ok(self.exec(&arguments, context).await.into()),
            "wait" => Ok(self.wait(&arguments, context).await.into()),
            other => Err(ErrorData::invalid_params(format!("there is no tool {other}: there are exec and wait"), None)),
        }
    }
}

/// Serves one client on standard input and output, until it closes them or `end` is cancelled.
pub async fn serve_stdio(face: Arc<Face>, end: CancellationToken) -> Result<(), ServerInitializeError> {
    let transport = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout());
    let service = tokio::select! {
        biased;
        () = end.cancelled() => return Ok(()),
        service = serve_server(Connection { face }, transport) => service,
    };
    let service = match service {
        Ok(service) => service,
        // Whoever closes the pipe before the first word wants nothing.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let stop = service.cancellation_token();
    let waiting = service.waiting();
    tokio::pin!(waiting);
    tokio::select! {
        biased;
        _ = &mut waiting => {}
        () = end.cancelled() => {
            stop.cancel();
            let _ = waiting.await;
        }
    }
    Ok(())
}
