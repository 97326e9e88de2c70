//! What servers ask of us and tell us.
#![expect(deprecated, reason = "servers of today ask for roots and samples, and send logs, whatever comes later")]

use std::sync::Arc;

use pincer_catalog::shortened;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ListRootsRequestMethod, ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProtocolVersion, RequestId, ResourceUpdatedNotificationParam, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::asks::{Asks, SamplingError};
use crate::hiding::Hiding;
use crate::inflight::{Answerer, InFlight};
use crate::limits::{MOST_NOTICE_CHARS, MOST_QUESTIONS};
use crate::log::ServerLog;
use crate::server::Host;
use crate::settings::{Elicitation, Sampling, ServerSettings};
use crate::told::{Hub, Told};

/// Our side of one connection.
pub(crate) struct Handler {
    pub settings: Arc<ServerSettings>,
    pub in_flight: Arc<InFlight>,
    pub hub: Hub,
    pub log: ServerLog,
    pub hiding: Hiding,
    /// Told when the server has other tools.
    pub changed: Arc<Notify>,
    /// The connection is over.
    pub closed: CancellationToken,
    /// One for each question that waits for its answer.
    questions: Semaphore,
}

impl Handler {
    pub(crate) fn new(settings: &Arc<ServerSettings>, host: &Host) -> Self {
        Self {
            settings: Arc::clone(settings),
            in_flight: Arc::default(),
            hub: host.hub.clone(),
            log: ServerLog::new(host.state.as_deref(), &settings.name),
            hiding: Hiding::of(settings),
            changed: Arc::default(),
            closed: CancellationToken::new(),
            questions: Semaphore::new(MOST_QUESTIONS),
        }
    }

    fn tell(&self, told: Told) {
        self.hub.tell(&self.settings.name, told);
    }

    /// Returns the caller that the server is at work for, to be asked if it is not asked too much already.
    async fn asking(&self, context: &RequestContext<RoleClient>) -> Asking<'_> {
        let answerer = self.in_flight.asked(origin(context).as_ref()).await;
        let (caller, over, one) = match (answerer, self.questions.try_acquire()) {
            (Some(Answerer { updates, over }), Ok(one)) => (Some(updates), over, Some(one)),
            _ => (None, CancellationToken::new(), None),
        };
        Asking { asks: Asks { settings: &self.settings, caller }, over, _one: one }
    }

    /// Waits until the answer is not wanted any more.
    async fn taken_back(&self, asking: &Asking<'_>, context: &RequestContext<RoleClient>) {
        tokio::select! {
            () = asking.over.cancelled() => {}
            () = self.closed.cancelled() => {}
            // The server has thought better of it.
            () = context.ct.cancelled() => {}
        }
    }
}

/// A caller that is asked on behalf of a server.
struct Asking<'a> {
    asks: Asks<'a>,
    /// The call is over, and its questions with it.
    over: CancellationToken,
    _one: Option<SemaphorePermit<'a>>,
}

/// Returns the request of ours with which one of the server came, where the wire tells.
fn origin(context: &RequestContext<RoleClient>) -> Option<RequestId> {
    match context.extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.clone()),
        _ => None,
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if !self.settings.roots.is_empty() {
            capabilities.roots = Some(Default::default());
        }
        if self.settings.elicitation == Elicitation::Ask {
            let elicitation = ElicitationCapability::new();
            let elicitation = elicitation.with_form(FormElicitationCapability::default());
            capabilities.elicitation = Some(elicitation.with_url(UrlElicitationCapability::default()));
        }
        if self.settings.sampling == Sampling::Pass {
            capabilities.sampling = Some(Default::default());
        }
        let us = Implementation::new("pincer", env!("CARGO_PKG_VERSION")).with_title("Pincer");
        // What is greeted with this must have a greeting.
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        if self.settings.roots.is_empty() {
            return Err(ErrorData::method_not_found::<ListRootsRequestMethod>());
        }
        Ok(Asks { settings: &self.settings, caller: None }.roots())
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let asking = self.asking(&context).await;
        let sampled = tokio::select! {
            biased;
            () = self.taken_back(&asking, &context) => Err(SamplingError::CallOver),
            sampled = asking.asks.sampled(value(&params)) => sampled,
        };
        sampled.map_err(|error| ErrorData::new(rmcp::model::ErrorCode(-1), error.to_string(), None))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let asking = self.asking(&context).await;
        Ok(tokio::select! {
            biased;
            () = self.taken_back(&asking, &context) => ElicitResult::new(ElicitationAction::Decline),
            answer = asking.asks.elicited(value(&params)) => answer,
        })
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.in_flight.progress(params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let line = brief(value(&params));
        self.log.add(self.hiding.text(&log_line(&line)).as_bytes());
        self.tell(Told::Log(line));
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

fn value(params: &impl Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}

/// Returns a line as it stands in the file: the level, the logger, and the message.
fn log_line(line: &Value) -> String {
    let text = |key: &str| match &line[key] {
        Value::Null => String::new(),
        Value::String(text) => text.replace('\n', "\n  "),
        other => other.to_string(),
    };
    let logger = if line["logger"].is_null() { String::new() } else { format!("{}: ", text("logger")) };
    format!("[{}] {logger}{}\n", text("level"), text("data"))
}

/// Returns a line of a log that can be kept for slow readers.
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
