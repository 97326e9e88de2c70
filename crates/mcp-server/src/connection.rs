//! One client, and what it may ask for.
#![expect(deprecated, reason = "clients of today set log levels and subscribe, whatever comes later")]

use std::sync::Arc;

use pincer_catalog::Operation;
use pincer_runtime::Scope;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, CompleteRequestParams, CompleteResult,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, Prompt, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, ServerInitializeError, SubscriptionContext};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler, serve_server};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::cancellation::Requested;
use crate::client::Client;
use crate::face::{Face, Surface};

/// The handler of one connection.
pub(crate) struct Connection {
    pub face: Arc<Face>,
    /// The rights of the user at its other end.
    pub scope: Scope,
    /// What may be taken back.
    pub requested: Requested,
    /// Tells it from others.
    number: u64,
}

impl Connection {
    pub(crate) fn new(face: Arc<Face>, scope: Scope) -> Self {
        let number = face.next_connection();
        Self { face, scope, requested: Requested::default(), number }
    }

    fn is_direct(&self) -> bool {
        self.face.parts.surface == Surface::Direct
    }
}

impl Face {
    /// The tools that clients are shown, as they are told.
    pub(crate) fn definitions(&self, scope: &Scope) -> Value {
        match self.parts.surface {
            Surface::Code => self.code_definitions(scope),
            Surface::Direct => self.direct_definitions(scope),
            Surface::Search => self.search_definitions(scope),
        }
    }

