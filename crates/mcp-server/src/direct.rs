//! Every tool under its own name, for clients that do not want code mode: one endpoint, one policy, one door.

use pincer_catalog::{Entry, Source};
use pincer_mcp::ListedTool;
use pincer_runtime::Scope;
use pincer_store::{ApprovalId, CallId};
use pincer_tools::{Call, CallError, ErrorCode as DoorCode, Outcome};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::connection::Connection;
use crate::face::Face;
use crate::people;
use crate::request_session::{Attendant, Ended, Nobody};
use crate::requests::Attended;
use crate::shown::Originals;
use crate::upstream::complete;

impl Face {
    /// All tools, as they are listed: those of servers as the servers describe them.
    pub(crate) fn direct_definitions(&self, scope: &Scope) -> Value {
        let originals = Originals::of(self.parts.runtime.servers());
        let index = originals.index();
        let shown = self.shown_now(scope);
        let original = |entry: &Entry| {
            let of_server = entry.id.source() == Source::Mcp;
            of_server.then(|| index.get(&(entry.id.owner(), entry.id.name())).copied()).flatten()
        };
        shown.names().iter().map(|(name, entry)| named(name, entry, original(entry))).collect()
    }

    /// One of them.
    pub(crate) fn direct_definition(&self, scope: &Scope, name: &str) -> Option<Value> {
        let shown = self.shown_now(scope);
        let entry = shown.names().get(name)?;
        Some(named(name, entry, Originals::of(self.parts.runtime.servers()).get(entry)))
    }
}

/// A tool under the name that clients see.
fn named(name: &str, entry: &Entry, original: Option<&ListedTool>) -> Value {
    let mut shown = original.map_or_else(|| definition(entry), ListedTool::value);
    shown["name"] = name.into();
    shown
}

fn definition(entry: &Entry) -> Value {
    let mut shown = json!({
        "name": entry.id.name(), "description": entry.description, "inputSchema": entry.input_schema,
        "annotations": { "readOnlyHint": entry.flags.read_only || entry.flags.claims_read_only, "idempotentHint": entry.flags.idempotent },
    });
    if let Some(label) = &entry.label {
        shown["title"] = label.as_str().into();
    }
    // What a result has beside its text must be an object.
    if let Some(output) = entry.output_schema.as_ref().filter(|schema| schema.get("type") == Some(&json!("object"))) {
        shown["outputSchema"] = output.clone();
    }
    shown
}

impl Connection {
    /// Calls a tool by the name under which the client sees it.
    pub(crate) async fn call_direct(
        &self,
        name: &str,
        arguments: Value,
        request: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let shown = self.face.shown_now(&self.scope);
        let Some(entry) = shown.names().get(name) else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
        };
        let ended = self.call_at_the_door(&entry.id.to_string(), arguments, request).await;
        call_result(entry, ended)
    }

    /// Makes a call for a request, and stays with it.
    pub(crate) async fn call_at_the_door(
        &self,
        tool: &str,
        input: Value,
        request: RequestContext<RoleServer>,
    ) -> Ended<Outcome> {
        let parts = &self.face.parts;
        let id = CallId::from(format!("call_{}", Uuid::now_v7()));
        let attended = Attended::new(parts.runtime.events(), &id);
        let scope = self.scope.renewed().with_listener(attended.sink.clone());
        let call = Call { id, tool: tool.to_owned(), input: input.into(), ..Call::default() };
        let going = parts.runtime.call(&scope, call);
        let client = people::can(&request);
        let (face, nobody, wanted) = (&*self.face, Nobody::IsTheEnd, self.requested.wanted(&request));
        let (abort, left) = (scope.abort(), scope.left());
        let attendant = Attendant { face, request: &request, wanted: &wanted, client, nobody, abort, left };
        attendant.until(attended, going).await
    }
}

/// What a call came to, as clients get it.
pub(crate) fn call_result(entry: &Entry, ended: Ended<Outcome>) -> Result<CallToolResult, ErrorData> {
    match ended {
        Ended::With(outcome) => outcome.value().map_or_else(failed, |value| Ok(result_of(entry, value))),
        Ended::Unanswered(id) => Ok(CallToolResult::error(vec![ContentBlock::text(unanswered(entry, &id))])),
    }
}

/// What a tool gave, as clients get it. A server's result is passed on as it was sent.
fn result_of(entry: &Entry, value: Value) -> CallToolResult {
    if entry.id.source() == Source::Mcp {
        let text = value.to_string();
        return serde_json::from_value(complete(value))
            .unwrap_or_else(|_| CallToolResult::success(vec![ContentBlock::text(text)]));
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = value.is_object().then_some(value);
    result
}

/// A failure for a model to read; that of a server's own protocol as it was sent.
fn failed(error: CallError) -> Result<CallToolResult, ErrorData> {
    match sent(&error) {
        Some(sent) => Err(sent),
        None => Ok(CallToolResult::error(vec![ContentBlock::text(error.message)])),
    }
}

/// The error of a server, as it was sent.
fn sent(error: &CallError) -> Option<ErrorData> {
    let detail = error.detail.as_ref()?;
    let code = ErrorCode(i32::try_from(detail.get("code")?.as_i64()?).ok()?);
    let message = detail.get("message")?.as_str()?.to_owned();
    Some(ErrorData::new(code, message, detail.get("data").cloned()))
}

/// A failure of something that is no tool.
pub(crate) fn error_of(error: CallError) -> ErrorData {
    sent(&error).unwrap_or_else(|| match error.code {
        DoorCode::UnknownTool | DoorCode::InvalidInput => ErrorData::invalid_params(error.message, None),
        _ => ErrorData::internal_error(error.message, None),
    })
}

fn unanswered(entry: &Entry, question: &ApprovalId) -> String {
    format!(
        "{} waits for a person: tell them to run `pincer approvals allow {question}` (or deny), and then call it again with the \
         same input",
        entry.id
    )
}
