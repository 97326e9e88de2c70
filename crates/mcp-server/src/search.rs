//! Three tools that find, describe and call all others, for models that do not write programs.

use pincer_catalog::{CompactEntry, Entry};
use pincer_runtime::Scope;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::direct::call_result;
use crate::face::Face;

const USUAL: usize = 8;
const MOST: usize = 50;

impl Face {
    /// The three, as they are listed.
    pub(crate) fn search_definitions(&self, scope: &Scope) -> Value {
        let count = self.shown_now(scope).names().len();
        let id = json!({ "type": "string", "description": "The id of a tool, from tool_search." });
        json!([
            {
                "name": "tool_search", "title": "Find tools",
                "description": format!("Find tools among {count} by what they do. Gives ids and descriptions; then tool_describe, then tool_call."),
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "query": { "type": "string", "description": "What the tool should do, in a few words." },
                        "limit": { "type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL },
                    },
                    "required": ["query"], "additionalProperties": false,
                },
                "annotations": { "readOnlyHint": true, "openWorldHint": false },
            },
            {
                "name": "tool_describe", "title": "Describe a tool",
                "description": "What a tool takes and gives, as JSON Schema.",
                "inputSchema": { "type": "object", "properties": { "id": id }, "required": ["id"], "additionalProperties": false },
                "annotations": { "readOnlyHint": true, "openWorldHint": false },
            },
            {
                "name": "tool_call", "title": "Call a tool",
                "description": "Call a tool with an input that fits its schema.",
                "inputSchema": {
                    "type": "object",
                    "properties": { "id": id, "args": { "type": "object", "description": "The input, as tool_describe says." } },
                    "required": ["id"], "additionalProperties": false,
                },
                "annotations": { "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true },
            },
        ])
    }
}

impl Connection {
    /// Calls one of the three.
    pub(crate) async fn call_search(
        &self,
        name: &str,
        arguments: Value,
        request: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let shown_now = self.face.shown_now(&self.scope);
        let (catalog, index) = shown_now.searched();
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).map(str::to_owned);
        match name {
            "tool_search" => {
                let Some(query) = text("query") else {
                    return Ok(wrong("`query` is missing: what should the tool do?"));
                };
                let limit = arguments
                    .get("limit")
                    .and_then(Value::as_u64)
                    .map_or(USUAL, |limit| (limit as usize).clamp(1, MOST));
                let found = index.search(&query, limit);
                let found: Vec<CompactEntry> = found.iter().map(|entry| CompactEntry::from(entry.as_ref())).collect();
                Ok(shown(json!(found)))
            }
            "tool_describe" => {
                let Some(id) = text("id") else { return Ok(wrong("`id` is missing: tool_search gives ids")) };
                Ok(catalog.find(&id).map_or_else(|error| wrong(&error.to_string()), |entry| shown(described(entry))))
            }
            "tool_call" => {
                let Some(id) = text("id") else { return Ok(wrong("`id` is missing: tool_search gives ids")) };
                let entry = match catalog.find(&id) {
                    Ok(entry) => entry,
                    Err(error) => return Ok(wrong(&error.to_string())),
                };
                let input = arguments.get("args").cloned().unwrap_or_else(|| json!({}));
                let ended = self.call_at_the_door(&entry.id.to_string(), input, request).await;
                // What went wrong is for the model to read, whatever it was.
                Ok(call_result(entry, ended).unwrap_or_else(|error| wrong(&error.message)))
            }
            other => Err(ErrorData::invalid_params(
                format!("there is no tool {other}: there are tool_search, tool_describe and tool_call"),
                None,
            )),
        }
    }
}

fn described(entry: &Entry) -> Value {
    let mut shown = json!(CompactEntry::from(entry));
    shown["parameters"] = entry.input_schema.clone();
    if let Some(returns) = &entry.output_schema {
        shown["returns"] = returns.clone();
    }
    shown
}

fn shown(value: Value) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(value.to_string())])
}

fn wrong(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}
