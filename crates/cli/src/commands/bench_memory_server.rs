//! The MCP server that `pincer bench memory` measures with: large results and a large listing, one JSON message per line.

use std::io::{BufRead, Write, stdin, stdout};

use serde::Deserialize;
use serde_json::{Value, json};

use super::bench_memory::{record, records};
use crate::{DONE, FAILED};

/// The variable that says how large its listing is, in bytes.
pub(crate) const LISTING: &str = "BENCH_LISTING_BYTES";

#[derive(Deserialize)]
struct Asked {
    id: Option<u64>,
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Value,
}

pub(crate) fn run() -> u8 {
    let listing = std::env::var(LISTING).ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let Ok(line) = line else { return FAILED };
        let Ok(Asked { id: Some(id), method, params }) = serde_json::from_str(&line) else { continue };
        let result = match method.as_str() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "memory", "version": "1" },
            })
            .to_string(),
            "tools/list" => format!("{{\"tools\":[{}]}}", tools(listing)),
            "tools/call" => {
                let bytes = params["arguments"]["bytes"].as_u64().unwrap_or(0) as usize;
                format!("{{\"content\":[],\"structuredContent\":{{\"records\":[{}]}}}}", records(bytes))
            }
            _ => "{}".to_owned(),
        };
        let written =
            writeln!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}").and_then(|()| out.flush());
        if written.is_err() {
            return FAILED;
        }
    }
    DONE
}

/// One tool that returns records, and as many others of the usual kind as the listing has room for.
fn tools(bytes: usize) -> String {
    let mut text = json!({ "name": "records", "inputSchema": { "type": "object" } }).to_string();
    for n in 0.. {
        if text.len() >= bytes {
            break;
        }
        let field =
            |kind: &str, what: &str| json!({ "type": kind, "description": format!("{what}, as its page shows it.") });
        let tool = json!({
            "name": format!("list_things_{n}"),
            "description": "Lists the things of a project, page by page. Fails if the project is locked, or if its owner has not \
                            given access to it; ask the owner for access in that case. Items look like the example.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "owner": field("string", "The account or organisation that the project belongs to"),
                    "project": field("string", "The name of the project without its owner"),
                    "state": { "type": "string", "enum": ["open", "closed", "all"], "description": "Which of them." },
                    "labels": { "type": "array", "items": { "type": "string" }, "description": "Labels to look for." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most." },
                },
                "required": ["owner", "project"],
                "examples": [serde_json::from_str::<Value>(&record(n)).unwrap_or_default()],
            },
        });
        text.push(',');
        text.push_str(&tool.to_string());
    }
    text
}
