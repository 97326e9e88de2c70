//! `pincer mcp savings`: what a client's prompt carries with all tools in it, and with Pincer.

use std::time::Duration;

use pincer_codemode::Surface;
use pincer_mcp::{ListedTool, Server};
use pincer_runtime::{Audience, EngineStart, RuntimeOptions, ScopeRequest};
use serde_json::{Value, json};

use super::look::blocking;
use crate::DONE;
use crate::opened::{for_tools, request, told};
use crate::print::{line, note};
use crate::usage::LocationArguments;
use crate::usage_tools::ScopeArguments;

/// The tokenizer that figures are in.
const TOKENIZER: &str = "o200k_base";

/// What something takes of a prompt.
#[derive(Clone, Copy, Default)]
struct Size {
    tools: usize,
    bytes: usize,
    tokens: usize,
}

impl Size {
    /// Tools as a client puts them into a request: name, description and input schema, as compact JSON.
    fn of<'t>(tools: impl Iterator<Item = (&'t str, &'t str, &'t Value)>) -> Self {
        let shown: Vec<Value> = tools
            .map(|(name, description, schema)| json!({ "name": name, "description": description, "inputSchema": schema }))
            .collect();
        let text = Value::from(shown.clone()).to_string();
        let tokens = tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len();
        Self { tools: shown.len(), bytes: text.len(), tokens }
    }

    fn document(self) -> Value {
        json!({ "tools": self.tools, "bytes": self.bytes, "tokens": self.tokens })
    }
}

pub(crate) fn run(locations: &LocationArguments, scope: &ScopeArguments, json: bool) -> u8 {
    let measured = match blocking(measure(locations, scope)) {
        Ok(Ok(measured)) => measured,
        Ok(Err(code)) | Err(code) => return code,
    };
    let (servers, pincer, down) = measured;
    let direct = servers.iter().fold(Size::default(), |sum, (_, size)| Size {
        tools: sum.tools + size.tools,
        bytes: sum.bytes + size.bytes,
        tokens: sum.tokens + size.tokens,
    });
    if json {
        let each: serde_json::Map<String, Value> =
            servers.iter().map(|(name, size)| (name.clone(), size.document())).collect();
        let document = json!({
            "tokenizer": TOKENIZER, "servers": each, "direct": direct.document(), "pincer": pincer.document(), "down": down,
        });
        line(&document.to_string());
        return DONE;
    }
    if servers.is_empty() {
        line("there are no MCP servers to compare with: `pincer mcp import` takes those of a client");
        return DONE;
    }
    let width = servers.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().max(13);
    line(&format!("{:width$}  {:>6}  {:>10}  {:>9}", "", "TOOLS", "BYTES", "TOKENS"));
    let row = |name: &str, size: Size| {
        line(&format!("{name:width$}  {:>6}  {:>10}  {:>9}", size.tools, size.bytes, size.tokens))
    };
    servers.iter().for_each(|(name, size)| row(name, *size));
    row("all, directly", direct);
    row("with Pincer", pincer);
    if direct.tokens > pincer.tokens {
        let part = 100.0 * pincer.tokens as f64 / direct.tokens as f64;
        line(&format!("\nWith Pincer the prompt carries {part:.1} % of these tokens ({TOKENIZER})."));
    } else {
        line(&format!("\nThese servers are so small that their tools cost less than Pincer's two ({TOKENIZER})."));
    }
    for name in down {
        note(&format!("warning: the MCP server {name} is down and not counted: `pincer mcp test {name}` says why"));
    }
    DONE
}

type Measured = (Vec<(String, Size)>, Size, Vec<String>);

async fn measure(locations: &LocationArguments, scope: &ScopeArguments) -> Result<Measured, u8> {
    let runtime = for_tools(locations, |options| RuntimeOptions { engine: EngineStart::WhenNeeded, ..options })?;
    let client = ScopeRequest { audience: Audience::Client, ..request("", scope) };
    let scope = runtime.scope(&client).map_err(|error| told(&error))?;
    let servers = runtime.servers();
    let spinner = crate::progress::waiting("asking the servers");
    servers.ready().await;
    spinner.finish_and_clear();
    let surface = Surface::of(&runtime.tools(&scope), scope.settings());
    let pincer = Size::of(
        surface.tools().iter().map(|tool| (tool.name.as_str(), tool.description.as_str(), &tool.input_schema)),
    );
    let sizes = servers.iter().filter_map(|server| Some((server.name().to_owned(), size_of(server)?))).collect();
    let down = servers.iter().filter(|server| server.seen().listing.is_none());
    let down = down.map(|server| server.name().to_owned()).collect();
    runtime.shutdown(Duration::ZERO).await;
    Ok((sizes, pincer, down))
}

fn size_of(server: &Server) -> Option<Size> {
    let listing = server.seen().listing?;
    let none = json!({});
    let tools: Vec<Value> = listing.tools.iter().map(ListedTool::value).collect();
    let text = |tool: &'_ Value, key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let tools: Vec<(String, String, &Value)> = tools
        .iter()
        .map(|tool| (text(tool, "name"), text(tool, "description"), tool.get("inputSchema").unwrap_or(&none)))
        .collect();
    Some(Size::of(tools.iter().map(|(name, description, schema)| (name.as_str(), description.as_str(), *schema))))
}
