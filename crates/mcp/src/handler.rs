//! What servers ask of us and tell us.
#![expect(deprecated, reason = "servers of today ask for roots and samples, and send logs, whatever comes later")]

use std::sync::Arc;

use pincer_config::keys::McpSampling;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, RequestId,
    ResourceUpdatedNotificationParam, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde::Serialize;
use serde_json::Value;

use crate::asks::Asks;
use crate::inflight::InFlight;
use crate::settings::ServerSettings;
use crate::told::{Hub, Told};

/// Our side of one connection.
pub(crate) struct Handler {
    pub settings: Arc<ServerSettings>,
    pub in_flight: Arc<InFlight>,
    pub hub: Hub,
}

impl Handler {
    fn tell(&self, told: Told) {
        self.hub.tell(&self.settings.name, told);
    }

    /// Whoever made the call that the server is at work on can be asked.
    fn asks(&self, context: &RequestContext<RoleClient>) -> Asks<'_> {
        Asks { settings: &self.settings, caller: self.in_flight.asked(origin(context).as_ref()) }
    }
}

/// The request of ours with which one of the server came, where the wire tells.
fn origin(context: &RequestContext<RoleClient>) -> Option<RequestId> {
    match context.extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.clone()),
        _ => None,
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::builder().enable_roots().build();
        if self.settings.may_ask_people() {
            let elicitation = ElicitationCapability::new();
            let elicitation = elicitation.with_form(FormElicitationCapability::default());
            capabilities.elicitation = Some(elicitation.with_url(UrlElicitationCapability::default()));
        }
        if self.settings.sampling == McpSampling::Pass {
            capabilities.sampling = Some(Default::default());
        }
        let us = Implementation::new("pincer", env!("CARGO_PKG_VERSION")).with_title("Pincer");
        // What is greeted with this must have a greeting.
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.asks(&context).roots())
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let sampled = self.asks(&context).sampled(value(&params)).await;
        sampled.map_err(|why| ErrorData::new(rmcp::model::ErrorCode(-1), why, None))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.asks(&context).elicited(value(&params)).await)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        if let Some(updates) = self.in_flight.by_token(&params.progress_token) {
            let mut update = serde_json::json!({ "progress": params.progress });
            for (key, value) in [("total", params.total.map(Value::from)), ("message", params.message.map(Value::from))]
            {
                if let Some(value) = value {
                    update[key] = value;
                }
            }
            updates.update(update);
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.tell(Told::Log(serde_json::to_value(params).unwrap_or_default()));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.tell(Told::ResourceUpdated(params.uri));
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(Told::ResourcesChanged);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(Told::ToolsChanged);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(Told::PromptsChanged);
    }
}

fn value(params: &impl Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}
