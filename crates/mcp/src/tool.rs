//! A server's tools, resources and prompts as tools at the door.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{Entry, Flags, Operation, Source, ToolId};
use pincer_json::Json;
use pincer_tools::{BoxFuture, Payload, Tool, ToolCall, ToolError};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CustomRequest, GetPromptRequest, GetPromptRequestParams,
    ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value, json};

use crate::inflight::Caller;
use crate::listing::Listing;
use crate::params::{Mirrored, ParamHeaders, mirrored};
use crate::server::Server;
use crate::settings::ServerSettings;

/// How much longer the door waits than the call may take, so that the server is named when it is late.
const MARGIN: Duration = Duration::from_secs(5);

/// What an operation is to a server.
trait AtServer: Sized {
    /// Returns whether a server says that it can do this.
    fn is_offered(&self, listing: &Listing) -> bool;
    /// Makes its catalog entry.
    fn entry(self, id: ToolId) -> Entry;
    /// Makes the request of a call.
    fn request(self, input: Value) -> Result<ClientRequest, ToolError>;
}

impl AtServer for Operation {
    fn is_offered(&self, listing: &Listing) -> bool {
        let can = &listing.info.capabilities;
        match self {
            Self::ListResources | Self::ListTemplates | Self::ReadResource => can.resources.is_some(),
            Self::ListPrompts | Self::GetPrompt => can.prompts.is_some(),
            Self::Complete => can.completions.is_some(),
        }
    }

    fn entry(self, id: ToolId) -> Entry {
        let (description, input_schema) = match self {
            Self::ListResources => ("Lists the server's resources, page by page.", page_schema()),
            Self::ListTemplates => ("Lists the templates of the server's resources, page by page.", page_schema()),
            Self::ReadResource => ("Reads a resource of the server.", string_schema("uri")),
            Self::ListPrompts => ("Lists the server's prompts, page by page.", page_schema()),
            Self::Complete => (
                "Says how an argument of a prompt, or of a template of resources, may go on.",
                json!({
                    "type": "object",
                    "properties": {
                        "ref": { "type": "object" }, "argument": { "type": "object" }, "context": { "type": "object" },
                    },
                    "required": ["ref", "argument"],
                }),
            ),
            Self::GetPrompt => {
                let mut schema = string_schema("name");
                schema["properties"]["arguments"] =
                    json!({ "type": "object", "additionalProperties": { "type": "string" } });
                ("Gets a prompt of the server, with its arguments filled in.", schema)
            }
        };
        // By the protocol these requests change nothing, but the server decides what it does with them.
        let flags = Flags { claims_read_only: true, ..Flags::default() };
        Entry { input_schema, flags, ..Entry::new(id, description) }
    }

    fn request(self, input: Value) -> Result<ClientRequest, ToolError> {
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        let missing = |key: &str| ToolError::before(format!("`{key}` is missing"));
        let page = || PaginatedRequestParams::default().with_cursor(text("cursor"));
        Ok(match self {
            Self::ListResources => ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(page())),
            Self::ListTemplates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(page()))
            }
            Self::ListPrompts => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(page())),
            Self::Complete => ClientRequest::CustomRequest(CustomRequest::new("completion/complete", Some(input))),
            Self::ReadResource => {
                let uri = text("uri").ok_or_else(|| missing("uri"))?;
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(uri)))
            }
            Self::GetPrompt => {
                let mut params = GetPromptRequestParams::new(text("name").ok_or_else(|| missing("name"))?);
                if let Some(Value::Object(arguments)) = input.get("arguments") {
                    params = params.with_arguments(arguments.clone());
                }
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
        })
    }
}

fn page_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "cursor": { "type": "string", "description": "`nextCursor` of the page before." } },
        "additionalProperties": false,
    })
}

fn string_schema(key: &str) -> Value {
    json!({ "type": "object", "properties": { key: { "type": "string" } }, "required": [key], "additionalProperties": false })
}

