//! Three tools that find, describe and call all others, for models that do not write programs.

use pincer_runtime::Scope;
use pincer_tool_search::{
    CallInput, Limits, SearchInput, Searched, TOOL_CALL, TOOL_DESCRIBE, TOOL_SEARCH, definitions, described, found,
    named,
};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::direct::call_result;
use crate::face::Face;

impl Face {
    /// The three, as they are listed.
    pub(crate) fn search_definitions(&self, scope: &Scope) -> Value {
        let count = self.shown_now(scope).names().len();
        let listed = definitions(count, limits()).into_iter().map(|tool| {
            let annotations = match tool.is_read_only {
                true => json!({ "readOnlyHint": true, "openWorldHint": false }),
                false => json!({ "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true }),
            };
            json!({
                "name": tool.name, "title": tool.title, "description": tool.description, "inputSchema": tool.parameters,
                "annotations": annotations,
            })
        });
        listed.collect()
    }
}

/// Returns the limits of searches: a client that lists tools itself may ask for more of them than a model that pays for each word.
fn limits() -> Limits {
    Limits::new(8, 50)
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
        let (catalog, index) = shown_now.tools.searched();
        let missing: Vec<(&str, &str)> = shown_now.tools.missing_servers().collect();
        let searched = Searched { index, missing: &missing };
        // What went wrong is for the model to read, whatever it was.
        Ok(match name {
            TOOL_SEARCH => match SearchInput::parse(&arguments, limits()) {
                Ok(input) => shown(&found(searched, &input)),
                Err(error) => wrong(&error.to_string()),
            },
            TOOL_DESCRIBE => match named(&arguments, catalog) {
                Ok(entry) => shown(&described(&entry)),
                Err(error) => wrong(&error.to_string()),
            },
            TOOL_CALL => match CallInput::parse(&arguments, catalog) {
                Ok(CallInput { entry, args }) => {
                    let ended = self.call_at_the_door(&entry.id.to_string(), args, request).await;
                    call_result(&entry, ended).unwrap_or_else(|error| wrong(&error.message))
                }
                Err(error) => wrong(&error.to_string()),
            },
            other => {
                let known = format!("there is no tool {other}: there are tool_search, tool_describe and tool_call");
                return Err(ErrorData::invalid_params(known, None));
            }
        })
    }
}

fn shown(value: &Value) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(value.to_string())])
}

fn wrong(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}
