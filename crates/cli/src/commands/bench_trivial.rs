//! The MCP server that `pincer bench mcp` measures with: two tools that do next to nothing, on the official SDK.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, serve_server};
use serde_json::{Value, json};

use crate::print::note;
use crate::{DONE, FAILED};

struct Trivial;

impl ServerHandler for Trivial {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = [
            json!({ "name": "echo", "description": "Gives back what it gets.", "inputSchema": { "type": "object" } }),
            json!({ "name": "sleep", "description": "Waits for 50 ms.", "inputSchema": { "type": "object" } }),
        ];
        let tools = tools.into_iter().filter_map(|tool| serde_json::from_value::<Tool>(tool).ok());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "sleep" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let text = Value::Object(request.arguments.unwrap_or_default()).to_string();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

pub(crate) fn run() -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.map(|runtime| {
        runtime.block_on(async {
            let wire = (tokio::io::stdin(), tokio::io::stdout());
            match serve_server(Trivial, wire).await {
                Ok(service) => drop(service.waiting().await),
                Err(error) => note(&format!("error: {error}")),
            }
        });
        runtime.shutdown_background();
    });
    if served.is_ok() { DONE } else { FAILED }
}