/// Makes the catalog entries of what a server has. They are trees, and made once for each listing.
pub(crate) fn entries(settings: &ServerSettings, listing: &Listing) -> Vec<Arc<Entry>> {
    let id = |name: &str| ToolId::new(Source::Mcp, settings.name.as_str(), name).ok();
    let offered = Operation::ALL.into_iter().filter(|operation| operation.is_offered(listing));
    let operations = offered.filter_map(|operation| {
        let mut entry = operation.entry(id(operation.name())?);
        entry.flags.read_only = settings.is_read_only(operation.name());
        Some(Arc::new(entry))
    });
    let admitted = listing.tools.iter().filter(|tool| settings.admits(&tool.name));
    let tools = admitted
        .filter_map(|tool| Some(Arc::new(entry(id(&tool.name)?, tool.value(), settings.is_read_only(&tool.name)))));
    operations.chain(tools).collect()
}

/// What a server brings to the door.
pub(crate) fn registered(server: &Arc<Server>, entries: &[Arc<Entry>]) -> Vec<(Arc<Entry>, Arc<dyn Tool>)> {
    let timeout = server.settings().call_timeout + MARGIN;
    let tool = |entry: &Arc<Entry>| {
        // No tool of a listing has the name of an operation.
        let what = Operation::named(entry.id.name()).map_or_else(
            || {
                let mirrored = mirrored(&entry.input_schema).unwrap_or_default();
                What::Tool { name: entry.id.name().to_owned(), mirrored }
            },
            What::Operation,
        );
        let remote = RemoteTool { server: Arc::clone(server), what, timeout };
        (Arc::clone(entry), Arc::new(remote) as Arc<dyn Tool>)
    };
    entries.iter().map(tool).collect()
}

/// Makes a catalog entry of a listed tool. What the server says of itself is a hint: it may allow a repetition, and never
/// loosens a rule or spares a checkpoint. `read_only` is the operator's word.
fn entry(id: ToolId, mut tool: Value, read_only: bool) -> Entry {
    let mut schema = |key: &str| tool.get_mut(key).map(Value::take);
    let (input_schema, output_schema) = (schema("inputSchema"), schema("outputSchema"));
    let text = |value: Option<&Value>| value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let hint = |key: &str| tool.pointer(&format!("/annotations/{key}")).and_then(Value::as_bool) == Some(true);
    Entry {
        label: text(tool.get("title")).or_else(|| text(tool.pointer("/annotations/title"))),
        input_schema: input_schema.unwrap_or_else(|| json!({ "type": "object" })),
        output_schema,
        flags: Flags {
            read_only,
            claims_read_only: hint("readOnlyHint"),
            idempotent: hint("idempotentHint"),
            ..Flags::default()
        },
        ..Entry::new(id, text(tool.get("description")).unwrap_or_default())
    }
}

/// Leaves out `resultType` of later revisions: it says that this is a result, which everybody knows.
fn without_type(result: Json) -> Json {
    const KEY: &str = "resultType";
    if !result.as_str().contains(KEY) {
        return result;
    }
    result.without(KEY).unwrap_or(result)
}

enum What {
    Tool { name: String, mirrored: Vec<Mirrored> },
    Operation(Operation),
}

/// Something that a server does.
struct RemoteTool {
    server: Arc<Server>,
    what: What,
    timeout: Duration,
}

impl Tool for RemoteTool {
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>> {
        Box::pin(async move {
            let request = match &self.what {
                What::Operation(operation) => operation.request(call.input)?,
                What::Tool { name, mirrored } => {
                    let arguments = match call.input {
                        Value::Object(arguments) => arguments,
                        _ => Map::new(),
                    };
                    let headers = ParamHeaders::of(mirrored, &arguments);
                    let params = CallToolRequestParams::new(name.clone()).with_arguments(arguments);
                    let mut request = CallToolRequest::new(params);
                    if let Some(headers) = headers {
                        request.extensions.insert(headers);
                    }
                    ClientRequest::CallToolRequest(request)
                }
            };
            let caller = Caller::new(Arc::clone(&call.updates), &call.context);
            let result = self.server.request(request, Some(caller), &call.abort).await?;
            Ok(match &self.what {
                What::Tool { .. } => without_type(result).into(),
                What::Operation(_) => result.into(),
            })
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }
}
