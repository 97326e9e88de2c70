//! A catalog from a file, as a server that tells nothing but the truth about it.

use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Act, Liar, Mode, error, result, stdio};

/// Tools of a page.
const PAGE: usize = 500;

/// Serves the tools of a file of JSON lines on standard input and output; only those of `server`, if one is named.
///
/// # Errors
/// When the file cannot be read, or the client is gone.
pub fn serve_catalog(file: &Path, server: Option<&str>) -> io::Result<()> {
    let tools = tools(&std::fs::read_to_string(file)?, server)?;
    // Whatever is not a listing is answered as most modes do.
    let mut others = Liar::new(Mode::Many);
    stdio::serve(|message| match message.get("method").and_then(Value::as_str) {
        Some("tools/list") => vec![Act::Say(page(&tools, message))],
        _ => others.on(message),
    })
}

/// The tools of a catalog, one per line: `{server?, name, description?, inputSchema, …}`. The schema may be called `schema` or
/// `parameters` too.
///
/// # Errors
/// When a line is not an object.
pub fn tools(lines: &str, server: Option<&str>) -> io::Result<Vec<Value>> {
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    let read = lines.map(|line| serde_json::from_str::<Map<String, Value>>(line).map_err(io::Error::from));
    let tools: Vec<_> = read.collect::<io::Result<_>>()?;
    let of_server = |tool: &Map<String, Value>| {
        let owner = tool.get("server").and_then(Value::as_str).unwrap_or_default();
        server.is_none_or(|server| server == owner)
    };
    Ok(tools.into_iter().filter(of_server).map(tool).collect())
}

fn tool(mut line: Map<String, Value>) -> Value {
    let schema = ["inputSchema", "schema", "parameters"].into_iter().find_map(|key| line.remove(key));
    let mut tool = Map::new();
    for key in ["name", "title", "description", "outputSchema", "annotations", "_meta"] {
        if let Some(value) = line.remove(key) {
            tool.insert(key.to_owned(), value);
        }
    }
    tool.insert("inputSchema".to_owned(), schema.unwrap_or_else(|| json!({ "type": "object" })));
    tool.into()
}

fn page(tools: &[Value], message: &Value) -> Value {
    let id = message.get("id").cloned().unwrap_or_default();
    let cursor = message.pointer("/params/cursor").and_then(Value::as_str);
    let Some(from) = cursor.map_or(Some(0), |cursor| cursor.parse::<usize>().ok()).filter(|from| *from <= tools.len())
    else {
        return error(&id, -32602, "this cursor is not mine");
    };
    let to = (from + PAGE).min(tools.len());
    let mut page = json!({ "tools": tools[from..to] });
    if to < tools.len() {
        page["nextCursor"] = json!(to.to_string());
    }
    result(&id, page)
}
