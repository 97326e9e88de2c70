//! Questions to the person at the client: approvals of ours, and what tools of servers ask for.

use std::time::Duration;

use pincer_runtime::Runtime;
use pincer_store::Approval;
use pincer_tools::{Answer, ApprovalRequest, Request};
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ClientResult, CustomRequest, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The time that a person has to answer. After that the client is taken to be gone.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Returns what a client can be asked for in the middle of a request: nothing in the latest revision, where a server asks nothing.
pub(crate) fn can(request: &RequestContext<RoleServer>) -> Option<ClientCapabilities> {
    let asked = request.protocol_version().is_none_or(|version| version.has_initialize());
    if asked { request.client_capabilities() } else { None }
}

/// Returns whether a client can ask its user to fill in a form.
pub(crate) fn can_ask(client: Option<&ClientCapabilities>) -> bool {
    let Some(elicitation) = client.and_then(|client| client.elicitation.as_ref()) else { return false };
    // Clients of earlier revisions say nothing of forms and mean them.
    elicitation.form.is_some() || elicitation.url.is_none()
}

/// Asks for an approval, and stores the answer. `false` if there is none: the question stays open. `stop` says that it need not
/// be answered any more.
pub(crate) async fn approve(
    peer: &Peer<RoleServer>,
    runtime: &Runtime,
    approval: &Approval,
    stop: &CancellationToken,
) -> bool {
    let request = ApprovalRequest::of(approval);
    let choices = choices(approval, &request);
    let Some(params) = form(&request.text(), &choices) else { return false };
    let Some(answer) = elicit(peer, params, stop).await else { return stop.is_cancelled() };
    let chosen = answer.content.as_ref().and_then(|content| content.get("decision")?.as_str());
    let decision = match answer.action {
        ElicitationAction::Accept => {
            choices.iter().find(|(name, _)| Some(name.as_str()) == chosen).map_or(Answer::Deny, |(_, answer)| *answer)
        }
        // A question that is closed is not a yes.
        _ => Answer::Deny,
    };
    runtime.answer(&approval.id, decision, "mcp").await.is_ok()
}

fn choices(approval: &Approval, request: &ApprovalRequest) -> Vec<(String, Answer)> {
    let mut choices = vec![("allow".to_owned(), Answer::AllowOnce)];
    if approval.run.is_some() {
        choices.extend([10, 100].map(|count| (format!("allow the next {count}"), Answer::AllowNext(count))));
    }
    if !request.grants().is_empty() {
        choices.push(("always allow".to_owned(), Answer::AllowAlways));
    }
    choices.push(("deny".to_owned(), Answer::Deny));
    choices
}

fn form(message: &str, choices: &[(String, Answer)]) -> Option<ElicitRequestParams> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": { "decision": { "type": "string", "title": "Decision", "enum": names } },
        "required": ["decision"],
    });
    let requested_schema: ElicitationSchema = serde_json::from_value(schema).ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message: message.to_owned(), requested_schema })
}

async fn elicit(
    peer: &Peer<RoleServer>,
    params: ElicitRequestParams,
    stop: &CancellationToken,
) -> Option<ElicitResult> {
    match answer(peer, ServerRequest::ElicitRequest(ElicitRequest::new(params)), stop).await? {
        ClientResult::ElicitResult(answer) => Some(answer),
        _ => None,
    }
}

/// Returns the client's answer to a request, if it answers in time. The request is taken back when `stop` says so.
async fn answer(peer: &Peer<RoleServer>, request: ServerRequest, stop: &CancellationToken) -> Option<ClientResult> {
    let options = PeerRequestOptions::with_timeout(PATIENCE);
    let mut handle = peer.send_cancellable_request(request, options).await.ok()?;
    let why = tokio::select! {
        biased;
        answered = &mut handle.rx => return answered.ok()?.ok(),
        () = stop.cancelled() => "the question is settled",
        () = tokio::time::sleep(PATIENCE) => "nobody answers",
    };
    let _ = handle.cancel(Some(why.into())).await;
    None
}

/// Whether a person is told which server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// In front of the question.
    Server,
    /// The question is passed on as it was sent.
    AsSent,
}

/// Asks the client for what a tool of a server wants of it. The person is told which server asks.
pub(crate) async fn pass(
    peer: &Peer<RoleServer>,
    client: Option<&ClientCapabilities>,
    request: Request,
    naming: Naming,
    stop: &CancellationToken,
) -> Option<Value> {
    let Request { from, method, mut params } = request;
    match method {
        "elicitation/create" => {
            let wants_url = params.get("mode").and_then(Value::as_str) == Some("url");
            let elicitation = client?.elicitation.as_ref()?;
            if wants_url && elicitation.url.is_none() || !wants_url && !can_ask(client) {
                return None;
            }
            if let (Naming::Server, Some(message)) = (naming, params.get("message").and_then(Value::as_str)) {
                params["message"] = format!("{from}: {message}").into();
            }
        }
        "sampling/createMessage" => {
            client?.sampling.as_ref()?;
        }
        _ => return None,
    }
    passed(peer, method, params, stop).await
}

/// Passes a request on as it is: what the SDK does not know of it is not lost.
async fn passed(peer: &Peer<RoleServer>, method: &str, params: Value, stop: &CancellationToken) -> Option<Value> {
    let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    match answer(peer, request, stop).await? {
        ClientResult::CustomResult(result) => Some(result.0),
        other => serde_json::to_value(other).ok(),
    }
}
