//! Resources, prompts, completions and subscriptions of all servers, as one server's. All of it goes through the door.

use std::sync::Arc;

use futures_util::future::join_all;
use pincer_catalog::{Operation, Source, ToolId};
use pincer_mcp::Server;
use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::direct::error_of;
use crate::request_session::Ended;
use pincer_catalog::shown_names::{Keeps, unique};

/// Pages that are taken of one server.
const MOST_PAGES: usize = 100;

impl Connection {
    /// The servers that can do this and that the client may use for it.
    fn able(&self, operation: Operation) -> Vec<Arc<Server>> {
        let tools = self.face.tools(&self.scope);
        let may = |server: &&Arc<Server>| {
            let id = ToolId::new(Source::Mcp, server.name(), operation.name());
            id.is_ok_and(|id| tools.catalog().get(&id.to_string()).is_some())
        };
        self.face.parts.runtime.servers().iter().filter(may).cloned().collect()
    }

    async fn operate(
        &self,
        server: &Server,
        operation: Operation,
        input: Value,
        request: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let id = format!("{}:{}:{}", Source::Mcp, server.name(), operation.name());
        match self.call_at_the_door(&id, input, request.clone()).await {
            Ended::With(outcome) => outcome.value().map_err(error_of),
            Ended::Unanswered(question) => {
                let why =
                    format!("a person must approve this: `pincer approvals allow {question}`, and then ask again");
                Err(ErrorData::internal_error(why, None))
            }
        }
    }

    /// All items that servers list, each with its server. A server that cannot be asked is left out.
    async fn listed(
        &self,
        operation: Operation,
        key: &str,
        request: &RequestContext<RoleServer>,
    ) -> Vec<(Arc<Server>, Value)> {
        let _wanted = self.requested.wanted(request);
        // All at once: some may have to be started for it.
        let all = self.able(operation).into_iter().map(|server| async move {
            let items = self.listed_by(&server, operation, key, request).await;
            items.into_iter().map(move |item| (Arc::clone(&server), item))
        });
        join_all(all).await.into_iter().flatten().collect()
    }

    /// All items that one server lists.
    async fn listed_by(
        &self,
        server: &Server,
        operation: Operation,
        key: &str,
        request: &RequestContext<RoleServer>,
    ) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let input = cursor.take().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let Ok(mut page) = self.operate(server, operation, input, request).await else { break };
            if let Some(Value::Array(found)) = page.get_mut(key).map(Value::take) {
                items.extend(found);
            }
            match page.get("nextCursor").and_then(Value::as_str) {
                Some(next) if !next.is_empty() => cursor = Some(next.to_owned()),
                _ => break,
            }
        }
        items
    }

    /// All items of one kind, as clients get them.
    pub(crate) async fn list_all<T: DeserializeOwned>(
        &self,
        operation: Operation,
        key: &str,
        request: &RequestContext<RoleServer>,
    ) -> Vec<T> {
        let items = self.listed(operation, key, request).await;
        items.into_iter().filter_map(|(_, item)| serde_json::from_value(item).ok()).collect()
    }

    /// All prompts, under names that are theirs alone, each with its server and its name there.
    pub(crate) async fn prompts(&self, request: &RequestContext<RoleServer>) -> Vec<(String, Arc<Server>, Value)> {
        let items = self.listed(Operation::ListPrompts, "prompts", request).await;
        let name = |item: &Value| item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let own: Vec<String> = items.iter().map(|(_, item)| name(item)).collect();
        let things =
            items.iter().zip(&own).map(|((server, _), name)| (server.name(), name.as_str(), Keeps::OwnersFirst));
        let names = unique(things);
        names.into_iter().zip(items).map(|(name, (server, item))| (name, server, item)).collect()
    }

    /// A prompt by the name under which clients see it.
    pub(crate) async fn prompt<T: DeserializeOwned>(
        &self,
        name: &str,
        arguments: Option<Value>,
        request: &RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        let _wanted = self.requested.wanted(request);
        let found = self.prompts(request).await.into_iter().find(|(known, ..)| known == name);
        let (_, server, item) =
            found.ok_or_else(|| ErrorData::invalid_params(format!("Unknown prompt: {name}"), None))?;
        let mut input = json!({ "name": item.get("name") });
        if let Some(arguments) = arguments {
            input["arguments"] = arguments;
        }
        read(self.operate(&server, Operation::GetPrompt, input, request).await?)
    }

    /// A resource, from whichever server has it: the one that lists it, or the first that knows it.
    pub(crate) async fn resource<T: DeserializeOwned>(
        &self,
        uri: &str,
        request: &RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        let _wanted = self.requested.wanted(request);
        let mut last = None;
        for server in self.who_has(uri, request).await {
            match self.operate(&server, Operation::ReadResource, json!({ "uri": uri }), request).await {
                Ok(contents) => return read(contents),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            ErrorData::resource_not_found(format!("Resource not found: {uri}"), Some(json!({ "uri": uri })))
        }))
    }

    /// The servers that may have a resource: that which lists it first.
    pub(crate) async fn who_has(&self, uri: &str, request: &RequestContext<RoleServer>) -> Vec<Arc<Server>> {
        let mut able = self.able(Operation::ReadResource);
        if able.len() > 1 {
            let listed = self.listed(Operation::ListResources, "resources", request).await;
            let owner = listed.iter().find(|(_, item)| item.get("uri").and_then(Value::as_str) == Some(uri));
            if let Some((owner, _)) = owner {
                able.sort_by_key(|server| server.name() != owner.name());
            }
        }
        able
    }

    /// How an argument may go on, by whoever has the prompt or the template.
    pub(crate) async fn completion<T: DeserializeOwned>(
        &self,
        mut params: Value,
        request: &RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        let _wanted = self.requested.wanted(request);
        let mut able = self.able(Operation::Complete);
        if let Some(name) = params.pointer("/ref/name").and_then(Value::as_str).map(str::to_owned) {
            let found = self.prompts(request).await.into_iter().find(|(known, ..)| *known == name);
            let (_, server, item) =
                found.ok_or_else(|| ErrorData::invalid_params(format!("Unknown prompt: {name}"), None))?;
            params["ref"]["name"] = item.get("name").cloned().unwrap_or_default();
            able.retain(|other| other.name() == server.name());
        } else if let Some(uri) = params.pointer("/ref/uri").and_then(Value::as_str) {
            let templates = self.listed(Operation::ListTemplates, "resourceTemplates", request).await;
            let owner = templates.iter().find(|(_, item)| item.get("uriTemplate").and_then(Value::as_str) == Some(uri));
            if let Some((owner, _)) = owner {
                able.retain(|other| other.name() == owner.name());
            }
        }
        if let Some(params) = params.as_object_mut() {
            params.remove("_meta");
        }
        match able.first() {
            Some(server) => read(self.operate(server, Operation::Complete, params, request).await?),
            None => Err(ErrorData::invalid_params("there is nobody who could complete this", None)),
        }
    }
}

/// A result that says that it is one, as clients of the latest revision want it. For others the SDK takes that out again.
pub(crate) fn complete(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.entry("resultType").or_insert_with(|| "complete".into());
    }
    value
}

/// What a server gave, as the SDK has it.
fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(complete(value))
        .map_err(|error| ErrorData::internal_error(format!("the server's answer cannot be read: {error}"), None))
}