    /// What clients are told they can do here: with servers passed on, what any of them can.
    fn capabilities(&self, scope: &Scope) -> ServerCapabilities {
        let mut can = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        if self.parts.surface == Surface::Direct {
            for listing in self.servers(scope).filter_map(|server| server.seen().listing) {
                let theirs = &listing.info.capabilities;
                can.completions = can.completions.or_else(|| theirs.completions.clone());
                can.logging = can.logging.or_else(|| theirs.logging.clone());
                can.prompts = can.prompts.or_else(|| theirs.prompts.clone());
                can.resources = match (can.resources, theirs.resources.clone()) {
                    (Some(mut ours), Some(theirs)) => {
                        ours.subscribe = ours.subscribe.or(theirs.subscribe);
                        ours.list_changed = ours.list_changed.or(theirs.list_changed);
                        Some(ours)
                    }
                    (ours, theirs) => ours.or(theirs),
                };
            }
        }
        can
    }
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let us = Implementation::new("pincer", env!("CARGO_PKG_VERSION")).with_title("Pincer");
        let info = ServerConfig::new(self.face.capabilities(&self.scope)).with_server_info(us);
        match self.face.parts.surface {
            Surface::Code => info.with_instructions(self.face.instructions(&self.scope)),
            Surface::Direct | Surface::Search => info,
        }
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        // Two tools can be shown at once; all of them only when they are known.
        if self.face.parts.surface != Surface::Code {
            self.face.parts.runtime.servers().ready().await;
            // Tools that became known on the way are no change to a client that comes now.
            self.face.compare();
        }
        self.face.welcome(&self.scope);
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.face.joined(Client::new(self.number, self.scope.clone(), context.peer));
    }

    async fn on_cancelled(&self, taken_back: CancelledNotificationParam, _context: NotificationContext<RoleServer>) {
        if let Some(id) = &taken_back.request_id {
            self.requested.take_back(id);
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let definitions = match self.face.definitions(&self.scope) {
            Value::Array(definitions) => definitions,
            _ => Vec::new(),
        };
        // A tool that the SDK cannot read is left out, and not the list with it.
        let tools = definitions.into_iter().filter_map(|tool| serde_json::from_value::<Tool>(tool).ok());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let definition = if self.is_direct() { self.face.direct_definition(&self.scope, name) } else { None };
        definition.and_then(|tool| serde_json::from_value(tool).ok())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        match (self.face.parts.surface, &*request.name) {
            (Surface::Code, "exec") => Ok(self.exec(&arguments, context).await.into()),
            (Surface::Code, "wait") => Ok(self.wait(&arguments, context).await.into()),
            (Surface::Code, other) => {
                Err(ErrorData::invalid_params(format!("there is no tool {other}: there are exec and wait"), None))
            }
            (Surface::Direct, name) => self.call_direct(name, arguments, context).await.map(Into::into),
            (Surface::Search, name) => self.call_search(name, arguments, context).await.map(Into::into),
        }
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        // Clients ask although it is not declared; that there are none is an answer to everybody.
        if !self.is_direct() {
            return Ok(ListResourcesResult::default());
        }
        Ok(ListResourcesResult::with_all_items(self.list_all(Operation::ListResources, "resources", &context).await))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if !self.is_direct() {
            return Ok(ListResourceTemplatesResult::default());
        }
        let templates = self.list_all(Operation::ListTemplates, "resourceTemplates", &context).await;
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !self.is_direct() {
            return Err(ErrorData::method_not_found::<rmcp::model::ReadResourceRequestMethod>());
        }
        self.resource::<ReadResourceResult>(&request.uri, &context).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if !self.is_direct() {
            return Ok(ListPromptsResult::default());
        }
        let prompts = self.prompts(&context).await.into_iter().filter_map(|(name, _, mut item)| {
            item["name"] = name.into();
            serde_json::from_value::<Prompt>(item).ok()
        });
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if !self.is_direct() {
            return Err(ErrorData::method_not_found::<rmcp::model::GetPromptRequestMethod>());
        }
        let arguments = request.arguments.map(Value::Object);
        self.prompt::<GetPromptResult>(&request.name, arguments, &context).await.map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if !self.is_direct() {
            return Err(ErrorData::method_not_found::<rmcp::model::CompleteRequestMethod>());
        }
        let params = serde_json::to_value(request).unwrap_or_default();
        self.completion(params, &context).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.is_direct() {
            return Err(ErrorData::method_not_found::<rmcp::model::SetLevelRequestMethod>());
        }
        let level = serde_json::to_value(request.level).unwrap_or_default();
        for server in self.face.servers(&self.scope) {
            let keeps_a_log = server.seen().listing.is_some_and(|listing| listing.info.capabilities.logging.is_some());
            if keeps_a_log {
                // A server that is down has nothing to tell.
                let _ = server.set_log_level(level.clone()).await;
            }
        }
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let has = self.who_has(&request.uri, &context).await;
        let (true, Some(server)) = (self.is_direct(), has.first()) else {
            return Err(ErrorData::resource_not_found(format!("Resource not found: {}", request.uri), None));
        };
        if self.face.subscriptions.add(&request.uri, self.number, context.peer.clone())
            && let Err(error) = server.subscribe(&request.uri).await
        {
            self.face.subscriptions.remove(&request.uri, self.number);
            return Err(ErrorData::internal_error(error.message, error.detail));
        }
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if !self.is_direct() {
            // Here there is nothing but tools.
            (accepted.prompts_list_changed, accepted.resources_list_changed) = (None, None);
            accepted.resource_subscriptions = None;
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.face.listened(&self.scope, &context).await;
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.face.subscriptions.remove(&request.uri, self.number)
            && let Some(server) = self.who_has(&request.uri, &context).await.first()
        {
            let _ = server.unsubscribe(&request.uri).await;
        }
        Ok(())
    }
}

/// Serves one client on standard input and output, until it closes them or `end` is cancelled.
pub async fn serve_stdio(face: Arc<Face>, end: CancellationToken) -> Result<(), ServerInitializeError> {
    serve(face, tokio::io::stdin(), tokio::io::stdout(), end).await
}

/// Serves one client on any two streams, until it closes them or `end` is cancelled.
pub async fn serve(
    face: Arc<Face>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    end: CancellationToken,
) -> Result<(), ServerInitializeError> {
    let transport = AsyncRwTransport::new_server(input, output);
    let scope = face.usual.renewed();
    let service = tokio::select! {
        biased;
        () = end.cancelled() => return Ok(()),
        service = serve_server(Connection::new(face, scope), transport) => service,
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
