//! A client, and the person at it.
#![allow(deprecated, reason = "clients of today sample and read logs, whatever comes later")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ClientCapabilities, ClientConfig,
    ClientRequest, CreateMessageRequestParams, CreateMessageResult, CustomRequest, ElicitRequestParams, ElicitResult,
    ErrorData, Implementation, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam, ServerResult,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, RequestContext, RoleClient, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, serve_client};
use serde_json::{Value, json};
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::NEVER;

/// What a person does about a question.
pub(crate) enum Reply {
    Say(Value),
    /// The client breaks down.
    Fail,
    /// Nobody is at the screen.
    Never,
}

/// A client before it has connected.
pub(crate) struct Person {
    can: Value,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    tell: UnboundedSender<(String, Value)>,
    heard: UnboundedReceiver<(String, Value)>,
    newest: bool,
}

impl Person {
    /// One that can do nothing for servers.
    pub(crate) fn plain() -> Self {
        Self::who_can(json!({}))
    }

    /// One that asks its user.
    pub(crate) fn who_answers(replies: impl IntoIterator<Item = Reply>) -> Self {
        let person = Self::who_can(json!({ "elicitation": { "form": {} }, "sampling": {} }));
        person.replies.lock().expect("replies").extend(replies);
        person
    }

    /// One with these capabilities.
    pub(crate) fn who_can(can: Value) -> Self {
        let (tell, heard) = unbounded_channel();
        Self { can, replies: Arc::default(), tell, heard, newest: false }
    }

    /// One of the revision without a handshake.
    pub(crate) fn of_the_newest_revision(self) -> Self {
        Self { newest: true, ..self }
    }

    pub(crate) async fn connect<E, A>(self, wire: impl IntoTransport<RoleClient, E, A>) -> Client
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let capabilities: ClientCapabilities = serde_json::from_value(self.can).expect("capabilities");
        let ears = Ears { capabilities, replies: self.replies, tell: self.tell };
        let service = if self.newest {
            let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
            serve_client_with_lifecycle(ears, wire, ClientLifecycleMode::Discover { preferred_versions }).await
        } else {
            serve_client(ears, wire).await
        };
        Client {
            service: service.expect("a server"),
            heard: AsyncMutex::new(Heard { coming: self.heard, kept: Vec::new() }),
        }
    }
}

/// Says what a person said to a question.
pub(crate) fn decides(decision: &str) -> Reply {
    Reply::Say(json!({ "action": "accept", "content": { "decision": decision } }))
}

/// A client that has connected.
pub(crate) struct Client {
    service: RunningService<RoleClient, Ears>,
    heard: AsyncMutex<Heard>,
}

/// What a server said.
struct Heard {
    coming: UnboundedReceiver<(String, Value)>,
    kept: Vec<(String, Value)>,
}

impl Client {
    pub(crate) fn info(&self) -> Value {
        serde_json::to_value(self.service.peer().peer_info().expect("who it is").as_ref()).expect("JSON")
    }

    /// Calls a tool. The result as it was sent.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ErrorData> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let called = tokio::time::timeout(NEVER, self.service.peer().call_tool_once(params)).await;
        match called.unwrap_or_else(|_| panic!("{tool} is never answered")) {
            Ok(CallToolResponse::Complete(result)) => Ok(serde_json::to_value(result).expect("JSON")),
            Ok(_) => panic!("{tool} has no result"),
            Err(ServiceError::McpError(error)) => Err(error),
            Err(error) => panic!("{tool}: {error}"),
        }
    }

    /// Runs a program. What there is of its result for programs.
    pub(crate) async fn exec(&self, code: &str) -> Value {
        self.call("exec", json!({ "code": code })).await.expect("a result")["structuredContent"].take()
    }

    /// Continues what a result says.
    pub(crate) async fn wait(&self, waiting: &Value) -> Value {
        assert!(waiting["runId"].is_string(), "it does not wait: {waiting}");
        let result = self.call("wait", json!({ "runId": waiting["runId"] })).await;
        result.expect("a result")["structuredContent"].take()
    }

    /// Makes any request.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Value, ErrorData> {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        let asked = tokio::time::timeout(NEVER, self.service.peer().send_request(request)).await;
        match asked.unwrap_or_else(|_| panic!("{method} is never answered")) {
            Ok(ServerResult::CustomResult(result)) => Ok(result.0),
            Ok(result) => Ok(serde_json::to_value(result).expect("JSON")),
            Err(ServiceError::McpError(error)) => Err(error),
            Err(error) => panic!("{method}: {error}"),
        }
    }

    /// The names in a list.
    pub(crate) async fn names(&self, method: &str, key: &str, name: &str) -> Vec<String> {
        let listed = self.ask(method, json!({})).await.expect("a list");
        let items = listed[key].as_array().unwrap_or_else(|| panic!("no {key} in {listed}"));
        items.iter().map(|item| item[name].as_str().expect("a name").to_owned()).collect()
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        self.names("tools/list", "tools", "name").await
    }

    /// The next message of the server with this method. Others stay to be heard.
    pub(crate) async fn hears(&self, method: &str) -> Value {
        let mut heard = self.heard.lock().await;
        let listening = async {
            loop {
                if let Some(at) = heard.kept.iter().position(|(what, _)| what == method) {
                    return heard.kept.remove(at).1;
                }
                let next = heard.coming.recv().await.expect("the client is there");
                heard.kept.push(next);
            }
        };
        tokio::time::timeout(NEVER, listening).await.unwrap_or_else(|_| panic!("{method} was never heard"))
    }

    /// All that was heard so far and not looked at.
    pub(crate) async fn heard(&self) -> Vec<(String, Value)> {
        let mut heard = self.heard.lock().await;
        let kept = std::mem::take(&mut heard.kept);
        kept.into_iter().chain(std::iter::from_fn(|| heard.coming.try_recv().ok())).collect()
    }

    /// Goes, without a word.
    pub(crate) async fn leave(self) {
        self.service.cancel().await.expect("an end");
    }
}

/// The client's half of a connection.
struct Ears {
    capabilities: ClientCapabilities,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    tell: UnboundedSender<(String, Value)>,
}

impl Ears {
    fn note(&self, method: &str, params: Value) {
        let _ = self.tell.send((method.to_owned(), params));
    }

    async fn reply<T: serde::de::DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, ErrorData> {
        self.note(method, params);
        let reply = self.replies.lock().expect("replies").pop_front();
        match reply {
            Some(Reply::Say(answer)) => Ok(serde_json::from_value(answer).expect("an answer")),
            Some(Reply::Never) => std::future::pending().await,
            Some(Reply::Fail) | None => Err(ErrorData::internal_error("the dialog broke", None)),
        }
    }
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(self.capabilities.clone(), Implementation::new("test", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.reply("elicitation/create", serde_json::to_value(request).expect("JSON")).await
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.reply("sampling/createMessage", serde_json::to_value(params).expect("JSON")).await
    }

    async fn on_cancelled(&self, params: CancelledNotificationParam, _context: NotificationContext<RoleClient>) {
        self.note("notifications/cancelled", serde_json::to_value(params).expect("JSON"));
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.note("notifications/progress", serde_json::to_value(params).expect("JSON"));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.note("notifications/message", serde_json::to_value(params).expect("JSON"));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.note("notifications/resources/updated", serde_json::to_value(params).expect("JSON"));
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note("notifications/resources/list_changed", Value::Null);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note("notifications/tools/list_changed", Value::Null);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note("notifications/prompts/list_changed", Value::Null);
    }
}
