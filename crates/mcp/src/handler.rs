//! What servers ask of us and tell us.
#![expect(deprecated, reason = "servers of today ask for roots and samples, and send logs, whatever comes later")]

use std::sync::Arc;

use pincer_catalog::shortened;
use pincer_config::keys::McpSampling;
use pincer_tools::Request;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam, RequestId,
    ResourceUpdatedNotificationParam, Root, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::inflight::{Answerer, InFlight};
use crate::limits::{MOST_NOTICE_CHARS, MOST_QUESTIONS};
use crate::settings::ServerSettings;
use crate::told::{Hub, Told};

/// Our side of one connection.
pub(crate) struct Handler {
    pub settings: Arc<ServerSettings>,
    pub in_flight: Arc<InFlight>,
    pub hub: Hub,
    /// Told when the server has other tools.
    pub changed: Arc<Notify>,
    /// The connection is over.
    pub closed: CancellationToken,
    /// One for each question that somebody thinks about.
    questions: Semaphore,
}

impl Handler {
    pub fn new(settings: &Arc<ServerSettings>, hub: &Hub) -> Self {
        Self {
            settings: Arc::clone(settings),
            in_flight: Arc::default(),
            hub: hub.clone(),
            changed: Arc::default(),
            closed: CancellationToken::new(),
            questions: Semaphore::new(MOST_QUESTIONS),
        }
    }

    fn tell(&self, told: Told) {
        self.hub.tell(&self.settings.name, told);
    }

    /// Asks whoever made the call that the server is at work on, for as long as it is.
    async fn ask<P: Serialize, A: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &P,
        context: &RequestContext<RoleClient>,
    ) -> Option<A> {
        let Answerer { updates, over } = self.in_flight.asked(origin(context).as_ref()).await?;
        let _one = self.questions.try_acquire().ok()?;
        let params = serde_json::to_value(params).ok()?;
        let answer = tokio::select! {
            biased;
            () = over.cancelled() => None,
            () = self.closed.cancelled() => None,
            // It has thought better of it.
            () = context.ct.cancelled() => None,
            answer = updates.ask(Request { from: self.settings.name.clone(), method, params }) => answer,
        };
        serde_json::from_value(answer?).ok()
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
        ClientConfig::new(capabilities, us)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let directory =
            std::path::absolute(&self.settings.directory).unwrap_or_else(|_| self.settings.directory.clone());
        Ok(ListRootsResult::new(vec![Root::new(file_uri(&directory)).with_name("workspace")]))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |why: &str| ErrorData::new(rmcp::model::ErrorCode(-1), why.to_owned(), None);
        if self.settings.sampling == McpSampling::Refuse {
            return Err(refused("sampling is refused: the config says so"));
        }
        let answer = self.ask("sampling/createMessage", &params, &context).await;
        answer.ok_or_else(|| refused("sampling is refused: nobody is there who could do it"))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        if !self.settings.may_ask_people() {
            return Ok(declined);
        }
        Ok(self.ask("elicitation/create", &params, &context).await.unwrap_or(declined))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.in_flight.progress(params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.tell(Told::Log(brief(serde_json::to_value(params).unwrap_or_default())));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // Nobody has subscribed to a book.
        if params.uri.len() <= MOST_NOTICE_CHARS {
            self.tell(Told::ResourceUpdated(params.uri));
        }
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(Told::ResourcesChanged);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
        self.tell(Told::ToolsChanged);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(Told::PromptsChanged);
    }
}

/// A line of a log that can be kept for those who are slow to read it.
fn brief(mut line: Value) -> Value {
    if let Some(members) = line.as_object_mut() {
        for member in members.values_mut() {
            let text = match &*member {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if text.len() > MOST_NOTICE_CHARS {
                *member = shortened(&text, MOST_NOTICE_CHARS).into();
            }
        }
    }
    line
}

/// A path as servers want it. What is not plain is written as `%XX`.
fn file_uri(path: &std::path::Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(byte as char),
            _ if byte.is_ascii_alphanumeric() => uri.push(byte as char),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
